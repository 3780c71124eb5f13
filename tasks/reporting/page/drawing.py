"""Coordinates of what a page draws: intervals on a common axis, and histograms.

Everything is drawn as SVG without styles, so that the page's style sheet decides on colours, in
light and dark and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup

from biasgate.tasks.records import ClassScores, GroupScores
from biasgate.tasks.reporting.tables import format_minus

WIDTH, HEIGHT = 200, 60
# A diamond fails a check, a square lacks evidence.
Shape = Literal["dot", "diamond", "square"]
_SHAPES: dict[Shape, str] = {
    "dot": '<circle class=d cx="{}"/>',
    "diamond": '<path class=d d="M{} 1l4 4-4 4-4-4z"/>',
    "square": '<path class="d q" d="M{} 3m-2 0h4v4h-4z"/>',
}


@dataclass(frozen=True)
class Axis:
    """What the left and the right end of a drawing mean."""

    low: float
    high: float

    def at(self, value: float, width: int = 100) -> str:
        """Return the place of a value from 0 to `width`; values beyond an end are drawn there."""
        share = (value - self.low) / (self.high - self.low)
        return f"{width * min(max(share, 0.0), 1.0):.3g}"

    @property
    def ends(self) -> str:
        """The two ends, in words for a heading."""
        low, high = (format_minus(f"{one:g}") for one in (self.low, self.high))
        return f"drawn from {low} to {high}"

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


def draw_interval(
    axis: Axis,
    ends: tuple[float, float | None, float | None],
    *,
    limits: Sequence[float] = (),
    rival: float | None = None,
    shape: Shape = "dot",
    width: int = 100,
) -> Markup:
    """Draw a value with its interval, limits and a rival's value, as SVG of so many pixels.

    Only the rival is hollow.
    """
    value, low, high = ends
    parts = [f'<path class=l d="M{axis.at(limit, width)} 0v10"/>' for limit in limits]
    if low is not None and high is not None:
        ends_at = axis.at(low, width), axis.at(high, width)
        parts.append(f'<path class=i d="M{ends_at[0]} 5H{ends_at[1]}"/>')
    if rival is not None:
        parts.append(f'<circle class=c cx="{axis.at(rival, width)}"/>')
    parts.append(_SHAPES[shape].format(axis.at(value, width)))
    inner = Markup("").join(map(Markup, parts))
    return Markup("<svg aria-hidden=true>{}</svg>").format(inner)


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
    shares = [_scale_counts(rows) for one in classes for rows in (one.counts, one.background)]
    most = max((share for one in shares for share in one), default=0.0) or 1.0
    harmless, harmless_background, toxic, toxic_background = shares
    return Histogram(
        harmless=_draw_steps(harmless, most, closed=True),
        toxic=_draw_steps(toxic, most, closed=True),
        harmless_background=_draw_steps(harmless_background, most),
        toxic_background=_draw_steps(toxic_background, most),
        threshold="" if threshold is None else f"M{_locate_score(threshold, edges)} 0V{HEIGHT}",
    )


def draw_line(values: Sequence[float]) -> str:
    """Draw a number over the nights, between its lowest and its highest value."""
    low, width = min(values), max(values) - min(values) or 1.0
    step = WIDTH / max(len(values) - 1, 1)
    points = [
        f"{at * step:.4g} {HEIGHT - 4 - (HEIGHT - 8) * (value - low) / width:.3g}"
        for at, value in enumerate(values)
    ]
    return f"M{'L'.join(points)}"


def _locate_score(value: float, edges: Sequence[float]) -> str:
    """Return where a score lies among bins that are drawn equally wide."""
    places = np.linspace(0, WIDTH, len(edges))
    return f"{np.interp(value, edges, places):.4g}"


def is_empty(scores: GroupScores) -> bool:
    """Whether an identity has no rows."""
    classes: tuple[ClassScores, ...] = scores.negative, scores.positive
    return not any(one.n for one in classes)


def _scale_counts(counts: Sequence[float]) -> list[float]:
    total = math.fsum(counts)
    return [math.sqrt(count / total) for count in counts] if total else []


def _draw_steps(heights: Sequence[float], most: float, *, closed: bool = False) -> str:
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
