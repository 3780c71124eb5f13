"""Student's distribution: its tails and quantiles, for any degrees of freedom.

P(|T| >= t) with nu degrees of freedom is the regularised incomplete beta function at
nu / (nu + t^2), which is computed as a continued fraction.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

# With more degrees of freedom the distribution is taken as normal; errors are below 1e-6.
_MANY = 1e6
_CLOSE = 1e-14
_FAR = 3.0
_NORMAL = NormalDist()


def student_tails(t: float, freedom: float) -> float:
    """Return P(|T| >= t) for t of at least 0; the normal tails if `freedom` is infinite.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 8.17.4 and 8.17.22.
    """
    if freedom > _MANY:
        return math.erfc(t / math.sqrt(2))
    rest = t * t / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if t * t > _FAR:  # the fraction converges fast on one side of it
        return _beta_share(1 - rest, rest, a, b)
    return 1 - _beta_share(rest, 1 - rest, b, a)


@lru_cache(maxsize=4096)
def student_quantile(confidence: float, freedom: float) -> float:
    """Return the t with P(|T| >= t) = 1 - confidence.

    The tail is convex in t, so Newton's method climbs to the quantile from the normal one, which
    is below it.
    """
    t = _NORMAL.inv_cdf(0.5 + confidence / 2)
    if freedom > _MANY:
        return t
    while True:
        step = (student_tails(t, freedom) - (1 - confidence)) / (2 * _density(t, freedom))
        t += step
        if step <= 1e-10 * t:
            return t


def _density(t: float, freedom: float) -> float:
    log = (
        math.lgamma((freedom + 1) / 2)
        - math.lgamma(freedom / 2)
        - math.log(freedom * math.pi) / 2
        - (freedom + 1) / 2 * math.log1p(t * t / freedom)
    )
    return math.exp(log)


def _beta_share(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b); `rest` is 1 - x."""
    if x == 0:
        return 0.0
    log = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    return math.exp(log) / a / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """Return 1 + d1 / (1 + d2 / (1 + ...)), by Lentz's method."""
    value, above, below = 1.0, 1.0, 0.0
    k = 0
    while True:
        odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        even = (k + 1) * (b - k - 1) * x / ((a + 2 * k + 1) * (a + 2 * k + 2))
        for d in (odd, even):
            below, above = 1 / (1 + d * below), 1 + d / above
            value *= above * below
        if abs(above * below - 1) < _CLOSE:
            return value
        k += 1
