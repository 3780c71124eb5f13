"""The numbers of the last night and of earlier nights, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from biasgate.tasks.records.trend import Night, Remembered

SHOWN = 7
"""Number of earlier values that are shown."""


@dataclass(frozen=True)
class Row:
    """A metric of an identity over the nights, as texts."""

    metric: str
    group: str
    """The identity; empty for all comments."""
    earlier: tuple[str, ...]
    """The values of the last earlier nights."""
    lowest: str
    """The lowest value of all earlier nights."""
    highest: str
    """The highest value of all earlier nights."""
    tonight: str
    """The value of the last night."""
    interval: str
    """The 95 % interval of the last night."""


@dataclass(frozen=True)
class Lines:
    """A model on a set over the nights."""

    candidate: str
    model: str
    evaluation_set: str
    before: str
    """The other models of earlier nights in words; empty if the model was always the same."""
    rows: tuple[Row, ...]
    """The numbers of the model."""


def compare_nights(nights: Sequence[Night]) -> list[Lines]:
    """Compare every model and set of the last night that has models with the earlier nights."""
    measured = [night for night in nights if night.models]
    if not measured:
        return []
    return [_compare_nights(model, measured[:-1]) for model in measured[-1].models]


def _compare_nights(remembered: Remembered, before: Sequence[Night]) -> Lines:
    same_set = [
        other
        for night in before
        for other in night.models
        if other.evaluation_set == remembered.evaluation_set
    ]
    # A candidate that is trained again has another model, so it is followed by its name.
    followed = [other for other in same_set if other.model == remembered.model] or [
        other for other in same_set if other.candidate == remembered.candidate
    ]
    models = dict.fromkeys(other.model for other in followed if other.model != remembered.model)
    return Lines(
        remembered.candidate,
        remembered.model,
        remembered.evaluation_set,
        f"before: {', '.join(list(models)[-SHOWN:])}" if models else "",
        tuple(
            _build_row(key, values, [other.numbers.get(key, [None])[0] for other in followed])
            for key, values in remembered.numbers.items()
        ),
    )


def _build_row(key: str, values: Sequence[float | None], earlier: Sequence[float | None]) -> Row:
    metric, _, group = key.partition("/")
    defined = [value for value in earlier if value is not None]
    value, low, high = values
    return Row(
        metric,
        "" if group == "overall" else group,
        tuple(_format_value(value) for value in earlier[-SHOWN:]),
        _format_value(min(defined, default=None)),
        _format_value(max(defined, default=None)),
        _format_value(value),
        "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]",
    )


def _format_value(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
