"""SVG drawings of a page: intervals on a common axis, and histograms.

They have no styles: the page's style sheet sets colours, in light, in dark and on paper.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup

from biasgate.tasks.records import GroupScores
from biasgate.tasks.reporting.tables import format_minus

WIDTH, HEIGHT = 200, 60
# A diamond marks a failed check, a square a lack of evidence.
Shape = Literal["dot", "diamond", "square"]
_SHAPES: dict[Shape, str] = {
    "dot": '<circle class=d cx="{}"/>',
    "diamond": '<path class=d d="M{} 1l4 4-4 4-4-4z"/>',
    "square": '<path class="d q" d="M{} 3m-2 0h4v4h-4z"/>',
}


@dataclass(frozen=True)
class Axis:
    """The values at the left and the right end of a drawing."""

    low: float
    high: float

    def locate(self, value: float, width: int = 100) -> str:
        """Return the place of a value, from 0 to `width`; values beyond an end are at the end."""
        share = (value - self.low) / (self.high - self.low)
        return f"{width * min(max(share, 0.0), 1.0):.3g}"

    @property
    def ends(self) -> str:
        """The two ends, in words for a heading."""
        low, high = (format_minus(f"{end:g}") for end in (self.low, self.high))
        return f"drawn from {low} to {high}"

    @classmethod
    def from_aucs(cls, values: Iterable[float | None]) -> Axis:
        """Return an axis up to 1, from 0.5 or less."""
        lowest = min((value for value in values if value is not None), default=0.5)
        return cls(min(0.5, math.floor(10 * lowest) / 10), 1.0)

    @classmethod
    def from_gaps(cls, values: Iterable[float | None], step: float) -> Axis:
        """Return an axis with 0 in the middle, whose ends are multiples of a step."""
        most = max((abs(value) for value in values if value is not None), default=0.0)
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
    """Draw a value with its interval, limits and a rival's value, as SVG of `width` pixels.

    Only the rival is hollow.
    """
    value, low, high = ends
    parts = [f'<path class=l d="M{axis.locate(limit, width)} 0v10"/>' for limit in limits]
    if low is not None and high is not None:
        left, right = axis.locate(low, width), axis.locate(high, width)
        parts.append(f'<path class=i d="M{left} 5H{right}"/>')
    if rival is not None:
        parts.append(f'<circle class=c cx="{axis.locate(rival, width)}"/>')
    parts.append(_SHAPES[shape].format(axis.locate(value, width)))
    inner = Markup("").join(map(Markup, parts))
    return Markup("<svg aria-hidden=true>{}</svg>").format(inner)


@dataclass(frozen=True)
class Histogram:
    """SVG paths of the scores of an identity and its background by class."""

    harmless: str
    toxic: str
    harmless_background: str
    toxic_background: str
    threshold: str
    """A line at the threshold; empty without."""


def draw_histogram(
    scores: GroupScores, edges: Sequence[float], threshold: float | None
) -> Histogram:
    """Draw the shares of rows by bin on a square root scale; all bins are equally wide."""
    classes = scores.negative, scores.positive
    shares = [_scale_counts(rows) for side in classes for rows in (side.counts, side.background)]
    most = max(itertools.chain(*shares), default=0.0) or 1.0
    harmless, harmless_background, toxic, toxic_background = shares
    places = np.linspace(0, WIDTH, len(edges))
    place = None if threshold is None else np.interp(threshold, edges, places)
    return Histogram(
        harmless=_draw_steps(harmless, most, closed=True),
        toxic=_draw_steps(toxic, most, closed=True),
        harmless_background=_draw_steps(harmless_background, most),
        toxic_background=_draw_steps(toxic_background, most),
        threshold="" if place is None else f"M{place:.4g} 0V{HEIGHT}",
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


def _scale_counts(counts: Sequence[float]) -> list[float]:
    total = math.fsum(counts)
    return [math.sqrt(count / total) for count in counts] if total else []


def _draw_steps(heights: Sequence[float], most: float, *, closed: bool = False) -> str:
    if not heights:
        return ""
    width = WIDTH / len(heights)
    parts, last = [f"M0 {HEIGHT}"], None
    for number, height in enumerate(heights):
        top = f"{HEIGHT - (HEIGHT - 2) * height / most:.3g}"
        if top != last:
            parts.append(f"{f'H{number * width:g}' if number else ''}V{top}")
        last = top
    return "".join([*parts, f"H{WIDTH}V{HEIGHT}", "z" if closed else ""])
