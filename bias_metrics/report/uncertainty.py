"""Uncertainty of aggregates, and of any number when rows come in clusters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bias_metrics._core.cells import Comparison, overall_comparison
from bias_metrics._core.clusters import ClusterSums, ClusterTotal
from bias_metrics._core.influence import Influence, Members, RankedRows
from bias_metrics._core.intervals import logit_interval, quantile
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.clustered import power_mean_of_cells, with_clustered_error
from bias_metrics.table import BiasTable, Key


@dataclass(frozen=True, eq=False)
class Spread:
    """Turns influences into standard errors and intervals."""

    ranked: RankedRows  # All rows
    confidence: float  # Confidence of each interval

    def empty(self) -> Influence:
        """Return an influence of 0 on every row."""
        everyone = self.ranked.everyone
        return Influence(everyone.positive.n, everyone.negative.n)

    def of_auc(self, metric: str, comparison: Comparison, members: Members | None) -> Influence:
        """Return the influence on one AUC."""
        influence = self.empty()
        influence.add_auc(metric, comparison, members, 1.0)
        influence.settle()
        return influence

    def add_overall(self, influence: Influence, weight: float = 1.0) -> None:
        """Add `weight` times the influence on the overall AUC."""
        influence.add_auc("auc", overall_comparison(self.ranked.everyone), None, weight)


def describe(
    value: MetricValue,
    error: tuple[float, float] | str,
    total: ClusterTotal | None,
    unseen: float,
    confidence: float,
) -> MetricValue:
    """Return an aggregate with its standard error and an interval on the logit scale.

    `error` has the standard error for independent rows and its degrees of freedom, or the reason
    why there is none; `unseen` is that of `unseen_errors`.
    """
    if value.value is None:
        return value
    if isinstance(error, str):
        return replace(value, reason=error)
    std_error, freedom = error
    found = replace(value, reason=None, std_error=std_error, low=None, high=None)
    if total is not None:
        found, freedom = with_clustered_error(found, total), total.freedom
    if found.reason is not None:
        return found
    assert found.std_error is not None  # noqa: S101
    low = high = value.value
    z = quantile(confidence, freedom)
    if 0 < value.value < 1:
        low, high = logit_interval(value.value, found.std_error, z)
    down, up = (math.hypot(end - value.value, z * unseen) for end in (low, high))
    return replace(found, low=max(value.value - down, 0.0), high=min(value.value + up, 1.0))


def aggregate_influences(
    report: BiasTable, members: Mapping[str, Members], spread: Spread
) -> Iterator[tuple[str, Influence | str]]:
    """Yield the influence on the overall AUC, each power mean and the final score.

    If there is no influence, yield the reason instead. An influence is valid only until the
    next one is requested: each has a number per row, and they share their memory.
    """
    final, scratch = spread.empty(), spread.empty()
    lacking: str | None = None
    for name in ("overall", *FINAL_SCORE_PARTS):
        scratch.clear()
        mean = None if name == "overall" else power_mean_of_cells(report, name)
        lack = mean if isinstance(mean, str) else None
        if mean is None:
            lack = _lack_of_overall(report)
            if lack is None:
                spread.add_overall(scratch)
        elif not isinstance(mean, str):
            for group, weight in mean.derivatives.items():
                of_group = members[group]
                scratch.add_auc(name, of_group.compared[name], of_group, weight)
        lacking = lacking or lack
        if lack is not None:
            yield name, lack
            continue
        scratch.settle(final, 0.25)
        yield name, scratch
    yield "final_score", lacking or final


def weighted_influences(
    report: BiasTable, totals: Mapping[str, ClusterSums]
) -> Iterator[tuple[str, ClusterSums | str]]:
    """Yield what `aggregate_influences` yields, of weighted rows; `totals` has the influences."""
    lacks = {"overall": _lack_of_overall(report)}
    for name in FINAL_SCORE_PARTS:
        mean = power_mean_of_cells(report, name)
        lacks[name] = mean if isinstance(mean, str) else None
    lacks["final_score"] = next(filter(None, lacks.values()), None)
    for name, lack in lacks.items():
        yield name, lack or totals[name]


def _lack_of_overall(report: BiasTable) -> str | None:
    overall: MetricValue = report[Key("auc")]
    return None if overall.std_error is not None else overall.reason


def aggregate_of(report: BiasTable, name: str) -> MetricValue:
    """Return the number to which `aggregate_influences` gives this name."""
    found: MetricValue = report[aggregate_key(name)]
    return found


def aggregate_key(name: str) -> Key:
    """Return the key of an aggregate; that of the overall AUC for `overall`."""
    return Key("auc" if name == "overall" else name)


def replace_aggregates(report: BiasTable, described: Mapping[str, MetricValue]) -> BiasTable:
    """Return a table with the given power means and final score."""
    return report.with_numbers(
        {Key(name): described[name] for name in (*FINAL_SCORE_PARTS, "final_score")}
    )
