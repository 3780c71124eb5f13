"""Uncertainty of aggregates, and of any number when rows come in clusters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import Cells, Comparison
from bias_metrics._core.influence import Influence, Members, RankedRows
from bias_metrics._core.intervals import MIN_CLUSTERS, auc_interval, logit_interval, quantile
from bias_metrics._core.placements import Floats, squares_of
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, SUBGROUP_METRICS
from bias_metrics.report.report import BiasReport

Codes = npt.NDArray[np.intp]


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
    spread = Spread(ranked, clusters, confidence)
    report = with_clusters(report, members, spread)
    if not aggregates:
        return report
    described = {
        name: spread.describe(aggregate_of(report, name), influence)
        for name, influence in aggregate_influences(report, members, spread)
    }
    return replace_aggregates(report, described)


@dataclass(frozen=True, eq=False)
class Spread:
    """Turns influences into standard errors and intervals.

    Attributes
    ----------
    ranked : RankedRows
        All rows.
    clusters : int array of shape (n,) or None
        Codes of the clusters.
    confidence : float
        Confidence of each interval.
    """

    ranked: RankedRows
    clusters: Codes | None
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
        positive, negative = self.ranked.everyone.positive, self.ranked.everyone.negative
        comparison = Comparison(negative, None, positive, "negatives", "positives")
        influence.add_auc("auc", comparison, None, 1.0)

    def describe(
        self, value: MetricValue, influence: Influence | str, members: Members | None = None
    ) -> MetricValue:
        """Return a value in (0, 1) with its standard error and an interval on the logit scale.

        If `influence` is a reason instead, return the value with that reason.
        """
        if value.value is None:
            return value
        if isinstance(influence, str):
            return replace(value, reason=influence)
        squares, freedom = squares_of(influence.by_class())
        std_error, n_clusters = math.sqrt(squares), None
        row_error = std_error
        if self.clusters is not None:
            n_clusters = self.count(members)
            freedom = n_clusters - 1
            std_error = self.clustered_error(influence.by_row(self.ranked), n_clusters)
        described = replace(
            value,
            reason=None,
            std_error=std_error,
            low=None,
            high=None,
            row_std_error=None if self.clusters is None else row_error,
            n_clusters=n_clusters,
        )
        if n_clusters is not None and n_clusters < MIN_CLUSTERS:
            return replace(
                described, reason=f"{n_clusters} clusters where {MIN_CLUSTERS} are needed"
            )
        if not 0 < value.value < 1:
            return replace(described, reason="at the end of its range")
        low, high = logit_interval(value.value, std_error, quantile(self.confidence, freedom))
        return replace(described, low=low, high=high)

    def count(self, members: Members | None) -> int:
        """Count the clusters of a subgroup's rows, or of all rows if `members` is None."""
        assert self.clusters is not None  # noqa: S101
        if members is None:
            return int(self.clusters.max()) + 1
        return int(np.unique(self.clusters[members.rows]).size)

    def clustered_error(self, by_row: Floats, n_clusters: int) -> float:
        """Return the standard error that allows for correlation within clusters."""
        assert self.clusters is not None  # noqa: S101
        sums = np.bincount(self.clusters, weights=by_row)
        inflation = n_clusters / max(n_clusters - 1, 1)
        return math.sqrt(inflation * float(sums @ sums))


def with_clusters(report: BiasReport, members: Mapping[str, Members], spread: Spread) -> BiasReport:
    """Return a report whose cells allow for clusters, if there are any."""
    if spread.clusters is None:
        return report
    overall = report.overall.auc
    if overall.std_error is not None:
        influence = spread.empty()
        spread.add_overall(influence)
        influence.settle()
        overall = spread.describe(overall, influence)
    subgroups = {
        name: replace(bias, **vars(_clustered_cells(bias, members[name], spread)))
        for name, bias in report.subgroups.items()
    }
    return replace(report, overall=replace(report.overall, auc=overall), subgroups=subgroups)


def _clustered_cells(cells: Cells, members: Members, spread: Spread) -> Cells:
    found = {}
    for name in SUBGROUP_METRICS:
        cell: MetricValue = getattr(cells, name)
        if cell.value is None or cell.std_error is None:
            found[name] = cell
            continue
        shift = METRICS[name].centre
        share = replace(cell, value=cell.value + shift)
        comparison = members.compared[name]
        influence = spread.of_auc(name, comparison, members)
        described = spread.describe(share, influence, members)
        if described.low is None and described.reason == "at the end of its range":
            described = _on_the_edge(described, comparison, spread.confidence)
        found[name] = replace(
            described,
            value=cell.value,
            low=None if described.low is None else described.low - shift,
            high=None if described.high is None else described.high - shift,
        )
    return Cells(**found)


def _on_the_edge(value: MetricValue, comparison: Comparison, confidence: float) -> MetricValue:
    sizes = comparison.n_base, comparison.searched.n
    assert value.value is not None  # noqa: S101
    low, high = auc_interval(value.value, 0.0, *sizes, quantile(confidence))
    return replace(value, reason=None, low=low, high=high)


def aggregate_influences(
    report: BiasReport, members: Mapping[str, Members], spread: Spread
) -> Iterator[tuple[str, Influence | str]]:
    """Yield the influence on the overall AUC, each power mean and the final score.

    If there is no influence, yield the reason instead. An influence is valid only until the
    next one is requested: each has a number per row, and they share their memory.
    """
    final, scratch = spread.empty(), spread.empty()
    lacking: str | None = None
    for name in ("overall", *FINAL_SCORE_PARTS):
        lack = _no_derivative(report, name)
        lacking = lacking or lack
        if lack is not None:
            yield name, lack
            continue
        scratch.clear()
        if name == "overall":
            spread.add_overall(scratch)
        else:
            _add_power_mean(scratch, report, name, members)
        scratch.settle()
        final.add(scratch, 0.25)
        yield name, scratch
    yield "final_score", lacking or final


def _add_power_mean(
    influence: Influence, report: BiasReport, metric: str, members: Mapping[str, Members]
) -> None:
    mean = getattr(report.power_mean, metric).value
    assert mean is not None  # noqa: S101 - `_no_derivative` checks it
    power, groups = report.power_mean.power, report.power_mean.groups
    for name in groups:
        value = getattr(report.subgroups[name], metric).value
        weight = (value / mean) ** (power - 1) / len(groups)
        influence.add_auc(metric, members[name].compared[metric], members[name], weight)


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


def _no_derivative(report: BiasReport, metric: str) -> str | None:
    """Say why the overall AUC or a power mean has no standard error, if it has none."""
    if metric == "overall":
        overall = report.overall.auc
        return None if overall.std_error is not None else overall.reason
    mean: MetricValue = getattr(report.power_mean, metric)
    if mean.value is None:
        return mean.reason
    for name in report.power_mean.groups:
        cell: MetricValue = getattr(report.subgroups[name], metric)
        if cell.std_error is None:
            return f"{name} has no standard error"
        if cell.value == 0:
            return f"{name} is 0, where a power mean has no derivative"
    return None
