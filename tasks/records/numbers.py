"""Numbers that are measured, by identity, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bias_metrics import BiasReport, Difference, MetricValue, Overall, SubgroupBias
from bias_metrics.gate import LEAST_ROWS
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS
from bias_metrics.table import BiasTable
from biasgate.tasks.records.record import Record

CONFIDENCE = 0.95
"""Confidence of the intervals in a report."""


@dataclass(frozen=True, kw_only=True)
class Value(Record):
    """A number; None with the reason why it is undefined."""

    value: float | None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Differences(Record):
    """The numbers of a model minus those of another on the same rows."""

    confidence: float
    overall: Overall[Difference]
    subgroups: dict[str, dict[str, Difference]]
    power_mean: dict[str, Difference] = field(default_factory=dict)
    final_score: Difference

    @classmethod
    def of(cls, table: BiasTable, confidence: float) -> Differences | None:
        """Return the differences from the champion that a table has; None without one."""
        if "champion" not in table.rivals:
            return None
        rows, groups = table.rows[None], dict[str, dict[str, Difference]]()
        means, whole = dict[str, Difference](), dict[str, Difference]()
        for key, one in table.items():
            if (
                key.against != "champion"
                or key.threshold is not None
                or not isinstance(one, Difference)
            ):
                continue
            if key.group is not None:
                groups.setdefault(key.group, {})[key.metric] = one
            else:
                (means if key.metric in FINAL_SCORE_PARTS else whole)[key.metric] = one
        n = rows.n_positive + rows.n_negative
        return cls(
            confidence=confidence,
            overall=Overall(n, rows.n_positive, whole["auc"]),
            subgroups=groups,
            power_mean=means,
            final_score=whole["final_score"],
        )


def metric_cells(measured: object) -> Mapping[str, MetricValue]:
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
