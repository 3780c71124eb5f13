"""All bias metrics of one set of scores: `evaluate_bias`, and `evaluate_slices` of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, check_subgroups
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.ranks import SortedClasses, sort_classes
from bias_metrics._core.tables import Row, Tabular, labelled, rows_of
from bias_metrics.report.comparison import compared
from bias_metrics.report.measurement import Measurement
from bias_metrics.report.steps import (
    Intervals,
    MeasuredSubgroup,
    Options,
    measure_subgroup,
    summarise_bias,
)
from bias_metrics.rows import RowOptions, Rows
from bias_metrics.table import BiasTable
from bias_metrics.thresholds.rate_gaps import MeasuredRates


@aligned
def evaluate_bias(
    y_true: npt.ArrayLike | Rows,
    y_score: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    threshold: float | None = None,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    intervals: Intervals = True,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> BiasTable:
    """Measure the unintended identity bias of one classifier's scores.

    For each subgroup: Subgroup, BPSN and BNSP AUC and the two Average Equality Gaps against
    the background (all rows outside this subgroup, other identities included, unless
    `background` says otherwise); over all rows: ROC AUC, power means over the subgroups and
    the Jigsaw final score. Ranks are exact and a tie counts one half.

    Parameters
    ----------
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. Threshold label fractions with `>= 0.5`. `Rows` have
        the subgroups too.
    y_score : float array of shape (n,)
        Higher means more toxic; any finite scale, as only the order counts.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Name and membership of each subgroup; they may overlap. A column of names makes each of them
        a subgroup; rows without a name are in none. Not with `Rows`.
    threshold : float, optional
        If given, also `fpr_gap` and `fnr_gap` at this threshold: see `rate_gaps`.
    power : float, default=-5.0
        Exponent of the power means, not 0.
    power_mean_groups : sequence of str, optional
        The subgroups that the power means cover; default all.
    intervals : {True, "cells", False}, default=True
        Confidence intervals for every number, only for AUCs and AEGs, or for none.
    confidence : float, default=0.95
        Confidence of each interval on its own, not of all together.
    **options
        Not with `Rows`. `sample_weight`, a float array of shape (n,), with `weight_kind`:
        `probability` (default) for survey weights, or `frequency` for numbers of identical rows.
        `clusters`, an array of shape (n,) with the article, thread or template of each row: rows of
        one cluster are not independent. `background`: a subgroup is compared with all rows
        `outside_subgroup` (default), or with those that have `no_identity`. See `Rows`.

    Returns
    -------
    BiasTable
        AUCs in [0, 1], ideal 1; AEGs in [-1/2, 1/2], ideal 0, positive when the subgroup's
        scores are higher. A metric without the rows it needs has the value None and a
        reason; so does a power mean over a subgroup without that metric.

    Raises
    ------
    ValueError
        If a length differs, a score is not finite, a label or membership is not 0 or 1, a
        weight is negative or a frequency not whole, `power` is 0, `power_mean_groups` names an
        unknown subgroup or `background` is neither of the two.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    Intervals of weighted rows use linearisation: a row's influence is its weight times the
    distance of its placement from the weighted mean. Where a class has few errors, its number
    of rows counts as Kish's effective number, (sum of w)^2 / sum of w^2.

    References
    ----------
    Borkan et al. (2019), Nuanced Metrics for Measuring Unintended Bias with Real Data for
    Text Classification, sections 3 and 4. Binder (1983), International Statistical Review 51
    (linearisation). Kish (1965), Survey Sampling, section 11.7. Jigsaw Unintended Bias in Toxicity
    Classification (2019), evaluation page.

    Examples
    --------
    >>> table = evaluate_bias(
    ...     y_true=[0, 0, 1, 0, 1, 1],
    ...     y_score=[0.1, 0.2, 0.7, 0.8, 0.9, 0.6],
    ...     subgroups={"muslim": [0, 0, 0, 1, 1, 0]},
    ... )
    >>> table["bpsn_auc", "muslim"].value
    0.0
    """
    rows = Rows.of(y_true, subgroups, **options)
    asked = Options.of(
        rows,
        power=power,
        power_mean_groups=power_mean_groups,
        intervals=intervals,
        confidence=confidence,
    )
    scored = Scored(rows, rows.scores("y_score", y_score), asked, threshold)
    table = report_of(scored.rows, scored.y_score, asked)
    if threshold is not None:
        rates = MeasuredRates(rows, {"y_score": y_score}, [threshold])
        table = table.with_numbers(rates.measure_gaps(check_confidence(confidence)))
    return replace(table, measured=scored)


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows with the scores of one model, and how they are measured."""

    rows: Rows
    y_score: FloatArray
    options: Options
    threshold: float | None = None

    def minus(self, other: Scored) -> BiasTable:
        """Return the differences from another model on the same rows.

        Raises
        ------
        ValueError
            If the rows or options differ, or there are no intervals.
        """
        if (differ := self.rows.difference_from(other.rows)) is not None:
            msg = f"both tables must be of the same rows in the same order; {differ} differ."
            raise ValueError(msg)
        if self.options != other.options or (self.threshold is None) != (other.threshold is None):
            msg = "both tables must have the same options: power means, confidence, threshold."
            raise ValueError(msg)
        if self.options.confidence is None:
            msg = "both tables must have intervals; measure them with `intervals=True`."
            raise ValueError(msg)
        thresholds = None
        if self.threshold is not None and other.threshold is not None:
            thresholds = self.threshold, other.threshold
        return compared(self.rows, [self.y_score, other.y_score], self.options, thresholds)


def report_of(rows: Rows, scores: FloatArray, options: Options) -> BiasTable:
    """Measure the rows that count."""
    if options.confidence is not None and (options.aggregates or rows.clusters is not None):
        return Measurement(rows, scores).report(options)
    rows, (scores,) = rows.counted(scores)
    everyone = sort_classes(rows.y_true, scores, rows.sample_weight)
    cells = _sorted_cells(rows, scores, everyone, uncertain=options.confidence is not None)
    return summarise_bias(everyone, cells, options, rows.background)


def _sorted_cells(
    rows: Rows, scores: FloatArray, everyone: SortedClasses, *, uncertain: bool
) -> dict[str, MeasuredSubgroup]:
    """Measure the cells from sorted scores alone."""

    def of(places: npt.NDArray[np.intp]) -> tuple[Any, FloatArray, FloatArray | None]:
        weights = None if rows.sample_weight is None else rows.sample_weight[places]
        return rows.y_true[places], scores[places], weights

    excluded = None if rows.excluded is None else sort_classes(*of(rows.excluded))
    found = {}
    for name, mask in rows.subgroups.items():
        # Picking a few rows by number is faster than by mask.
        labels, own_scores, weights = of(np.flatnonzero(mask))
        found[name] = measure_subgroup(
            everyone,
            labels,
            own_scores,
            sample_weight=weights,
            uncertain=uncertain,
            excluded=excluded,
        )
    return found


class SliceReports(dict[str, BiasTable], Tabular):
    """The report of each slice, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: report.to_dict() for name, report in self.items()}

    def rows(self) -> list[Row]:
        """Return the records of every report, each with its slice."""
        return labelled("slice", rows_of(self))


@aligned
def evaluate_slices(
    y_true: npt.ArrayLike | Rows,
    y_score: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    slices: Subgroups,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    intervals: Intervals = True,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> SliceReports:
    """Measure the bias within each of several slices of the rows, such as short comments.

    Each report is that of `evaluate_bias` on the slice's rows alone: subgroup *and*
    background are short comments. That differs from a slice among the `subgroups`, whose
    background has comments of any length. The arguments are checked once; each slice is ranked
    separately, which takes no longer than picking its rows out of the ranking of all rows.

    Parameters
    ----------
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. `Rows` have the subgroups too.
    y_score : float array of shape (n,)
        As in `evaluate_bias`.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        As in `evaluate_bias`; not with `Rows`.
    slices : mapping of str to bool array of shape (n,), or data frame
        Name and rows of each slice: any column of 0 and 1, or a rule on one, such as
        `lengths < 100`. They may overlap.
    power, power_mean_groups, intervals, confidence : optional
        As in `evaluate_bias`.
    **options
        `sample_weight`, `weight_kind`, `clusters`, `background` as in `evaluate_bias`; not with
        `Rows`.

    Returns
    -------
    SliceReports
        A dict of str to BiasTable, one per slice in the order given, that prints as a table.
        A slice without positives or negatives has undefined metrics.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if a slice is not 0 or 1 or its length differs.

    References
    ----------
    Borkan et al. (2019), Table 6 (comments of under 100 characters).

    Examples
    --------
    >>> y_true, gay = [0, 1, 0, 1] * 2, [0, 0, 1, 1] * 2
    >>> y_score = [0.1, 0.9, 0.8, 0.7, 0.1, 0.9, 0.2, 0.7]
    >>> slices = {"short": [1, 1, 1, 1, 0, 0, 0, 0], "long": [0, 0, 0, 0, 1, 1, 1, 1]}
    >>> found = evaluate_slices(y_true, y_score, {"gay": gay}, slices=slices)
    >>> [report.subgroups["gay"].subgroup_auc.value for report in found.values()]
    [0.0, 1.0]
    """
    rows = Rows.of(y_true, subgroups, **options)
    asked = Options.of(
        rows,
        power=power,
        power_mean_groups=power_mean_groups,
        intervals=intervals,
        confidence=confidence,
    )
    scores = rows.scores("y_score", y_score)
    masks = check_subgroups(slices, rows.n, name="slices")
    return SliceReports(
        {name: report_of(rows.within(mask), scores[mask], asked) for name, mask in masks.items()}
    )
