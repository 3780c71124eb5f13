"""The report in which each comment counts as positive with its probability, and what moves it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bias_metrics._core.clusters import ClusterSums, Codes
from bias_metrics._core.intervals import auc_interval, quantile
from bias_metrics._core.lazily import Lazily
from bias_metrics._core.placements import Floats
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics._core.weighted import LEAST_EFFECTIVE
from bias_metrics.borkan.aggregates import final_score, power_mean_of
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, SUBGROUP_METRICS
from bias_metrics.raters.soft import FINAL, OVERALL, Key, SoftPair, SoftPairs, SortedRows
from bias_metrics.report.clustered import ClusteredReport
from bias_metrics.report.report import BACKGROUNDS, BiasReport, Overall, PowerMeans, SubgroupBias
from bias_metrics.report.request import Request, any_of
from bias_metrics.report.uncertainty import (
    aggregate_of,
    describe,
    replace_aggregates,
    weighted_influences,
)


@dataclass(eq=False)
class RaterVariances:
    """The variance of every number if only the votes are drawn again, with the same comments.

    Attributes
    ----------
    each : float array of shape (n,)
        Variance of the probability of each comment, in score order.
    power : float
        Exponent of the power means.
    groups : tuple of str
        The subgroups that they cover.
    found : dict of Key to float
        The variances so far.
    """

    each: Floats
    power: float
    groups: tuple[str, ...]

    def __post_init__(self) -> None:
        """Start with no number."""
        self.found: dict[Key, float] = {}
        self._moved: dict[str, Any] = {}
        self._values: dict[str, list[float]] = {}

    def add(self, key: Key, pair: SoftPair) -> None:
        """Add an AUC, which must be defined."""
        moved = pair.by_probability
        self.found[key] = self._variance(moved)
        name, metric = key
        if name is None:
            self._moved["overall"] = moved
        elif metric in FINAL_SCORE_PARTS and name in self.groups and pair.value > 0:
            known = self._moved.get(metric, 0.0)
            self._moved[metric] = known + pair.value ** (self.power - 1) * moved
            self._values.setdefault(metric, []).append(pair.value)

    def complete(self) -> dict[Key, float]:
        """Return all variances, also of the power means and the final score, if they have one."""
        parts = [self._moved[name] / 4 for name in ("overall",) if name in self._moved]
        for metric, values in self._values.items():
            if len(values) == len(self.groups):
                mean = power_mean_of(
                    {str(i): MetricValue(one) for i, one in enumerate(values)}, self.power
                )
                moved = self._moved[metric] * float(mean) ** (1 - self.power) / len(values)
                self.found[None, metric] = self._variance(moved)
                parts.append(moved / 4)
        if len(parts) == 1 + len(FINAL_SCORE_PARTS):
            self.found[FINAL] = self._variance(sum(parts))
        return self.found

    def _variance(self, moved: Any) -> float:
        return float(np.sum(self.each * moved**2))


def pairs_of(request: Request, rows: SortedRows, probability: Floats) -> SoftPairs:
    """Return what every number of a request compares, given the rows' probabilities."""
    alike = request.background == BACKGROUNDS[0] or not request.masks
    outside = None if alike else ~any_of(request.masks)
    return SoftPairs(rows, probability[rows.order], request.masks, outside)


def rater_variances(pairs: SoftPairs, request: Request, each: Floats) -> dict[Key, float]:
    """Return the variance of every number that comes from raters.

    Parameters
    ----------
    pairs : SoftPairs
        What the numbers compare.
    request : Request
        The arguments.
    each : float array of shape (n,)
        Variance of each row's probability if votes are drawn again, in row order.
    """
    found = RaterVariances(each[pairs.rows.order], request.power, request.groups)
    for key, pair in pairs:
        if pair.lack is None:
            found.add(key, pair)
    return found.complete()


def expected_report(pairs: SoftPairs, request: Request) -> BiasReport:
    """Return the report of comments that are positive with a probability.

    Parameters
    ----------
    pairs : SoftPairs
        What the numbers compare.
    request : Request
        The arguments; its labels only count the rows of each class.
    """
    assert request.confidence is not None  # noqa: S101
    report = _report_of(pairs, request)
    members = {name: _Members(pairs, name) for name in request.masks}
    by_rows = ClusteredReport(report, _Evidence(pairs, None), request.confidence)
    by_rows.measure_all(members)
    report, clustered, totals = by_rows.report(), by_rows, {}
    if request.clusters is not None:
        evidence = _Evidence(pairs, request.clusters[pairs.rows.order])
        clustered = ClusteredReport(report, evidence, request.confidence)
        clustered.measure_all(members)
        report, totals = clustered.report(), clustered.totals
    reaches = clustered.reaches()
    described = {
        name: describe(
            aggregate_of(report, name),
            influence,
            totals.get(name),
            reaches.get(name),
            confidence=request.confidence,
        )
        for name, influence in weighted_influences(report, by_rows.totals)
    }
    return replace_aggregates(report, described)


def _report_of(pairs: SoftPairs, request: Request) -> BiasReport:
    """Return a report whose AUCs and AEGs have intervals for independent comments."""
    assert request.confidence is not None  # noqa: S101
    cells = {key: _measured(key, pair, request.confidence) for key, pair in pairs}
    labels, subgroups = request.labels, {}
    for name, mask in request.masks.items():
        own: dict[str, Any] = {metric: cells[name, metric] for metric in SUBGROUP_METRICS}
        n, n_positive = int(mask.sum()), int(labels[mask].sum())
        subgroups[name] = SubgroupBias(n_positive=n_positive, n_negative=n - n_positive, **own)
    means = {
        metric: power_mean_of({name: cells[name, metric] for name in request.groups}, request.power)
        for metric in FINAL_SCORE_PARTS
    }
    return BiasReport(
        Overall(labels.size, int(labels.sum()), cells[OVERALL]),
        subgroups,
        PowerMeans(request.power, request.groups, **means),
        final_score(cells[OVERALL], means),
        request.background,
    )


def _measured(key: Key, pair: SoftPair, confidence: float) -> MetricValue:
    if lack := pair.lack:
        return undefined(lack)
    centre = METRICS[key[1]].centre
    if min(pair.sizes) < LEAST_EFFECTIVE:
        return MetricValue(pair.value - centre, "fewer than 2 effective rows in a class")
    std_error, freedom = pair.sums(None).error()
    z = quantile(confidence)
    low, high = auc_interval(pair.value, std_error, *pair.sizes, z, freedom=freedom)
    found = MetricValue(pair.value - centre, std_error=std_error)
    return replace(found, low=low - centre, high=high - centre)


@dataclass(frozen=True)
class _Members:
    """What the metrics of one subgroup compare."""

    pairs: SoftPairs
    name: str

    @property
    def compared(self) -> Lazily[SoftPair]:
        return Lazily(SUBGROUP_METRICS, lambda metric: self.pairs.of(self.name, metric))


@dataclass(frozen=True)
class _Evidence:
    """The influences of comments, or of the clusters with these codes, in score order."""

    pairs: SoftPairs
    codes: Codes | None

    @property
    def overall(self) -> SoftPair:
        return self.pairs.overall()

    def sums(self, metric: str, comparison: SoftPair, members: object) -> ClusterSums:
        del metric, members
        return comparison.sums(self.codes)
