"""Coordinates of what a page draws: intervals on a common axis, and histograms.

Everything is drawn as SVG without styles, so that the page's style sheet decides on colours, in
light and dark and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from biasgate.tasks.records import ClassScores, GroupScores
from biasgate.tasks.reporting.tables import plus_minus

WIDTH, HEIGHT = 200, 60
_REACH = 2.4  # of a dot


@dataclass(frozen=True)
class Axis:
    """What the left and the right end of a drawing mean."""

    low: float
    high: float

    def at(self, value: float) -> str:
        """Return the place of a value from 0 to 100; values beyond an end are drawn there."""
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(max(share, 0.0), 1.0):.4g}"

    @property
    def ends(self) -> str:
        """The two ends, in words for a heading."""
        return plus_minus(f"{self.low:g} to {self.high:g}")

    @classmethod
    def of_aucs(cls, found: Iterable[float | None]) -> Axis:
        """Return an axis up to 1, from 0.5 or less."""
        lowest = min((one for one in found if one is not None), default=0.5)
        return cls(min(0.5, math.floor(10 * lowest) / 10), 1.0)

    @classmethod
    def around_zero(cls, found: Iterable[float | None], step: float) -> Axis:
        """Return an axis with 0 in the middle, whose ends are multiples of a step."""
        most = max((abs(one) for one in found if one is not None), default=0.0)
        end = round(max(math.ceil(most / step - 1e-9), 1) * step, 6)
        return cls(-end, end)


@dataclass(frozen=True)
class Strip:
    """One interval on its axis."""

    limits: tuple[str, ...]
    """Places of the limits of the policy."""
    zero: str | None
    """Place of 0, if 0 is best."""
    line: str | None
    dot: str
    """SVG paths of the interval and of the value."""


def draw_strip(
    axis: Axis,
    ends: tuple[float, float | None, float | None],
    limits: Sequence[float] = (),
    *,
    diamond: bool = False,
) -> Strip:
    """Draw a value and its interval; a diamond marks one that fails a check."""
    value, low, high = ends
    line = None
    if low is not None and high is not None:
        line = f"M{axis.at(low)} 5H{axis.at(high)}"
    zero = axis.at(0.0) if axis.low < 0 < axis.high else None
    dot = shape_at(axis.at(value), diamond=diamond)
    return Strip(tuple(axis.at(one) for one in limits), zero, line, dot)


def shape_at(place: str, *, diamond: bool) -> str:
    """Return the path of a diamond, or of a dot, at a place."""
    if diamond:
        return f"M{place} 1l4 4l-4 4l-4-4z"
    return f"M{place} 5m-{_REACH} 0a{_REACH} {_REACH} 0 1 0 4.8 0a{_REACH} {_REACH} 0 1 0-4.8 0z"


@dataclass(frozen=True)
class Histogram:
    """The scores of an identity by class, over those of its background: SVG paths.

    `threshold` is a line at the threshold, if there is one.
    """

    harmless: str
    toxic: str
    harmless_background: str
    toxic_background: str
    threshold: str


def draw_histogram(
    scores: GroupScores, edges: Sequence[float], threshold: float | None
) -> Histogram:
    """Draw the shares of rows by bin on a square root scale; all bins are drawn equally wide."""
    classes = scores.negative, scores.positive
    shares = [_densities(rows) for one in classes for rows in (one.counts, one.background)]
    most = max((share for one in shares for share in one), default=0.0) or 1.0
    harmless, harmless_background, toxic, toxic_background = shares
    return Histogram(
        harmless=_steps(harmless, most, closed=True),
        toxic=_steps(toxic, most, closed=True),
        harmless_background=_steps(harmless_background, most),
        toxic_background=_steps(toxic_background, most),
        threshold="" if threshold is None else f"M{_place(threshold, edges)} 0V{HEIGHT}",
    )


def _place(value: float, edges: Sequence[float]) -> str:
    """Return where a score lies among bins that are drawn equally wide."""
    places = np.linspace(0, WIDTH, len(edges))
    return f"{np.interp(value, edges, places):.4g}"


def is_empty(scores: GroupScores) -> bool:
    """Whether an identity has no rows."""
    classes: tuple[ClassScores, ...] = scores.negative, scores.positive
    return not any(one.n for one in classes)


def _densities(counts: Sequence[float]) -> list[float]:
    total = math.fsum(counts)
    return [math.sqrt(one / total) for one in counts] if total else []


def _steps(heights: Sequence[float], most: float, *, closed: bool = False) -> str:
    if not heights:
        return ""
    width = WIDTH / len(heights)
    parts = [f"M0 {HEIGHT}"]
    last = None
    for number, height in enumerate(heights):
        top = f"{HEIGHT - (HEIGHT - 2) * height / most:.3g}"
        if top != last:
            parts.append(f"{f'H{number * width:g}' if number else ''}V{top}")
        last = top
    return "".join([*parts, f"H{WIDTH}V{HEIGHT}", "z" if closed else ""])
