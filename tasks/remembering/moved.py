"""Identities that moved by more than chance over the nights, from the numbers that are kept.

The last night is compared with the first of the nights that are shown. Each number has the interval
of its night, at a confidence that allows for all numbers of that night (Bonferroni). The interval
of a difference follows from both (MOVER: Zou and Donner 2008, Statistics in Medicine 27), for
nights that are independent. Two nights that share comments are positively correlated, so that their
difference varies less, and the interval is wider than needed. If neither comments nor model
changed, the difference is exactly 0, and no identity is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from bias_metrics.families import bonferroni_level
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.records.trend import Night, NotCompared, Remembered

ALPHA = 0.05
"""The chance that a trend names any identity if nothing changed."""
Interval = tuple[float, float, float]
"""A number, and the ends of its interval."""
_BARS = "▁▂▃▄▅▆▇█"
_NEW = "no earlier night of this candidate on this set with the same options"


def family_confidence(n_numbers: int) -> float:
    """Return the confidence at which two-sided intervals of so many numbers hold together."""
    return bonferroni_level(n_numbers, ALPHA / 2)


@dataclass(frozen=True)
class Moved:
    """The number of an identity that moved most since the first of some nights."""

    candidate: str
    evaluation_set: str
    group: str
    metric: str
    values: tuple[float, ...]
    """In each night, the oldest first."""
    n_more: int = 0
    """How many other numbers of the identity moved."""

    @property
    def is_worse(self) -> bool:
        """Whether it got worse; a gap does if its size grows."""
        first, last = self.values[0], self.values[-1]
        return abs(last) > abs(first) if METRICS[self.metric].is_gap else last < first

    @property
    def texts(self) -> list[str]:
        """The values as texts."""
        return [f"{value:{'+' if METRICS[self.metric].is_gap else ''}.3f}" for value in self.values]

    @property
    def bars(self) -> str:
        """The values as bars, between the lowest and the highest."""
        low, width = min(self.values), max(self.values) - min(self.values) or 1.0
        return "".join(
            _BARS[round((value - low) / width * (len(_BARS) - 1))] for value in self.values
        )

    @property
    def sentence(self) -> str:
        """What happened."""
        more = f" (and {self.n_more:,} more of its numbers)" if self.n_more else ""
        return (
            f"{self.group} got {'worse' if self.is_worse else 'better'} with {self.candidate} on "
            f"{self.evaluation_set}: {METRICS[self.metric].title} {self.texts[0]} -> "
            f"{self.texts[-1]} in {len(self.values):,} nights{more}."
        )


@dataclass(frozen=True)
class _Pair:
    """A candidate on a set in the last night, and the nights before, the oldest first."""

    tonight: Remembered
    confidence: float
    """That of tonight's joint intervals."""
    before: tuple[tuple[float, Remembered], ...]
    """With the confidence of each night's."""

    @property
    def numbers(self) -> Iterator[tuple[str, str, str]]:
        """The keys of the identities' numbers, with metric and identity."""
        for key in self.tonight.numbers:
            metric, _, group = key.partition("/")
            if metric in SUBGROUP_METRICS:
                yield key, metric, group

    def lack(self, key: str) -> str | None:
        """Return why a number is not compared; None if it is."""
        if not self.before:
            return _NEW
        for one in (self.tonight, self.before[0][1]):
            if key not in one.joint:
                return one.reasons.get(key, "not measured in both nights")
        return None


def find_moves(nights: Sequence[Night]) -> list[Moved]:
    """Return the identities that moved until the last night, those that got worse first.

    If nothing changed, any is named in at most `ALPHA` of trends: all numbers of all identities,
    candidates and sets are one family.
    """
    compared = [
        (pair, key, metric, group)
        for pair in _pairs(nights)
        for key, metric, group in pair.numbers
        if pair.lack(key) is None
    ]
    needed = family_confidence(len(compared))
    of_groups: dict[tuple[str, str, str], list[tuple[float, Moved]]] = {}
    for pair, key, metric, group in compared:
        size = _size(pair, key, needed)
        if abs(size) > 1:
            every = [one for _, one in pair.before if one.numbers.get(key, [None])[0] is not None]
            values = tuple(one.numbers[key][0] or 0.0 for one in [*every, pair.tonight])
            place = pair.tonight.candidate, pair.tonight.evaluation_set, group
            of_groups.setdefault(place, []).append((abs(size), Moved(*place, metric, values)))
    largest = []
    for numbers in of_groups.values():
        _, most = max(numbers, key=lambda sized: sized[0])
        largest.append(replace(most, n_more=len(numbers) - 1))
    return sorted(largest, key=lambda one: (not one.is_worse, -abs(one.values[-1] - one.values[0])))


def find_not_compared(nights: Sequence[Night]) -> list[NotCompared]:
    """Return the identities of the last night with a number that is not compared, with reasons."""
    found = []
    for pair in _pairs(nights):
        reasons: dict[str, dict[str, None]] = {}
        for key, _, group in pair.numbers:
            if (reason := pair.lack(key)) is not None:
                reasons.setdefault(reason, {})[group] = None
        found += [
            NotCompared(
                candidate=pair.tonight.candidate,
                evaluation_set=pair.tonight.evaluation_set,
                identities=list(groups),
                reason=reason,
            )
            for reason, groups in reasons.items()
        ]
    return found


def _pairs(nights: Sequence[Night]) -> Iterator[_Pair]:
    measured = [night for night in nights if night.models]
    for tonight in measured[-1].models if measured else ():
        place = tonight.candidate, tonight.evaluation_set, tonight.digests.options
        before = tuple(
            (night.joint_confidence, other)
            for night in measured[:-1]
            for other in night.models
            if (other.candidate, other.evaluation_set, other.digests.options) == place
        )
        yield _Pair(tonight, measured[-1].joint_confidence, before)


def _size(pair: _Pair, key: str, needed: float) -> float:
    confidence, first = pair.before[0]
    before, now = (
        _interval(first, key, confidence, needed),
        _interval(pair.tonight, key, pair.confidence, needed),
    )
    return size_of_change(before, now)


def _interval(remembered: Remembered, key: str, confidence: float, needed: float) -> Interval:
    """Return a number's joint interval; that of a night with fewer numbers is widened a little."""
    value = remembered.numbers[key][0]
    assert value is not None  # noqa: S101 - it has an interval
    low, high = remembered.joint[key]
    wider = 1.0
    if confidence < needed:
        quantile = NormalDist().inv_cdf
        wider = quantile((1 + needed) / 2) / quantile((1 + confidence) / 2)
    return value, value - wider * (value - low), value + wider * (high - value)


def size_of_change(before: Interval, now: Interval) -> float:
    """Return a change in units of the reach of its interval: beyond 1 it is shown.

    The intervals are of independent rows.
    """
    change = now[0] - before[0]
    if change < 0:
        reach = math.hypot(before[0] - before[1], now[2] - now[0])
    else:
        reach = math.hypot(before[2] - before[0], now[0] - now[1])
    return change / reach if reach else 0.0
