"""The objective: the number by which models that pass all rules are ranked.

It is an overall or aggregate metric, compared with the champion's on the same rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from bias_metrics._core.differences import Difference
from bias_metrics.gate.verdict import Evidence
from bias_metrics.metrics import AGGREGATE_METRICS, OVERALL_METRICS
from bias_metrics.table import Key

OBJECTIVES = (*OVERALL_METRICS, *AGGREGATE_METRICS)
if TYPE_CHECKING:
    ObjectiveMetric = str
else:
    ObjectiveMetric = Literal[OBJECTIVES]


@dataclass(frozen=True)
class Objective:
    """A candidate's objective on an evaluation set, paired with the champion's."""

    metric: str
    """`final_score`, `auc` (over all rows), or a subgroup metric, which means its power mean."""
    confidence: float
    """One-sided confidence of both ends of the interval."""
    value: float | None
    rival: float | None = None
    """The candidate's and the champion's value; None if undefined or without a champion."""
    change: float | None = None
    low: float | None = None
    high: float | None = None
    """`value - rival`, and its confidence interval with both models paired on the same rows."""
    reason: str | None = None
    """Why a number is missing."""

    @property
    def is_higher(self) -> bool:
        """True if it is significantly higher than the champion's."""
        return self.low is not None and self.low > 0

    @property
    def is_lower(self) -> bool:
        """True if it is significantly lower than the champion's."""
        return self.high is not None and self.high < 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def measure_objective(metric: str, evidence: Evidence, confidence: float) -> Objective:
    """Measure the objective over all rows, with its difference from the champion's.

    Bounds are one-sided: the evidence has intervals of two-sided confidence `2 * confidence - 1`.
    Without a champion, the objective has a value but no difference. A metric that is not in
    `OBJECTIVES` raises a ValueError.
    """
    if metric not in OBJECTIVES:
        msg = f"`metric` must be one of {', '.join(OBJECTIVES)}; got {metric!r}."
        raise ValueError(msg)
    rival = "champion" if evidence.can_judge("champion") else None
    estimate = evidence.table[Key(metric, against=rival)]
    if not isinstance(estimate, Difference):
        return Objective(metric, confidence, estimate.value, reason=estimate.reason)
    return Objective(
        metric,
        confidence,
        estimate.first,
        estimate.second,
        change=estimate.value,
        low=estimate.low,
        high=estimate.high,
        reason=estimate.reason,
    )
