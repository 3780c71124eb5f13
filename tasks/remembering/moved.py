"""Identities whose numbers changed significantly over the nights, from the stored numbers.

The last night is compared with the first night in view. Each number has an interval at the joint
confidence of its night (Bonferroni over all numbers of the night). The interval of a difference
follows from both intervals (MOVER: Zou and Donner 2008, Statistics in Medicine 27), for independent
nights. Nights that share comments are positively correlated, so that their difference varies less
and the interval is conservative. If neither comments nor model changed, the difference is exactly 0
and no identity is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import NormalDist

from bias_metrics.families import bonferroni_level
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.records.trend import Night, NotCompared, Remembered

ALPHA = 0.05
"""Chance that a trend names any identity although no identity changed."""
Interval = tuple[float, float, float]
"""A number, and the ends of its interval."""
_BARS = "▁▂▃▄▅▆▇█"
_NEW = "no earlier night of this candidate on this set with the same options"


def compute_family_level(n_numbers: int) -> float:
    """Return the confidence at which the two-sided intervals of `n_numbers` hold jointly."""
    return bonferroni_level(n_numbers, ALPHA / 2)


@dataclass(frozen=True)
class Moved:
    """The number of an identity with the largest significant change over the nights."""

    candidate: str
    evaluation_set: str
    group: str
    metric: str
    values: tuple[float, ...]
    """The value in each night, the oldest first."""
    n_more: int = 0
    """Number of other numbers of the identity that changed significantly."""

    @property
    def is_worse(self) -> bool:
        """True if the number got worse; a gap gets worse if its size grows."""
        first, last = self.values[0], self.values[-1]
        return abs(last) > abs(first) if METRICS[self.metric].is_gap else last < first

    @property
    def texts(self) -> list[str]:
        """The values as texts."""
        return [f"{value:{'+' if METRICS[self.metric].is_gap else ''}.3f}" for value in self.values]

    @property
    def bars(self) -> str:
        """The values as a bar chart of text, from the lowest to the highest value."""
        low, width = min(self.values), max(self.values) - min(self.values) or 1.0
        return "".join(
            _BARS[round((value - low) / width * (len(_BARS) - 1))] for value in self.values
        )

    @property
    def sentence(self) -> str:
        """The change as a sentence."""
        more = f" (and {self.n_more:,} more of its numbers)" if self.n_more else ""
        return (
            f"{self.group} got {'worse' if self.is_worse else 'better'} with {self.candidate} on "
            f"{self.evaluation_set}: {METRICS[self.metric].title} {self.texts[0]} -> "
            f"{self.texts[-1]} in {len(self.values):,} nights{more}."
        )


@dataclass(frozen=True)
class _Pair:
    """A candidate on a set in the last night, and in the earlier nights."""

    tonight: Remembered
    confidence: float
    """Confidence of the joint intervals of the last night."""
    before: tuple[tuple[float, Remembered], ...]
    """Earlier nights, the oldest first, each with the confidence of its joint intervals."""

    @property
    def numbers(self) -> Iterator[tuple[str, str, str]]:
        """Key, metric and identity of the numbers of identities."""
        for key in self.tonight.numbers:
            metric, _, group = key.partition("/")
            if metric in SUBGROUP_METRICS:
                yield key, metric, group

    def find_lack(self, key: str) -> str | None:
        """Return the reason why a number cannot be compared; None if it can."""
        if not self.before:
            return _NEW
        for remembered in (self.tonight, self.before[0][1]):
            if key not in remembered.joint:
                return remembered.reasons.get(key, "not measured in both nights")
        return None


def find_moves(nights: Sequence[Night]) -> list[Moved]:
    """Return the identities with a significant change until the last night, the worse ones first.

    All numbers of all identities, candidates and sets form one family. So if no identity changed,
    at most a fraction `ALPHA` of trends names any identity.
    """
    compared = [
        (pair, key, metric, group)
        for pair in _pair_nights(nights)
        for key, metric, group in pair.numbers
        if pair.find_lack(key) is None
    ]
    level = compute_family_level(len(compared))
    moves_by_group: dict[tuple[str, str, str], list[tuple[float, Moved]]] = {}
    for pair, key, metric, group in compared:
        confidence, first = pair.before[0]
        before = _read_interval(first, key, confidence, level)
        now = _read_interval(pair.tonight, key, pair.confidence, level)
        size = abs(measure_change(before, now))
        if size > 1:
            earlier = [night.numbers.get(key, [None])[0] for _, night in pair.before]
            values = (*(value for value in earlier if value is not None), now[0])
            place = pair.tonight.candidate, pair.tonight.evaluation_set, group
            moves_by_group.setdefault(place, []).append((size, Moved(*place, metric, values)))
    moves = []
    for sized_moves in moves_by_group.values():
        _, largest = max(sized_moves, key=itemgetter(0))
        moves.append(replace(largest, n_more=len(sized_moves) - 1))
    return sorted(
        moves, key=lambda move: (not move.is_worse, -abs(move.values[-1] - move.values[0]))
    )


def find_not_compared(nights: Sequence[Night]) -> list[NotCompared]:
    """Return the identities of the last night with numbers that cannot be compared, by reason."""
    not_compared = []
    for pair in _pair_nights(nights):
        groups_by_reason: dict[str, dict[str, None]] = {}
        for key, _, group in pair.numbers:
            if (reason := pair.find_lack(key)) is not None:
                groups_by_reason.setdefault(reason, {})[group] = None
        not_compared += [
            NotCompared(
                candidate=pair.tonight.candidate,
                evaluation_set=pair.tonight.evaluation_set,
                identities=list(groups),
                reason=reason,
            )
            for reason, groups in groups_by_reason.items()
        ]
    return not_compared


def _pair_nights(nights: Sequence[Night]) -> Iterator[_Pair]:
    """Pair each candidate and set of the last night with its earlier nights."""
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


def _read_interval(remembered: Remembered, key: str, confidence: float, level: float) -> Interval:
    """Return a number with its interval, widened if its confidence is below `level`."""
    value = remembered.numbers[key][0]
    assert value is not None  # noqa: S101 - it has an interval
    low, high = remembered.joint[key]
    factor = 1.0
    if confidence < level:
        quantile = NormalDist().inv_cdf
        factor = quantile((1 + level) / 2) / quantile((1 + confidence) / 2)
    return value, value - factor * (value - low), value + factor * (high - value)


def measure_change(before: Interval, now: Interval) -> float:
    """Return a change in units of the half-width of its interval (MOVER).

    A change beyond -1 or 1 is significant. The intervals must be from independent rows.
    """
    change = now[0] - before[0]
    if change < 0:
        half_width = math.hypot(before[0] - before[1], now[2] - now[0])
    else:
        half_width = math.hypot(before[2] - before[0], now[0] - now[1])
    return change / half_width if half_width else 0.0
