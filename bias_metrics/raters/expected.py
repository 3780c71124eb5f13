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
from bias_metrics.report.report import BiasReport, Overall, PowerMeans, SubgroupBias
from bias_metrics.report.steps import Options
from bias_metrics.report.uncertainty import (
    aggregate_of,
    describe,
    replace_aggregates,
    weighted_influences,
)
from bias_metrics.rows import BACKGROUNDS, Rows, any_of


@dataclass(eq=False)
class RaterVariances:
    """The variance of every number if only the votes are drawn again, with the same comments.

    `found`: the variances so far.
    """

    each: Floats  # Variance of the probability of each comment, in score order
    power: float  # Exponent of the power means
    groups: tuple[str, ...]  # The subgroups that they cover

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


def pairs_of(rows: Rows, ordered: SortedRows, probability: Floats) -> SoftPairs:
    """Return what every number compares, given the rows' probabilities."""
    alike = rows.background == BACKGROUNDS[0] or not rows.subgroups
    outside = None if alike else ~any_of(rows.subgroups)
    return SoftPairs(ordered, probability[ordered.order], rows.subgroups, outside)


def rater_variances(pairs: SoftPairs, options: Options, each: Floats) -> dict[Key, float]:
    """Return the variance of every number that comes from raters.

    `each` is the variance of each row's probability if votes are drawn again, in row order.
    """
    found = RaterVariances(each[pairs.rows.order], options.power, options.groups)
    for key, pair in pairs:
        if pair.lack is None:
            found.add(key, pair)
    return found.complete()


def expected_report(pairs: SoftPairs, rows: Rows, options: Options) -> BiasReport:
    """Return the report of comments that are positive with a probability.

    The labels of the rows only count those of each class.
    """
    confidence = options.confidence
    assert confidence is not None  # noqa: S101
    report = _report_of(pairs, rows, options, confidence)
    members = {name: _Members(pairs, name) for name in rows.subgroups}
    by_rows = ClusteredReport(report, _Evidence(pairs, None), confidence)
    by_rows.measure_all(members)
    report, clustered, totals = by_rows.report(), by_rows, {}
    if rows.clusters is not None:
        evidence = _Evidence(pairs, rows.clusters[pairs.rows.order])
        clustered = ClusteredReport(report, evidence, confidence)
        clustered.measure_all(members)
        report, totals = clustered.report(), clustered.totals
    reaches = clustered.reaches()
    described = {
        name: describe(
            aggregate_of(report, name),
            influence,
            totals.get(name),
            reaches.get(name),
            confidence=confidence,
        )
        for name, influence in weighted_influences(report, by_rows.totals)
    }
    return replace_aggregates(report, described)


def _report_of(pairs: SoftPairs, rows: Rows, options: Options, confidence: float) -> BiasReport:
    """Return a report whose AUCs and AEGs have intervals for independent comments."""
    cells = {key: _measured(key, pair, confidence) for key, pair in pairs}
    labels, subgroups = rows.y_true, {}
    for name, mask in rows.subgroups.items():
        own: dict[str, Any] = {metric: cells[name, metric] for metric in SUBGROUP_METRICS}
        n, n_positive = int(mask.sum()), int(labels[mask].sum())
        subgroups[name] = SubgroupBias(n_positive=n_positive, n_negative=n - n_positive, **own)
    means = {
        metric: power_mean_of({name: cells[name, metric] for name in options.groups}, options.power)
        for metric in FINAL_SCORE_PARTS
    }
    return BiasReport(
        Overall(labels.size, int(labels.sum()), cells[OVERALL]),
        subgroups,
        PowerMeans(options.power, options.groups, **means),
        final_score(cells[OVERALL], means),
        rows.background,
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
