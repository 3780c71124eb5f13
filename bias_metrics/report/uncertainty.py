"""Uncertainty of aggregates, and of any number when rows come in clusters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bias_metrics._core.cells import Comparison, overall_comparison
from bias_metrics._core.clusters import Clustering, ClusterSums, Codes
from bias_metrics._core.influence import Influence, Members, RankedRows
from bias_metrics._core.intervals import logit_interval, quantile
from bias_metrics._core.placements import squares_of
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.clustered import ClusteredReport, with_clustered_error
from bias_metrics.report.derivatives import derivatives
from bias_metrics.report.report import BiasReport


def with_intervals(
    report: BiasReport,
    ranked: RankedRows,
    members: Mapping[str, Members],
    *,
    confidence: float,
    clusters: Codes | None = None,
    aggregates: bool = True,
) -> BiasReport:
    """Return a report with intervals of its aggregates; given clusters, all intervals use them.

    Parameters
    ----------
    report : BiasReport
        Its cells have intervals for independent rows.
    ranked : RankedRows
        All rows.
    members : mapping of str to Members
        The subgroups' rows.
    confidence : float
        Confidence of each interval.
    clusters : int array of shape (n,), optional
        Codes 0, 1, ... of the clusters.
    aggregates : bool, default=True
        Whether power means and final score get intervals.

    Returns
    -------
    BiasReport
        The same values, with standard errors and intervals.
    """
    spread = Spread(ranked, confidence)
    totals: Mapping[str, ClusterSums] | None = None
    if clusters is not None:
        clustered = ClusteredReport(report, Clustering.of(ranked, clusters), confidence)
        clustered.measure_all(members)
        report, totals = clustered.report(), clustered.totals
    if not aggregates:
        return report
    described = {
        name: spread.describe(aggregate_of(report, name), influence, sums_of(totals, name))
        for name, influence in aggregate_influences(report, members, spread)
    }
    return replace_aggregates(report, described)


def sums_of(totals: Mapping[str, ClusterSums] | None, name: str) -> ClusterSums | None:
    """Return the clusters' influences on an aggregate; None if rows are not clustered."""
    return None if totals is None else totals.get(name)


@dataclass(frozen=True, eq=False)
class Spread:
    """Turns influences into standard errors and intervals.

    Attributes
    ----------
    ranked : RankedRows
        All rows.
    confidence : float
        Confidence of each interval.
    """

    ranked: RankedRows
    confidence: float

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

    def add_overall(self, influence: Influence) -> None:
        """Add the influence on the overall AUC."""
        influence.add_auc("auc", overall_comparison(self.ranked.everyone), None, 1.0)

    def describe(
        self, value: MetricValue, influence: Influence | str, sums: ClusterSums | None = None
    ) -> MetricValue:
        """Return a value in (0, 1) with its standard error and an interval on the logit scale.

        If `influence` is a reason instead, return the value with that reason. With `sums` the
        error allows for clusters.
        """
        if value.value is None:
            return value
        if isinstance(influence, str):
            return replace(value, reason=influence)
        squares, freedom = squares_of(influence.by_class())
        found = replace(value, reason=None, std_error=math.sqrt(squares), low=None, high=None)
        if sums is not None:
            found, freedom = with_clustered_error(found, sums), sums.freedom
        if found.reason is not None:
            return found
        if not 0 < value.value < 1:
            return replace(found, reason="at the end of its range")
        assert found.std_error is not None  # noqa: S101
        z = quantile(self.confidence, freedom)
        low, high = logit_interval(value.value, found.std_error, z)
        return replace(found, low=low, high=high)


def aggregate_influences(
    report: BiasReport, members: Mapping[str, Members], spread: Spread
) -> Iterator[tuple[str, Influence | str]]:
    """Yield the influence on the overall AUC, each power mean and the final score.

    If there is no influence, yield the reason instead. An influence is valid only until the
    next one is requested: each has a number per row, and they share their memory.
    """
    final, scratch = spread.empty(), spread.empty()
    overall = report.overall.auc
    lacking: str | None = None
    for name in ("overall", *FINAL_SCORE_PARTS):
        scratch.clear()
        if name == "overall":
            lack = None if overall.std_error is not None else overall.reason
            if lack is None:
                spread.add_overall(scratch)
        else:
            weights = derivatives(report, name)
            lack = weights if isinstance(weights, str) else None
            if not isinstance(weights, str):
                for group, weight in weights.items():
                    of_group = members[group]
                    scratch.add_auc(name, of_group.compared[name], of_group, weight)
        lacking = lacking or lack
        if lack is not None:
            yield name, lack
            continue
        scratch.settle()
        final.add(scratch, 0.25)
        yield name, scratch
    yield "final_score", lacking or final


def aggregate_of(report: BiasReport, name: str) -> MetricValue:
    """Return the number to which `aggregate_influences` gives this name."""
    if name == "overall":
        return report.overall.auc
    found: MetricValue = getattr(report if name == "final_score" else report.power_mean, name)
    return found


def replace_aggregates(report: BiasReport, described: Mapping[str, MetricValue]) -> BiasReport:
    """Return a report with the given power means and final score."""
    means: dict[str, Any] = {name: described[name] for name in FINAL_SCORE_PARTS}
    power_mean = replace(report.power_mean, **means)
    return replace(report, final_score=described["final_score"], power_mean=power_mean)
