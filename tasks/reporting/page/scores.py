"""The scores of each identity, drawn and in numbers, and the errors at each threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from bias_metrics.metrics import EQUAL_ERRORS, GIVEN, THRESHOLDS
from biasgate.tasks.records import RATE_OF_GAP, Curves, Details, GroupRates, GroupScores, Rates
from biasgate.tasks.reporting.page.drawing import (
    Axis,
    Histogram,
    draw_histogram,
    drawn,
    is_empty,
)
from biasgate.tasks.reporting.tables import count, percent, plus_minus, points, short, thousandths

GAPS, RATES = tuple(RATE_OF_GAP), tuple(RATE_OF_GAP.values())


@dataclass(frozen=True)
class Panel:
    """The scores of an identity: a drawing, and the same in numbers."""

    name: str
    n: str
    drawing: Histogram | None
    harmless: tuple[str, ...]
    toxic: tuple[str, ...]


def describe_scores(name: str, scores: GroupScores, details: Details) -> Panel:
    """Return the panel of one identity, or of all comments."""
    harmless, toxic = (
        (count(one.n), *map(short, one.quartiles or ()))
        for one in (scores.negative, scores.positive)
    )
    n = scores.negative.n + scores.positive.n
    drawing = None
    if not is_empty(scores):
        curves = details.curves
        threshold = None if curves is None else curves.thresholds[position_of(curves)]
        drawing = draw_histogram(scores, details.scores.edges, threshold)
    return Panel(name, count(n), drawing, harmless, toxic)


@dataclass(frozen=True)
class Gap:
    """A rate of an identity, and its distance from the rate of others in percentage points."""

    rate: str
    rate_interval: str
    gap: str
    interval: str
    strip: Markup | None


@dataclass(frozen=True)
class ExplorerRow:
    """The errors on the comments that mention an identity."""

    name: str
    gaps: tuple[Gap, Gap]


@dataclass(frozen=True)
class Explorer:
    """The errors at one threshold, and data for others."""

    thresholds: tuple[str, ...]
    """All of them, as text."""
    position: int
    """The one that the table is about."""
    named: tuple[tuple[int, str], ...]
    """Positions of the report's thresholds, with their names."""
    overall: tuple[str, str]
    """Share of harmless comments flagged, and of toxic ones missed."""
    rows: tuple[ExplorerRow, ...]
    """By identity."""
    ends: str
    """What the drawings span, in percentage points."""
    data: dict[str, Any]
    """For the script: shares in thousandths; null where undefined."""

    @property
    def threshold(self) -> str:
        """The threshold that the table is about."""
        return self.thresholds[self.position]


def explore(curves: Curves) -> Explorer:
    """Return the table at the given threshold, else at that of equal errors."""
    named, position = curves.named, position_of(curves)
    subgroups = curves.subgroups
    axis = _axis(list(subgroups.values()), position)
    overall = curves.overall
    texts = tuple(plus_minus(f"{one:.4g}") for one in curves.thresholds)
    return Explorer(
        thresholds=texts,
        position=position,
        named=tuple((at, THRESHOLDS[kind]) for kind, at in named.items()),
        overall=(
            percent(_of(overall, RATES[0])[position]),
            percent(_of(overall, RATES[1])[position]),
        ),
        rows=tuple(
            ExplorerRow(name, (_gap(one, 0, position, axis), _gap(one, 1, position, axis)))
            for name, one in subgroups.items()
        ),
        ends=plus_minus(f"{100 * axis.low:+g} to {100 * axis.high:+g} points"),
        data={
            "thresholds": texts,
            "end": thousandths(axis.high),
            "overall": [_thousandths(_of(overall, rate)) for rate in RATES],
            "rows": [
                [
                    [
                        _thousandths(_of(one, rate)),
                        *_columns(_of(one, f"{rate}_ends")),
                        *_columns(_of(one, gap)),
                    ]
                    for rate, gap in zip(RATES, GAPS, strict=True)
                ]
                for one in subgroups.values()
            ],
        },
    )


def position_of(curves: Curves) -> int:
    """Return which threshold a page starts with: the given one, else that of equal errors."""
    return curves.named.get(GIVEN, curves.named[EQUAL_ERRORS])


def _axis(subgroups: Sequence[GroupRates], position: int) -> Axis:
    """Return the axis of the gaps at one threshold; what is beyond is drawn at its end."""
    ends = [end for one in subgroups for gap in GAPS for end in _of(one, gap)[position]]
    return Axis.around_zero(ends, 0.02)


def _of(rates: Rates | GroupRates, name: str) -> Any:
    return getattr(rates, name)


def _gap(one: GroupRates, side: int, position: int, axis: Axis) -> Gap:
    value, low, high = _of(one, GAPS[side])[position]
    strip = None if value is None else drawn(axis, (value, low, high))
    shown = "" if low is None or high is None else f"[{points(low)}, {points(high)}]"
    rate, ends = (_of(one, name)[position] for name in (RATES[side], f"{RATES[side]}_ends"))
    return Gap(percent(rate), _between(*ends), points(value), shown, strip)


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{percent(low)}, {percent(high)}]"


def _columns(gaps: Sequence[Sequence[float | None]]) -> list[list[int | None]]:
    """Return values and ends at all thresholds by column."""
    return [_thousandths(column) for column in zip(*gaps, strict=True)]


def _thousandths(found: Sequence[float | None]) -> list[int | None]:
    return [None if one is None else thousandths(one) for one in found]
