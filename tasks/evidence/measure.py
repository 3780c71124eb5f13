"""What rules need, measured on some rows of the evidence."""

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
from biasgate.tasks.evidence.rows import CANDIDATE, Rows
from biasgate.tasks.records.numbers import CONFIDENCE

Span = tuple[float, float] | None
Found = TypeVar("Found")


@dataclass(frozen=True)
class _Asked:
    """What is asked of models that are measured."""

    confidence: float
    names: list[str]
    """Identities and categories."""
    groups: list[str]
    """What the power means cover."""

    def of(self, rows: LabelledRows) -> ReportOptions:
        """Return the options of a report."""
        return ReportOptions.from_arguments(
            rows, confidence=self.confidence, power_mean_groups=self.groups
        )


@dataclass(frozen=True)
class Measuring:
    """Rows, and how they are measured."""

    rows: Rows
    power_mean_groups: Sequence[str] | None
    """The identities in the power means; None for all."""
    background: Background
    is_sample: bool
    """Whether verdicts are about more rows than these."""
    thresholds: Mapping[str, Mapping[str, float]]
    """By name and role, for rules on error rates."""
    span: Callable[[str, str, float], Span]
    """From a threshold's name, role and confidence to its uncertainty."""
    calibrated: bool = False
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Identities that are measured together, too, by the name of their category."""
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """What has been measured of these rows."""

    @property
    def rivals(self) -> list[str]:
        """Roles of the models that the candidate is compared with."""
        return [name for name in self.rows.scores if name != CANDIDATE]

    def evidence(
        self,
        confidence: float,
        *,
        joined: bool = False,
        groups: Sequence[str] | None = None,
        among: Sequence[str] | None = None,
    ) -> Evidence:
        """Return everything with two-sided intervals of a confidence; it is measured once.

        `joined` says whether categories are there too, `groups` what the power means cover in place
        of `power_mean_groups`, and `among` which identities there are; default all.
        """
        identities = list(self.rows.members) if among is None else list(among)
        names = [*identities, *(self.categories if joined else ())]
        covered = groups or (None if among is not None else self.power_mean_groups) or identities
        asked = _Asked(confidence, names, list(covered))
        return Evidence(
            table=self._table(asked, self.categories if joined else ()),
            background=_shared_background(self.rows, self.background),
            is_sample=self.is_sample,
        )

    def _table(self, asked: _Asked, categories: Collection[str]) -> BiasTable:
        """Return the numbers, with the differences from the rivals."""
        table = replace(self._evaluate(asked), categories=tuple(categories))
        for name in self.thresholds:
            table = table.add_numbers(self._gaps(name, asked))
        if self.calibrated:
            gaps = self._calibration().report(asked.confidence, asked.names).gaps
            table = table.add_numbers(
                {Key(CALIBRATION_GAP, name): gap for name, gap in gaps.items()}
            )
        for role in self.rivals:
            table = self._with_differences(table, role, asked)
            if self.calibrated:
                compared = self._calibration(role).compare_models(asked.confidence, asked.names)
                changes = {
                    Key(CALIBRATION_GAP, name): of[CALIBRATION_GAP]
                    for name, of in compared.subgroups.items()
                }
                table = table.add_numbers(changes, role)
        return self._as_drawn(table)

    def _with_differences(self, table: BiasTable, rival: str, asked: _Asked) -> BiasTable:
        """Return a table with the differences from a rival, also at the thresholds that it has."""
        pairing = self._pairing(rival)
        compared = pairing.compare_models(asked.of(pairing.models[0].rows), asked.names)
        table, roles = table.add_numbers(compared, rival), [CANDIDATE, rival]
        for name, of_role in self.thresholds.items():
            if rival in of_role:
                spans = [self.span(name, role, asked.confidence) for role in roles]
                rates = self._rates(name, roles)
                changes = rates.compare_gaps(asked.confidence, spans, asked.names, name)
                table = table.add_numbers(changes, rival)
        return table

    def _as_drawn(self, table: BiasTable) -> BiasTable:
        """Return the table; on a list of phrases its numbers have no sampling error."""
        return table if self.is_sample else table.map_numbers(remove_sampling_error)

    def alone(self, identities: Sequence[str], confidence: float) -> Evidence:
        """Return the same of some identities, unless their background depends on all of them."""
        if self.background != "outside_subgroup":
            return self.evidence(confidence)
        return self.evidence(confidence, among=identities)

    def losses(self, rival: str, alpha: float) -> Losses:
        """Return what is shown to be worse than a rival's, with bounds that hold together.

        Looked at are the five metrics of every identity, and the gaps in error rates where both
        models have a threshold of their own. A cell needs `LEAST_COMPARED` rows of each class that
        it takes from its identity. Where several identities are worse, each cell says whose
        comments it comes from. On a list of phrases every loss is exact, needs no rows, and is its
        own. `alpha` is the chance that any of the bounds is wrong.
        """
        given = self.thresholds.get(GIVEN, {})
        own = {role: given[role] for role in (CANDIDATE, rival) if role in given}
        can_have_gaps = self.rows.weights is None and len(own) == len((CANDIDATE, rival))
        thresholds = {GIVEN: own} if can_have_gaps else {}
        scores = {role: self.rows.scores[role] for role in (CANDIDATE, rival)}
        rows = replace(self.rows, scores=scores)
        measuring = replace(self, rows=rows, thresholds=thresholds, calibrated=False)

        def again(causes: Sequence[str]) -> Losses | None:
            left = rows.without(causes)
            others = replace(measuring, rows=left, power_mean_groups=None, categories={}, known={})
            return others.shown_losses(rival, alpha)

        found = measuring.shown_losses(rival, alpha)
        assert found is not None  # noqa: S101 - a set has both classes
        return found.attribute_losses(again) if self.is_sample else found

    def changes(self, rival: str, at: Mapping[str, float]) -> ChangedDecisions:
        """Count the decisions that differ from a rival's, each model at its own threshold.

        All intervals hold together at 95 %; on a list of phrases there are none.
        """
        rows, scores = self._scored([CANDIDATE, rival], rival)
        found = changed_decisions(
            rows,
            scores[CANDIDATE],
            scores[rival],
            threshold_a=at[CANDIDATE],
            threshold_b=at[rival],
            confidence=CONFIDENCE,
        )
        return found if self.is_sample else found.drop_intervals()

    def shown_losses(self, rival: str, alpha: float) -> Losses | None:
        """Return the same, not saying whose comments; None if the rows lack a class."""
        rows = self._beside(rival)
        if not rows.has_both_classes:
            return None
        looked_at = self._looked_at(rows)
        level = self.joint_level((rival,), list(rows.members), alpha, looked_at)
        names = list(self.rows.members)
        asked = _Asked(level, names, list(self.power_mean_groups or names))
        differences = self._with_differences(BiasTable({}, {}), rival, asked)
        return Losses.from_table(self._as_drawn(differences), rival, looked_at, level)

    def _looked_at(self, rows: Rows) -> dict[str, list[str]]:
        """Return the metrics that are looked at of each identity: those with enough rows."""
        least = LEAST_COMPARED if self.is_sample else 0
        names = [*SUBGROUP_METRICS, *(list_threshold_metrics() if self.thresholds else ())]
        found = {}
        for identity, mask in rows.members.items():
            n = {"positive": (mask & rows.labels).sum(), "negative": (mask & ~rows.labels).sum()}
            enough = [x for x in names if min(n[of] for of in METRICS[x].classes[0]) >= least]
            found[identity] = enough
        return found

    def joint_level(
        self,
        roles: Sequence[str],
        of: Sequence[str],
        alpha: float,
        looked_at: Mapping[str, Sequence[str]] | None = None,
    ) -> float:
        """Return the confidence at which all bounds of some identities hold together.

        `roles` are those that the candidate is compared with; its own for its own numbers;
        `looked_at` are the metrics of each identity, by default all that are measured.
        Bonferroni's if error rates or calibration are among the numbers, or rows have weights.
        """
        partly = any(self._scored_by(role) is not None for role in self.rivals)
        special = self.thresholds or self.calibrated or partly
        if special or self.rows.weights is not None:
            each = len(SUBGROUP_METRICS) + len(self.thresholds) * len(list_threshold_metrics())
            each += self.calibrated
            n = len(of) * each if looked_at is None else sum(map(len, looked_at.values()))
            return bonferroni_level(n, alpha)
        scores, rows = self.rows.scores, self.rows.checked(self.background)
        families = [[scores[one] for one in dict.fromkeys((CANDIDATE, role))] for role in roles]
        return max(
            compute_joint_level(rows, family, of, alpha=alpha, metrics=looked_at)
            for family in families
        )

    def _evaluate(self, asked: _Asked) -> BiasTable:
        model = self._model(CANDIDATE)
        return model.report(asked.of(model.rows), asked.names)

    def _model(self, role: str, beside: str | None = None) -> Measurement:
        """Return a model's scores as measured, on the rows that another has a score for too."""
        kept = None if beside is None else self._scored_by(beside)

        def measured() -> Measurement:
            rows, scores = self._scored([role], beside)
            return Measurement(rows, scores[role])

        return self._once((role, None if kept is None else beside), measured)

    def _scored(
        self, roles: Sequence[str], beside: str | None
    ) -> tuple[LabelledRows, dict[str, npt.NDArray[np.floating]]]:
        """Return rows as the library takes them, checked once, and what models score them.

        With a rival `beside` they are those that it has a score for too.
        """
        kept = None if beside is None else self._scored_by(beside)

        def checked() -> LabelledRows:
            rows = self._beside(beside)
            members = _joined(rows.members, self.categories)
            return replace(rows, members=members).checked(self.background)

        rows = self._once(("rows", None if kept is None else beside), checked)
        scores = {role: self.rows.scores[role] for role in roles}
        return rows, scores if kept is None else {role: of[kept] for role, of in scores.items()}

    def _once(self, key: Any, measured: Callable[[], Found]) -> Found:
        """Return what is measured once of these rows; again for categories that it lacks."""
        categories, found = self.known.get(key, ({}, None))
        if found is None or not self.categories.items() <= categories.items():
            found = measured()
            self.known[key] = dict(self.categories), found
        return cast("Found", found)

    def _pairing(self, rival: str) -> Pairing:
        """Return the candidate beside a rival, as measured."""
        scores, first = self.rows.scores, self._model(CANDIDATE, rival)
        alike = np.array_equal(scores[CANDIDATE], scores[rival])  # a champion beside itself
        models = first, first if alike else self._model(rival, rival)
        found: Pairing | None = self.known.get(rival)
        if found is None or found.models != models:
            found = self.known[rival] = Pairing(*models)
        return found

    def _scored_by(self, rival: str) -> npt.NDArray[np.bool_] | None:
        """Return which rows a rival has a score for; None if it has one for all."""
        missing = np.isnan(self.rows.scores[rival])
        return ~missing if missing.any() else None

    def _beside(self, rival: str | None) -> Rows:
        """Return the rows that a rival has a score for too, to compare with it; all without one."""
        kept = None if rival is None else self._scored_by(rival)
        return self.rows if kept is None else self.rows.within(kept)

    def _calibration(self, rival: str | None = None) -> MeasuredCalibration:
        """Return the candidate's calibration, or that of it and a rival, as measured."""

        def measured() -> MeasuredCalibration:
            roles = [CANDIDATE] if rival is None else [CANDIDATE, rival]
            return MeasuredCalibration(*self._scored(roles, rival))

        return self._once(("calibration", rival), measured)

    def _gaps(self, name: str, asked: _Asked) -> BiasTable:
        """Return the gaps in error rates at a threshold."""
        span = self.span(name, CANDIDATE, asked.confidence)
        return self._rates(name, [CANDIDATE]).measure_gaps(
            asked.confidence, span, asked.names, name
        )

    def _rates(self, name: str, roles: Sequence[str]) -> MeasuredRates:
        """Return the models' errors at a threshold, as counted."""
        at = [self.thresholds[name][role] for role in roles]

        def measured() -> MeasuredRates:
            return MeasuredRates(*self._scored(roles, next(iter(roles[1:]), None)), at)

        return self._once(("rates", name, *roles, *at), measured)


def _joined(masks: PackedMasks, categories: Mapping[str, Sequence[str]]) -> PackedMasks:
    """Return the masks of identities, and of categories, which are joined from theirs."""
    if not categories:
        return masks

    def of(name: str) -> npt.NDArray[np.bool_]:
        parts = categories.get(name)
        return masks[name] if parts is None else np.logical_or.reduce([masks[x] for x in parts])

    return PackedMasks.from_masks(
        ((name, of(name)) for name in (*masks, *categories)), masks.n_rows
    )


def _shared_background(rows: Rows, background: str) -> dict[str, int] | None:
    """Count the rows of a background that all identities share; None if each has its own."""
    outside = rows.shared_background(background)
    if outside is None:
        return None
    return {
        "positive": int((outside & rows.labels).sum()),
        "negative": int((outside & ~rows.labels).sum()),
    }
