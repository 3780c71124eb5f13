"""Numbers that are measured, by identity, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bias_metrics import BiasReport, Difference, MetricValue, Overall, PowerMeans, SubgroupBias
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


@dataclass(frozen=True, kw_only=True)
class Gaps(Record):
    """The gaps at a threshold: by identity and metric."""

    subgroups: dict[str, dict[str, MetricValue]]


@dataclass(frozen=True, kw_only=True)
class MeasuredNumbers(Record):
    """The numbers of a model in evidence; `thresholds` has gaps by the name of the threshold."""

    overall: Overall[MetricValue]
    subgroups: dict[str, SubgroupBias]
    categories: dict[str, SubgroupBias] = field(default_factory=dict)
    final_score: MetricValue
    thresholds: dict[str, Gaps] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Differences(Record):
    """The numbers of a model minus those of another on the same rows, as evidence has them."""

    confidence: float
    overall: Overall[Difference]
    subgroups: dict[str, dict[str, Difference]]
    categories: dict[str, dict[str, Difference]] = field(default_factory=dict)
    final_score: Difference


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
