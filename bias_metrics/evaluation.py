"""All bias metrics of one set of scores: `evaluate_bias` and the three steps it is made of.

The steps are public so that a caller can run them apart (one process or thread per
subgroup, say) and still get the same report to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from bias_metrics._cells import comparisons, measure_cells, pair_auc
from bias_metrics._checks import (
    check_clusters,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_subgroups,
    check_weights,
)
from bias_metrics._influence import Members, RankedRows, rank_rows
from bias_metrics._ranks import SortedClasses, check_ranked, sort_classes
from bias_metrics.aggregates import FINAL_SCORE_PARTS, check_power, final_score, power_mean_of
from bias_metrics.intervals import check_confidence
from bias_metrics.report import BiasReport, SubgroupBias
from bias_metrics.uncertainty import with_intervals, worst_subgroups

Intervals = Literal[True, False, "cells"]
__all__ = [
    "RankedRows",
    "evaluate_bias",
    "measure_members",
    "measure_subgroup",
    "rank_rows",
    "rank_scores",
    "summarise_bias",
    "with_intervals",
]


def evaluate_bias(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Mapping[str, npt.ArrayLike],
    *,
    sample_weight: npt.ArrayLike | None = None,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    intervals: Intervals = True,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
) -> BiasReport:
    """Measure the unintended identity bias of one classifier's scores.

    For each subgroup: Subgroup, BPSN and BNSP AUC and the two Average Equality Gaps against
    the background (all rows outside this subgroup, other identities included); over all
    rows: ROC AUC, power means over the subgroups and the Jigsaw final score. Ranks are
    exact and a tie counts one half.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class. Threshold label fractions with `>= 0.5`.
    y_score : float array of shape (n,)
        Higher means more toxic; any finite scale, as only the order counts.
    subgroups : mapping of str to bool array of shape (n,)
        Name and membership of each subgroup; they may overlap.
    sample_weight : float array of shape (n,), optional
        0, or between 1e-100 and 1e100. An integer weight equals that many repetitions of
        the row.
    power : float, default=-5.0
        Exponent of the power means, not 0.
    power_mean_groups : sequence of str, optional
        The subgroups that the power means cover; default all.
    intervals : {True, "cells", False}, default=True
        Confidence intervals of every number, of the AUCs and AEGs alone, or of none. Weighted
        rows have none.
    confidence : float, default=0.95
        Confidence of each interval, not of all together.
    clusters : array of shape (n,), optional
        Article, thread or template of each row: rows of one cluster are not independent.
        With fewer than 20 clusters there are no intervals.

    Returns
    -------
    BiasReport
        AUCs in [0, 1], ideal 1; AEGs in [-1/2, 1/2], ideal 0, positive when the subgroup's
        scores are higher. A metric without the rows it needs has the value None and a
        reason; so has a power mean over a subgroup without that metric.

    Raises
    ------
    ValueError
        If a length differs, a score is not finite, a label or membership is not 0 or 1, a
        weight is negative, `power` is 0 or `power_mean_groups` names an unknown subgroup.
    TypeError
        If an argument has the wrong type altogether.

    References
    ----------
    Borkan et al. (2019), Nuanced Metrics for Measuring Unintended Bias with Real Data for
    Text Classification, sections 3 and 4. Jigsaw Unintended Bias in Toxicity
    Classification (2019), evaluation page.

    Examples
    --------
    >>> report = evaluate_bias(
    ...     y_true=[0, 0, 1, 0, 1, 1],
    ...     y_score=[0.1, 0.2, 0.7, 0.8, 0.9, 0.6],
    ...     subgroups={"muslim": [0, 0, 0, 1, 1, 0]},
    ... )
    >>> report.subgroups["muslim"].cells.bpsn_auc.value
    0.0
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    weights = check_weights(sample_weight, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    check_power(power)
    groups = check_power_mean_groups(power_mean_groups, masks)
    level = None if intervals is False else check_confidence(confidence)
    full = level is not None and weights is None and (intervals is True or clusters is not None)
    summarise = partial(summarise_bias, power=power, power_mean_groups=groups, confidence=level)
    if full and level is not None:
        ranked = rank_rows(labels, scores)
        members = {name: ranked.members(np.flatnonzero(mask)) for name, mask in masks.items()}
        measured = {name: measure_members(one, level) for name, one in members.items()}
        return with_intervals(
            summarise(ranked.everyone, measured),
            ranked,
            members,
            confidence=level,
            clusters=check_clusters(clusters, labels.size),
            aggregates=intervals is True,
        )
    everyone = sort_classes(labels, scores, weights)
    # Row numbers, because picking few rows by number is faster than by mask.
    rows_of = {name: np.flatnonzero(mask) for name, mask in masks.items()}
    measured = {
        name: measure_subgroup(
            everyone,
            labels[rows],
            scores[rows],
            sample_weight=None if weights is None else weights[rows],
            confidence=level,
        )
        for name, rows in rows_of.items()
    }
    return summarise(everyone, measured)


def rank_scores(
    y_true: npt.ArrayLike, y_score: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None
) -> SortedClasses:
    """Sort all rows once, by class: the first step of `evaluate_bias`.

    Parameters and errors are those of `evaluate_bias`.

    Returns
    -------
    SortedClasses
        To be shared, unchanged, by every `measure_subgroup` and by `summarise_bias`.
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    return sort_classes(labels, scores, check_weights(sample_weight, labels.size))


def measure_subgroup(
    everyone: SortedClasses,
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    confidence: float | None = None,
) -> SubgroupBias:
    """Measure one subgroup, given its own rows only: the second step of `evaluate_bias`.

    Parameters
    ----------
    everyone : SortedClasses
        All rows, the subgroup's included, from `rank_scores`.
    y_true : bool array of shape (m,)
        Labels of the subgroup's rows.
    y_score : float array of shape (m,)
        Their scores, of the dtype that was ranked.
    sample_weight : float array of shape (m,), optional
        Their weights; given if and only if `rank_scores` had weights.
    confidence : float, optional
        Of the intervals; default no intervals.

    Returns
    -------
    SubgroupBias
        Counts and the five metrics; an empty subgroup has five undefined cells.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if only one of the two steps had weights, or these rows
        cannot be among the ranked ones (another dtype, or too many).
    """
    own = rank_scores(y_true, y_score, sample_weight=sample_weight)
    if (everyone.positive.cumulative_weight is None) != (sample_weight is None):
        msg = "`sample_weight` must be given if and only if `rank_scores` had weights."
        raise ValueError(msg)
    check_ranked("positives", everyone.positive, own.positive)
    check_ranked("negatives", everyone.negative, own.negative)
    compared = comparisons(everyone, own)
    cells = measure_cells(compared, confidence)
    return SubgroupBias(own.positive.n, own.negative.n, cells)


def measure_members(members: Members, confidence: float | None) -> SubgroupBias:
    """Measure one subgroup of ranked rows."""
    cells = measure_cells(members.compared, confidence)
    return SubgroupBias(members.positive.scores.n, members.negative.scores.n, cells)


def summarise_bias(
    everyone: SortedClasses,
    subgroups: Mapping[str, SubgroupBias],
    *,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float | None = None,
) -> BiasReport:
    """Compute overall and aggregate numbers: the last step of `evaluate_bias`.

    Parameters
    ----------
    everyone : SortedClasses
        All rows, from `rank_scores`.
    subgroups : mapping of str to SubgroupBias
        From `measure_subgroup`.
    power, power_mean_groups, confidence
        As in `evaluate_bias`.

    Returns
    -------
    BiasReport
        The complete report.

    Raises
    ------
    ValueError
        If `power` is 0 or `power_mean_groups` names an unknown subgroup.
    """
    power = check_power(power)
    groups = check_power_mean_groups(power_mean_groups, subgroups)
    overall = pair_auc(everyone.negative, everyone.positive, confidence)
    means = {
        metric: power_mean_of(
            {name: getattr(subgroups[name].cells, metric) for name in groups}, power
        )
        for metric in FINAL_SCORE_PARTS
    }
    return BiasReport(
        worst=worst_subgroups(subgroups),
        n=everyone.positive.n + everyone.negative.n,
        n_positive=everyone.positive.n,
        overall_auc=overall,
        subgroups=dict(subgroups),
        power=power,
        power_mean_groups=groups,
        power_means=means,
        final_score=final_score(overall, means),
    )
