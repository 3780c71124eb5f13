"""How precisely a threshold of equal errors is known."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import aligned, check_clusters, check_mask, check_scores
from bias_metrics._core.intervals import check_confidence, effective_number, quantile
from bias_metrics._core.ranks import sort_classes
from bias_metrics.thresholds.errors import distinct_scores, error_curve, flagged
from bias_metrics.thresholds.thresholds import equal_error


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
    wrong = flagged(scores, threshold) != labels
    variance = sum(_share_variance(wrong[of]) for of in (labels, ~labels))
    freedom = math.inf
    if codes is not None:
        n_clusters = int(codes.max()) + 1
        inflation = n_clusters / max(n_clusters - 1, 1)
        variance = max(variance, _clustered_variance(labels, wrong, codes) * inflation)
        rows = [np.bincount(codes[of]).astype(np.float64) for of in (labels, ~labels)]
        freedom = max(min(map(effective_number, rows)) - 1, 1.0)
    reach = quantile(level, freedom) * math.sqrt(variance)
    curve = error_curve(classes, distinct_scores(classes))
    apart = curve.rate("false_positive_rate").data - curve.rate("false_negative_rate").data
    # `apart` falls with the threshold, so both searches are of sorted numbers.
    last = int(np.searchsorted(-apart, -reach, side="right")) - 1
    first = int(np.searchsorted(-apart, reach, side="left"))
    ends = curve.thresholds[[max(last, 0), min(first, apart.size - 1)]]
    return min(float(ends[0]), threshold), max(float(ends[1]), threshold)


def _share_variance(wrong: npt.NDArray[np.bool_]) -> float:
    """Return the variance of a share, above 0 where no row is wrong."""
    share = (int(wrong.sum()) + 1) / (wrong.size + 2)
    return share * (1 - share) / wrong.size


def _clustered_variance(
    labels: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_], codes: npt.NDArray[np.intp]
) -> float:
    influence = np.zeros(labels.size)
    for of, sign in ((~labels, 1), (labels, -1)):
        influence[of] = sign * (wrong[of] - wrong[of].mean()) / of.sum()
    sums = np.bincount(codes, weights=influence)
    return float(sums @ sums)
