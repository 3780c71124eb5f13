"""Which identities' numbers moved over the nights by more than chance, in words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.records.trend import Night, Remembered

ALPHA = 0.01
"""The chance that any number is wrongly said to have moved."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Moved:
    """The number of an identity that moved most since the first night that is known."""

    candidate: str
    evaluation_set: str
    group: str
    metric: str
    values: tuple[float, ...]
    """In each night, the oldest first."""
    since: int
    """The first night from which on the move is shown in every night."""
    n_more: int = 0
    """How many other numbers of the identity moved, too."""

    @property
    def is_worse(self) -> bool:
        """Whether it got worse; a gap does if its size grows."""
        first, last = self.values[0], self.values[-1]
        return abs(last) > abs(first) if METRICS[self.metric].is_gap else last < first

    @property
    def texts(self) -> list[str]:
        """The values as texts."""
        return [f"{one:{'+' if METRICS[self.metric].is_gap else ''}.3f}" for one in self.values]

    @property
    def bars(self) -> str:
        """The values as bars, between the lowest and the highest."""
        low, width = min(self.values), max(self.values) - min(self.values) or 1.0
        return "".join(_BARS[round((one - low) / width * (len(_BARS) - 1))] for one in self.values)

    @property
    def sentence(self) -> str:
        """What happened."""
        more = f" (and {self.n_more:,} more of its numbers)" if self.n_more else ""
        return (
            f"{self.group} got {'worse' if self.is_worse else 'better'} with {self.candidate} on "
            f"{self.evaluation_set}: {METRICS[self.metric].title} {self.texts[0]} -> "
            f"{self.texts[-1]} in {len(self.values):,} nights, "
            f"shown since night {self.since}{more}."
        )


def moved(nights: Sequence[Night], alpha: float = ALPHA) -> list[Moved]:
    """Return the identities that moved until the last night, those that got worse first.

    The first known night of a candidate on a set is compared with each later one, also if the
    candidate was trained again. Intervals count as independent: where nights share comments, a
    move is shown later than it could be. The bounds of all comparisons hold together.
    """
    measured = [night for night in nights if night.models]
    tonight = measured[-1].models if measured else []
    series = [found for one in tonight for found in _series(one, measured)]
    n = sum(len(values) - 1 for *_, values in series)
    if not n:
        return []
    reach = NormalDist().inv_cdf(1 - alpha / (2 * n)) / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    of_groups: dict[tuple[str, str, str], list[tuple[float, Moved]]] = {}
    for one, metric, group, values in series:
        (_, first), *later = values
        sizes = [(night, _size(first, value)) for night, value in reversed(later)]
        way = math.copysign(1.0, sizes[0][1])  # a move back ends what is shown
        since = list(itertools.takewhile(partial(_is_shown, way, reach), sizes))
        if since:
            numbers = tuple(value[0] for _, value in values)
            place = one.candidate, one.evaluation_set, group
            number = Moved(*place, metric, numbers, since[-1][0])
            of_groups.setdefault(place, []).append((abs(sizes[0][1]), number))
    largest = []
    for numbers_of_group in of_groups.values():
        _, most = max(numbers_of_group, key=lambda pair: pair[0])
        largest.append(replace(most, n_more=len(numbers_of_group) - 1))
    return sorted(largest, key=lambda one: (not one.is_worse, -abs(one.values[-1] - one.values[0])))


def _is_shown(way: float, reach: float, size: tuple[int, float]) -> bool:
    return size[1] * way > reach


_Known = tuple[float, float, float]


def _series(
    one: Remembered, measured: Sequence[Night]
) -> Iterator[tuple[Remembered, str, str, list[tuple[int, _Known]]]]:
    """Yield the numbers with intervals of a candidate's identities, by night."""
    place = one.candidate, one.evaluation_set, one.digests.options
    same = [
        (night.number, other)
        for night in measured
        for other in night.models
        if (other.candidate, other.evaluation_set, other.digests.options) == place
    ]
    for key in one.numbers:
        metric, _, group = key.partition("/")
        if metric not in SUBGROUP_METRICS:
            continue
        values = []
        for number, other in same:
            value, low, high = other.numbers.get(key, [None] * 3)
            if value is not None and low is not None and high is not None:
                values.append((number, (value, low, high)))
        if len(values) > 1 and values[-1][0] == measured[-1].number:
            yield one, metric, group, values


def _size(first: _Known, later: _Known) -> float:
    """Return a change in units of the half width of its interval (MOVER)."""
    if later[0] < first[0]:
        width = math.hypot(first[0] - first[1], later[2] - later[0])
    else:
        width = math.hypot(first[2] - first[0], later[0] - later[1])
    return (later[0] - first[0]) / width if width else 0.0
