"""Bootstrap intervals that allow for bias and skewness (BCa), and for few rows or clusters.

Percentiles of replicates are too close together for few rows, and on the wrong side where a number
is skewed. BCa chooses other percentiles: from the share of replicates below the estimate, and from
the third moment of the influences. Student's quantile takes the place of the normal one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bias_metrics._core.intervals import quantile
from bias_metrics._core.ranks import Floats, inner
from bias_metrics.report.clustered import Ends
from bias_metrics.report.resampled import BootstrapValue

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Basis:
    """What is known of a number before anything is resampled.

    Attributes
    ----------
    value : float or None
        The number itself.
    reason : str or None
        Why it has no interval, if so.
    acceleration : float
        From `acceleration`.
    z : float
        Quantile, from `expanded`.
    least : (float, float) or None
        Ends between which the interval must reach at least, as the one in closed form does.
    """

    value: float | None
    reason: str | None = None
    acceleration: float = 0.0
    z: float = 0.0
    least: Ends | None = None


def acceleration(influences: Iterable[Floats]) -> float:
    """Return a sixth of the skewness of a number, given the influences of its rows or clusters."""
    squares = cubes = 0.0
    for one in influences:
        square = one * one
        squares += float(square.sum())
        cubes += inner(square, one)
    return cubes / squares**1.5 / 6 if squares > 0 else 0.0


def expanded(confidence: float, n: float, freedom: float) -> float:
    """Return the quantile for `n` units: a bootstrap's variance is too small by (n - 1) / n.

    References
    ----------
    Hesterberg (2015), The American Statistician 69, section 4.3 (expanded percentiles).
    """
    return quantile(confidence, freedom) / math.sqrt(1 - 1 / n)


def summary_of(values: Sequence[float], n_replicates: int, basis: Basis) -> BootstrapValue:
    """Return the spread of one number.

    References
    ----------
    Efron (1987), Journal of the American Statistical Association 82.
    """
    missing = n_replicates - len(values)
    std_error = float(np.std(values, ddof=1)) if len(values) > 1 else None
    reason = basis.reason
    if reason is None and missing:
        reason = f"undefined in {missing:,} of {n_replicates:,} replicates"
    if reason is not None or basis.value is None:
        return BootstrapValue(std_error, None, None, missing, reason)
    drawn = np.asarray(values)
    below = np.mean(drawn < basis.value) + np.mean(drawn == basis.value) / 2
    centre = _NORMAL.inv_cdf(min(max(float(below), 0.5 / drawn.size), 1 - 0.5 / drawn.size))
    shares = [_share(centre, side * basis.z, basis.acceleration) for side in (-1, 1)]
    low, high = (float(one) for one in np.quantile(drawn, shares))
    if basis.least is not None:
        low, high = min(low, basis.least[0]), max(high, basis.least[1])
    return BootstrapValue(std_error, low, high, missing)


def _share(centre: float, z: float, skew: float) -> float:
    """Return which share of the replicates lies below an end."""
    shifted = centre + z
    rest = 1 - skew * shifted
    if rest <= 0:
        return 0.0 if shifted < 0 else 1.0
    return _NORMAL.cdf(centre + shifted / rest)
