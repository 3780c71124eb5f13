"""What a verdict asks of evidence, and the answers: all that is measured for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
"""By the threshold's name and by role: `candidate`, `champion`, `reference`."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a verdict asks of evidence."""

    rules: Sequence[Rule]
    sharing: int
    """How many candidates share alpha, as the rules' confidences say."""
    objective: float
    """One-sided confidence of the objective."""
    small: SmallGroups
    thresholds: Mapping[str, float | None]
    """By role, the threshold that each model is used with."""
    alpha: float
    """Of all losses together; the rivals share it."""
    missing: float | None
    truncated: float | None
    """missing, truncated: confidences of the numbers of comments without a score, and of truncated
    ones, if they have limits."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What evidence says of one candidate."""

    measured: Mapping[EvidenceKey, Evidence]
    everyone: Evidence
    """Of all rows, at the rules' confidence."""
    compared: Evidence
    """Of all rows, for the objective."""
    losses: Mapping[str, Losses]
    """By rival."""
    missing: MarkedRows | None
    """None where nothing is missing and there is no limit."""
    truncated: MarkedRows | None
    """None where it is unknown, or there is no limit."""


def answer(evidence: AnyEvidence, asked: Asked, report: Report) -> Answers:
    """Measure what a verdict needs; `report` has the numbers that the evidence must give.

    Raises
    ------
    ValueError
        If a rule names what the set or a model lacks.
    RuntimeError
        If the evidence gives other numbers than the report.
    """
    rules, level = asked.rules, asked.rules[0].level
    everyone, compared = (None, level), (None, 2 * asked.objective - 1)
    thresholds = find_thresholds(rules, evidence, asked.thresholds)
    losses = _losses(evidence, asked.alpha, asked.thresholds)
    measured = evidence.measure(
        dict.fromkeys([everyone, compared, *list_needed_evidence(rules)]),
        thresholds,
        rules,
        small=asked.small,
        sharing=asked.sharing,
    )
    if report is not None:
        refuse_other_numbers(report, measured[everyone].table)
    return Answers(
        measured=measured,
        everyone=measured[everyone],
        compared=evidence.without(asked.small.not_measured, compared[1]) or measured[compared],
        losses=losses,
        missing=_missing(evidence, asked.missing),
        truncated=None if asked.truncated is None else evidence.truncated(asked.truncated),
    )


def _missing(evidence: AnyEvidence, level: float | None) -> MarkedRows | None:
    if level is None and evidence.is_complete and not evidence.n_missing:
        return None
    return evidence.missing(level or CONFIDENCE)


def refuse_other_numbers(report: Report, again: BiasTable) -> None:
    """Raise an error if the evidence does not give the reported numbers."""
    again = replace(again, numbers=_comparable(again, again))
    known = _comparable(report.bias, again)
    if lacking := [key for key in again if key not in known]:
        msg = f"the report must have every number of the evidence; it lacks {_path(lacking[0])}."
        raise RuntimeError(msg)
    if further := [key for key in known if key not in again]:
        msg = f"the evidence must give every number of the report; it lacks {_path(further[0])}."
        raise RuntimeError(msg)
    for key, reported in known.items():
        value, found = reported.value, again[key].value
        same = value == found or (
            value is not None
            and found is not None
            and math.isclose(value, found, abs_tol=_ROUNDING)
        )
        if not same:
            msg = (
                f"the evidence must give the report's numbers; {_path(key)} is {found}, not "
                f"{value}."
            )
            raise RuntimeError(msg)


def _comparable(table: BiasTable, again: BiasTable) -> dict[Key, Estimate]:
    """Return the numbers that a report and its evidence share, whatever rules there are."""
    return {
        key: number
        for key, number in table.items()
        if key.against is None
        and key.group not in table.categories
        and key.metric != CALIBRATION_GAP
        and (key.threshold is None or (key.threshold, None) in again.thresholds)
    }


def _path(key: Key) -> str:
    return "/".join(part for part in key if part is not None)


def _losses(
    evidence: AnyEvidence, alpha: float, given: Mapping[str, float | None]
) -> dict[str, Losses]:
    """Return what is shown to be worse than with each rival; the rivals share alpha."""
    rivals = [role for role in RIVALS if role in evidence.record.scores]
    at = {role: threshold for role, threshold in given.items() if threshold is not None}
    return {role: evidence.losses(role, alpha / len(rivals), {GIVEN: at}) for role in rivals}


def find_thresholds(
    rules: Sequence[Rule], evidence: AnyEvidence, given: Mapping[str, float | None]
) -> Thresholds:
    """Return the thresholds that rules need, for every model with scores.

    Parameters
    ----------
    evidence : EvidenceFile or CountedEvidence
        All rows; the thresholds of equal errors are computed on them, even for slices.
    given : mapping of str to float or None
        By role, the threshold that each model is used with.

    Returns
    -------
    mapping
        By name and role; empty if no rule has a threshold.

    Raises
    ------
    InputError
        If a model has no `threshold` of its own, and a rule needs it.
    """
    found: dict[str, dict[str, float]] = {}
    for name, roles in list_needed_thresholds(rules).items():
        found[name] = {}
        for role in sorted(roles & set(evidence.roles)):
            number = given.get(role) if name == GIVEN else equal_errors(evidence, role)
            if number is None:
                raise InputError(missing_threshold(role))
            found[name][role] = number
    return found


def equal_errors(evidence: AnyEvidence, role: str) -> float | None:
    """Return the threshold at which a model's two error rates are closest, over all rows."""
    if isinstance(evidence, CountedEvidence):
        return evidence.counts[role].equal_error_rate().threshold
    scores = evidence.scores(role)
    known = ~np.isnan(scores)
    return equal_error_rate(evidence.column("label")[known], scores[known]).threshold


def missing_threshold(role: str, name: str | None = None) -> str:
    """Return an error text: a model has no threshold of its own, and what to do."""
    who = f"the {role}" if name is None else f"the {role} {name}"
    return (
        f"rules at `threshold: {GIVEN}` need the `threshold` that {who} is used with; it has none. "
        f"Set it for the {role} in the evaluation file, or set "
        f"`threshold: {EQUAL_ERRORS}` in the rule."
    )


def refuse_missing_thresholds(
    rules: Sequence[Rule], settings: Iterator[tuple[str, CandidateSettings]]
) -> None:
    """Refuse candidates and rivals without a threshold that rules need."""
    roles = list_needed_thresholds(rules).get(GIVEN, set())
    for role, one in settings:
        if role in roles and one.threshold is None:
            raise InputError(missing_threshold(role, one.name))
