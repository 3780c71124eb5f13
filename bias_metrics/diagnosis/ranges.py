"""Estimates with bounds on either side, and what they show clearly."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple, cast

import numpy as np

from bias_metrics._core.intervals import quantile
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.values import MetricValue
from bias_metrics.diagnosis.patterns import Gap
from bias_metrics.thresholds.curves import Corners, EqualityCurve

# P(L1 norm of a Brownian bridge > x) is at most this many times P(|N(0, 1/12)| > x), wherever
# that is below 1/8 (it is 1.19 times at .1, 1.14 at .05 and 1.09 at .01).
TAIL = 1.25


class Range(NamedTuple):
    """An estimate and its interval, which must exist."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, metric: MetricValue) -> Range:
        """Return the range of a metric that has an interval."""
        return cls(*(cast("float", n) for n in (metric.value, metric.low, metric.high)))

    def metric(self) -> MetricValue:
        """Return it as a MetricValue."""
        return MetricValue(self.value, low=self.low, high=self.high)

    @property
    def largest(self) -> float:
        """The largest size, whatever the sign, that the interval holds."""
        return max(-self.low, self.high)

    def minus(self, other: Range) -> Range:
        """Return the difference of two estimates, independent or positively correlated."""
        value = self.value - other.value
        down = math.hypot(self.value - self.low, other.high - other.value)
        up = math.hypot(self.high - self.value, other.value - other.low)
        return Range(value, value - down, value + up)

    def beyond(self, margin: float) -> int:
        """Return 1 or -1 if the interval is entirely above or below [-margin, margin], else 0."""
        return int(self.low > margin) - int(self.high < -margin)


def share_of_positives(n_positive: int, n: int, confidence: float) -> Range:
    """Return the share of positives with its Wilson interval."""
    share = n_positive / n
    return Range(share, *wilson_interval(share, n, quantile(confidence)))


def unsigned_gap(
    curve: EqualityCurve | Corners, sizes: tuple[int, int], confidence: float
) -> Range:
    """Return the area between curve and diagonal, with an interval that allows for chance."""
    value = cast("float", curve.unsigned_gap.value)
    z = -NormalDist().inv_cdf((1 - confidence) / TAIL / 2)
    chance = z * math.sqrt((1 / sizes[0] + 1 / sizes[1]) / 12)
    return Range(value, max(value - chance, 0.0), min(value + chance, 0.5))


def kind_of_gap(aeg: Range, unsigned: Range, curve: Corners, *, shift: float, spread: float) -> Gap:
    """Say how the subgroup's scores of one class differ from the background's.

    `shift` and `spread` are the margins for the signed and the unsigned area.
    """
    if unsigned.beyond(spread) and abs(aeg.value) < unsigned.value / 2:
        x, y = curve.background_rate, curve.subgroup_rate
        above, early = y - x, 0.5 - x
        # Wider: above the diagonal at strict thresholds, where x is small, and then below it.
        # The integral of above * early, both of which are linear between corners.
        ends = above[1:] * early[1:] + above[:-1] * early[:-1]
        crossed = above[1:] * early[:-1] + above[:-1] * early[1:]
        tilt = float(np.sum(np.diff(x) * (2 * ends + crossed)))
        return "wider" if tilt > 0 else "narrower"
    kinds: dict[int, Gap] = {1: "higher", -1: "lower", 0: "alike"}
    return kinds[aeg.beyond(shift)]
