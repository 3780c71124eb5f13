"""Comments with a mark in reports: without a score, or truncated."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics.thresholds import MarkedShare
from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class MarkedComments(Record):
    """Comments without a score, or truncated ones.

    `reasons` counts those without a score by reason, over all rows of the set.
    """

    overall: MarkedShare
    subgroups: dict[str, MarkedShare]
    sentence: str
    is_reservation: bool = True
    """Whether the sentence limits every outcome; not if identities do not differ."""
    reasons: dict[str, int] | None = None
