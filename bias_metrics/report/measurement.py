"""Measurements of a model, or of two models, for reports and comparisons at any confidence.

A cell is measured at its first use. Then only a few numbers are stored, from which its interval
follows (`Auc`, `PairedError`). For an aggregate, its standard error is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import NamedTuple

from bias_metrics._core.cells import Auc, count_effective_rows, measure_cells, measure_pair_auc
from bias_metrics._core.checks import FloatArray
from bias_metrics._core.clusters import ClassCounts, Clustering, ClusterSums
from bias_metrics._core.covariance import TwoRankings, measure_joint_moments
from bias_metrics._core.differences import (
    Difference,
    PairedError,
    make_symmetric_difference,
    make_undefined_difference,
    widen_for_unseen_loss,
    widen_for_unseen_rows,
)
from bias_metrics._core.influence import Influence, rank_rows
from bias_metrics._core.intervals import has_few_errors
from bias_metrics._core.values import MetricValue
from bias_metrics.families import adjust_differences
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, SUBGROUP_METRICS
from bias_metrics.report.aggregates import (
    FEW_ROWS,
    PowerMean,
    compute_unseen_errors,
    describe_aggregate,
    find_power_mean,
    iterate_influences,
    iterate_weighted_influences,
    make_aggregate_key,
)
from bias_metrics.report.steps import (
    MeasuredSubgroup,
    ReportOptions,
    rank_members,
    summarise_bias,
)
from bias_metrics.rows import RowCounts, Rows
from bias_metrics.table import BiasTable, Key

Covered = tuple[float, tuple[str, ...]]  # The exponent of power means, and the subgroups in them
Sums = dict[str, ClusterSums]
MAX_STORED_SUMS = 5_000_000  # Stored influences of clusters, for the aggregates: at most 40 MB


class StandardError(NamedTuple):
    """A standard error, and its degrees of freedom."""

    std_error: float
    freedom: float


class _AggregateErrors(NamedTuple):
    """Inputs of the intervals of the aggregates, by name."""

    # For independent rows; or the reason why it is undefined
    errors: Mapping[str, StandardError | str]
    influences: Mapping[str, ClusterSums]  # Influences of clusters, if rows are clustered
    unseen: Mapping[str, float]  # Standard error due to rows that were not drawn
    unseen_difference: Mapping[str, float]  # The same for the difference from another model


class Measurement:
    """The ranked scores of a model; each cell is measured once.

    Examples
    --------
    >>> rows = Rows([0, 1] * 40, {"gay": [0, 0, 1, 1] * 20})
    >>> y_score = rows.check_scores("y_score", [0.1, 0.9, 0.4, 0.5, 0.6, 0.3, 0.2, 0.8] * 10)
    >>> measured = Measurement(rows, y_score)
    >>> for confidence in (0.9, 0.99):
    ...     options = ReportOptions.from_arguments(rows, confidence=confidence)
    ...     print(measured.report(options).overall.auc)
    0.812 [0.723, 0.878]
    0.812 [0.661, 0.906]
    """

    def __init__(self, rows: Rows, scores: FloatArray) -> None:
        self.rows, (counted_scores,) = rows.select_counted(scores)
        self.ranked = rank_rows(self.rows.y_true, counted_scores, self.rows.sample_weight)
        self.members = rank_members(self.ranked, self.rows)
        self._subgroups: dict[str, MeasuredSubgroup] = {}
        self._sums: dict[str, Sums] = {}
        self.aggregate_errors: dict[Covered, Mapping[str, StandardError | str]] = {}
        self._totals: dict[tuple[Covered, bool], Mapping[str, ClusterSums]] = {}

    @cached_property
    def row_clustering(self) -> Clustering | None:
        """Weighted rows as clusters of a single row; None without weights."""
        return Clustering.from_codes(self.ranked, None) if self.ranked.is_weighted else None

    @cached_property
    def clustering(self) -> Clustering | None:
        """The clusters, or weighted rows as clusters; None without clusters and weights."""
        codes = self.rows.clusters
        return self.row_clustering if codes is None else Clustering.from_codes(self.ranked, codes)

    def measure_subgroup(self, name: str) -> MeasuredSubgroup:
        """Measure a subgroup, or return the stored measurement."""
        return self._subgroups[name] if name in self._subgroups else self.measure_with_sums(name)[0]

    def measure_with_sums(
        self, name: str, counted: ClassCounts | None = None
    ) -> tuple[MeasuredSubgroup, Sums]:
        """Measure a subgroup; with clusters, also return their influences on its cells.

        `counted` caches counts that are the same for every model of the rows.
        """
        members, sums = self.members[name], {}
        compared = members.comparisons
        n_positive, n_negative = members.positive.scores.n, members.negative.scores.n
        counts = RowCounts(n_positive, n_negative, count_effective_rows(compared))
        cells = measure_cells(compared)
        if self.clustering is not None:
            within = self.clustering.select_members(members, counted)
            for metric, auc in cells.items():
                if auc.std_error is not None:
                    sums[metric] = within.measure_sums(metric)
                    cells[metric] = sums[metric].add_cluster_error(auc)
            parts = {metric: sums[metric] for metric in FINAL_SCORE_PARTS if metric in sums}
            n_sums = (len(self._sums) + 1) * len(FINAL_SCORE_PARTS) * self.clustering.n_clusters
            if n_sums <= MAX_STORED_SUMS:
                self._sums[name] = parts
        self._subgroups[name] = MeasuredSubgroup(counts, cells)
        return self._subgroups[name], sums

    def adopt_subgroups(self, subgroups: Mapping[str, MeasuredSubgroup]) -> None:
        """Store subgroups that were measured elsewhere on the same rows."""
        self._subgroups.update(subgroups)

    @cached_property
    def overall(self) -> Auc:
        """The overall AUC."""
        everyone = self.ranked.everyone
        auc = measure_pair_auc(everyone.negative, everyone.positive)
        if self.clustering is None or auc.std_error is None:
            return auc
        return self.clustering.select_members(None).measure_sums("auc").add_cluster_error(auc)

    def measure_cells(
        self, options: ReportOptions, names: Iterable[str] | None = None
    ) -> BiasTable:
        """Return a table of the subgroups `names`, default all, without intervals of aggregates."""
        names = self.members if names is None else names
        return summarise_bias(
            self.ranked.everyone,
            {name: self.measure_subgroup(name) for name in names},
            options,
            self.rows.background,
            self.overall,
        )

    def report(self, options: ReportOptions, names: Iterable[str] | None = None) -> BiasTable:
        """Return the report at a confidence; `names` are the subgroups, default all."""
        report = self.measure_cells(options, names)
        if not options.has_aggregates:
            return report
        covered = options.power, options.groups
        if covered not in self.aggregate_errors:
            self.prepare_clusters(report, options)
            self.aggregate_errors[covered] = {
                name: to_standard_error(influence)
                for name, influence in self.iterate_influences(report, options)
            }
        aggregates = self.collect_aggregates(report, options)
        described = describe_aggregates(report, aggregates, options)
        replaced = (*FINAL_SCORE_PARTS, "final_score")
        return report.add_numbers({Key(name): described[name] for name in replaced})

    def collect_aggregates(self, report: BiasTable, options: ReportOptions) -> _AggregateErrors:
        """Return the inputs of the aggregates' intervals, with stored errors."""
        errors = self.aggregate_errors[options.power, options.groups]
        drawn = {
            name: {metric: auc.n_drawn for metric, auc in self.measure_subgroup(name).cells.items()}
            for name in options.groups
        }
        totals: Mapping[str, ClusterSums] = {}
        if self.clustering is not None:
            totals = self._measure_clusters(report, options, self.clustering)
        own, of_difference = (compute_unseen_errors(report, drawn, n) for n in (FEW_ROWS, 0.0))
        return _AggregateErrors(errors, totals, own, of_difference)

    def prepare_clusters(self, report: BiasTable, options: ReportOptions) -> None:
        """Measure the influences of clusters on the aggregates, which frees stored influences."""
        if self.clustering is not None and self.row_clustering is None:
            self._measure_clusters(report, options, self.clustering)

    def iterate_influences(
        self, report: BiasTable, options: ReportOptions
    ) -> Iterable[tuple[str, Influence | ClusterSums | str]]:
        """Yield the influences of rows on the aggregates; each is valid only until the next."""
        if self.row_clustering is None:
            return iterate_influences(report, self.members, self.ranked)
        return iterate_weighted_influences(
            report, self._measure_clusters(report, options, self.row_clustering)
        )

    def _measure_clusters(
        self, report: BiasTable, options: ReportOptions, clustering: Clustering
    ) -> Mapping[str, ClusterSums]:
        """Measure the influences of clusters on the aggregates."""
        key = (options.power, options.groups), clustering.is_unclustered
        if key not in self._totals:
            totals: dict[str, ClusterSums] = {}
            means = {metric: find_power_mean(report, metric) for metric in FINAL_SCORE_PARTS}
            for name in options.groups:
                within = clustering.select_members(self.members[name])
                stored = self._sums.pop(name, {}) if clustering is self.clustering else {}
                for metric, mean in means.items():
                    if isinstance(mean, PowerMean):
                        sums = stored.get(metric) or within.measure_influences(metric)
                        sums = sums.scale(mean.derivatives[name])
                        totals[metric] = totals[metric].add(sums) if metric in totals else sums
            if self.overall.std_error is not None:
                totals["overall"] = clustering.select_members(None).measure_influences("auc")
            parts = ("overall", *FINAL_SCORE_PARTS)
            if all(name in totals for name in parts):
                quarters = [totals[name].scale(0.25) for name in parts]
                totals["final_score"] = reduce(ClusterSums.add, quarters)
            self._totals[key] = totals
        return self._totals[key]


def to_standard_error(influence: Influence | ClusterSums | str) -> StandardError | str:
    """Compute a standard error from influences, or pass on the reason why it is undefined."""
    return influence if isinstance(influence, str) else StandardError(*influence.compute_error())


def describe_aggregates(
    report: BiasTable, aggregates: _AggregateErrors, options: ReportOptions
) -> dict[str, MetricValue]:
    """Return the aggregates of a table with intervals, by name."""
    described = {}
    for name, error in aggregates.errors.items():
        total = aggregates.influences.get(name)
        value: MetricValue = report[make_aggregate_key(name)]
        summary = None if total is None else total.summary
        inputs = value, error, summary, aggregates.unseen.get(name, 0.0)
        measure = partial(describe_aggregate, *inputs)
        described[name] = measure(options.level).attach_measure(measure)
    return described


def subtract_cells(
    first: Auc, second: Auc, error: PairedError | None, metric: str, confidence: float
) -> Difference:
    """Return the difference of two models' cells at a confidence."""
    a, b = first.compute_value(confidence), second.compute_value(confidence)
    if error is None:
        return make_undefined_difference(a, b)
    return error.compute_difference(a, b, confidence, is_gap=METRICS[metric].is_gap)


def subtract_aggregates(
    first: MetricValue,
    second: MetricValue,
    error: PairedError | StandardError | None,
    unseen: float,
    n_drawn: float,
    confidence: float,
) -> Difference:
    """Return the difference of two models' aggregates at a confidence."""
    if error is None:
        return make_undefined_difference(first, second)
    a, b = first.change_confidence(confidence), second.change_confidence(confidence)
    if isinstance(error, PairedError):
        difference = error.compute_difference(a, b, confidence)
    else:
        difference = make_symmetric_difference(a, b, error.std_error, confidence, error.freedom)
    difference = widen_for_unseen_rows(difference, unseen, confidence)
    return widen_for_unseen_loss(difference, n_drawn, confidence, is_auc=True)


class Pairing:
    """Two models, which may be identical, on the same rows; differences are measured once."""

    def __init__(self, first: Measurement, second: Measurement) -> None:
        self.models = first, second
        self._cell_errors: dict[str, dict[str, PairedError]] = {}
        self._joint_errors: dict[Covered, Mapping[str, PairedError | StandardError | None]] = {}

    @cached_property
    def rankings(self) -> TwoRankings:
        """The matched rankings of both models."""
        return TwoRankings.from_rankings(*(model.ranked for model in self.models))

    def measure_errors(self, name: str) -> dict[str, PairedError]:
        """Return the joint errors of a subgroup's cells that have an error in both models."""
        if name in self._cell_errors:
            return self._cell_errors[name]
        first, second = self.models
        errors: dict[str, PairedError] = {}
        if first.clustering is not None:
            counted: ClassCounts = {}
            sums = others = first.measure_with_sums(name, counted)[1]
            if second is not first:
                others = second.measure_with_sums(name, counted)[1]
            cells = first.measure_subgroup(name).cells
            errors = {
                metric: PairedError.from_influences(own, others[metric], cells[metric].n_drawn)
                for metric, own in sums.items()
                if metric in others
            }
        else:
            members = self.rankings.match_members(first.members[name], second.members[name])
            for metric, a in first.measure_subgroup(name).cells.items():
                b = second.measure_subgroup(name).cells[metric]
                if a.value is None or b.value is None or None in {a.std_error, b.std_error}:
                    continue
                is_small = any(has_few_errors(value, *a.sizes) for value in (a.value, b.value))
                moments = measure_joint_moments(metric, self.rankings, members)
                errors[metric] = PairedError(moments, is_small=is_small, n_drawn=a.n_drawn)
        self._cell_errors[name] = errors
        return errors

    def measure_differences(
        self, options: ReportOptions, names: Iterable[str] | None = None
    ) -> dict[Key, Difference]:
        """Return the differences of cells at a confidence."""
        level = options.level
        differences: dict[Key, Difference] = {}
        for name in self.models[0].members if names is None else names:
            errors = self.measure_errors(name)
            first, second = (model.measure_subgroup(name).cells for model in self.models)
            for metric in SUBGROUP_METRICS:
                measure = partial(
                    subtract_cells, first[metric], second[metric], errors.get(metric), metric
                )
                differences[Key(metric, name)] = measure(level).attach_measure(measure)
        return differences

    def compare_models(
        self, options: ReportOptions, names: Iterable[str] | None = None
    ) -> BiasTable:
        """Return the comparison at a confidence; `names` are the subgroups, default all."""
        names = list(self.models[0].members if names is None else names)
        cells = adjust_differences(self.measure_differences(options, names))
        return self.make_comparison(options, cells, names)

    def make_comparison(
        self,
        options: ReportOptions,
        cells: Mapping[Key, Difference],
        names: Sequence[str],
        joint_confidence: float | None = None,
    ) -> BiasTable:
        """Return the comparison, given the differences of cells with adjusted p-values."""
        reports = [model.measure_cells(options, names) for model in self.models]
        aggregates = self._subtract_aggregates(reports, options)
        numbers = {make_aggregate_key(name): difference for name, difference in aggregates.items()}
        return replace(
            reports[0],
            numbers={**numbers, **cells},
            confidence=options.level,
            joint_confidence=joint_confidence,
        )

    def _subtract_aggregates(
        self, reports: Sequence[BiasTable], options: ReportOptions
    ) -> dict[str, Difference]:
        """Return the differences of the aggregates, by name."""
        errors = self._measure_aggregate_errors(reports, options)
        inputs = [
            model.collect_aggregates(report, options)
            for model, report in zip(self.models, reports, strict=True)
        ]
        first_values, second_values = (
            describe_aggregates(report, model_inputs, options)
            for report, model_inputs in zip(reports, inputs, strict=True)
        )
        differences = {}
        for name, a in first_values.items():
            unseen = max(model_inputs.unseen_difference.get(name, 0.0) for model_inputs in inputs)
            n_drawn = self.models[0].overall.n_drawn if name == "overall" else math.inf
            measure = partial(
                subtract_aggregates, a, second_values[name], errors[name], unseen, n_drawn
            )
            differences[name] = measure(options.level).attach_measure(measure)
        return differences

    def _measure_aggregate_errors(
        self, reports: Sequence[BiasTable], options: ReportOptions
    ) -> Mapping[str, PairedError | StandardError | None]:
        """Measure the joint errors of the models' aggregates, and store each model's errors."""
        covered = options.power, options.groups
        if covered in self._joint_errors:
            return self._joint_errors[covered]
        for model, report in zip(self.models, reports, strict=True):
            model.prepare_clusters(
                report, options
            )  # frees memory before rows' influences are computed
        errors_by_model: tuple[dict[str, StandardError | str], ...] = {}, {}
        joint_errors: dict[str, PairedError | StandardError | None] = {}
        each = (
            model.iterate_influences(report, options)
            for model, report in zip(self.models, reports, strict=True)
        )
        for (name, a), (_, b) in zip(*each, strict=True):
            for errors, influence in zip(errors_by_model, (a, b), strict=True):
                errors[name] = to_standard_error(influence)
            have_rows = isinstance(a, Influence) and isinstance(b, Influence)
            joint_errors[name] = (
                StandardError(*self.rankings.compute_difference_error(a, b)) if have_rows else None
            )
        for model, errors in zip(self.models, errors_by_model, strict=True):
            model.aggregate_errors[covered] = errors
        if self.models[0].clustering is not None:
            first, second = (
                model.collect_aggregates(report, options).influences
                for model, report in zip(self.models, reports, strict=True)
            )
            joint_errors = {
                name: PairedError.from_influences(first[name], second[name])
                if name in first and name in second
                else None
                for name in joint_errors
            }
        self._joint_errors[covered] = joint_errors
        return joint_errors
