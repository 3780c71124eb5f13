"""Standard errors and intervals of aggregates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bias_metrics._core.cells import Comparison, compare_all_rows
from bias_metrics._core.clusters import ClusterSummary, ClusterSums
from bias_metrics._core.influence import Influence, Members, RankedRows
from bias_metrics._core.intervals import logit_interval, student_quantile
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.clustered import find_power_mean, replace_std_error
from bias_metrics.table import BiasTable, Key


@dataclass(frozen=True, eq=False)
class RowInfluences:
    """Computes the influences of rows on AUCs."""

    ranked: RankedRows  # All rows
    confidence: float  # Confidence of each interval

    def make_empty(self) -> Influence:
        """Return influences of 0 for all rows."""
        everyone = self.ranked.everyone
        return Influence(everyone.positive.n, everyone.negative.n)

    def measure_auc(
        self, metric: str, comparison: Comparison, members: Members | None
    ) -> Influence:
        """Return the influences on an AUC."""
        influence = self.make_empty()
        influence.add_auc(metric, comparison, members, 1.0)
        influence.sum_differences()
        return influence

    def add_overall(self, influence: Influence, weight: float = 1.0) -> None:
        """Add `weight` times the influences on the overall AUC."""
        influence.add_auc("auc", compare_all_rows(self.ranked.everyone), None, weight)


def describe_aggregate(
    value: MetricValue,
    error: tuple[float, float] | str,
    total: ClusterSummary | None,
    unseen: float,
    confidence: float,
) -> MetricValue:
    """Return an aggregate with its standard error and an interval on the logit scale.

    `error` has the standard error for independent rows and its degrees of freedom, or the reason
    why it is undefined; `unseen` is from `compute_unseen_errors`.
    """
    if value.value is None:
        return value
    if isinstance(error, str):
        return replace(value, reason=error)
    std_error, freedom = error
    described = replace(value, reason=None, std_error=std_error, low=None, high=None)
    if total is not None:
        described, freedom = replace_std_error(described, total), total.freedom
    if described.reason is not None:
        return described
    assert described.std_error is not None  # noqa: S101
    low = high = value.value
    z = student_quantile(confidence, freedom)
    if 0 < value.value < 1:
        low, high = logit_interval(value.value, described.std_error, z)
    down, up = (math.hypot(end - value.value, z * unseen) for end in (low, high))
    return replace(described, low=max(value.value - down, 0.0), high=min(value.value + up, 1.0))


def iterate_influences(
    report: BiasTable, members: Mapping[str, Members], spread: RowInfluences
) -> Iterator[tuple[str, Influence | str]]:
    """Yield the influences on the overall AUC, each power mean and the final score.

    If the influences are undefined, yield the reason instead. They are valid only until the next
    iteration, since they share memory: each has a number per row.
    """
    final, scratch = spread.make_empty(), spread.make_empty()
    lacking: str | None = None
    for name in ("overall", *FINAL_SCORE_PARTS):
        scratch.clear()
        mean = None if name == "overall" else find_power_mean(report, name)
        lack = mean if isinstance(mean, str) else None
        if mean is None:
            lack = _explain_overall(report)
            if lack is None:
                spread.add_overall(scratch)
        elif not isinstance(mean, str):
            for group, weight in mean.derivatives.items():
                group_members = members[group]
                scratch.add_auc(name, group_members.comparisons[name], group_members, weight)
        lacking = lacking or lack
        if lack is not None:
            yield name, lack
            continue
        scratch.sum_differences(final, 0.25)
        yield name, scratch
    yield "final_score", lacking or final


def iterate_weighted_influences(
    report: BiasTable, totals: Mapping[str, ClusterSums]
) -> Iterator[tuple[str, ClusterSums | str]]:
    """Yield the measured influences of weighted rows, or reasons, like `iterate_influences`."""
    lacks = {"overall": _explain_overall(report)}
    for name in FINAL_SCORE_PARTS:
        mean = find_power_mean(report, name)
        lacks[name] = mean if isinstance(mean, str) else None
    lacks["final_score"] = next(filter(None, lacks.values()), None)
    for name, lack in lacks.items():
        yield name, lack or totals[name]


def _explain_overall(report: BiasTable) -> str | None:
    overall: MetricValue = report[Key("auc")]
    return None if overall.std_error is not None else overall.reason


def get_aggregate(report: BiasTable, name: str) -> MetricValue:
    """Return the aggregate that `iterate_influences` names like this."""
    value: MetricValue = report[make_aggregate_key(name)]
    return value


def make_aggregate_key(name: str) -> Key:
    """Return the key of an aggregate; `overall` is the overall AUC."""
    return Key("auc" if name == "overall" else name)


def replace_aggregates(report: BiasTable, described: Mapping[str, MetricValue]) -> BiasTable:
    """Return a table with the given power means and final score."""
    return report.add_numbers(
        {Key(name): described[name] for name in (*FINAL_SCORE_PARTS, "final_score")}
    )
