"""Two nights of counts, which share no row: their numbers, and how sure a change is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bias_metrics._core.covariance import Joint
from bias_metrics._core.differences import paired
from bias_metrics.binned.counts import ScoreCounts
from bias_metrics.binned.report import Cell, compared
from bias_metrics.drift.nights import OVERALL, Key
from bias_metrics.rows import Background
from bias_metrics.thresholds.shares import Share, ShareGap

FINEST = 1e-12
"""No p-value of one number is smaller: quantiles beyond it are rounding errors."""
_STEPS = 16
"""Halvings of the logarithm: a p-value is right to less than one part in a thousand."""
_UNRELATED = Joint(0.0, (0.0, 0.0, 0.0, 0.0))
Ends = tuple[float, float]


@dataclass(frozen=True)
class Moved:
    """A number on both nights, and between which ends its change is at a confidence."""

    before: float | None
    now: float | None
    n_least: int
    """Rows of its smallest class, of both nights together."""
    interval: Callable[[float], Ends | None]

    def p_value(self) -> float:
        """Return the smallest chance of error at which the interval leaves out 0."""
        low, high = FINEST, 1.0
        for _ in range(_STEPS):
            middle = (low * high) ** 0.5
            ends = self.interval(1 - middle)
            assert ends is not None  # noqa: S101 - it is judged
            if ends[0] <= 0 <= ends[1]:
                low = middle
            else:
                high = middle
        return high


def metrics_of(
    before: ScoreCounts, now: ScoreCounts, background: Background
) -> Iterator[tuple[Key, Moved]]:
    """Yield the metrics. Where scores share bins, intervals hold what binning leaves open."""
    cells = [counts.cells(background) for counts in (before, now)]
    nights = [compared(counts, background) for counts in (before, now)]
    for (key, *rows), (_, *others) in zip(*nights, strict=True):
        old, new = (of_night[key] for of_night in cells)
        sizes = [int(x.sum()) + int(y.sum()) for x, y in zip(rows, others, strict=True)]
        first, second = (cell.binned.at(None).value for cell in (old, new))
        name, metric = key
        yield (metric, name or OVERALL), Moved(first, second, min(sizes), _between(old, new))


def _between(old: Cell, new: Cell) -> Callable[[float], Ends | None]:
    def interval(confidence: float) -> Ends | None:
        a, b = (cell.binned.at(confidence) for cell in (new, old))
        if a.std_error is None or b.std_error is None:
            return None
        ends = paired(a, b, _UNRELATED, confidence, small=True).ends
        assert ends is not None  # noqa: S101
        slack = old.slack + new.slack
        return ends[0] - slack, ends[1] + slack

    return interval


def data_of(before: ScoreCounts, now: ScoreCounts) -> Iterator[tuple[Key, Moved]]:
    """Yield the shares of toxic rows and of subgroups."""
    of_nights = [
        {None: counts.everyone.sum(axis=-1).tolist()}
        | {
            name: own.sum(axis=-1).tolist()
            for name, own in zip(counts.names, counts.subgroups, strict=True)
        }
        for counts in (before, now)
    ]
    for name in of_nights[0]:
        if name is not None:
            yield ("share", name), _share(*((sum(of[name]), sum(of[None])) for of in of_nights))
        toxic = ((of[name][0], sum(of[name])) for of in of_nights)
        yield ("toxic_share", name or OVERALL), _share(*toxic)


def _share(before: tuple[int, int], now: tuple[int, int]) -> Moved:
    """Return how many rows have an event, of how many."""
    old, new = (Share(n, (events,), events) for events, n in (before, now))
    gap = ShareGap(new, old, "rows")

    def interval(confidence: float) -> Ends | None:
        found = gap.measure(confidence)
        return None if found.low is None or found.high is None else (found.low, found.high)

    first, second = (share.value(0) if share.n else None for share in (old, new))
    events = before[0] + now[0]
    return Moved(first, second, min(events, before[1] + now[1] - events), interval)
