"""A report whose rows come in clusters: every cell, and what the aggregates need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bias_metrics._core.cells import Comparison
from bias_metrics._core.clusters import Clustering, ClusterSums
from bias_metrics._core.difference_rule import less, negated, sized, symmetric
from bias_metrics._core.differences import Difference
from bias_metrics._core.influence import Members
from bias_metrics._core.intervals import MIN_CLUSTERS, auc_interval, quantile
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, SUBGROUP_METRICS
from bias_metrics.report.derivatives import derivatives
from bias_metrics.report.report import BiasReport


class ClusteredReport:
    """Turns a report for independent rows into one that allows for clusters.

    Attributes
    ----------
    totals : dict of str to ClusterSums
        The clusters' influences on the overall AUC (`overall`), the power means and the final
        score, as far as they have any.
    """

    def __init__(self, report: BiasReport, clustering: Clustering, confidence: float) -> None:
        self.totals: dict[str, ClusterSums] = {}
        self._report = report
        self._clustering = clustering
        self._confidence = confidence
        self._weights = {metric: derivatives(report, metric) for metric in FINAL_SCORE_PARTS}
        self._cells: dict[str, dict[str, Any]] = {name: {} for name in report.subgroups}

    def measure_all(self, members: Mapping[str, Members]) -> None:
        """Measure every cell."""
        for name in self._report.subgroups:
            of_group = members[name]
            for metric in SUBGROUP_METRICS:
                self.measure(name, metric, of_group)

    def measure(
        self, name: str, metric: str, members: Members
    ) -> tuple[MetricValue, ClusterSums | None]:
        """Measure one cell; return it with the clusters' influences, if it has an error."""
        cell: MetricValue = getattr(self._report.subgroups[name], metric)
        sums = None
        if cell.std_error is not None:
            comparison = members.compared[metric]
            sums = self._clustering.sums(metric, comparison, members)
            cell = self._described(cell, METRICS[metric].centre, comparison, sums)
            weights = self._weights.get(metric)
            if isinstance(weights, Mapping) and name in weights:
                weighted = sums.times(weights[name])
                self.totals[metric] = (
                    self.totals[metric].plus(weighted) if metric in self.totals else weighted
                )
        self._cells[name][metric] = cell
        return cell, sums

    def report(self) -> BiasReport:
        """Return the report, whose cells must all have been measured."""
        overall = self._report.overall
        auc = overall.auc
        if auc.std_error is not None:
            comparison = self._clustering.overall
            sums = self.totals["overall"] = self._clustering.sums("auc", comparison, None)
            auc = self._described(auc, 0.0, comparison, sums)
        parts = [self.totals.get(name) for name in ("overall", *FINAL_SCORE_PARTS)]
        final: Any = None
        for one in parts:
            if one is None:
                break
            quarter = one.times(1 / len(parts))
            final = quarter if final is None else final.plus(quarter)
        else:
            self.totals["final_score"] = final
        subgroups = {
            name: replace(bias, **self._cells[name])
            for name, bias in self._report.subgroups.items()
        }
        return replace(self._report, overall=replace(overall, auc=auc), subgroups=subgroups)

    def _described(
        self, cell: MetricValue, centre: float, comparison: Comparison, sums: ClusterSums
    ) -> MetricValue:
        assert cell.value is not None  # noqa: S101
        assert cell.std_error is not None  # noqa: S101
        found = with_clustered_error(cell, sums)
        if found.reason is not None:
            return found
        sizes = sums.worth((comparison.n_base, comparison.searched.n), cell.std_error)
        z = quantile(self._confidence, sums.freedom)
        low, high = auc_interval(cell.value + centre, sums.std_error, *sizes, z, clustered=True)
        return replace(found, low=low - centre, high=high - centre)


def with_clustered_error(value: MetricValue, sums: ClusterSums) -> MetricValue:
    """Return a value with the error that allows for clusters, or the reason if they are few."""
    found = replace(
        value,
        reason=few_clusters(sums),
        std_error=sums.std_error,
        row_std_error=value.std_error,
        n_clusters=sums.n_clusters,
    )
    return found if found.reason is None else replace(found, low=None, high=None)


def few_clusters(sums: ClusterSums) -> str | None:
    """Say that there are too few clusters for an interval, if so."""
    if sums.n_clusters >= MIN_CLUSTERS:
        return None
    return f"{sums.n_clusters} clusters where {MIN_CLUSTERS} are needed"


def clustered_difference(
    a: MetricValue,
    b: MetricValue,
    of_a: ClusterSums,
    of_b: ClusterSums,
    confidence: float,
    *,
    is_gap: bool = False,
) -> Difference:
    """Return the difference of two numbers of the same rows, given the clusters' influences."""
    apart = of_a.plus(of_b.times(-1.0))
    if reason := few_clusters(apart):
        found = Difference(a.value, b.value, less(a, b), apart.std_error, reason=reason)
    elif is_gap:
        found = symmetric(a, b, apart.std_error, confidence, apart.freedom)
        total = symmetric(a, negated(b), of_a.plus(of_b).std_error, confidence, apart.freedom)
        found = sized(found, total, b, confidence)
    else:
        found = symmetric(a, b, apart.std_error, confidence, apart.freedom)
    return replace(found, n_clusters=apart.n_clusters)
