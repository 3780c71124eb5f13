"""Third step: bias metrics, one task per identity over the rows of the evidence.

Many identities are divided among a limited number of tasks, which share the rows and their ranks.
Each task measures its identities in turn. Missing scores and truncated comments are counted in
separate tasks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bias_metrics import BiasTable
from bias_metrics.families import bonferroni_level
from bias_metrics.report import MeasuredSubgroup, ReportOptions
from bias_metrics.thresholds import MarkedRows
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import MarkedComments, Report
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.outcomes import describe_reasons
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.wording import shorten_names

MAX_TASKS = 32
"""Largest number of tasks that measure identities, enough for the cores of a large machine."""
# Each task needs arrays over all rows, so more tasks than cores would only need more memory.
_CORES = threading.BoundedSemaphore(os.cpu_count() or 1)


@dataclass(frozen=True)
class Measured:
    """The measurement of a candidate on a set, for the steps that judge it."""

    source: SourceSettings
    """The set, as in the evaluation file."""
    candidate: CandidateSettings
    """The candidate, pinned to its version."""
    rows: str
    """Folder of the frozen rows."""
    scores: str
    """Folder of the scores."""
    folder: str
    """Folder of the results, with the evidence."""
    report: Report
    """The content of `report.json`."""


def measure_identities(
    evidence: EvidenceFile, identities: Sequence[str]
) -> dict[str, MeasuredSubgroup]:
    """Measure several identities, one after the other."""
    measured = {}
    for name in identities:
        with _CORES:
            measured[name] = evidence.measurement.measure_subgroup(name)
    return measured


def divide_identities(identities: Sequence[str]) -> dict[str, list[str]]:
    """Divide identities among at most `MAX_TASKS` tasks, with a task for each if they are few.

    Returns
    -------
    dict of str to list of str
        The identities by name of the task, such as `muslim` or `500 identities, part 3`.
    """
    if len(identities) <= MAX_TASKS:
        return {name: [name] for name in identities}
    return {
        f"{len(identities):,} identities, part {part + 1}": list(identities[part::MAX_TASKS])
        for part in range(MAX_TASKS)
    }


def summarise_rows(evidence: EvidenceFile, measured: Mapping[str, MeasuredSubgroup]) -> BiasTable:
    """Compute the overall numbers and the aggregates from those of the identities."""
    groups = evidence.record.power_mean_groups
    measurement = evidence.measurement
    measurement.adopt_subgroups(measured)
    options = ReportOptions.from_arguments(
        measurement.rows, power_mean_groups=groups, confidence=CONFIDENCE
    )
    return measurement.report(options)


def list_identities(evidence: EvidenceFile) -> dict[str, list[str]]:
    """List the identities of each task, by name of the task."""
    return divide_identities(evidence.identities)


@task(name="measure identity", task_run_name="measure {identity} of {evidence.folder!m}")
def measure_identity(
    identity: str, identities: list[str], evidence: EvidenceFile
) -> dict[str, MeasuredSubgroup]:
    """Measure one identity, or a part of many identities.

    Does not write files, safe to retry.
    """
    del identity  # used only in the name of the task run
    return measure_identities(evidence, identities)


@task(name="summarise bias", task_run_name="summarise {evidence.folder!m}")
def summarise_identities(
    measured: list[dict[str, MeasuredSubgroup]], evidence: EvidenceFile
) -> BiasTable:
    """Compute overall and aggregate numbers from the results of the identities."""
    table = summarise_rows(
        evidence, {name: bias for part in measured for name, bias in part.items()}
    )
    auc, final_score = (table.overall[name].value for name in ("auc", "final_score"))
    numbers = ", ".join(
        f"{name} {'undefined' if value is None else f'{value:.3f}'}"
        for name, value in (("AUC", auc), ("final score", final_score))
    )
    place = f"{evidence.folder.name} on {evidence.folder.parent.name}"
    log_message(f"measured {place}: {numbers}; identities: {len(table.subgroups)}")
    return table


@task(name="count missing scores", task_run_name="count missing scores of {evidence.folder!m}")
def count_missing(evidence: EvidenceFile, scores: str) -> MarkedComments | None:
    """Count the comments without a score by reason; None if all have a score. Only reads."""
    if evidence.is_complete:
        return None
    reasons = dict(sorted(ScoredSet.open(scores).reasons().items()))
    missing = MarkedComments.from_dict(
        evidence.measure_missing(CONFIDENCE).to_dict() | {"reasons": reasons, "sentence": ""}
    )
    joint = evidence.measure_missing(_compute_joint_level(evidence))
    return replace(missing, sentence=describe_missing(missing, joint))


@task(
    name="count truncated comments",
    task_run_name="count truncated comments of {evidence.folder!m}",
)
def count_truncated(evidence: EvidenceFile) -> MarkedComments | None:
    """Count the truncated comments; None if their number is 0 or unknown. Only reads."""
    marked, joint = (
        evidence.measure_truncated(level) for level in (CONFIDENCE, _compute_joint_level(evidence))
    )
    if marked is None or joint is None or not marked.overall.n_marked:
        return None
    sentence, is_reservation = describe_truncated(joint)
    return MarkedComments.from_dict(
        marked.to_dict() | {"sentence": sentence, "is_reservation": is_reservation}
    )


def _compute_joint_level(evidence: EvidenceFile) -> float:
    """Return the confidence at which the intervals of all identities hold jointly."""
    return bonferroni_level(len(evidence.identities), (1 - CONFIDENCE) / 2)


def describe_truncated(joint: MarkedRows) -> tuple[str, bool]:
    """Report the number of truncated comments, and if it is a reservation.

    It is a reservation if an identity has a significantly higher share of truncated comments, or
    else a significantly lower share. The intervals of `joint` must hold jointly.
    """
    gaps = _describe_gaps(joint) or _describe_gaps(joint, -1)
    overall = joint.overall
    verb = "was" if overall.n_marked == 1 else "were"
    text = (
        f"{overall.n_marked:,} of {overall.n:,} comments {verb} truncated: the model read only a "
        "part of each."
    )
    return text + (gaps or " No identity differs significantly."), bool(gaps)


def describe_missing(missing: MarkedComments, joint: MarkedRows) -> str:
    """Report the number of comments without a score, and identities with significantly more.

    The intervals of `joint` must hold jointly, since the identities with the largest gaps are
    selected.
    """
    overall = missing.overall
    has, they_are = ("has", "It is") if overall.n_marked == 1 else ("have", "They are")
    reasons = describe_reasons(missing.reasons or {})
    text = f"{overall.n_marked:,} of {overall.n:,} comments {has} no score ({reasons}). "
    text += f"{they_are} left out of all other numbers."
    return text + _describe_gaps(joint)


def _describe_gaps(joint: MarkedRows, sign: Literal[1, -1] = 1) -> str:
    """Name the identities with a significantly higher share, or a lower share if `sign` is -1."""
    gaps = {name: group.gap for name, group in joint.subgroups.items() if group.gap is not None}
    significant = {
        name: gap
        for name, gap in gaps.items()
        if gap.low is not None and gap.high is not None and min(sign * gap.low, sign * gap.high) > 0
    }
    if not significant:
        return ""
    most, *others = sorted(significant, key=lambda name: -sign * float(significant[name]))
    gap, rate = significant[most], joint.subgroups[most].rate
    often = "more often" if sign > 0 else "less often"
    also = f" Also significantly {often} for {shorten_names(others)}." if others else ""
    return (
        f" Compared with others it is significantly {often} so for {most}: {rate:.1%}, "
        f"{gap:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}].{also}"
    )
