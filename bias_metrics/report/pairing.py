"""Two models ranked on the same rows, and the uncertainty of their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.covariance import TwoRankings, joint
from bias_metrics._core.difference_rule import (
    less,
    negated,
    paired,
    sized,
    symmetric,
    undefined_difference,
)
from bias_metrics._core.differences import Difference
from bias_metrics._core.influence import Influence, Members, RankedRows, rank_rows
from bias_metrics._core.intervals import MIN_CLUSTERS, SMALL, quantile
from bias_metrics._core.lazily import Lazily
from bias_metrics._core.placements import Floats
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.report.evaluation import measure_members, summarise_bias
from bias_metrics.report.report import BiasReport
from bias_metrics.report.request import ranked_members
from bias_metrics.report.uncertainty import (
    Spread,
    aggregate_influences,
    aggregate_of,
    replace_aggregates,
    with_clusters,
)


@dataclass(frozen=True, eq=False)
class Model:
    """One model's ranked rows and report.

    Attributes
    ----------
    ranked : RankedRows
        All rows.
    members : mapping of str to Members
        The subgroups' rows.
    report : BiasReport
        Its cells have intervals for independent rows.
    """

    ranked: RankedRows
    members: Mapping[str, Members]
    report: BiasReport

    @classmethod
    def of(
        cls,
        labels: BoolArray,
        scores: FloatArray,
        masks: Mapping[str, BoolArray],
        *,
        power: float,
        groups: Sequence[str],
        confidence: float,
        background: str,
    ) -> Model:
        """Rank all rows and measure the cells."""
        ranked = rank_rows(labels, scores)
        members = ranked_members(ranked, masks, background)
        measured = {name: measure_members(one, confidence) for name, one in members.items()}
        report = summarise_bias(
            ranked.everyone,
            measured,
            power=power,
            power_mean_groups=groups,
            confidence=confidence,
            background=background,
        )
        return cls(ranked, members, report)


class Pairing:
    """Two models, and how the uncertainty of their differences is measured."""

    def __init__(
        self,
        models: Sequence[Model],
        clusters: npt.NDArray[np.intp] | None,
        confidence: float,
    ) -> None:
        first, second = self.models = tuple(models)
        self.confidence = confidence
        self.clusters = clusters
        self.spreads = [Spread(model.ranked, clusters, confidence) for model in self.models]
        self.rankings = TwoRankings.of(first.ranked, second.ranked)
        self.members = Lazily(
            first.members,
            lambda name: self.rankings.match(first.members[name], second.members[name]),
        )
        self.reports = [
            with_clusters(model.report, model.members, spread)
            for model, spread in zip(self.models, self.spreads, strict=True)
        ]

    def aggregates(self) -> tuple[BiasReport, BiasReport, dict[str, Difference]]:
        """Return the two reports with intervals of the aggregates, and their differences."""
        first, second = self.reports
        described: tuple[dict[str, MetricValue], dict[str, MetricValue]] = ({}, {})
        differences = {}
        influences = (
            aggregate_influences(report, model.members, spread)
            for report, model, spread in zip(self.reports, self.models, self.spreads, strict=True)
        )
        for (name, of_first), (_, of_second) in zip(*influences, strict=True):
            a = self.spreads[0].describe(aggregate_of(first, name), of_first)
            b = self.spreads[1].describe(aggregate_of(second, name), of_second)
            described[0][name], described[1][name] = a, b
            differences[name] = self._aggregate(a, b, of_first, of_second)
        first, second = (
            replace_aggregates(report, one)
            for report, one in zip(self.reports, described, strict=True)
        )
        return first, second, differences

    def cells(self) -> dict[str, dict[str, Difference]]:
        """Return the differences by subgroup and metric."""
        return {
            name: {metric: self._cell(name, metric) for metric in SUBGROUP_METRICS}
            for name in self.members
        }

    def _aggregate(
        self, a: MetricValue, b: MetricValue, of_first: Influence | str, of_second: Influence | str
    ) -> Difference:
        if isinstance(of_first, str) or isinstance(of_second, str):
            return undefined_difference(a, b)
        if self.clusters is not None:
            n_clusters = self.spreads[0].count(None)
            return self._clustered(a, b, self._rows(of_first, of_second), n_clusters)
        error, freedom = self.rankings.difference_error(of_first, of_second)
        return symmetric(a, b, error, quantile(self.confidence, freedom))

    def _cell(self, name: str, metric: str) -> Difference:
        a, b = (getattr(one.subgroups[name], metric) for one in self.reports)
        if a.std_error is None or b.std_error is None:
            return undefined_difference(a, b)
        is_gap = METRICS[metric].is_gap
        if self.clusters is None:
            compared = self.models[0].members[name].compared[metric]
            small = min(compared.n_base, compared.searched.n) < SMALL
            z = quantile(self.confidence)
            together = joint(metric, self.rankings, self.members[name])
            found = paired(a, b, together, z, small=small)
            if not is_gap:
                return found
            total = paired(a, negated(b), together.negated(), z, small=small)
            return sized(found, total, b, self.confidence)
        members = [model.members[name] for model in self.models]
        of_first, of_second = (
            spread.of_auc(metric, one.compared[metric], one)
            for spread, one in zip(self.spreads, members, strict=True)
        )
        n_clusters = self.spreads[0].count(members[0])
        found = self._clustered(a, b, self._rows(of_first, of_second), n_clusters)
        if not is_gap:
            return found
        summed = self._rows(of_first, of_second, sign=-1)
        total = self._clustered(a, negated(b), summed, n_clusters)
        return sized(found, total, b, self.confidence)

    def _rows(self, of_first: Influence, of_second: Influence, sign: int = 1) -> Floats:
        """Return each row's influence on `first - sign * second`, shape (n,)."""
        by_row = of_first.by_row(self.models[0].ranked)
        by_row -= sign * of_second.by_row(self.models[1].ranked)
        return by_row

    def _clustered(
        self, a: MetricValue, b: MetricValue, by_row: Floats, n_clusters: int
    ) -> Difference:
        """Return a difference whose error allows for correlation within clusters."""
        std_error = self.spreads[0].clustered_error(by_row, n_clusters)
        if n_clusters < MIN_CLUSTERS:
            reason = f"{n_clusters} clusters where {MIN_CLUSTERS} are needed"
            found = Difference(a.value, b.value, less(a, b), std_error, reason=reason)
        else:
            found = symmetric(a, b, std_error, quantile(self.confidence, n_clusters - 1))
        return replace(found, n_clusters=n_clusters)
