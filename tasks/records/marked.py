"""Marked comments in reports: without a score, or truncated."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics.thresholds import MarkedShare
from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class MarkedComments(Record):
    """Shares of comments without a score, or of truncated comments.

    `reasons` counts the missing scores by reason, over all rows of the set.
    """

    overall: MarkedShare
    subgroups: dict[str, MarkedShare]
    sentence: str
    is_reservation: bool = True
    """True if the sentence limits every outcome; False if identities do not differ."""
    reasons: dict[str, int] | None = None
