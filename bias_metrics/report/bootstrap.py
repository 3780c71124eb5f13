"""The joint bootstrap: every number of `evaluate_bias` from resampled rows or clusters.

An alternative to the intervals of `evaluate_bias` that needs no asymptotic argument. The scores
are ranked once; a replicate only counts how often each row was drawn, so that no replicate sorts
or searches anything. For Python users: no command calls it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    aligned,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_subgroups,
)
from bias_metrics._core.cluster_codes import check_clusters
from bias_metrics._core.frames import Subgroups
from bias_metrics._core.influence import rank_rows
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.named import Named
from bias_metrics._core.options import check_choice
from bias_metrics.borkan.aggregates import check_power
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.replicates import FINAL, OVERALL, RESAMPLED, Key, Resampling
from bias_metrics.report.report import BACKGROUNDS
from bias_metrics.report.request import Background, ranked_members
from bias_metrics.report.resampled import BootstrapReport, BootstrapValue


@aligned
def bootstrap_bias(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    rng: np.random.Generator,
    n_replicates: int = 1000,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> BootstrapReport:
    """Resample rows to see how much every number of `evaluate_bias` varies.

    Rows are drawn with replacement within each label, for all subgroups together, so that a row
    counts equally often in each number of a replicate. With `clusters`, whole clusters are
    drawn instead, whatever their labels.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    rng : numpy.random.Generator
        Source of the draws; a generator in the same state gives the same report.
    n_replicates : int, default=1000
        Number of replicates, at least 2.
    power, power_mean_groups
        As in `evaluate_bias`.
    confidence : float, default=0.95
        Confidence of the percentile intervals.
    clusters : array of shape (n,), optional
        Article, thread or template of each row.
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        As in `evaluate_bias`.

    Returns
    -------
    BootstrapReport
        Standard errors and percentile intervals. A percentile interval has zero width if every
        replicate gives the same number, as at an AUC of 1; those of `evaluate_bias` do not.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `n_replicates` is below 2 or `rng` is not a Generator.

    References
    ----------
    Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapters 6 and 13.

    Examples
    --------
    >>> y_true, gay = [0, 1] * 20, [0, 0, 1, 1] * 10
    >>> y_score = [0.1, 0.6, 0.3, 0.7, 0.5, 0.4, 0.2, 0.9] * 5
    >>> rng = np.random.default_rng(0)
    >>> spread = bootstrap_bias(y_true, y_score, {"gay": gay}, rng=rng, n_replicates=200)
    >>> spread.overall.auc.low < 0.9375 < spread.overall.auc.high
    True
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    if not isinstance(rng, np.random.Generator):
        msg = f"`rng` must be a numpy Generator, as in default_rng(0); got {type(rng).__name__}."
        raise TypeError(msg)
    if n_replicates < 2:
        msg = f"`n_replicates` must be at least 2; got {n_replicates}."
        raise ValueError(msg)
    level = check_confidence(confidence)
    ranked = rank_rows(labels, scores)
    resampling = Resampling(
        ranked,
        ranked_members(ranked, masks, check_choice("background", background, BACKGROUNDS)),
        check_clusters(clusters, labels.size),
        check_power(power),
        check_power_mean_groups(power_mean_groups, masks),
    )
    drawn: dict[Key, list[float]] = {key: [] for key in resampling.numbers()}
    for _ in range(n_replicates):
        for key, value in resampling.draw(rng):
            drawn[key].append(value)
    found = {key: _spread(values, n_replicates, level) for key, values in drawn.items()}
    return BootstrapReport(
        overall=Named(auc=found[OVERALL]),
        subgroups={
            name: Named({metric: found[name, metric] for metric in RESAMPLED}) for name in masks
        },
        power_mean=Named({metric: found["power_mean", metric] for metric in FINAL_SCORE_PARTS}),
        final_score=found[FINAL],
        n_replicates=n_replicates,
        confidence=level,
    )


def _spread(values: Sequence[float], n_replicates: int, confidence: float) -> BootstrapValue:
    missing = n_replicates - len(values)
    if len(values) < 2:
        return BootstrapValue(None, None, None, missing)
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return BootstrapValue(float(np.std(values, ddof=1)), float(low), float(high), missing)
