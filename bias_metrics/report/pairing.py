"""Two models ranked on the same rows, and the uncertainty of their differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.clusters import Clustering, ClusterSums, Codes
from bias_metrics._core.covariance import Joint, MatchedMembers, TwoRankings, joint
from bias_metrics._core.differences import (
    Difference,
    difference_of,
    negated,
    paired,
    sized,
    symmetric,
    undefined_difference,
)
from bias_metrics._core.influence import Influence, Members, RankedRows, rank_rows
from bias_metrics._core.intervals import few_errors
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.report.clustered import ClusteredReport
from bias_metrics.report.report import BiasReport
from bias_metrics.report.steps import Options, measure_members, ranked_members, summarise_bias
from bias_metrics.report.uncertainty import (
    Spread,
    aggregate_influences,
    aggregate_of,
    aggregate_reaches,
    describe,
    replace_aggregates,
    weighted_influences,
)
from bias_metrics.rows import Rows


@dataclass(frozen=True, eq=False)
class Model:
    """One model's ranked rows and report."""

    ranked: RankedRows  # All rows
    members: Mapping[str, Members]  # The subgroups' rows
    report: BiasReport  # Its cells have intervals for independent rows

    @classmethod
    def of(cls, rows: Rows, scores: FloatArray, options: Options) -> Model:
        """Rank all rows, which must count, and measure the cells."""
        ranked = rank_rows(rows.y_true, scores, rows.sample_weight)
        members = ranked_members(ranked, rows)
        measured = {name: measure_members(one, options.confidence) for name, one in members.items()}
        report = summarise_bias(
            ranked.everyone,
            measured,
            power=options.power,
            power_mean_groups=options.groups,
            confidence=options.confidence,
            background=rows.background,
        )
        return cls(ranked, members, report)


class Pairing:
    """Two models, and how the uncertainty of their differences is measured."""

    def __init__(self, models: Sequence[Model], clusters: Codes | None, confidence: float) -> None:
        self.models = tuple(models)
        self.confidence = confidence
        self.spreads = [Spread(model.ranked, confidence) for model in self.models]
        self.reports = [model.report for model in self.models]
        self.by_rows = self._clusterings(None) if self.models[0].ranked.is_weighted else []
        self.clustered = self.by_rows if clusters is None else self._clusterings(clusters)
        if not self.clustered:
            self.rankings = TwoRankings.of(*(model.ranked for model in self.models))
        self.differences = self._each_cell()
        if self.clustered:
            self.reports = [one.report() for one in self.clustered]

    def _clusterings(self, codes: Codes | None) -> list[ClusteredReport]:
        return [
            ClusteredReport(model.report, Clustering.of(model.ranked, codes), self.confidence)
            for model in self.models
        ]

    def _influences(self) -> list[Iterator[tuple[str, Influence | ClusterSums | str]]]:
        """Return the rows' influences on the aggregates of each model."""
        known = list(zip(self.reports, self.models, self.spreads, strict=True))
        if not self.by_rows:
            return [
                aggregate_influences(report, model.members, spread)
                for report, model, spread in known
            ]
        if self.by_rows is not self.clustered:
            for one, model in zip(self.by_rows, self.models, strict=True):
                one.measure_all(model.members)
                one.report()
        return [
            weighted_influences(report, one.totals)
            for report, one in zip(self.reports, self.by_rows, strict=True)
        ]

    def aggregates(self) -> tuple[BiasReport, BiasReport, dict[str, Difference]]:
        """Return the two reports with intervals of the aggregates, and their differences."""
        first, second = self.reports
        described: tuple[dict[str, MetricValue], dict[str, MetricValue]] = ({}, {})
        differences = {}
        reaches = [one.reaches() for one in self.clustered] or [
            aggregate_reaches(report, model.members, spread)
            for report, model, spread in zip(self.reports, self.models, self.spreads, strict=True)
        ]
        for (name, of_first), (_, of_second) in zip(*self._influences(), strict=True):
            of_a, of_b = [one.totals.get(name) for one in self.clustered] or (None, None)
            to_a, to_b = (one.get(name) for one in reaches)
            level = self.confidence
            a = describe(aggregate_of(first, name), of_first, of_a, to_a, confidence=level)
            b = describe(aggregate_of(second, name), of_second, of_b, to_b, confidence=level)
            described[0][name], described[1][name] = a, b
            if of_a is not None and of_b is not None:
                differences[name] = difference_of(a, b, of_a, of_b, self.confidence)
            else:
                few = to_a is not None or to_b is not None
                differences[name] = self._aggregate(a, b, of_first, of_second, few=few)
        first, second = (
            replace_aggregates(report, one)
            for report, one in zip(self.reports, described, strict=True)
        )
        return first, second, differences

    def _each_cell(self) -> dict[str, dict[str, Difference]]:
        """Return the differences by subgroup and metric."""
        found = {}
        for name in self.models[0].members:
            members = [model.members[name] for model in self.models]
            if self.clustered:
                found[name] = {
                    metric: self._clustered_cell(name, metric, members)
                    for metric in SUBGROUP_METRICS
                }
            else:
                matched = self.rankings.match(*members)
                found[name] = {
                    metric: self._cell(name, metric, matched) for metric in SUBGROUP_METRICS
                }
        return found

    def _aggregate(
        self,
        a: MetricValue,
        b: MetricValue,
        of_first: Influence | ClusterSums | str,
        of_second: Influence | ClusterSums | str,
        *,
        few: bool,
    ) -> Difference:
        """Return a difference; with few errors from the aggregates' own intervals."""
        if not isinstance(of_first, Influence) or not isinstance(of_second, Influence):
            return undefined_difference(a, b)
        error, freedom = self.rankings.difference_error(of_first, of_second)
        if not few or a.low is None or b.low is None:
            return symmetric(a, b, error, self.confidence, freedom)
        assert a.std_error is not None  # noqa: S101
        assert b.std_error is not None  # noqa: S101
        covariance = (a.std_error**2 + b.std_error**2 - error**2) / 2
        together = Joint(covariance, (0.0, 0.0, 0.0, 0.0))
        return paired(a, b, together, self.confidence, freedom, small=True)

    def _cell(self, name: str, metric: str, members: MatchedMembers) -> Difference:
        a, b = (getattr(one.subgroups[name], metric) for one in self.reports)
        if a.std_error is None or b.std_error is None:
            return undefined_difference(a, b)
        compared, centre = members.first.compared[metric], METRICS[metric].centre
        small = any(few_errors(float(one) + centre, *compared.sizes) for one in (a, b))
        together = joint(metric, self.rankings, members)
        found = paired(a, b, together, self.confidence, small=small)
        if not METRICS[metric].is_gap:
            return found
        total = paired(a, negated(b), together.negated(), self.confidence, small=small)
        return sized(found, total, b, self.confidence)

    def _clustered_cell(self, name: str, metric: str, members: Sequence[Members]) -> Difference:
        both = zip(self.clustered, members, strict=True)
        (a, of_a), (b, of_b) = (one.measure(name, metric, of) for one, of in both)
        if of_a is None or of_b is None:
            return undefined_difference(a, b)
        is_gap = METRICS[metric].is_gap
        return difference_of(a, b, of_a, of_b, self.confidence, is_gap=is_gap)
