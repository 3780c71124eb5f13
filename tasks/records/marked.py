"""Comments with a mark in reports: without a score, or truncated."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics.thresholds import MarkedShare
from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class MarkedComments(Record):
    """Comments without a score, or truncated ones.

    `reasons` counts those without a score by reason, over all rows of the set. `sentence` is empty
    if nothing is worth a reservation.
    """

    overall: MarkedShare
    subgroups: dict[str, MarkedShare]
    sentence: str
    reasons: dict[str, int] | None = None
