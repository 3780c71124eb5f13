"""Errors at a threshold, overall and for each subgroup, and the threshold of equal errors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import lacks
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
from bias_metrics._core.cuts import cuts_in, reaches
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence, quantile
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.ranks import SortedClasses, sort_classes
from bias_metrics._core.tables import Row, Tabular, labelled, rows_of
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.estimate import Number
from bias_metrics.thresholds.errors import (
    ErrorCurve,
    ErrorRates,
    distinct_scores,
    error_curve,
    sort_subgroup,
)
from bias_metrics.thresholds.share_counts import ByCluster, Counts
from bias_metrics.thresholds.shares import ShareGap

# Rates of weighted rows that differ by less than this differ only by rounding.
SLACK = 1e-12


@dataclass(frozen=True)
class EqualErrorRate(Tabular):
    """The threshold at which both classes have the same share of errors."""

    threshold: float | None
    """None if the rate is undefined."""
    rate: MetricValue
    """Mean of the two rates below, from 0 to 1, ideal 0."""
    false_positive_rate: MetricValue
    false_negative_rate: MetricValue
    """false_positive_rate, false_negative_rate: the two rates at the threshold; usually not exactly
    equal."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        rates = ("rate", "false_positive_rate", "false_negative_rate")
        return {"threshold": self.threshold} | {n: getattr(self, n).to_dict() for n in rates}


@dataclass(frozen=True, eq=False)
class ThresholdTable(Tabular):
    """Errors of all rows and of each subgroup at the same thresholds."""

    thresholds: FloatArray
    """(k,): Scores at or above a threshold are flagged at it."""
    overall: ErrorCurve
    """All rows."""
    subgroups: dict[str, ErrorCurve]
    """Each subgroup, in the order given."""

    def rows(self) -> list[Row]:
        """Return one record per threshold for all rows, without a name, and for each subgroup."""
        return labelled("subgroup", rows_of(self.subgroups, self.overall))


@aligned
def equal_error_rate(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    method: str = "rates",
) -> EqualErrorRate:
    """Find the threshold at which the false positive and false negative rates are closest.

    The threshold is the t among the distinct scores that minimises abs(FPR - FNR), where a
    row is flagged if its score >= t; of several, the lowest. Not to be confused with the
    threshold of the best accuracy, which is higher if there are few positives.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    sample_weight : float array of shape (n,), optional
        At least 0.
    method : {"rates", "counts"}, default="rates"
        `counts` is the reference implementation's variant: the t among 0, .01, ..., 1 that
        minimises abs(false positives - false negatives), of several the *highest*. Unless there
        are as many positives as negatives, it is not an equal error rate. Use it only to
        reproduce Dixon et al. (2018).

    Returns
    -------
    EqualErrorRate
        The threshold and, in [0, 1] with ideal 0, its rates and their mean; undefined
        without positives or without negatives.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `method` is neither of the two.

    References
    ----------
    Dixon et al. (2018), near equations 1 and 2; `counts` is `compute_equal_error_rate` of their
    reference code.

    Examples
    --------
    >>> found = equal_error_rate([0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.6, 0.4, 0.8, 0.9])
    >>> found.threshold, round(found.rate.value, 4)
    (0.6, 0.3333)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    classes = sort_classes(labels, scores, check_weights(sample_weight, labels.size))
    return equal_error(classes, check_choice("method", method, ("rates", "counts")))


def equal_error(classes: SortedClasses, method: str = "rates") -> EqualErrorRate:
    """Find the threshold of equal errors, given sorted rows."""
    if lack := lacks(negatives=classes.negative.n, positives=classes.positive.n):
        return EqualErrorRate(None, *[undefined(lack)] * 3)
    weighted = classes.positive.cumulative_weight is not None
    slack = SLACK if weighted else 0
    if method == "counts":
        grid = np.linspace(0, 1, 101)
        curve = error_curve(classes, grid, cuts_in(distinct_scores(classes), grid))
        gap = np.abs(curve.n_false_positive - curve.n_false_negative)
        nearest = gap <= gap.min() + slack * (curve.n_positive + curve.n_negative)
        position = int(np.flatnonzero(nearest)[-1])
    else:
        curve = error_curve(classes, distinct_scores(classes))
        # The difference of the rates, times both totals: integers, so that ties are exact.
        gap = np.abs(
            curve.n_false_positive * curve.n_positive - curve.n_false_negative * curve.n_negative
        )
        nearest = gap <= gap.min() + slack * curve.n_positive * curve.n_negative
        position = int(np.flatnonzero(nearest)[0])
    errors = curve.at(position)
    rates = errors.false_positive_rate, errors.false_negative_rate
    mean = sum(rate.value for rate in rates if rate.value is not None) / 2
    return EqualErrorRate(errors.threshold, MetricValue(mean), *rates)


@aligned
def error_rates(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    threshold: float,
    sample_weight: npt.ArrayLike | None = None,
) -> ErrorRates:
    """Count the errors of one decision rule: flag every row whose score >= threshold.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    threshold : float
        Finite; a score equal to it is flagged, also where it is stored in fewer bits.
    sample_weight : float array of shape (n,), optional
        At least 0.

    Returns
    -------
    ErrorRates
        Four counts; false positive rate FP / (FP + TN) and false negative rate
        FN / (FN + TP), ideal 0; precision TP / (TP + FP), recall TP / (TP + FN) and
        accuracy (TP + TN) / n, ideal 1. A rate over no rows is undefined, with its reason.

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
    at = np.array([check_threshold(threshold)])
    return error_curve(classes, at, cuts_in(scores, at)).at(0)


@aligned
def threshold_table(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    thresholds: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> ThresholdTable:
    """Follow the errors of all rows and of each subgroup over many thresholds.

    A subgroup whose false positive rate is above that of all rows is over-flagged at that
    threshold; if its false negative rate is above, it is under-protected.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Name and membership of each subgroup; rows may belong to several or to none.
    thresholds : float array of shape (k,), optional
        By default every distinct score, ascending. That is two numbers per subgroup and score,
        so give a list for millions of rows.
    sample_weight : float array of shape (n,), optional
        At least 0.

    Returns
    -------
    ThresholdTable
        For each, counts and five rates in [0, 1] (see `error_rates`) by threshold. A rate is
        a masked array: masked where undefined, with 0 under the mask and never NaN.

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
    everyone = sort_classes(labels, scores, weights)
    grid = cuts = distinct_scores(everyone)
    if thresholds is not None:
        grid = check_scores("thresholds", thresholds)
        cuts = cuts_in(scores, grid)
    return ThresholdTable(
        thresholds=grid,
        overall=error_curve(everyone, grid, cuts),
        subgroups={
            name: error_curve(sort_subgroup(labels, scores, mask, weights), grid, cuts)
            for name, mask in masks.items()
        },
    )


# ---- How precisely a threshold of equal errors is known


@aligned
def equal_error_range(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
) -> tuple[float, float]:
    """Return a confidence range for the threshold of equal errors.

    The threshold of `equal_error_rate` is an estimate: other rows of the same kind would give
    a different one. At the ends of this range the false positive and the false negative rate
    differ by as much as chance alone can explain.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class; both classes must occur.
    y_score : float array of shape (n,)
        Finite scores.
    confidence : float, default=0.95
        Confidence of the range.
    clusters : array of shape (n,), optional
        Article, thread or template of each row.

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
    threshold = equal_error(classes).threshold
    if threshold is None:
        msg = "`y_true` must have positives and negatives; one class is empty."
        raise ValueError(msg)
    wrong = reaches(scores, threshold) != labels
    errors = [(int(wrong[of].sum()), int(of.sum())) for of in (labels, ~labels)]
    clustered = None
    if codes is not None:
        n_clusters = int(codes.max()) + 1
        missed, alarms = (
            Counts(n, (k,), k, ByCluster.of(codes[of], n_clusters, [wrong[of]]))
            for (k, n), of in zip(errors, (labels, ~labels), strict=True)
        )
        clustered = ShareGap.of(missed, alarms, "rows").numbers[0], n_clusters
    low, high = ends_of_range(classes, reach_of(errors, level, clustered))
    return min(low, threshold), max(high, threshold)


def ends_of_range(classes: SortedClasses, reach: float) -> tuple[float, float]:
    """Return the scores between which the two rates are less than `reach` apart."""
    curve = error_curve(classes, distinct_scores(classes))
    apart = curve.rate("false_positive_rate").data - curve.rate("false_negative_rate").data
    # `apart` falls with the threshold, so both searches are of sorted numbers.
    last = int(np.searchsorted(-apart, -reach, side="right")) - 1
    first = int(np.searchsorted(-apart, reach, side="left"))
    low, high = curve.thresholds[[max(last, 0), min(first, apart.size - 1)]].tolist()
    return low, high


def reach_of(
    errors: Iterable[tuple[int, int]],
    confidence: float,
    clustered: tuple[Number, int] | None = None,
) -> float:
    """Return how far apart two rates may be by chance, given errors and rows of each class.

    With clusters: how far these move the difference of the rates, and how many there are.
    """
    variance, freedom = sum(_share_variance(*error) for error in errors), math.inf
    if clustered is not None:
        number, n_clusters = clustered
        inflation = n_clusters / max(n_clusters - 1, 1)
        variance = max(variance, number.std_error**2 * inflation)
        freedom = number.freedom
    return quantile(confidence, freedom) * math.sqrt(variance)


def _share_variance(n_wrong: float, n: float) -> float:
    """Return the variance of a share of n rows, above 0 where no row is wrong."""
    share = (n_wrong + 1) / (n + 2)
    return share * (1 - share) / n
