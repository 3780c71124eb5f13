"""The measurements of a verdict: their plan, and their results from evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bias_metrics import equal_error_rate
from bias_metrics.gate import (
    RIVALS,
    Evidence,
    EvidenceKey,
    Losses,
    Rule,
    SmallGroups,
    list_needed_evidence,
    list_needed_thresholds,
)
from bias_metrics.metrics import CALIBRATION_GAP, EQUAL_ERRORS, GIVEN
from bias_metrics.table import BiasTable, Estimate, Key
from bias_metrics.thresholds import MarkedRows
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.counted import CountedEvidence
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import Report
from biasgate.tasks.records.numbers import CONFIDENCE

if TYPE_CHECKING:
    from biasgate.tasks.scoring.candidate import CandidateSettings

_ROUNDING = 1e-9
AnyEvidence = EvidenceFile | CountedEvidence
"""Rows, or counts of their scores."""
Thresholds = Mapping[str, Mapping[str, float]]
"""Threshold by name and by role: `candidate`, `champion`, `reference`."""


@dataclass(frozen=True, kw_only=True)
class MeasurementPlan:
    """The measurements that a verdict needs."""

    rules: Sequence[Rule]
    sharing: int
    """Number of candidates that share alpha; the confidences of the rules account for it."""
    objective: float
    """One-sided confidence of the objective."""
    small: SmallGroups
    thresholds: Mapping[str, float | None]
    """The threshold that each model is used with, by role."""
    alpha: float
    """Family-wise error rate of all losses; the rivals share it."""
    missing: float | None
    """Confidence of the limit on comments without a score; None without a limit."""
    truncated: float | None
    """Confidence of the limit on truncated comments; None without a limit."""


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """The measurements of a candidate for its verdict."""

    measured: Mapping[EvidenceKey, Evidence]
    everyone: Evidence
    """All rows, at the confidence of the rules."""
    compared: Evidence
    """All rows, at the confidence of the objective."""
    losses: Mapping[str, Losses]
    """Significant losses by rival."""
    missing: MarkedRows | None
    """Comments without a score; None if all have a score and no limit is set."""
    truncated: MarkedRows | None
    """Truncated comments; None if they are unknown or no limit is set."""


def measure_plan(evidence: AnyEvidence, plan: MeasurementPlan, report: Report) -> Measurements:
    """Measure what a verdict needs, and compare the numbers with those of the report.

    Raises
    ------
    ValueError
        If a rule requires a slice or a threshold that the set or a model lacks.
    RuntimeError
        If the numbers differ from those of the report.
    """
    rules, level = plan.rules, plan.rules[0].level
    everyone, compared = (None, level), (None, 2 * plan.objective - 1)
    thresholds = find_thresholds(rules, evidence, plan.thresholds)
    rivals = [role for role in RIVALS if role in evidence.record.scores]
    given = {
        role: threshold for role, threshold in plan.thresholds.items() if threshold is not None
    }
    # The rivals share alpha.
    losses: dict[str, Losses] = {
        role: evidence.find_losses(role, plan.alpha / len(rivals), {GIVEN: given})
        for role in rivals
    }
    measured = evidence.measure(
        dict.fromkeys([everyone, compared, *list_needed_evidence(rules)]),
        thresholds,
        rules,
        small=plan.small,
        sharing=plan.sharing,
    )
    if report is not None:
        refuse_other_numbers(report, measured[everyone].table)
    counts_missing = plan.missing is not None or evidence.n_missing or not evidence.is_complete
    return Measurements(
        measured=measured,
        everyone=measured[everyone],
        compared=evidence.measure_without(plan.small.not_measured, compared[1])
        or measured[compared],
        losses=losses,
        missing=evidence.measure_missing(plan.missing or CONFIDENCE) if counts_missing else None,
        truncated=None if plan.truncated is None else evidence.measure_truncated(plan.truncated),
    )


def refuse_other_numbers(report: Report, measured: BiasTable) -> None:
    """Raise an error if the measured numbers differ from the reported ones."""
    reported_numbers = _select_shared(report.bias, measured)
    measured_numbers = _select_shared(measured, measured)
    if unreported := [key for key in measured_numbers if key not in reported_numbers]:
        path = _format_key(unreported[0])
        msg = f"the report must have every number of the evidence; it lacks {path}."
        raise RuntimeError(msg)
    if unmeasured := [key for key in reported_numbers if key not in measured_numbers]:
        path = _format_key(unmeasured[0])
        msg = f"the evidence must give every number of the report; it lacks {path}."
        raise RuntimeError(msg)
    for key, number in reported_numbers.items():
        expected, actual = number.value, measured_numbers[key].value
        is_same = expected == actual or (
            expected is not None
            and actual is not None
            and math.isclose(expected, actual, abs_tol=_ROUNDING)
        )
        if not is_same:
            msg = (
                f"the evidence must give the report's numbers; {_format_key(key)} is {actual}, not "
                f"{expected}."
            )
            raise RuntimeError(msg)


def _select_shared(table: BiasTable, measured: BiasTable) -> dict[Key, Estimate]:
    """Select the numbers that both the report and the evidence have under any rules."""
    return {
        key: number
        for key, number in table.items()
        if key.against is None
        and key.group not in table.categories
        and key.metric != CALIBRATION_GAP
        and (key.threshold is None or (key.threshold, None) in measured.thresholds)
    }


def _format_key(key: Key) -> str:
    return "/".join(part for part in key if part is not None)


def find_thresholds(
    rules: Sequence[Rule], evidence: AnyEvidence, given: Mapping[str, float | None]
) -> Thresholds:
    """Return the thresholds that rules need, for every model with scores.

    Parameters
    ----------
    evidence : EvidenceFile or CountedEvidence
        All rows; the thresholds of equal errors are computed on them, even for slices.
    given : mapping of str to float or None
        The threshold that each model is used with, by role.

    Returns
    -------
    mapping
        Thresholds by name and role; empty if no rule has a threshold.

    Raises
    ------
    InputError
        If a rule needs the `threshold` of a model, and the model lacks it.
    """
    thresholds: dict[str, dict[str, float]] = {}
    for name, roles in list_needed_thresholds(rules).items():
        thresholds[name] = {}
        for role in sorted(roles & set(evidence.roles)):
            number = given.get(role) if name == GIVEN else find_equal_errors(evidence, role)
            if number is None:
                raise InputError(missing_threshold(role))
            thresholds[name][role] = number
    return thresholds


def find_equal_errors(evidence: AnyEvidence, role: str) -> float | None:
    """Return the threshold at which a model's two error rates are closest, over all rows."""
    if isinstance(evidence, CountedEvidence):
        return evidence.counts[role].equal_error_rate().threshold
    scores = evidence.scores(role)
    has_score = ~np.isnan(scores)
    return equal_error_rate(evidence.column("label")[has_score], scores[has_score]).threshold


def missing_threshold(role: str, name: str | None = None) -> str:
    """Return the error text for a model without its own threshold, with the fix."""
    model = f"the {role}" if name is None else f"the {role} {name}"
    return (
        f"rules at `threshold: {GIVEN}` need the `threshold` that {model} is used with; it has "
        f"none. Set it for the {role} in the evaluation file, or set `threshold: {EQUAL_ERRORS}` "
        "in the rule."
    )


def refuse_missing_thresholds(
    rules: Sequence[Rule], settings: Iterator[tuple[str, CandidateSettings]]
) -> None:
    """Refuse candidates and rivals without a threshold that rules need."""
    roles = list_needed_thresholds(rules).get(GIVEN, set())
    for role, model in settings:
        if role in roles and model.threshold is None:
            raise InputError(missing_threshold(role, model.name))
