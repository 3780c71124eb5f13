"""Errors at thresholds, overall and by subgroup, and the threshold of the equal error rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import describe_empty_classes
from bias_metrics._core.checks import (
    FloatArray,
    check_choice,
    check_clusters,
    check_mask,
    check_scores,
    check_subgroups,
    check_threshold,
    check_weights,
)
from bias_metrics._core.cuts import find_cuts, reaches_cut
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence, student_quantile
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.ranks import SortedClasses, sort_classes
from bias_metrics._core.tables import Row, Tabular, collect_rows, label_rows
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.estimate import LinearSummary
from bias_metrics.thresholds.errors import (
    ErrorCurve,
    ErrorRates,
    build_error_curve,
    list_distinct_scores,
    sort_subgroup,
)
from bias_metrics.thresholds.share_counts import EventCounts, EventsByCluster
from bias_metrics.thresholds.shares import ShareGap

# Rates of weighted rows with a smaller difference are equal but for rounding.
SLACK = 1e-12


@dataclass(frozen=True)
class EqualErrorRate(Tabular):
    """The threshold at which both classes have the same share of errors."""

    threshold: float | None
    """None if the rate is undefined."""
    rate: MetricValue
    """Mean of the two error rates, from 0 to 1, ideal 0."""
    false_positive_rate: MetricValue
    false_negative_rate: MetricValue
    """false_positive_rate, false_negative_rate: the error rates at the threshold, usually not quite
    equal."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        rates = ("rate", "false_positive_rate", "false_negative_rate")
        return {"threshold": self.threshold} | {
            name: getattr(self, name).to_dict() for name in rates
        }


@dataclass(frozen=True, eq=False)
class ThresholdTable(Tabular):
    """Errors at the same thresholds, overall and by subgroup."""

    thresholds: FloatArray
    """(k,): thresholds; scores at or above a threshold are flagged."""
    overall: ErrorCurve
    """Errors of all rows."""
    subgroups: dict[str, ErrorCurve]
    """Errors by subgroup, in the order given."""

    def rows(self) -> list[Row]:
        """Return a record per threshold for each subgroup, and for all rows without a name."""
        return label_rows("subgroup", collect_rows(self.subgroups, self.overall))


@require_aligned
def equal_error_rate(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    method: str = "rates",
) -> EqualErrorRate:
    """Find the threshold at which the false positive and false negative rates are closest.

    The threshold is the lowest t among the distinct scores that minimises abs(FPR - FNR); a row
    is flagged if its score >= t. Do not confuse it with the threshold of the best accuracy, which
    is higher for few positives.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    sample_weight : float array of shape (n,), optional
        At least 0.
    method : {"rates", "counts"}, default="rates"
        `counts` is the reference implementation's variant: the *highest* t among 0, .01, ..., 1
        that minimises abs(false positives - false negatives). Unless the numbers of positives and
        negatives are equal, it is not an equal error rate. Use it only to reproduce Dixon et al.
        (2018).

    Returns
    -------
    EqualErrorRate
        The threshold and, in [0, 1] with ideal 0, its rates and their mean; undefined
        without positives or without negatives.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `method` has another value.

    References
    ----------
    Dixon et al. (2018), near equations 1 and 2; `counts` is `compute_equal_error_rate` of their
    reference code.

    Examples
    --------
    >>> equal = equal_error_rate([0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.6, 0.4, 0.8, 0.9])
    >>> equal.threshold, round(equal.rate.value, 4)
    (0.6, 0.3333)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    classes = sort_classes(labels, scores, check_weights(sample_weight, labels.size))
    return find_equal_error(classes, check_choice("method", method, ("rates", "counts")))


def find_equal_error(classes: SortedClasses, method: str = "rates") -> EqualErrorRate:
    """Find the threshold of the equal error rate from sorted rows."""
    if lack := describe_empty_classes(negatives=classes.negative.n, positives=classes.positive.n):
        return EqualErrorRate(None, *[make_undefined(lack)] * 3)
    is_weighted = classes.positive.cumulative_weight is not None
    slack = SLACK if is_weighted else 0
    if method == "counts":
        grid = np.linspace(0, 1, 101)
        curve = build_error_curve(classes, grid, find_cuts(list_distinct_scores(classes), grid))
        gap = np.abs(curve.n_false_positive - curve.n_false_negative)
        is_smallest = gap <= gap.min() + slack * (curve.n_positive + curve.n_negative)
        position = int(np.flatnonzero(is_smallest)[-1])
    else:
        curve = build_error_curve(classes, list_distinct_scores(classes))
        # The difference of the rates multiplied by both totals: integers, so that ties are exact.
        gap = np.abs(
            curve.n_false_positive * curve.n_positive - curve.n_false_negative * curve.n_negative
        )
        is_smallest = gap <= gap.min() + slack * curve.n_positive * curve.n_negative
        position = int(np.flatnonzero(is_smallest)[0])
    errors = curve.get_rates(position)
    rates = errors.false_positive_rate, errors.false_negative_rate
    mean = sum(rate.value for rate in rates if rate.value is not None) / 2
    return EqualErrorRate(errors.threshold, MetricValue(mean), *rates)


@require_aligned
def error_rates(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    threshold: float,
    sample_weight: npt.ArrayLike | None = None,
) -> ErrorRates:
    """Count the errors of a decision rule: flag every row with score >= threshold.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    threshold : float
        Finite; a score equal to it is flagged, also if scores are stored in fewer bits.
    sample_weight : float array of shape (n,), optional
        At least 0.

    Returns
    -------
    ErrorRates
        Four counts; false positive rate FP / (FP + TN) and false negative rate
        FN / (FN + TP), ideal 0; precision TP / (TP + FP), recall TP / (TP + FN) and
        accuracy (TP + TN) / n, ideal 1. A rate with denominator 0 is undefined, with a reason.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `threshold` is not finite.

    References
    ----------
    Dixon et al. (2018), equations 1 and 2, for the two error rates; the formulas are the
    usual ones.

    Examples
    --------
    >>> errors = error_rates([0, 0, 1, 1, 1], [0.2, 0.7, 0.5, 0.8, 0.4], threshold=0.5)
    >>> errors.n_true_positive, errors.false_positive_rate.value
    (2, 0.5)
    >>> error_rates([1], [0.2], threshold=0.5).precision.reason
    'no flagged rows'
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    classes = sort_classes(labels, scores, check_weights(sample_weight, labels.size))
    grid = np.array([check_threshold(threshold)])
    return build_error_curve(classes, grid, find_cuts(scores, grid)).get_rates(0)


@require_aligned
def threshold_table(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    thresholds: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> ThresholdTable:
    """Count the errors at many thresholds, overall and by subgroup.

    A subgroup whose false positive rate is above that of all rows is over-flagged at that
    threshold; if its false negative rate is above, it is under-protected.

    Parameters
    ----------
    y_true, y_score, subgroups
        As in `evaluate_bias`; `Rows` are not accepted.
    thresholds : float array of shape (k,), optional
        Default every distinct score in ascending order. This stores two numbers per subgroup and
        score, so give a list for millions of rows.
    sample_weight : float array of shape (n,), optional
        At least 0.

    Returns
    -------
    ThresholdTable
        Counts and five rates in [0, 1] (see `error_rates`) by threshold, overall and by subgroup.
        Undefined rates are masked, with 0 under the mask and never NaN.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if a threshold is not finite.

    References
    ----------
    Dixon et al. (2018), equations 1 and 2; Borkan et al. (2019), Figure 2.

    Examples
    --------
    >>> table = threshold_table([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8], {"g": [0, 0, 1, 1]})
    >>> table.thresholds.tolist()
    [0.1, 0.4, 0.8]
    >>> table.overall.rate("false_positive_rate").tolist()
    [1.0, 0.5, 0.0]
    >>> table.subgroups["g"].rate("false_positive_rate").tolist()
    [1.0, 1.0, 0.0]
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    weights = check_weights(sample_weight, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    all_rows = sort_classes(labels, scores, weights)
    grid = cuts = list_distinct_scores(all_rows)
    if thresholds is not None:
        grid = check_scores("thresholds", thresholds)
        cuts = find_cuts(scores, grid)
    return ThresholdTable(
        thresholds=grid,
        overall=build_error_curve(all_rows, grid, cuts),
        subgroups={
            name: build_error_curve(sort_subgroup(labels, scores, mask, weights), grid, cuts)
            for name, mask in masks.items()
        },
    )


# ---- Confidence range of the threshold of the equal error rate


@require_aligned
def equal_error_range(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
) -> tuple[float, float]:
    """Return a confidence range for the threshold of the equal error rate.

    The threshold of `equal_error_rate` is an estimate: another sample would give another
    threshold. At the ends of this range, the false positive and the false negative rate differ by
    the most that chance can explain.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class; both classes must occur.
    y_score : float array of shape (n,)
        Finite scores.
    confidence : float, default=0.95
        Confidence of the range.
    clusters : array of shape (n,), optional
        The rows' articles, threads or templates.

    Returns
    -------
    (float, float)
        Two of the scores, around the threshold of `equal_error_rate`.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if a class is empty.

    References
    ----------
    Wilks (1948), Bulletin of the American Mathematical Society 54 (bounds of a quantile from the
    bounds of the share below it).

    Examples
    --------
    >>> y_true, y_score = [0, 1] * 50, [0.01 * i + 0.3 * (i % 2) for i in range(100)]
    >>> low, high = equal_error_range(y_true, y_score)
    >>> round(low, 2), round(high, 2)
    (0.55, 0.75)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    codes = check_clusters(clusters, labels.size)
    level = check_confidence(confidence)
    classes = sort_classes(labels, scores)
    threshold = find_equal_error(classes).threshold
    if threshold is None:
        msg = "`y_true` must have positives and negatives; one class is empty."
        raise ValueError(msg)
    is_wrong = reaches_cut(scores, threshold) != labels
    classes_of_rows = labels, ~labels
    errors = [(int(is_wrong[mask].sum()), int(mask.sum())) for mask in classes_of_rows]
    clustered = None
    if codes is not None:
        n_clusters = int(codes.max()) + 1
        missed, alarms = (
            EventCounts(
                n, (k,), k, EventsByCluster.count_events(codes[mask], n_clusters, [is_wrong[mask]])
            )
            for (k, n), mask in zip(errors, classes_of_rows, strict=True)
        )
        clustered = ShareGap.from_counts(missed, alarms, "rows").numbers[0], n_clusters
    low, high = find_range_ends(classes, compute_rate_reach(errors, level, clustered))
    return min(low, threshold), max(high, threshold)


def find_range_ends(classes: SortedClasses, reach: float) -> tuple[float, float]:
    """Return the scores between which the two rates differ by less than `reach`."""
    curve = build_error_curve(classes, list_distinct_scores(classes))
    difference = curve.rate("false_positive_rate").data - curve.rate("false_negative_rate").data
    # The difference decreases with the threshold, so that it can be searched like sorted numbers.
    last = int(np.searchsorted(-difference, -reach, side="right")) - 1
    first = int(np.searchsorted(-difference, reach, side="left"))
    low, high = curve.thresholds[[max(last, 0), min(first, difference.size - 1)]].tolist()
    return low, high


def compute_rate_reach(
    errors: Iterable[tuple[int, int]],
    confidence: float,
    clustered: tuple[LinearSummary, int] | None = None,
) -> float:
    """Return the largest difference of two error rates that chance can explain.

    `errors` are the numbers of errors and rows of each class; `clustered` is the difference with
    its clustered standard error, and the number of clusters.
    """
    variance, freedom = 0.0, math.inf
    for n_wrong, n in errors:
        share = (n_wrong + 1) / (n + 2)  # above 0 even without errors
        variance += share * (1 - share) / n
    if clustered is not None:
        number, n_clusters = clustered
        inflation = n_clusters / max(n_clusters - 1, 1)
        variance = max(variance, number.std_error**2 * inflation)
        freedom = number.freedom
    return student_quantile(confidence, freedom) * math.sqrt(variance)
