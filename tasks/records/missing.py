"""Comments without a score, in reports: `MissingScores.to_dict()`, and why."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics import MetricValue
from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class MissingShare(Record):
    """Comments of an identity, or all, and those without a score; the gap is of identities."""

    n: int
    n_missing: int
    missing_rate: MetricValue
    missing_gap: MetricValue | None = None


@dataclass(frozen=True, kw_only=True)
class Missing(Record):
    """Comments without a score; `reasons` counts them by reason, over all rows of the set."""

    overall: MissingShare
    subgroups: dict[str, MissingShare]
    reasons: dict[str, int]
    sentence: str
