"""Intervals of shares, their differences and bounded means, valid for few rows and near 0."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from bias_metrics._core.intervals import find_root, incomplete_beta
from bias_metrics._core.ranks import Floats


def wilson_interval(share: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's score interval of a share of `n` rows; it contains the share.

    References
    ----------
    Wilson (1927), Journal of the American Statistical Association 22.
    """
    square = z**2
    centre = (share + square / (2 * n)) / (1 + square / n)
    reach = math.sqrt(square * (share * (1 - share) + square / (4 * n)) / n) / (1 + square / n)
    # A share of 0 or 1 is an end of the interval, except for rounding.
    return min(centre - reach, share), max(centre + reach, share)


@lru_cache(maxsize=4096)
def clopper_pearson_interval(k: float, n: float, z: float) -> tuple[float, float]:
    """Return the exact interval of a share, given `k` of `n` rows; both may be fractions.

    The share is beyond each end in at most P(Z > z) of samples, whatever its value.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26.

    Examples
    --------
    >>> [round(end, 4) for end in clopper_pearson_interval(0, 10, 1.959964)]
    [0.0, 0.3085]
    """
    tail = NormalDist().cdf(-z)

    def low(k: float) -> float:
        """Return the share for which `k` or more rows have probability `tail`."""
        if k <= 0:
            return 0.0
        return find_root(
            lambda share: incomplete_beta(share, 1 - share, k, n - k + 1) - tail, 0.0, k / n
        )

    return low(k), 1 - low(n - k)


_NEAREST = 1e-60  # smallest distance from the end of the range in the search
_CENTRAL = 0.1  # the tail is certainly larger within this many standard errors


def bounded_mean_interval(values: Floats, sizes: Floats, z: float) -> tuple[float, float]:
    """Return an interval of the mean of numbers in [0, 1]; `sizes` are their multiplicities.

    Student's interval is too short for few skewed scores: if all drawn scores are small, it
    excludes large undrawn scores. This is the interval of a mean of the values and an end of the
    range with random (Dirichlet) weights. For values of 0 and 1 it is Clopper and Pearson's. Its
    tails are saddlepoint approximations, slightly wide. A general proof of its coverage is not
    known; simulations with ties, clusters and few rows support it.

    References
    ----------
    Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a
    nonnegative variable. Phan, Thomas and Learned-Miller (2021), ICML (comparison with other
    bounds). Lugannani and Rice (1980), Advances in Applied Probability 12; Barndorff-Nielsen
    (1986), Biometrika 73 (the form of the tail).

    Examples
    --------
    >>> [round(end, 2) for end in bounded_mean_interval(np.zeros(10), np.ones(10), 1.959964)]
    [0.0, 0.31]
    """
    return _find_mean_low(values, sizes, z), 1 - _find_mean_low(1 - values, sizes, z)


def _find_mean_low(values: Floats, sizes: Floats, z: float) -> float:
    """Return the lower bound: the mean at which the tail of the random mean equals that beyond z.

    The weights are independent Gamma variables divided by their sum; that of the end of the range,
    0, is exponential. So the tail is that of a sum of these variables times value minus mean.
    """

    def tilt_weights(nearness: float) -> tuple[Floats, float]:
        """Return the divisors of the variables, and the mean at this saddlepoint."""
        divisors = values + nearness * (1 - values)
        weights = sizes / divisors
        return divisors, float(weights @ values) / (float(weights.sum()) + 1 / nearness)

    def excess(log_nearness: float) -> float:
        """Return the distance of the tail from z, in standard errors."""
        nearness = math.exp(log_nearness)
        divisors, mean = tilt_weights(nearness)
        scale = mean + nearness * (1 - mean)
        cumulant = -float(sizes @ np.log(divisors / scale)) - math.log(nearness / scale)
        root_of_ratio = math.sqrt(max(-2 * cumulant, 0.0))
        if root_of_ratio < _CENTRAL:
            return root_of_ratio - z
        spread = float(sizes @ ((values - mean) * scale / divisors) ** 2)
        spread += (mean * scale / nearness) ** 2
        wald = (1 - nearness) / scale * math.sqrt(spread)
        return root_of_ratio + math.log(wald / root_of_ratio) / root_of_ratio - z

    nearest = math.log(_NEAREST)
    if not float(sizes @ values) or excess(nearest) <= 0:
        return 0.0
    return tilt_weights(math.exp(find_root(excess, nearest, 0.0)))[1]


def paired_change_interval(
    first_only: float, second_only: float, n: float, z: float
) -> tuple[float, float]:
    """Return an interval of the difference of two models' shares on the same rows.

    It combines the exact intervals of the two kinds of disagreement (MOVER). So models that agree
    on all drawn rows may still differ on undrawn rows.

    References
    ----------
    Zou and Donner (2008), Statistics in Medicine 27.
    """
    up, down = first_only / n, second_only / n
    (up_low, up_high), (down_low, down_high) = (
        clopper_pearson_interval(k, n, z) for k in (first_only, second_only)
    )
    low = up - down - math.hypot(up - up_low, down_high - down)
    return low, up - down + math.hypot(up_high - up, down - down_low)


def share_difference_interval(
    k: float, n: float, k_other: float, n_other: float, z: float
) -> tuple[float, float]:
    """Return an interval of `k / n - k_other / n_other`, two shares of different rows.

    It is the union of Newcombe's hybrid score interval (method 10) and the interval of Agresti and
    Caffo. Both miss more often than their level allows, on opposite sides. For
    25 rows against 500 at 5 %, Newcombe's interval misses in 7.7 % and the other in 6.3 %, in the
    worst case of a grid of shares. The union misses in 5.6 %. For 50 or more rows against 1,000 or
    more, the union misses in at most 5.3 %, and for 200 against 200 in 5.5 % (exact sums over both
    binomials). It never has zero width.

    References
    ----------
    Newcombe (1998), Statistics in Medicine 17, 873-890. Agresti and Caffo (2000), The American
    Statistician 54.
    """
    a, b = k / n, k_other / n_other
    (a_low, a_high), (b_low, b_high) = wilson_interval(a, n, z), wilson_interval(b, n_other, z)
    low = a - b - math.hypot(a - a_low, b_high - b)
    high = a - b + math.hypot(a_high - a, b - b_low)
    a, b = (k + 1) / (n + 2), (k_other + 1) / (n_other + 2)
    reach = z * math.sqrt(a * (1 - a) / (n + 2) + b * (1 - b) / (n_other + 2))
    return max(min(low, a - b - reach), -1.0), min(max(high, a - b + reach), 1.0)
