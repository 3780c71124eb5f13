"""One model, or two, measured once: reports and comparisons at any confidence.

A cell is measured when it is first asked for. What is kept of it are a few numbers (`Auc`, `Apart`)
from which its interval follows. Of an aggregate, its standard error is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

from bias_metrics._core.cells import Auc, pair_auc
from bias_metrics._core.checks import FloatArray
from bias_metrics._core.clusters import Clustering, ClusterSums, RowsOfClasses
from bias_metrics._core.covariance import TwoRankings, joint
from bias_metrics._core.differences import (
    Apart,
    Difference,
    symmetric,
    undefined_difference,
    with_unseen,
    with_unseen_loss,
)
from bias_metrics._core.influence import Influence, rank_rows
from bias_metrics._core.intervals import few_errors
from bias_metrics._core.values import MetricValue
from bias_metrics.families import adjust_differences
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, SUBGROUP_METRICS
from bias_metrics.report.clustered import FEW_ROWS, Moves, unseen_errors
from bias_metrics.report.steps import (
    MeasuredSubgroup,
    Options,
    ranked_members,
    summarise_bias,
)
from bias_metrics.report.uncertainty import (
    Spread,
    aggregate_influences,
    aggregate_key,
    aggregate_of,
    describe,
    replace_aggregates,
    weighted_influences,
)
from bias_metrics.rows import Rows
from bias_metrics.table import BiasTable, Key

Covered = tuple[float, tuple[str, ...]]  # The exponent of power means, and the subgroups in them
Sums = dict[str, ClusterSums]
KEPT_SUMS = 5_000_000  # The most influences of clusters that wait for the aggregates: 40 MB


class Error(NamedTuple):
    """A standard error, and its degrees of freedom."""

    std_error: float
    freedom: float


class _Aggregates(NamedTuple):
    """What the intervals of the aggregates need."""

    errors: Mapping[str, Error | str]  # For independent rows, by name; or why there is none
    totals: Mapping[str, ClusterSums]  # If rows come in clusters: the influences of these
    unseen: Mapping[str, float]  # How far rows that were not drawn may move them
    unseen_apart: Mapping[str, float]  # The same, of their difference from another model's


class Measurement:
    """One model's scores, ranked; cells are measured once.

    Examples
    --------
    >>> rows = Rows([0, 1] * 40, {"gay": [0, 0, 1, 1] * 20})
    >>> y_score = rows.scores("y_score", [0.1, 0.9, 0.4, 0.5, 0.6, 0.3, 0.2, 0.8] * 10)
    >>> measured = Measurement(rows, y_score)
    >>> for confidence in (0.9, 0.99):
    ...     print(measured.report(Options.of(rows, confidence=confidence)).overall.auc)
    0.812 [0.723, 0.878]
    0.812 [0.661, 0.906]
    """

    def __init__(self, rows: Rows, scores: FloatArray) -> None:
        self.rows, (of_rows,) = rows.counted(scores)
        self.ranked = rank_rows(self.rows.y_true, of_rows, self.rows.sample_weight)
        self.members = ranked_members(self.ranked, self.rows)
        self._found: dict[str, MeasuredSubgroup] = {}
        self._sums: dict[str, Sums] = {}
        self._errors: dict[Covered, Mapping[str, Error | str]] = {}
        self._totals: dict[tuple[Covered, bool], Mapping[str, ClusterSums]] = {}

    @cached_property
    def by_rows(self) -> Clustering | None:
        """Rows as clusters of one row each, if they are weighted."""
        return Clustering.of(self.ranked, None) if self.ranked.is_weighted else None

    @cached_property
    def clustering(self) -> Clustering | None:
        """The clusters, or rows as such; None if there are neither."""
        codes = self.rows.clusters
        return self.by_rows if codes is None else Clustering.of(self.ranked, codes)

    def subgroup(self, name: str) -> MeasuredSubgroup:
        """Return a subgroup as measured."""
        return self._found[name] if name in self._found else self.subgroup_and_sums(name)[0]

    def subgroup_and_sums(
        self, name: str, counted: RowsOfClasses | None = None
    ) -> tuple[MeasuredSubgroup, Sums]:
        """Measure a subgroup; with the clusters' influences on its cells, if there are clusters.

        `counted` keeps what is the same for every model of the rows.
        """
        members, sums = self.members[name], {}
        found = MeasuredSubgroup.of(members)
        if self.clustering is not None:
            cells, within = dict(found.cells), self.clustering.within(members, counted)
            for metric, auc in cells.items():
                if auc.std_error is not None:
                    sums[metric] = within.sums(metric)
                    cells[metric] = sums[metric].clustered(auc)
            found = replace(found, cells=cells)
            parts = {metric: sums[metric] for metric in FINAL_SCORE_PARTS if metric in sums}
            if (len(self._sums) + 1) * len(FINAL_SCORE_PARTS) * self.clustering.n <= KEPT_SUMS:
                self._sums[name] = parts
        self._found[name] = found
        return found, sums

    def take(self, found: Mapping[str, MeasuredSubgroup]) -> None:
        """Take subgroups that were measured elsewhere, on the same rows."""
        self._found.update(found)

    @cached_property
    def overall(self) -> Auc:
        """The overall AUC."""
        everyone = self.ranked.everyone
        found = pair_auc(everyone.negative, everyone.positive)
        if self.clustering is None or found.std_error is None:
            return found
        return self.clustering.within(None).sums("auc").clustered(found)

    def cells(self, options: Options, names: Iterable[str] | None = None) -> BiasTable:
        """Return a table whose aggregates have no intervals.

        `names` are the subgroups; default all.
        """
        names = self.members if names is None else names
        return summarise_bias(
            self.ranked.everyone,
            {name: self.subgroup(name) for name in names},
            options,
            self.rows.background,
            self.overall,
        )

    def report(self, options: Options, names: Iterable[str] | None = None) -> BiasTable:
        """Return the report at a confidence; `names` are the subgroups, default all."""
        report = self.cells(options, names)
        if not options.aggregates:
            return report
        described = described_aggregates(report, self.aggregates(report, options), options)
        return replace_aggregates(report, described)

    def aggregates(self, report: BiasTable, options: Options) -> _Aggregates:
        """Return what the aggregates' intervals need, given the report of the cells."""
        covered = options.power, options.groups
        if covered not in self._errors:
            self.settle(report, options)
            found = self.influences(report, options)
            self._errors[covered] = {name: error_of(one) for name, one in found}
        return self.known_aggregates(report, options)

    def keep(self, options: Options, errors: Mapping[str, Error | str]) -> None:
        """Keep the aggregates' errors for independent rows."""
        self._errors[options.power, options.groups] = errors

    def known_aggregates(self, report: BiasTable, options: Options) -> _Aggregates:
        """Return the same, if the errors for independent rows are kept."""
        errors = self._errors[options.power, options.groups]
        drawn = {
            name: {metric: auc.n_drawn for metric, auc in self.subgroup(name).cells.items()}
            for name in options.groups
        }
        totals = {} if self.clustering is None else self._moved(report, options, self.clustering)
        unseen = unseen_errors(report, drawn, FEW_ROWS), unseen_errors(report, drawn)
        return _Aggregates(errors, totals, *unseen)

    def settle(self, report: BiasTable, options: Options) -> None:
        """Measure how far clusters move the aggregates; their influences wait no longer then."""
        if self.clustering is not None and self.by_rows is None:
            self._moved(report, options, self.clustering)

    def influences(
        self, report: BiasTable, options: Options
    ) -> Iterable[tuple[str, Influence | ClusterSums | str]]:
        """Yield the rows' influences on the aggregates; each is valid until the next one."""
        if self.by_rows is None:
            return aggregate_influences(report, self.members, Spread(self.ranked, options.level))
        return weighted_influences(report, self._moved(report, options, self.by_rows))

    def _moved(
        self, report: BiasTable, options: Options, clustering: Clustering
    ) -> Mapping[str, ClusterSums]:
        """Measure how far clusters move the aggregates."""
        key = (options.power, options.groups), clustering.alone
        if key not in self._totals:
            moves = Moves(report)
            for name in options.groups:
                cells, within = self.subgroup(name).cells, clustering.within(self.members[name])
                known = self._sums.pop(name, {}) if clustering is self.clustering else {}
                for metric in FINAL_SCORE_PARTS:
                    if cells[metric].std_error is not None:
                        moves.add(name, metric, known.get(metric) or within.moves(metric))
            if self.overall.std_error is not None:
                moves.add(None, "auc", clustering.within(None).moves("auc"))
            self._totals[key] = moves.complete()
        return self._totals[key]


def error_of(influence: Influence | ClusterSums | str) -> Error | str:
    """Return the standard error that influences make, or why there is none."""
    return influence if isinstance(influence, str) else Error(*influence.error())


def described_aggregates(
    report: BiasTable, aggregates: _Aggregates, options: Options
) -> dict[str, MetricValue]:
    """Return the aggregates of a table with intervals, by name."""
    found = {}
    for name, error in aggregates.errors.items():
        total = aggregates.totals.get(name)
        known = (
            aggregate_of(report, name),
            error,
            None if total is None else total.total,
            aggregates.unseen.get(name, 0.0),
        )
        measure = partial(describe, *known)
        found[name] = measure(options.level).measured_by(measure)
    return found


def cell_difference(
    first: Auc, second: Auc, apart: Apart | None, metric: str, confidence: float
) -> Difference:
    """Return the difference of two models' cells at a confidence."""
    a, b = first.at(confidence), second.at(confidence)
    if apart is None:
        return undefined_difference(a, b)
    return apart.difference(a, b, confidence, is_gap=METRICS[metric].is_gap)


def aggregate_difference(
    first: MetricValue,
    second: MetricValue,
    apart: Apart | Error | None,
    unseen: float,
    n_drawn: float,
    confidence: float,
) -> Difference:
    """Return the difference of two models' aggregates at a confidence."""
    if apart is None:
        return undefined_difference(first, second)
    a, b = first.at(confidence), second.at(confidence)
    if isinstance(apart, Apart):
        found = apart.difference(a, b, confidence)
    else:
        found = symmetric(a, b, apart.std_error, confidence, apart.freedom)
    found = with_unseen(found, unseen, confidence)
    return with_unseen_loss(found, n_drawn, confidence, of_auc=True)


class Pairing:
    """Two models on the same rows, or one that is both; differences are measured once."""

    def __init__(self, first: Measurement, second: Measurement) -> None:
        self.models = first, second
        self._found: dict[str, dict[str, Apart]] = {}
        self._apart: dict[Covered, Mapping[str, Apart | Error | None]] = {}

    @cached_property
    def rankings(self) -> TwoRankings:
        """The two rankings, matched."""
        return TwoRankings.of(*(model.ranked for model in self.models))

    def apart(self, name: str) -> dict[str, Apart]:
        """Return how the cells of a subgroup vary together, where both have an error."""
        if name not in self._found:
            clustered = self.models[0].clustering is not None
            self._found[name] = self._by_clusters(name) if clustered else self._by_rows(name)
        return self._found[name]

    def _by_clusters(self, name: str) -> dict[str, Apart]:
        first, second = self.models
        counted: RowsOfClasses = {}
        sums = others = first.subgroup_and_sums(name, counted)[1]
        if second is not first:
            others = second.subgroup_and_sums(name, counted)[1]
        drawn = {metric: auc.n_drawn for metric, auc in first.subgroup(name).cells.items()}
        return {one: Apart.of(sums[one], others[one], drawn[one]) for one in sums if one in others}

    def _by_rows(self, name: str) -> dict[str, Apart]:
        first, second = (model.subgroup(name).cells for model in self.models)
        members = self.rankings.match(*(model.members[name] for model in self.models))
        found = {}
        for metric, auc in first.items():
            other = second[metric]
            if auc.value is None or other.value is None or None in {auc.std_error, other.std_error}:
                continue
            small = any(few_errors(value, *auc.sizes) for value in (auc.value, other.value))
            together = joint(metric, self.rankings, members)
            found[metric] = Apart(together, small=small, n_drawn=auc.n_drawn)
        return found

    def differences(
        self, options: Options, names: Iterable[str] | None = None
    ) -> dict[Key, Difference]:
        """Return the differences of cells at a confidence."""
        level = options.level
        found: dict[Key, Difference] = {}
        for name in self.models[0].members if names is None else names:
            apart = self.apart(name)
            first, second = (model.subgroup(name).cells for model in self.models)
            for metric in SUBGROUP_METRICS:
                measure = partial(
                    cell_difference, first[metric], second[metric], apart.get(metric), metric
                )
                found[Key(metric, name)] = measure(level).measured_by(measure)
        return found

    def comparison(self, options: Options, names: Iterable[str] | None = None) -> BiasTable:
        """Return the comparison at a confidence; `names` are the subgroups, default all."""
        names = list(self.models[0].members if names is None else names)
        cells = adjust_differences(self.differences(options, names))
        return self.comparison_of(options, cells, names)

    def comparison_of(
        self,
        options: Options,
        cells: Mapping[Key, Difference],
        names: Sequence[str],
        joint_confidence: float | None = None,
    ) -> BiasTable:
        """Return the same, given the differences of the cells with adjusted p-values."""
        reports = [model.cells(options, names) for model in self.models]
        aggregates = self._aggregates(reports, options)
        numbers = {aggregate_key(name): one for name, one in aggregates.items()}
        return replace(
            reports[0],
            numbers={**numbers, **cells},
            confidence=options.level,
            joint_confidence=joint_confidence,
        )

    def _aggregates(self, reports: Sequence[BiasTable], options: Options) -> dict[str, Difference]:
        """Return the differences of the aggregates, by name."""
        apart = self._errors(reports, options)
        known = [
            model.known_aggregates(report, options)
            for model, report in zip(self.models, reports, strict=True)
        ]
        of_first, of_second = (
            described_aggregates(report, one, options)
            for report, one in zip(reports, known, strict=True)
        )
        found = {}
        for name, a in of_first.items():
            unseen = max(of_model.unseen_apart.get(name, 0.0) for of_model in known)
            n_drawn = self.models[0].overall.n_drawn if name == "overall" else math.inf
            measure = partial(
                aggregate_difference, a, of_second[name], apart[name], unseen, n_drawn
            )
            found[name] = measure(options.level).measured_by(measure)
        return found

    def _errors(
        self, reports: Sequence[BiasTable], options: Options
    ) -> Mapping[str, Apart | Error | None]:
        """Return how far the models' aggregates vary apart; keep the errors of each."""
        covered = options.power, options.groups
        if covered in self._apart:
            return self._apart[covered]
        for model, report in zip(self.models, reports, strict=True):
            model.settle(report, options)  # before the rows' influences take memory, too
        of_models: tuple[dict[str, Error | str], ...] = {}, {}
        apart: dict[str, Apart | Error | None] = {}
        each = (
            model.influences(report, options)
            for model, report in zip(self.models, reports, strict=True)
        )
        for (name, a), (_, b) in zip(*each, strict=True):
            for errors, one in zip(of_models, (a, b), strict=True):
                errors[name] = error_of(one)
            both = isinstance(a, Influence) and isinstance(b, Influence)
            apart[name] = Error(*self.rankings.difference_error(a, b)) if both else None
        for model, errors in zip(self.models, of_models, strict=True):
            model.keep(options, errors)
        if self.models[0].clustering is not None:
            first, second = (
                model.known_aggregates(report, options).totals
                for model, report in zip(self.models, reports, strict=True)
            )
            apart = {
                name: Apart.of(first[name], second[name])
                if name in first and name in second
                else None
                for name in apart
            }
        self._apart[covered] = apart
        return apart
