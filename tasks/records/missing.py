"""Comments without a score, in reports, and why."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics.thresholds import MissingShare
from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class Missing(Record):
    """Comments without a score; `reasons` counts them by reason, over all rows of the set."""

    overall: MissingShare
    subgroups: dict[str, MissingShare]
    reasons: dict[str, int]
    sentence: str
