"""Measurements of rows of the evidence, for the rules of a policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from bias_metrics import BiasTable, Key, changed_decisions
from bias_metrics.calibration import MeasuredCalibration
from bias_metrics.families import bonferroni_level
from bias_metrics.gate import (
    LEAST_COMPARED,
    Evidence,
    Losses,
    remove_sampling_error,
)
from bias_metrics.metrics import (
    CALIBRATION_GAP,
    GIVEN,
    METRICS,
    SUBGROUP_METRICS,
    list_threshold_metrics,
)
from bias_metrics.parts import PackedMasks
from bias_metrics.report import Measurement, Pairing, ReportOptions, compute_joint_level
from bias_metrics.rows import Background
from bias_metrics.rows import Rows as LabelledRows
from bias_metrics.thresholds import ChangedDecisions, MeasuredRates
from biasgate.tasks.evidence.rows import CANDIDATE, EvidenceRows
from biasgate.tasks.records.numbers import CONFIDENCE

Span = tuple[float, float] | None
Result = TypeVar("Result")


@dataclass(frozen=True)
class _Selection:
    """The confidence and the groups of a table of numbers."""

    confidence: float
    names: list[str]
    """Identities and categories to measure."""
    groups: list[str]
    """Identities that the power means cover."""

    def to_options(self, rows: LabelledRows) -> ReportOptions:
        """Return the selection as options of a report."""
        return ReportOptions.from_arguments(
            rows, confidence=self.confidence, power_mean_groups=self.groups
        )


@dataclass(frozen=True)
class RowMeasurer:
    """Rows with the options of their measurement, and a cache of results."""

    rows: EvidenceRows
    power_mean_groups: Sequence[str] | None
    """The identities in the power means; None for all."""
    background: Background
    is_sample: bool
    """True if the rows are a sample; False if verdicts are about exactly these rows."""
    thresholds: Mapping[str, Mapping[str, float]]
    """Thresholds by name and role, for rules on error rates."""
    span: Callable[[str, str, float], Span]
    """Function from a threshold's name, role and confidence to its confidence interval."""
    calibrated: bool = False
    """True to measure calibration."""
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Identities to measure jointly, by the name of their category."""
    cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """Results for these rows."""

    @property
    def rivals(self) -> list[str]:
        """Roles of the models that the candidate is compared with."""
        return [name for name in self.rows.scores if name != CANDIDATE]

    def measure(
        self,
        confidence: float,
        *,
        joined: bool = False,
        groups: Sequence[str] | None = None,
        among: Sequence[str] | None = None,
    ) -> Evidence:
        """Measure all numbers, with two-sided intervals; repeated calls use the cache.

        Parameters
        ----------
        confidence : float
            Two-sided confidence of each interval.
        joined : bool
            True to measure categories in addition to identities.
        groups : sequence of str, optional
            Identities that the power means cover. Default: `power_mean_groups`.
        among : sequence of str, optional
            Identities to measure. Default: all.
        """
        identities = list(self.rows.members) if among is None else list(among)
        names = [*identities, *(self.categories if joined else ())]
        covered = groups or (None if among is not None else self.power_mean_groups) or identities
        selection = _Selection(confidence, names, list(covered))
        return Evidence(
            table=self._measure_table(selection, self.categories if joined else ()),
            background=_count_shared_background(self.rows, self.background),
            is_sample=self.is_sample,
        )

    def _measure_table(self, selection: _Selection, categories: Collection[str]) -> BiasTable:
        """Return the candidate's numbers and the differences from the rivals."""
        confidence, names = selection.confidence, selection.names
        model = self._measure_model(CANDIDATE)
        report = model.report(selection.to_options(model.rows), names)
        table = replace(report, categories=tuple(categories))
        for name in self.thresholds:
            span = self.span(name, CANDIDATE, confidence)
            rates = self._measure_rates(name, [CANDIDATE])
            table = table.add_numbers(rates.measure_gaps(confidence, span, names, name))
        if self.calibrated:
            gaps = self._measure_calibration().report(confidence, names).gaps
            table = table.add_numbers(
                {Key(CALIBRATION_GAP, name): gap for name, gap in gaps.items()}
            )
        for role in self.rivals:
            table = self._add_differences(table, role, selection)
            if self.calibrated:
                differences = self._measure_calibration(role).compare_models(confidence, names)
                changes = {
                    Key(CALIBRATION_GAP, name): numbers[CALIBRATION_GAP]
                    for name, numbers in differences.subgroups.items()
                }
                table = table.add_numbers(changes, role)
        return self._drop_sampling_error(table)

    def _add_differences(self, table: BiasTable, rival: str, selection: _Selection) -> BiasTable:
        """Add the differences from a rival to a table, also at the thresholds of the rival."""
        pairing = self._pair_models(rival)
        options = selection.to_options(pairing.models[0].rows)
        differences = pairing.compare_models(options, selection.names)
        table, roles = table.add_numbers(differences, rival), [CANDIDATE, rival]
        for name, by_role in self.thresholds.items():
            if rival in by_role:
                spans = [self.span(name, role, selection.confidence) for role in roles]
                rates = self._measure_rates(name, roles)
                changes = rates.compare_gaps(selection.confidence, spans, selection.names, name)
                table = table.add_numbers(changes, rival)
        return table

    def _drop_sampling_error(self, table: BiasTable) -> BiasTable:
        """Return the table, without sampling error if the rows are not a sample."""
        return table if self.is_sample else table.map_numbers(remove_sampling_error)

    def measure_identities(self, identities: Sequence[str], confidence: float) -> Evidence:
        """Measure only these identities, or all if the background depends on all of them."""
        if self.background != "outside_subgroup":
            return self.measure(confidence)
        return self.measure(confidence, among=identities)

    def find_losses(self, rival: str, alpha: float) -> Losses:
        """List the significant losses against a rival, with joint bounds.

        The losses are tested for the five metrics of every identity, and for the gaps in error
        rates if both models have their own thresholds. A cell needs `LEAST_COMPARED` rows of each
        class that it takes from its identity. If several identities lose, the losses are attributed
        to identities. If the rows are not a sample, losses are exact: they need no minimum number
        of rows, and are not attributed.

        Parameters
        ----------
        rival : str
            Role of the rival.
        alpha : float
            Family-wise error rate of the bounds.
        """
        given = self.thresholds.get(GIVEN, {})
        pair = {role: given[role] for role in (CANDIDATE, rival) if role in given}
        can_have_gaps = self.rows.weights is None and len(pair) == len((CANDIDATE, rival))
        thresholds = {GIVEN: pair} if can_have_gaps else {}
        scores = {role: self.rows.scores[role] for role in (CANDIDATE, rival)}
        rows = replace(self.rows, scores=scores)
        measurer = replace(self, rows=rows, thresholds=thresholds, calibrated=False)

        def measure_without(causes: Sequence[str]) -> Losses | None:
            remaining = rows.exclude_mentions(causes)
            others = replace(
                measurer, rows=remaining, power_mean_groups=None, categories={}, cache={}
            )
            return others._list_losses(rival, alpha)  # noqa: SLF001 - the same class

        losses = measurer._list_losses(rival, alpha)  # noqa: SLF001 - the same class
        assert losses is not None  # noqa: S101 - a set has both classes
        return losses.attribute_losses(measure_without) if self.is_sample else losses

    def count_changes(self, rival: str, at: Mapping[str, float]) -> ChangedDecisions:
        """Count the decisions that differ from a rival's, each model at its own threshold.

        The intervals hold jointly at 95 %, and exist only if the rows are a sample.
        """
        rows, scores = self._select_scored([CANDIDATE, rival], rival)
        changes = changed_decisions(
            rows,
            scores[CANDIDATE],
            scores[rival],
            threshold_a=at[CANDIDATE],
            threshold_b=at[rival],
            confidence=CONFIDENCE,
        )
        return changes if self.is_sample else changes.drop_intervals()

    def _list_losses(self, rival: str, alpha: float) -> Losses | None:
        """List the significant losses without attribution; None if the rows lack a class."""
        rows = self._select_rows(rival)
        if not rows.has_both_classes:
            return None
        metrics_by_group = self._list_tested_metrics(rows)
        level = self.compute_joint_level((rival,), list(rows.members), alpha, metrics_by_group)
        names = list(self.rows.members)
        selection = _Selection(level, names, list(self.power_mean_groups or names))
        differences = self._add_differences(BiasTable({}, {}), rival, selection)
        table = self._drop_sampling_error(differences)
        return Losses.from_table(table, rival, metrics_by_group, level)

    def _list_tested_metrics(self, rows: EvidenceRows) -> dict[str, list[str]]:
        """List the metrics with enough rows, by identity."""
        least = LEAST_COMPARED if self.is_sample else 0
        metrics = [*SUBGROUP_METRICS, *(list_threshold_metrics() if self.thresholds else ())]
        metrics_by_group = {}
        for identity, mask in rows.members.items():
            n = {"positive": (mask & rows.labels).sum(), "negative": (mask & ~rows.labels).sum()}
            metrics_by_group[identity] = [
                metric
                for metric in metrics
                if min(n[label] for label in METRICS[metric].classes[0]) >= least
            ]
        return metrics_by_group

    def compute_joint_level(
        self,
        roles: Sequence[str],
        identities: Sequence[str],
        alpha: float,
        metrics_by_group: Mapping[str, Sequence[str]] | None = None,
    ) -> float:
        """Return the confidence at which all bounds of these identities hold jointly.

        The level is Bonferroni's if the numbers include error rates or calibration, or the rows
        have weights or missing scores.

        Parameters
        ----------
        roles : sequence of str
            The rivals, and `candidate` for its own numbers.
        identities : sequence of str
            The identities with bounds.
        alpha : float
            Family-wise error rate.
        metrics_by_group : mapping, optional
            The metrics with bounds, by identity. Default: all measured metrics.
        """
        has_missing = any(self._find_scored(role) is not None for role in self.rivals)
        if self.thresholds or self.calibrated or has_missing or self.rows.weights is not None:
            n_metrics = len(SUBGROUP_METRICS) + self.calibrated
            n_metrics += len(self.thresholds) * len(list_threshold_metrics())
            n_bounds = (
                len(identities) * n_metrics
                if metrics_by_group is None
                else sum(map(len, metrics_by_group.values()))
            )
            return bonferroni_level(n_bounds, alpha)
        scores, rows = self.rows.scores, self.rows.check_rows(self.background)
        families = [[scores[name] for name in dict.fromkeys((CANDIDATE, role))] for role in roles]
        return max(
            compute_joint_level(rows, family, identities, alpha=alpha, metrics=metrics_by_group)
            for family in families
        )

    def _measure_model(self, role: str, rival: str | None = None) -> Measurement:
        """Measure a model on all rows, or on the rows with a score of a rival; cached."""
        scored = None if rival is None else self._find_scored(rival)

        def measure() -> Measurement:
            rows, scores = self._select_scored([role], rival)
            return Measurement(rows, scores[role])

        return self._read_cache((role, None if scored is None else rival), measure)

    def _select_scored(
        self, roles: Sequence[str], rival: str | None
    ) -> tuple[LabelledRows, dict[str, npt.NDArray[np.floating]]]:
        """Return the checked rows and the scores of models, by role.

        With a rival, the rows without a score of the rival are left out.
        """
        scored = None if rival is None else self._find_scored(rival)

        def check_rows() -> LabelledRows:
            rows = self._select_rows(rival)
            members = _add_category_masks(rows.members, self.categories)
            return replace(rows, members=members).check_rows(self.background)

        rows = self._read_cache(("rows", None if scored is None else rival), check_rows)
        scores = {role: self.rows.scores[role] for role in roles}
        if scored is not None:
            scores = {role: model_scores[scored] for role, model_scores in scores.items()}
        return rows, scores

    def _read_cache(self, key: Any, compute: Callable[[], Result]) -> Result:
        """Return the cached result, or compute it if it is missing or lacks a category."""
        categories, result = self.cache.get(key, ({}, None))
        if result is None or not self.categories.items() <= categories.items():
            result = compute()
            self.cache[key] = dict(self.categories), result
        return cast("Result", result)

    def _pair_models(self, rival: str) -> Pairing:
        """Return the paired measurements of the candidate and a rival; cached."""
        scores, first = self.rows.scores, self._measure_model(CANDIDATE, rival)
        # The champion may be measured again as the candidate.
        is_same_model = np.array_equal(scores[CANDIDATE], scores[rival])
        models = first, first if is_same_model else self._measure_model(rival, rival)
        pairing: Pairing | None = self.cache.get(rival)
        if pairing is None or pairing.models != models:
            pairing = self.cache[rival] = Pairing(*models)
        return pairing

    def _find_scored(self, role: str) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the rows with a score of a model; None if all rows have a score."""
        missing = np.isnan(self.rows.scores[role])
        return ~missing if missing.any() else None

    def _select_rows(self, rival: str | None) -> EvidenceRows:
        """Return the rows with a score of a rival; all rows without a rival."""
        scored = None if rival is None else self._find_scored(rival)
        return self.rows if scored is None else self.rows.select_rows(scored)

    def _measure_calibration(self, rival: str | None = None) -> MeasuredCalibration:
        """Measure the calibration of the candidate, paired with a rival if given; cached."""

        def measure() -> MeasuredCalibration:
            roles = [CANDIDATE] if rival is None else [CANDIDATE, rival]
            return MeasuredCalibration(*self._select_scored(roles, rival))

        return self._read_cache(("calibration", rival), measure)

    def _measure_rates(self, name: str, roles: Sequence[str]) -> MeasuredRates:
        """Measure the error rates of a model, or of two, at a threshold; cached."""
        thresholds = [self.thresholds[name][role] for role in roles]

        def measure() -> MeasuredRates:
            return MeasuredRates(
                *self._select_scored(roles, next(iter(roles[1:]), None)), thresholds
            )

        return self._read_cache(("rates", name, *roles, *thresholds), measure)


def _add_category_masks(masks: PackedMasks, categories: Mapping[str, Sequence[str]]) -> PackedMasks:
    """Add the masks of categories, each the union of its identities."""
    if not categories:
        return masks

    def compute_mask(name: str) -> npt.NDArray[np.bool_]:
        parts = categories.get(name)
        return masks[name] if parts is None else np.logical_or.reduce([masks[x] for x in parts])

    return PackedMasks.from_masks(
        ((name, compute_mask(name)) for name in (*masks, *categories)), masks.n_rows
    )


def _count_shared_background(rows: EvidenceRows, background: str) -> dict[str, int] | None:
    """Count the rows of a background that all identities share; None if each has its own."""
    outside = rows.find_shared_background(background)
    if outside is None:
        return None
    return {
        "positive": int((outside & rows.labels).sum()),
        "negative": int((outside & ~rows.labels).sum()),
    }
