"""The subgroup with the worst value of a metric, and the spread of a metric over subgroups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bias_metrics._core.ranks import Floats
from bias_metrics._core.tables import Tabular
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.families import Bounded, bound_largest_gap, bound_worst, measure_size
from bias_metrics.metrics import AUCS, METRICS
from bias_metrics.rows import RowCounts

# Values closer than this are equally bad.
_ROUNDING = 1e-12
_OF_SIZE = "its sign is uncertain; its size is between size_low and size_high"


@dataclass(frozen=True)
class WorstSubgroup(Tabular):
    """The subgroup with the worst value of a metric."""

    metric: str
    subgroup: str | None
    """Its name; None if the metric is undefined for every subgroup."""
    value: MetricValue
    """Its value, signed for an AEG. For an AUC, with the interval of the worst of all: from the
    worst lower bound to the worst of the joint upper bounds. The subgroup's own interval would be
    too narrow, since the worst of many is bad partly by chance."""
    n_positive: int
    n_negative: int
    """n_positive, n_negative: number of its rows by class; 0 without a subgroup."""
    tied: tuple[str, ...]
    """Other subgroups with an equally bad value."""
    undefined: dict[str, str]
    """Subgroups that cannot be compared, with reasons."""
    size_low: float | None = None
    size_high: float | None = None
    """size_low, size_high: for a gap, the interval of the largest size, whatever the sign. `value`
    has no interval if two gaps of nearly equal size have opposite signs."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; sizes only if defined."""
        sizes = {"size_low": self.size_low, "size_high": self.size_high}
        return {
            "metric": self.metric,
            "subgroup": self.subgroup,
            **self.value.to_dict(interval=True),
            **({} if self.size_low is None else sizes),
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "tied": list(self.tied),
            "undefined": dict(self.undefined),
        }


def find_worst(
    metric: str,
    cells: Mapping[str, MetricValue],
    counts: Mapping[str | None, RowCounts],
    confidence: float,
) -> WorstSubgroup:
    """Return the group with the worst value of a metric.

    It is the group with the lowest AUC, or the gap farthest from 0 on either side. The worst of
    many estimates overstates the harm, especially if groups are small: see the counts. The first of
    several equal groups is returned. The value has no interval if any group lacks an interval.

    References
    ----------
    Sagawa et al. (2020), Distributionally Robust Neural Networks for Group Shifts, section 2
    (the worst group). Koh et al. (2021), WILDS, on Civil Comments.
    """
    reasons = {name: str(cell.reason) for name, cell in cells.items() if cell.value is None}
    values = {name: cell.value for name, cell in cells.items() if cell.value is not None}
    if not values:
        reason = "undefined for every subgroup" if cells else "no subgroups"
        return WorstSubgroup(metric, None, make_undefined(reason), 0, 0, (), reasons)
    gap = METRICS[metric].is_gap
    badness = {name: abs(value) if gap else -value for name, value in values.items()}
    most = max(badness.values()) - _ROUNDING
    worst, *tied = [name for name, bad in badness.items() if bad >= most]
    value, ends = _add_interval(values[worst], cells, confidence, gap=gap)
    n_positive, n_negative = counts[worst].n_positive, counts[worst].n_negative
    return WorstSubgroup(metric, worst, value, n_positive, n_negative, tuple(tied), reasons, *ends)


def sort_worst_first(subgroups: Mapping[str, Mapping[str, MetricValue]]) -> list[str]:
    """Sort subgroups by their worst AUC, the worst first.

    The order is that of the lowest upper bound, so that a subgroup of a few unlucky rows does not
    come before a subgroup with evidence. Subgroups without an interval come next, by their lowest
    AUC, then subgroups without an AUC.

    Examples
    --------
    >>> from bias_metrics import evaluate_bias
    >>> is_toxic, scores = [0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.8, 0.7, 0.9, 0.6]
    >>> subgroups = {"gay": [0, 1, 0, 0, 1, 0], "muslim": [0, 0, 1, 1, 0, 0]}
    >>> sort_worst_first(evaluate_bias(is_toxic, scores, subgroups).subgroups)
    ['muslim', 'gay']
    """

    def badness(name: str) -> tuple[bool, float, float]:
        cells = [subgroups[name][metric] for metric in AUCS]
        bounds = [cell.high for cell in cells if cell.high is not None]
        values = [cell.value for cell in cells if cell.value is not None]
        return not bounds, min(bounds, default=1.0), min(values, default=2.0)

    return sorted(subgroups, key=badness)


def _add_interval(
    value: float, cells: Mapping[str, MetricValue], confidence: float, *, gap: bool
) -> tuple[MetricValue, tuple[float | None, float | None]]:
    """Return the worst value with its interval, and the interval of a gap's size."""
    family, signed = [], []
    for name, cell in cells.items():
        if cell.value is None or cell.low is None or cell.high is None:
            reason = cell.reason and f"{name}: {cell.reason}"
            return MetricValue(value, reason), (None, None)
        own = Bounded(cell.value, cell.low, cell.high)
        family.append(measure_size(own) if gap else own)
        signed.append(own)
    low, high = bound_worst(family, confidence, worse_is_up=gap)
    if not gap:
        return MetricValue(value, low=low, high=min(high, 1.0)), (None, None)
    sizes = max(low, 0.0), high
    ends = bound_largest_gap(signed, confidence)
    if ends is None:
        return MetricValue(value, _OF_SIZE), sizes
    return MetricValue(value, low=ends[0], high=ends[1]), sizes


# ---- The highest value minus the lowest


_BLOCK = 256  # number of subgroups whose pairs with all others are computed at once


@dataclass(frozen=True)
class SubgroupSpread(Tabular):
    """The highest value of a metric among subgroups, minus the lowest."""

    metric: str
    value: MetricValue
    """The difference, at least 0 (ideal 0), with its interval. The lower bound holds jointly for
    all pairs of subgroups. Undefined with fewer than two subgroups."""
    lowest: str | None
    highest: str | None
    """lowest, highest: the subgroups with these values."""
    undefined: dict[str, str]
    """Subgroups that are left out because they have no interval, with reasons."""


def measure_spread(
    metric: str,
    cells: Mapping[str, MetricValue],
    counts: Mapping[str | None, RowCounts],
    confidence: float,
) -> SubgroupSpread:
    """Return the highest value of a metric among groups minus the lowest, with an interval.

    Among many groups that are treated alike, values differ by chance. The interval allows for this:
    its lower end is above 0 only if two groups differ significantly. For a gap, the highest value
    may be above 0 and the lowest below. Intervals at another confidence are needed, so the groups
    must be measured and not read from a file.

    Notes
    -----
    The bounds of a pair's difference follow from both groups' own bounds (MOVER), without
    correlation. AUCs share rows, which only makes the bounds conservative. For gaps, each group is
    in the background of the other, which is allowed for. The lower end is the largest lower bound,
    each at Bonferroni's level for all ordered pairs. The upper end is the largest upper bound, each
    at its own level, since it only has to hold for the pair with the largest true difference.

    References
    ----------
    Zou and Donner (2008), Statistics in Medicine 27 (method of variance estimates recovery).
    """
    separate = {name: cell.change_confidence(confidence) for name, cell in cells.items()}
    lacking = {
        name: number.reason or "no interval"
        for name, number in separate.items()
        if number.low is None
    }
    names = [name for name in separate if name not in lacking]
    if len(names) < 2:
        reason = "fewer than two subgroups with an interval"
        return SubgroupSpread(metric, make_undefined(reason), None, None, lacking)
    jointly = 1 - (1 - confidence) / (len(names) * (len(names) - 1))
    tied = _compute_correlations(metric, [counts[name] for name in names], counts[None])
    joint = [cells[name].change_confidence(jointly) for name in names]
    values, down, up = _compute_reaches(joint)
    low = max(0.0, *_iterate_ends(values, down, up, tied, sign=-1))
    values, down, up = _compute_reaches([separate[name] for name in names])
    largest = 1.0 if not METRICS[metric].is_gap else 2 * METRICS[metric].largest
    high = min(largest, max(_iterate_ends(values, up, down, tied, sign=1)))
    lowest, highest = int(np.argmin(values)), int(np.argmax(values))
    value = MetricValue(float(values[highest] - values[lowest]), low=low, high=high)
    return SubgroupSpread(metric, value, names[lowest], names[highest], lacking)


def _compute_reaches(cells: list[MetricValue]) -> tuple[Floats, Floats, Floats]:
    """Return values, and the distances to the lower and upper ends of their intervals."""
    values, lows, highs = (
        np.array([getattr(value, end) for value in cells], dtype=np.float64)
        for end in ("value", "low", "high")
    )
    return values, values - lows, highs - values


def _compute_correlations(metric: str, groups: list[RowCounts], everyone: RowCounts) -> Floats:
    """Return a factor per group; minus the product of two is their lowest correlation.

    A gap compares the rows of a group with the same classes of all others. Two disjoint groups with
    shares p and q of these rows are in each other's background. The correlation of the gaps is
    -sqrt(p q / ((1 - p) (1 - q))).
    """
    if not METRICS[metric].is_gap:
        return np.zeros(len(groups))
    names = [f"n_{label}" for label in METRICS[metric].classes[0]]
    n, *group_rows = (sum(getattr(rows, name) for name in names) for rows in (everyone, *groups))
    shares = np.array(group_rows) / n
    factors: Floats = np.sqrt(shares / np.maximum(1 - shares, math.ulp(1.0)))
    return factors


def _iterate_ends(
    values: Floats, of_higher: Floats, of_lower: Floats, tied: Floats, *, sign: int
) -> Iterator[float]:
    """Yield the largest end of the differences from all others, for blocks of subgroups."""
    for start in range(0, values.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        a, b = of_higher[part, None], of_lower[None, :]
        covariance = 2 * np.minimum(tied[part, None] * tied[None, :], 1) * a * b
        ends = values[part, None] - values[None, :] + sign * np.sqrt(a**2 + b**2 + covariance)
        np.fill_diagonal(ends[:, start:], -np.inf)
        yield float(ends.max())
