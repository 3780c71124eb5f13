"""What several trainings on resampled splits show: paired differences, and shares recovered."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_scores, check_share
from bias_metrics._core.intervals import student_quantile
from bias_metrics._core.values import MetricValue, undefined

ONE_TRAINING = "one training tells nothing about the spread of trainings"


def paired_over_splits(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    test_share: float,
    row_std_error: float = 0.0,
    confidence: float = 0.95,
) -> MetricValue:
    """Return the mean difference of two methods that were trained on the same splits.

    Trainings on parts of one data set share most of their rows, so that they differ less from
    each other than trainings on new data would: the usual t interval is far too narrow. For a
    number that depends on the training rows (measured on a fixed set, such as phrases), the
    variance of the mean is s^2 (1 / k + (1 - rho) / rho), the delete-d jackknife with a share rho
    left out. For one that depends on the rows left out, it is s^2 (1 / k + rho / (1 - rho)), Nadeau
    and Bengio's correction. The larger of the two is taken: intervals are right for the one kind
    and too wide for the other. What the limited number of *measured* rows adds can be given as
    `row_std_error`, whose square is added.

    Parameters
    ----------
    first, second : float array of shape (k,)
        The numbers of both methods, one for each split.
    test_share : float
        Share of the rows that each split leaves out, between 0 and 1.
    row_std_error : float
        Standard error of the mean difference over measured rows, at least 0.
    confidence : float
        Level of the interval.

    Returns
    -------
    MetricValue
        Mean of `second - first`; with one split, without an interval.

    Raises
    ------
    ValueError, TypeError
        If the arrays differ in shape or are not finite, or a share is not between 0 and 1.

    References
    ----------
    Shao and Wu (1989), A General Theory for Jackknife Variance Estimation. Nadeau and Bengio
    (2003), Inference for the Generalization Error, equation 9.

    Examples
    --------
    >>> found = paired_over_splits([0.4, 0.5, 0.6], [0.3, 0.3, 0.6], test_share=0.25)
    >>> round(found.value, 3), round(found.std_error, 3)
    (-0.1, 0.183)
    """
    before = check_scores("first", first)
    after = check_scores("second", second, before.size, like="first")
    rho = _inside("test_share", test_share)
    level = _inside("confidence", confidence)
    differences = after.astype(float) - before
    if not differences.size:
        return undefined("no trainings")
    mean = float(differences.mean())
    if differences.size == 1:
        return MetricValue(mean, reason=ONE_TRAINING)
    variance = float(differences.var(ddof=1)) * _widened(differences.size, rho)
    error = math.sqrt(variance + row_std_error**2)
    reach = student_quantile(level, differences.size - 1) * error
    return MetricValue(mean, std_error=error, low=mean - reach, high=mean + reach)


def left_out_covariance(*left_out: npt.ArrayLike) -> npt.NDArray[np.floating]:
    """Return the covariance over measured rows of means over splits.

    The rows of a fixed evaluation set are divided into g parts, whole clusters together. A number
    is measured again without each part; the parts are the same on all splits. The covariance of
    two means over splits is (g - 1) / g times the sum of products of their deviations, the
    delete-a-group jackknife.

    Parameters
    ----------
    *left_out : float array of shape (k, g)
        For each quantity, its value on each split without each part.

    Returns
    -------
    float array of shape (m, m)
        For the m quantities. On its diagonal are squared standard errors.

    Raises
    ------
    ValueError, TypeError
        If shapes differ, values are not finite, or there are fewer than two parts.

    References
    ----------
    Kott (2001), The Delete-a-Group Jackknife.

    Examples
    --------
    >>> left_out_covariance([[0.1, 0.2, 0.3]]).round(4).tolist()
    [[0.0133]]
    """
    shape = np.shape(left_out[0])
    if len(shape) != 2 or min(shape) < 1 or shape[1] < 2:
        msg = f"`left_out` must have a row a split and at least two columns; got shape {shape}."
        raise ValueError(msg)
    if any(np.shape(one) != shape for one in left_out):
        msg = (
            f"`left_out` must have one shape; got {', '.join(str(np.shape(x)) for x in left_out)}."
        )
        raise ValueError(msg)
    flat = [check_scores("left_out", np.ravel(np.asarray(one))) for one in left_out]
    means = np.stack([one.astype(float).reshape(shape).mean(axis=0) for one in flat])
    apart = means - means.mean(axis=1, keepdims=True)
    return np.asarray(apart @ apart.T * (shape[1] - 1) / shape[1])


def recovered_share(
    biased: npt.ArrayLike,
    mitigated: npt.ArrayLike,
    clean: npt.ArrayLike,
    *,
    test_share: float,
    row_covariance: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> MetricValue:
    """Return how much of a known bias a method removes: 1 all of it, 0 none.

    It is mean(biased - mitigated) / mean(biased - clean), where `clean` was trained without the
    bias. It may be below 0 (the bias grew) or above 1. The interval is Fieller's, with the
    variances and the covariance of `paired_over_splits`.

    Parameters
    ----------
    biased, mitigated, clean : float array of shape (k,)
        A measure of bias, one for each split.
    test_share, confidence : float
        As in `paired_over_splits`.
    row_covariance : float array of shape (2, 2), optional
        Covariance over measured rows of (biased - mitigated, biased - clean), which is added; see
        `left_out_covariance`.

    Returns
    -------
    MetricValue
        Undefined if the interval of the denominator includes 0, so that no bias is shown; with one
        split, without an interval.

    Raises
    ------
    ValueError, TypeError
        As `paired_over_splits`.

    References
    ----------
    Fieller (1954), Some Problems in Interval Estimation.

    Examples
    --------
    >>> found = recovered_share([0.9, 1.0, 1.1], [0.5, 0.4, 0.6], [0.1, 0.0, 0.2], test_share=0.2)
    >>> round(found.value, 3)
    0.556
    """
    base = check_scores("biased", biased).astype(float)
    method = check_scores("mitigated", mitigated, base.size, like="biased").astype(float)
    best = check_scores("clean", clean, base.size, like="biased").astype(float)
    rho = _inside("test_share", test_share)
    level = _inside("confidence", confidence)
    gains, wholes = base - method, base - best
    if not base.size or wholes.mean() == 0:
        return undefined("no bias to recover")
    share = float(gains.mean() / wholes.mean())
    if base.size == 1:
        return MetricValue(share, reason=ONE_TRAINING)
    spread = np.cov(gains, wholes) * _widened(base.size, rho)
    if row_covariance is not None:
        spread = spread + np.asarray(row_covariance, dtype=float)
    return _fieller(share, float(wholes.mean()), spread, student_quantile(level, base.size - 1))


def pareto_front(quality: Mapping[str, float], bias: Mapping[str, float]) -> list[str]:
    """Return the names that no other beats in quality (higher better) and bias (lower better).

    Examples
    --------
    >>> pareto_front({"a": 0.9, "b": 0.8, "c": 0.8}, {"a": 2.0, "b": 1.0, "c": 3.0})
    ['a', 'b']
    """
    return [
        name
        for name in quality
        if not any(
            quality[other] >= quality[name]
            and bias[other] <= bias[name]
            and (quality[other] > quality[name] or bias[other] < bias[name])
            for other in quality
        )
    ]


def _fieller(share: float, whole: float, spread: npt.NDArray[np.floating], t: float) -> MetricValue:
    of_gain, of_both, of_whole = float(spread[0, 0]), float(spread[0, 1]), float(spread[1, 1])
    g = t**2 * of_whole / whole**2
    if g >= 1:
        return undefined("the bias itself is not shown: its interval includes 0")
    variance = of_gain - 2 * share * of_both + share**2 * of_whole
    # With no spread of the denominator there is no term in its variance.
    across = of_gain - of_both**2 / of_whole if of_whole > 0 else 0.0
    slope = of_both / of_whole if of_whole > 0 else 0.0
    reach = t / abs(whole) * math.sqrt(max(variance - g * across, 0.0)) / (1 - g)
    centre = (share - g * slope) / (1 - g)
    error = math.sqrt(max(variance, 0.0)) / abs(whole)
    return MetricValue(share, std_error=error, low=centre - reach, high=centre + reach)


def _widened(k: int, rho: float) -> float:
    return 1 / k + max(rho / (1 - rho), (1 - rho) / rho)


def _inside(name: str, share: float) -> float:
    found = check_share(name, share)
    if found in {0.0, 1.0}:
        msg = f"`{name}` must be between 0 and 1; got {share}."
        raise ValueError(msg)
    return found
