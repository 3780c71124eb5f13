"""All bias metrics of a model's scores: `evaluate_bias`, and `evaluate_slices` by part of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, check_subgroups
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.ranks import sort_classes
from bias_metrics._core.tables import Row, Tabular, collect_rows, label_rows
from bias_metrics.report.comparison import compare_scores
from bias_metrics.report.measurement import Measurement
from bias_metrics.report.steps import (
    Intervals,
    ReportOptions,
    measure_subgroup,
    summarise_bias,
)
from bias_metrics.rows import RowOptions, Rows
from bias_metrics.table import BiasTable
from bias_metrics.thresholds.rate_gaps import MeasuredRates


@require_aligned
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
    """Measure the unintended identity bias of a classifier's scores.

    For each subgroup: Subgroup, BPSN and BNSP AUC, and the two Average Equality Gaps from the
    background. By default, the background is all rows outside this subgroup, including other
    identities. Over all rows: ROC AUC, power means over the subgroups, and the Jigsaw final score.
    Ranks are exact, and a tie counts 1/2.

    Parameters
    ----------
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. Threshold label fractions with `>= 0.5`. `Rows` have
        the subgroups too.
    y_score : float array of shape (n,)
        Higher means more toxic; any finite scale, as only the order counts.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Subgroup names and memberships; they may overlap. Each name in a column of names is a
        subgroup, and rows without a name belong to no subgroup. Not with `Rows`.
    threshold : float, optional
        If given, also measure `fpr_gap` and `fnr_gap` at this threshold: see `rate_gaps`.
    power : float, default=-5.0
        Exponent of the power means, not 0.
    power_mean_groups : sequence of str, optional
        The subgroups that the power means cover; default all.
    intervals : {True, "cells", False}, default=True
        Confidence intervals for all numbers, only for AUCs and AEGs, or no intervals.
    confidence : float, default=0.95
        Confidence of a single interval, not of all intervals jointly.
    **options
        Not with `Rows`. `sample_weight`, a float array of shape (n,), with `weight_kind`:
        `probability` (default) for survey weights, or `frequency` for numbers of identical rows.
        `clusters`, an array of shape (n,) with a row's article, thread or template: rows of
        the same cluster are not independent. `background`: compare a subgroup with all rows
        `outside_subgroup` (default), or with rows that have `no_identity`. See `Rows`.

    Returns
    -------
    BiasTable
        AUCs in [0, 1], ideal 1; AEGs in [-1/2, 1/2], ideal 0, positive if the subgroup's scores are
        higher. A metric without the rows that it needs has the value None and a reason, and so has
        a power mean over a subgroup without that metric.

    Raises
    ------
    ValueError
        If a length differs, a score is not finite, a label or membership is not 0 or 1, a
        weight is negative or a frequency not whole, `power` is 0, `power_mean_groups` names an
        unknown subgroup, or `background` is unknown.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    Intervals of weighted rows use linearisation: a row's influence is its weight times the
    distance of its placement from the weighted mean. If a class has few errors, its sample size is
    Kish's effective sample size, (sum of w)^2 / sum of w^2.

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
    rows = Rows.from_arguments(y_true, subgroups, **options)
    report_options = ReportOptions.from_arguments(
        rows,
        power=power,
        power_mean_groups=power_mean_groups,
        intervals=intervals,
        confidence=confidence,
    )
    scored = ScoredRows(rows, rows.check_scores("y_score", y_score), report_options, threshold)
    table = measure_report(scored.rows, scored.y_score, report_options)
    if threshold is not None:
        rates = MeasuredRates(rows, {"y_score": y_score}, [threshold])
        table = table.add_numbers(rates.measure_gaps(check_confidence(confidence)))
    return replace(table, measured=scored)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with a model's scores, and the options of the report."""

    rows: Rows
    y_score: FloatArray
    options: ReportOptions
    threshold: float | None = None

    def subtract(self, other: ScoredRows) -> BiasTable:
        """Return the differences from another model on the same rows.

        Raises
        ------
        ValueError
            If the rows or options differ, or a table lacks intervals.
        """
        if (differ := self.rows.find_difference(other.rows)) is not None:
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
        return compare_scores(self.rows, [self.y_score, other.y_score], self.options, thresholds)


def measure_report(rows: Rows, scores: FloatArray, options: ReportOptions) -> BiasTable:
    """Measure the rows with a weight above 0; all rows are ranked only if necessary."""
    uncertain = options.confidence is not None
    if uncertain and (options.has_aggregates or rows.clusters is not None):
        return Measurement(rows, scores).report(options)
    counted, (counted_scores,) = rows.select_counted(scores)

    def select_rows(places: npt.NDArray[np.intp]) -> tuple[Any, FloatArray, FloatArray | None]:
        weights = None if counted.sample_weight is None else counted.sample_weight[places]
        return counted.y_true[places], counted_scores[places], weights

    everyone = sort_classes(counted.y_true, counted_scores, counted.sample_weight)
    excluded = None if counted.excluded is None else sort_classes(*select_rows(counted.excluded))
    cells = {}
    for name, mask in counted.subgroups.items():
        # Selecting a few rows by number is faster than by mask.
        labels, own_scores, weights = select_rows(np.flatnonzero(mask))
        cells[name] = measure_subgroup(
            everyone,
            labels,
            own_scores,
            sample_weight=weights,
            uncertain=uncertain,
            excluded=excluded,
        )
    return summarise_bias(everyone, cells, options, counted.background)


class SliceReports(dict[str, BiasTable], Tabular):
    """Reports of slices, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: report.to_dict() for name, report in self.items()}

    def rows(self) -> list[Row]:
        """Return the records of all reports, with a `slice` column."""
        return label_rows("slice", collect_rows(self))


@require_aligned
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
    """Measure the bias within slices of the rows, such as short comments.

    Each report is that of `evaluate_bias` on only the slice's rows: subgroup *and* background are
    short comments. In contrast, a slice among the `subgroups` has a background of comments of any
    length. The arguments are checked once. Each slice is ranked separately, which takes as long as
    selecting its rows from the ranking of all rows.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`.
    y_score : float array of shape (n,)
        As in `evaluate_bias`.
    slices : mapping of str to bool array of shape (n,), or data frame
        Names and rows of slices: any column of 0 and 1, or a condition such as `lengths < 100`.
        They may overlap.
    power, power_mean_groups, intervals, confidence : optional
        As in `evaluate_bias`.
    **options
        As in `evaluate_bias`; not with `Rows`.

    Returns
    -------
    SliceReports
        A dict of str to BiasTable, in the given order of the slices, that prints as a table.
        A slice without positives or negatives has undefined metrics.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; or if a slice is not 0 or 1, or its length differs.

    References
    ----------
    Borkan et al. (2019), Table 6 (comments of under 100 characters).

    Examples
    --------
    >>> y_true, gay = [0, 1, 0, 1] * 2, [0, 0, 1, 1] * 2
    >>> y_score = [0.1, 0.9, 0.8, 0.7, 0.1, 0.9, 0.2, 0.7]
    >>> slices = {"short": [1, 1, 1, 1, 0, 0, 0, 0], "long": [0, 0, 0, 0, 1, 1, 1, 1]}
    >>> reports = evaluate_slices(y_true, y_score, {"gay": gay}, slices=slices)
    >>> [report.subgroups["gay"].subgroup_auc.value for report in reports.values()]
    [0.0, 1.0]
    """
    rows = Rows.from_arguments(y_true, subgroups, **options)
    report_options = ReportOptions.from_arguments(
        rows,
        power=power,
        power_mean_groups=power_mean_groups,
        intervals=intervals,
        confidence=confidence,
    )
    scores = rows.check_scores("y_score", y_score)
    masks = check_subgroups(slices, rows.n, name="slices")
    return SliceReports(
        {
            name: measure_report(rows.select_rows(mask), scores[mask], report_options)
            for name, mask in masks.items()
        }
    )
