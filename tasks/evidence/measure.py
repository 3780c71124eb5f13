"""What rules need, measured on some rows of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics import (
    BiasComparison,
    BiasReport,
    calibration_report,
    compare_bias,
    compare_calibration,
    compare_prediction_powered,
    compare_rate_gaps,
    evaluate_bias,
    prediction_powered_bias,
    rate_gaps,
)
from bias_metrics.gate import LEAST_COMPARED, LEAST_ROWS, Evidence, Losses, without_sampling_error
from bias_metrics.metrics import (
    GIVEN,
    METRICS,
    SUBGROUP_METRICS,
    calibration_metrics,
    threshold_metrics,
)
from bias_metrics.parts import PackedMasks
from bias_metrics.report import bonferroni_level, joint_level
from bias_metrics.rows import Background
from bias_metrics.rows import Rows as LabelledRows
from biasgate.tasks.evidence.rows import CANDIDATE, Rows

Span = tuple[float, float] | None


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
    nights: int = 0
    """How many nights' rows are pooled; 0 if the set is judged alone."""

    @property
    def rivals(self) -> list[str]:
        """Roles of the models that the candidate is compared with."""
        return [name for name in self.rows.scores if name != CANDIDATE]

    def evidence(
        self,
        confidence: float,
        categories: Mapping[str, Sequence[str]] | None = None,
        groups: Sequence[str] | None = None,
    ) -> Evidence:
        """Measure everything with two-sided intervals of a confidence.

        `categories` are identities that are measured together as well, `groups` what the power
        means cover in place of `power_mean_groups`.
        """
        members, matched = self._with(categories or {})
        covered = groups or self.power_mean_groups or list(self.rows.members)
        rows, options = self.rows, {"confidence": confidence, "power_mean_groups": covered}
        both = members, matched
        compared = {name: self._compare(name, *both, options) for name in self.rivals}
        whole = [one for name, one in compared.items() if self._scored_by(name) is None]
        first = next((one.first for one in whole), None)
        if first is None or matched is not None:
            first = self._evaluate(*both, options)
        report = first.to_dict()
        differences = {name: one.to_dict() for name, one in compared.items()}
        for name in self.thresholds:
            self._add_errors(name, members, report, differences, confidence)
        if self.calibrated:
            weighted = self._rows(rows, members, weights=rows.weights)
            report["calibration"] = calibration_report(
                weighted, rows.y_score, confidence=confidence
            ).to_dict()
            for role, content in differences.items():
                among, of_both = self._both(role, members)
                weighted = self._rows(among, of_both, weights=among.weights)
                scores = among.y_score, among.scores[role]
                content["calibration"] = compare_calibration(
                    weighted, *scores, confidence=confidence
                ).to_dict()
        if not self.is_sample:
            report = without_sampling_error(report)
            differences = without_sampling_error(differences)
        if categories:
            for content in (report, *differences.values()):
                _set_apart(content, set(categories))
        return Evidence(
            report,
            background=_shared_background(rows, self.background),
            is_sample=self.is_sample,
            nights=self.nights,
            champion=differences.get("champion"),
            reference=differences.get("reference"),
        )

    def only(self, identities: Sequence[str]) -> Measuring:
        """Return the same for some identities, unless their background depends on all of them."""
        if self.background != "outside_subgroup":
            return self
        return replace(self, rows=self.rows.among(identities), power_mean_groups=None)

    def losses(self, rival: str, alpha: float) -> Losses:
        """Return what is shown to be worse than a rival's, with bounds that hold together.

        Looked at are the five metrics of every identity, and the gaps in error rates where both
        models have a threshold of their own. A cell needs `LEAST_COMPARED` rows of each class that
        it takes from its identity, and `LEAST_ROWS` where nights are pooled. Where several
        identities are worse, each cell says whose comments it comes from. On a list of phrases
        every loss is exact, needs no rows, and is its own. `alpha` is the chance that any of the
        bounds is wrong.
        """
        given = self.thresholds.get(GIVEN, {})
        own = {role: given[role] for role in (CANDIDATE, rival) if role in given}
        can_have_gaps = self.rows.weights is None and self.rows.matched is None
        thresholds = {GIVEN: own} if len(own) == len((CANDIDATE, rival)) and can_have_gaps else {}
        scores = {role: self.rows.scores[role] for role in (CANDIDATE, rival)}
        rows = replace(self.rows, scores=scores)
        measuring = replace(self, rows=rows, thresholds=thresholds, calibrated=False)

        def again(causes: Sequence[str]) -> Losses | None:
            others = replace(measuring, rows=rows.without(causes), power_mean_groups=None)
            return others.shown_losses(rival, alpha)

        found = measuring.shown_losses(rival, alpha)
        assert found is not None  # noqa: S101 - a set has both classes
        return found.attributed(again) if self.is_sample else found

    def shown_losses(self, rival: str, alpha: float) -> Losses | None:
        """Return the same, not saying whose comments; None if the rows lack a class."""
        rows, members = self._both(rival, self.rows.members)
        if not rows.has_both_classes:
            return None
        looked_at = self._looked_at(rows)
        level = self.joint_level((rival,), list(members), alpha, looked_at)
        comparison = self._compare(
            rival,
            self.rows.members,
            self.rows.matched,
            {"confidence": level, "power_mean_groups": self.power_mean_groups},
        ).to_dict()
        for name in self.thresholds:
            self._add_errors(name, self.rows.members, {}, {rival: comparison}, level)
        if not self.is_sample:
            comparison = without_sampling_error(comparison)
        return Losses.of(comparison, looked_at, level)

    def _looked_at(self, rows: Rows) -> dict[str, list[str]]:
        """Return the metrics that are looked at of each identity: those with enough rows."""
        least = LEAST_ROWS if self.nights else LEAST_COMPARED
        least = least if self.is_sample else 0
        names = [*SUBGROUP_METRICS, *(threshold_metrics() if self.thresholds else ())]
        positive, negative = rows.known & rows.labels, rows.known & ~rows.labels
        found = {}
        for identity, mask in rows.members.items():
            n = {"positive": (mask & positive).sum(), "negative": (mask & negative).sum()}
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
        Bonferroni's if error rates or calibration are among the numbers, or rows have weights or
        are matched by terms.
        """
        partly = any(self._scored_by(role) is not None for role in self.rivals)
        special = self.thresholds or self.calibrated or partly
        if special or self.rows.weights is not None or self.rows.matched:
            each = len(SUBGROUP_METRICS) + len(self.thresholds) * len(threshold_metrics())
            each += len(calibration_metrics()) * self.calibrated
            n = len(of) * each if looked_at is None else sum(map(len, looked_at.values()))
            return bonferroni_level(n, alpha)
        scores, rows = self.rows.scores, self._rows(self.rows, self.rows.members)
        families = [[scores[one] for one in dict.fromkeys((CANDIDATE, role))] for role in roles]
        return max(
            joint_level(rows, family, of, alpha=alpha, metrics=looked_at) for family in families
        )

    def _with(
        self, categories: Mapping[str, Sequence[str]]
    ) -> tuple[PackedMasks, PackedMasks | None]:
        """Return the members of identities and categories, and those matched by terms."""
        members, matched = self.rows.members, self.rows.matched
        return (
            _joined(members, categories),
            None if matched is None else _joined(matched, categories),
        )

    def _rows(
        self,
        rows: Rows,
        members: Mapping[str, npt.NDArray[np.bool_]],
        *,
        weights: npt.NDArray[np.floating] | None = None,
    ) -> LabelledRows:
        """Return rows as the library takes them."""
        return LabelledRows(
            rows.labels,
            members,
            sample_weight=weights,
            clusters=rows.clusters,
            background=self.background,
        )

    def _evaluate(
        self, members: PackedMasks, matched: PackedMasks | None, options: Mapping[str, Any]
    ) -> BiasReport:
        rows = self.rows
        if matched is None or rows.labelled is None:
            known = {**self._known(rows), **options}
            return evaluate_bias(rows.labels, rows.y_score, members, **known)
        checked = self._rows(rows, members)
        return prediction_powered_bias(checked, rows.y_score, matched, rows.labelled, **options)

    def _known(self, rows: Rows) -> dict[str, Any]:
        return {
            "sample_weight": rows.weights,
            "clusters": rows.clusters,
            "background": self.background,
        }

    def _scored_by(self, rival: str) -> npt.NDArray[np.bool_] | None:
        """Return which rows a rival has a score for; None if it has one for all."""
        missing = np.isnan(self.rows.scores[rival])
        return ~missing if missing.any() else None

    def _both(self, rival: str, members: PackedMasks) -> tuple[Rows, PackedMasks]:
        """Return the rows that a rival has a score for too, to compare with it."""
        kept = self._scored_by(rival)
        if kept is None:
            return self.rows, members
        return self.rows.within(kept), members.within(kept)

    def _compare(
        self,
        rival: str,
        members: PackedMasks,
        matched: PackedMasks | None,
        options: Mapping[str, Any],
    ) -> BiasComparison:
        rows, members = self._both(rival, members)
        first, second = rows.y_score, rows.scores[rival]
        if matched is None or rows.labelled is None:
            known = {**self._known(rows), **options}
            return compare_bias(rows.labels, first, second, members, **known)
        checked = self._rows(rows, members)
        return compare_prediction_powered(checked, first, second, matched, rows.labelled, **options)

    def _add_errors(
        self,
        name: str,
        members: PackedMasks,
        report: dict[str, Any],
        differences: dict[str, dict[str, Any]],
        confidence: float,
    ) -> None:
        """Add the gaps in error rates at a threshold to a report and to comparisons."""
        rows, of_role = self.rows, self.thresholds[name]
        at = of_role[CANDIDATE]
        spans = {role: self.span(name, role, confidence) for role in of_role}
        gaps = rate_gaps(
            self._rows(rows, members),
            rows.y_score,
            threshold=at,
            threshold_range=spans[CANDIDATE],
            confidence=confidence,
        )
        report.setdefault("thresholds", {})[name] = gaps.to_dict()
        for role in of_role.keys() & set(self.rivals):
            among, of_both = self._both(role, members)
            change = compare_rate_gaps(
                self._rows(among, of_both),
                among.y_score,
                among.scores[role],
                threshold_a=at,
                threshold_b=of_role[role],
                threshold_range_a=spans[CANDIDATE],
                threshold_range_b=spans[role],
                confidence=confidence,
            )
            differences[role].setdefault("thresholds", {})[name] = change.to_dict()


def _set_apart(content: dict[str, Any], categories: set[str]) -> None:
    """Move categories from the subgroups to their own key."""
    calibrated = [content["calibration"]] if "calibration" in content else []
    for place in (content, *content.get("thresholds", {}).values(), *calibrated):
        subgroups = place["subgroups"]
        place["categories"] = {name: subgroups.pop(name) for name in categories & set(subgroups)}


def _joined(masks: PackedMasks, categories: Mapping[str, Sequence[str]]) -> PackedMasks:
    """Return masks with those of categories of them."""
    if not categories:
        return masks
    joined = {
        category: np.logical_or.reduce([masks[name] for name in names])
        for category, names in categories.items()
    }
    return PackedMasks.of([*masks.items(), *joined.items()], masks.n_rows)


def _shared_background(rows: Rows, background: str) -> dict[str, int] | None:
    """Count the rows of a background that all identities share; None if each has its own."""
    outside = rows.shared_background(background)
    if outside is None:
        return None
    if rows.labelled is not None:
        outside &= rows.labelled
    return {
        "positive": int((outside & rows.labels).sum()),
        "negative": int((outside & ~rows.labels).sum()),
    }
