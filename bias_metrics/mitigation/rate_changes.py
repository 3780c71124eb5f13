"""How error rates change when a model is replaced, on the same rows."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import aligned, check_mask, check_share, check_subgroups
from bias_metrics._core.intervals import student_quantile
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.values import MetricValue, undefined

RATES = ("false_positive_rate", "false_negative_rate")
ALL = "all"


@aligned
def rate_changes(
    y_true: npt.ArrayLike,
    flagged_before: npt.ArrayLike,
    flagged_after: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    clusters: npt.NDArray[np.integer] | None = None,
    confidence: float = 0.95,
) -> dict[str, dict[str, MetricValue]]:
    """Return how much the error rates of all rows and of each subgroup change.

    Rows are paired: only those on which the two decisions differ count. What was flagged is taken
    as given, so the interval does not say how a threshold was chosen.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    flagged_before, flagged_after : bool array of shape (n,)
        The decisions of both models.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    clusters : int array of shape (n,), optional
        Rows of one cluster are not independent. Default: each row is one of its own.
    confidence : float
        Level of the intervals.

    Returns
    -------
    dict of str to dict of str to MetricValue
        For `all` and each subgroup, the false positive and the false negative rate after minus
        before; above 0 is worse. Undefined without rows of the class; with one cluster, without
        an interval.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.

    Examples
    --------
    >>> gay = {"gay": [1, 1, 1, 1, 0]}
    >>> found = rate_changes([0, 0, 0, 0, 1], [1, 1, 0, 0, 1], [0, 1, 0, 0, 1], gay)
    >>> found["gay"]["false_positive_rate"].value
    -0.25
    """
    labels = check_mask("y_true", y_true)
    before = check_mask("flagged_before", flagged_before, labels.size)
    after = check_mask("flagged_after", flagged_after, labels.size)
    masks = {ALL: np.ones(labels.size, dtype=np.bool_), **check_subgroups(subgroups, labels.size)}
    level = check_share("confidence", confidence)
    of_row = np.arange(labels.size) if clusters is None else np.asarray(clusters)
    change = (after != labels).astype(float) - (before != labels)
    return {
        name: {
            rate: _mean(change[mask & of], of_row[mask & of], level)
            for rate, of in zip(RATES, (~labels, labels), strict=True)
        }
        for name, mask in masks.items()
    }


def _mean(
    values: npt.NDArray[np.floating], of_row: npt.NDArray[np.integer], level: float
) -> MetricValue:
    if not values.size:
        return undefined("no rows of the class")
    mean = float(values.mean())
    sums = np.bincount(np.unique(of_row, return_inverse=True)[1], weights=values - mean)
    n = sums.size
    if n == 1:
        return MetricValue(mean, reason="one cluster tells nothing about the spread of clusters")
    error = math.sqrt(float((sums**2).sum()) * n / (n - 1)) / values.size
    reach = student_quantile(level, n - 1) * error
    return MetricValue(mean, std_error=error, low=mean - reach, high=mean + reach)
