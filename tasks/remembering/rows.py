"""The numbers of tonight beside those of the nights before, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from biasgate.tasks.records.trend import Night, Remembered

SHOWN = 7
"""So many earlier values are shown, the last ones."""


@dataclass(frozen=True)
class Row:
    """One number of one identity."""

    metric: str
    group: str
    """The number; `group` is empty for one of all comments."""
    earlier: tuple[str, ...]
    """Its values in the nights before, the last ones."""
    lowest: str
    highest: str
    """Of all earlier nights that are known."""
    tonight: str
    interval: str
    """Its value tonight, and the 95 % interval."""


@dataclass(frozen=True)
class Lines:
    """One model on one set over the nights."""

    candidate: str
    model: str
    evaluation_set: str
    """What it is."""
    before: str
    """The models of the nights before, in words; empty if they are the same one, or none."""
    rows: tuple[Row, ...]
    """Its numbers."""


def lines_of(nights: Sequence[Night]) -> list[Lines]:
    """Return every model and set of the last night that measured any, beside the nights before."""
    measured = [night for night in nights if night.models]
    return [_lines(model, measured[:-1]) for model in measured[-1].models] if measured else []


def _lines(remembered: Remembered, before: Sequence[Night]) -> Lines:
    on_set = [
        other
        for night in before
        for other in night.models
        if other.evaluation_set == remembered.evaluation_set
    ]
    same = [other for other in on_set if other.model == remembered.model]
    # A candidate that is trained again is followed by its name.
    same = same or [other for other in on_set if other.candidate == remembered.candidate]
    others = list(dict.fromkeys(other.model for other in same if other.model != remembered.model))
    told = f"before: {', '.join(others[-SHOWN:])}" if others else ""
    rows = [
        _row(key, values, [other.numbers.get(key, [None])[0] for other in same])
        for key, values in remembered.numbers.items()
    ]
    return Lines(
        remembered.candidate, remembered.model, remembered.evaluation_set, told, tuple(rows)
    )


def _row(key: str, values: Sequence[float | None], earlier: Sequence[float | None]) -> Row:
    metric, _, group = key.partition("/")
    known = [value for value in earlier if value is not None]
    value, low, high = values
    return Row(
        metric,
        "" if group == "overall" else group,
        tuple(_shown(value) for value in earlier[-SHOWN:]),
        _shown(min(known, default=None)),
        _shown(max(known, default=None)),
        _shown(value),
        "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]",
    )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
