"""Numbers of a report that the library returns without an interval, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bias_metrics import BiasReport, MetricValue, PowerMeans, SubgroupBias
from bias_metrics.gate import LEAST_ROWS
from bias_metrics.metrics import METRICS
from biasgate.tasks.records.record import Record

CONFIDENCE = 0.95
"""Confidence of the intervals in a report."""


@dataclass(frozen=True, kw_only=True)
class Value(Record):
    """A number; None with the reason why it is undefined."""

    value: float | None
    reason: str | None = None


def metric_cells(measured: SubgroupBias | PowerMeans | Record) -> Mapping[str, MetricValue]:
    """Return the numbers of an identity or of its calibration, or the power means, by metric."""
    return {name: one for name, one in vars(measured).items() if isinstance(one, MetricValue)}


def final_score_name(bias: BiasReport) -> str:
    """Name the final score apart from that of a rule, which may be over categories."""
    n = len(bias.power_mean.groups)
    return f"final score over {n:,} {'identity' if n == 1 else 'identities'}"


def has_enough_rows(metric: str, counts: SubgroupBias) -> bool:
    """Say whether an identity has enough rows, of each class that a metric compares, for evidence.

    With fewer, a single comment may make its AUC the lowest.
    """
    own, _ = METRICS[metric].classes
    have = {"positive": counts.n_positive, "negative": counts.n_negative}
    return all(have[one] >= LEAST_ROWS for one in own)
