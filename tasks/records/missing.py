"""Comments without a score, in reports: `MissingScores.to_dict()`, and why."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from biasgate.tasks.records.numbers import Cell


class MissingShare(TypedDict):
    """Comments of an identity, or all, and those without a score; the gap is of identities."""

    n: int
    n_missing: int
    missing_rate: Cell
    missing_gap: NotRequired[Cell]


class Missing(TypedDict):
    """Comments without a score; `reasons` counts them by reason, over all rows of the set."""

    overall: MissingShare
    subgroups: dict[str, MissingShare]
    reasons: dict[str, int]
    sentence: str
