"""Spread of a metric over subgroups: the highest value minus the lowest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bias_metrics._core.ranks import Floats
from bias_metrics._core.tables import Tabular
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.metrics import METRICS
from bias_metrics.worst import HasCounts

_BLOCK = 256  # number of subgroups whose pairs with all others are computed at once


@dataclass(frozen=True)
class SubgroupSpread(Tabular):
    """The highest value of a metric among subgroups, minus the lowest."""

    metric: str
    """The metric."""
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
    counts: Mapping[str | None, HasCounts],
    confidence: float,
) -> SubgroupSpread:
    """Return the highest value of a metric among groups minus the lowest, with an interval.

    Among many groups that are treated alike, values differ by chance. The interval allows for this:
    its lower end is above 0 only if two groups differ significantly. For a gap, the highest value
    may be above 0 and the lowest below.

    Parameters
    ----------
    metric : str
        The metric.
    cells : mapping of str to MetricValue
        Its measured value for each group, since intervals at another confidence are needed.
    counts : mapping of str to RowCounts
        Row counts by group, and of all rows under None.
    confidence : float
        Confidence of the interval.

    Raises
    ------
    ValueError
        As `MetricValue.change_confidence`.

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


def _compute_correlations(metric: str, groups: list[HasCounts], everyone: HasCounts) -> Floats:
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
