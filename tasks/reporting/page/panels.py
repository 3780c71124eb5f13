"""The scores of an identity: a drawing, and the same in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from biasgate.tasks.records import Details, GroupScores
from biasgate.tasks.reporting.page.drawing import Histogram, draw_histogram, is_empty
from biasgate.tasks.reporting.page.explorer import position_of
from biasgate.tasks.reporting.page.numbers import count, plus_minus


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


def short(value: float) -> str:
    """Return a score with three digits."""
    return plus_minus(f"{value:.3g}")
