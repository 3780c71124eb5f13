"""How far subgroups are apart: the highest value of a metric minus the lowest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bias_metrics._core.ranks import Floats
from bias_metrics._core.tables import Tabular
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import METRICS
from bias_metrics.worst import HasCounts

_BLOCK = 256  # subgroups whose pairs with all others are looked at at once


@dataclass(frozen=True)
class SubgroupSpread(Tabular):
    """The highest value of one metric among subgroups, minus the lowest."""

    metric: str
    """The metric."""
    value: MetricValue
    """The difference, at least 0 (ideal 0), with its interval: the lowest bound holds for all pairs
    of subgroups together. Undefined with fewer than two subgroups."""
    lowest: str | None
    highest: str | None
    """lowest, highest: the subgroups with these values."""
    undefined: dict[str, str]
    """The subgroups that are left out for lack of an interval, each with its reason."""


def spread_of(
    metric: str,
    cells: Mapping[str, MetricValue],
    counts: Mapping[str | None, HasCounts],
    confidence: float,
) -> SubgroupSpread:
    """Return how far groups are apart: the highest value of a metric minus the lowest.

    Of many groups that are treated alike, one looks worst and one best by chance. The interval
    allows for that: its lower end is above 0 only if some two groups significantly differ. Of a gap
    the highest may be above 0 and the lowest below.

    Parameters
    ----------
    metric : str
        The metric.
    cells : mapping of str to MetricValue
        Its value for each group, as measured: intervals at another confidence are computed.
    counts : mapping of str to RowCounts
        Rows of each group, and of all rows under None.
    confidence : float
        Confidence of the interval.

    Raises
    ------
    ValueError
        As `MetricValue.at`.

    Notes
    -----
    The bounds of a pair's difference follow from both groups' own bounds (MOVER), as if their
    numbers were not correlated; those of AUCs share rows, which only makes the bounds safe, and
    for gaps each group is in the background of the other, which is allowed for. The lower end
    is the largest lower bound, each at Bonferroni's level for all ordered pairs. The upper end is
    the largest upper bound, each at its own level, since it only has to hold for the two groups
    that are farthest apart in truth.

    References
    ----------
    Zou and Donner (2008), Statistics in Medicine 27 (method of variance estimates recovery).
    """
    alone = {name: cell.at(confidence) for name, cell in cells.items()}
    lacking = {name: one.reason or "no interval" for name, one in alone.items() if one.low is None}
    names = [name for name in alone if name not in lacking]
    if len(names) < 2:
        reason = "fewer than two subgroups with an interval"
        return SubgroupSpread(metric, undefined(reason), None, None, lacking)
    jointly = 1 - (1 - confidence) / (len(names) * (len(names) - 1))
    tied = _tied(metric, [counts[name] for name in names], counts[None])
    joint = [cells[name].at(jointly) for name in names]
    values, down, up = _reaches(joint)
    low = max(0.0, *_ends(values, down, up, tied, sign=-1))
    values, down, up = _reaches([alone[name] for name in names])
    largest = 1.0 if not METRICS[metric].is_gap else 2 * METRICS[metric].largest
    high = min(largest, max(_ends(values, up, down, tied, sign=1)))
    least, most = int(np.argmin(values)), int(np.argmax(values))
    value = MetricValue(float(values[most] - values[least]), low=low, high=high)
    return SubgroupSpread(metric, value, names[least], names[most], lacking)


def _reaches(cells: list[MetricValue]) -> tuple[Floats, Floats, Floats]:
    """Return values, and how far their intervals reach down and up."""
    values, lows, highs = (
        np.array([getattr(value, end) for value in cells], dtype=np.float64)
        for end in ("value", "low", "high")
    )
    return values, values - lows, highs - values


def _tied(metric: str, groups: list[HasCounts], everyone: HasCounts) -> Floats:
    """Return numbers of which products are the least correlations of two groups, negated.

    A gap compares the rows of a group with the same classes of all others. Of two disjoint groups
    with shares p and q of these, each is a part of the other's background, and the correlation of
    their gaps is -sqrt(p q / ((1 - p) (1 - q))).
    """
    if not METRICS[metric].is_gap:
        return np.zeros(len(groups))
    names = [f"n_{of}" for of in METRICS[metric].classes[0]]
    n, *of_groups = (sum(getattr(rows, name) for name in names) for rows in (everyone, *groups))
    shares = np.array(of_groups) / n
    found: Floats = np.sqrt(shares / np.maximum(1 - shares, math.ulp(1.0)))
    return found


def _ends(
    values: Floats, of_higher: Floats, of_lower: Floats, tied: Floats, *, sign: int
) -> Iterator[float]:
    """Yield the largest end of the differences to all others, some subgroups at a time."""
    for start in range(0, values.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        a, b = of_higher[part, None], of_lower[None, :]
        together = 2 * np.minimum(tied[part, None] * tied[None, :], 1) * a * b
        ends = values[part, None] - values[None, :] + sign * np.sqrt(a**2 + b**2 + together)
        np.fill_diagonal(ends[:, start:], -np.inf)
        yield float(ends.max())
