"""Third step: bias metrics, one task per identity over the rows of the evidence.

Many identities are divided among a limited number of tasks, which share what one of them read and
ranked. Each unpacks the memberships of its own identities, one after the other. Comments without
a score, and truncated ones, are counted next to them.
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
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import MarkedComments, Report
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.outcomes import describe_reasons
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.wording import shorten_names

# Tasks that measure identities: enough for the cores of a large machine.
MAX_TASKS = 32
# Each takes some arrays over all rows: more at once than there are cores only need more memory.
_AT_ONCE = threading.BoundedSemaphore(os.cpu_count() or 1)


@dataclass(frozen=True)
class Measured:
    """The result of measuring one candidate on one set, for the steps that judge it."""

    source: SourceSettings
    """The set, as in the evaluation file."""
    candidate: CandidateSettings
    """The candidate, pinned to its version."""
    rows: str
    scores: str
    """Folders of the frozen rows and the scores."""
    folder: str
    """Folder for the results, with the evidence."""
    report: Report
    """As in `report.json`."""


def measure_some(evidence: EvidenceFile, identities: Sequence[str]) -> dict[str, MeasuredSubgroup]:
    """Measure several identities, one after the other."""
    found = {}
    for name in identities:
        with _AT_ONCE:
            found[name] = evidence.measurement.measure_subgroup(name)
    return found


def share_out_identities(identities: Sequence[str]) -> dict[str, list[str]]:
    """Divide identities among at most `MAX_TASKS` tasks; a few identities get one task each.

    Returns
    -------
    dict of str to list of str
        The identities by name of the task, as in `muslim` or `500 identities, part 3`.
    """
    if len(identities) <= MAX_TASKS:
        return {name: [name] for name in identities}
    return {
        f"{len(identities):,} identities, part {part + 1}": list(identities[part::MAX_TASKS])
        for part in range(MAX_TASKS)
    }


def summarise(evidence: EvidenceFile, measured: Mapping[str, MeasuredSubgroup]) -> BiasTable:
    """Compute overall numbers and aggregates; let all intervals account for clusters."""
    groups = evidence.record.power_mean_groups
    model = evidence.measurement
    model.adopt_subgroups(measured)
    return model.report(
        ReportOptions.from_arguments(model.rows, power_mean_groups=groups, confidence=CONFIDENCE)
    )


def list_identities(evidence: EvidenceFile) -> dict[str, list[str]]:
    """Return the identities of each task, by name of the task."""
    return share_out_identities(evidence.identities)


@task(name="measure identity", task_run_name="measure {identity} of {evidence.folder!m}")
def measure_identity(
    identity: str, identities: list[str], evidence: EvidenceFile
) -> dict[str, MeasuredSubgroup]:
    """Measure one identity, or a part of many.

    Writes nothing, safe to retry.
    """
    del identity  # only names the task run
    return measure_some(evidence, identities)


@task(name="summarise bias", task_run_name="summarise {evidence.folder!m}")
def summarise_identities(
    measured: list[dict[str, MeasuredSubgroup]], evidence: EvidenceFile
) -> BiasTable:
    """Compute overall and aggregate numbers from the identities' results."""
    found = summarise(evidence, {name: bias for part in measured for name, bias in part.items()})
    of = f"{evidence.folder.name} on {evidence.folder.parent.name}"
    auc, final = (found.overall[name].value for name in ("auc", "final_score"))
    numbers = ", ".join(
        f"{name} {'undefined' if value is None else f'{value:.3f}'}"
        for name, value in (("AUC", auc), ("final score", final))
    )
    say(f"measured {of}: {numbers}; identities: {len(found.subgroups)}")
    return found


@task(name="count missing scores", task_run_name="count missing scores of {evidence.folder!m}")
def count_missing(evidence: EvidenceFile, scores: str) -> MarkedComments | None:
    """Return how many comments have no score, and why; None if all have one. Only reads."""
    if evidence.is_complete:
        return None
    reasons = dict(sorted(ScoredSet.open(scores).reasons().items()))
    found = MarkedComments.from_dict(
        evidence.missing(CONFIDENCE).to_dict() | {"reasons": reasons, "sentence": ""}
    )
    joint = evidence.missing(_joint_level(evidence))
    return replace(found, sentence=missing_sentence(found, joint))


@task(
    name="count truncated comments",
    task_run_name="count truncated comments of {evidence.folder!m}",
)
def count_truncated(evidence: EvidenceFile) -> MarkedComments | None:
    """Return how many comments the candidate truncated; None if none, or unknown. Only reads."""
    found, joint = (evidence.truncated(one) for one in (CONFIDENCE, _joint_level(evidence)))
    if found is None or joint is None or not found.overall.n_marked:
        return None
    sentence, is_reservation = truncated_sentence(joint)
    told = {"sentence": sentence, "is_reservation": is_reservation}
    return MarkedComments.from_dict(found.to_dict() | told)


def _joint_level(evidence: EvidenceFile) -> float:
    """Return the confidence at which the intervals of all identities hold together."""
    return bonferroni_level(len(evidence.identities), (1 - CONFIDENCE) / 2)


def truncated_sentence(joint: MarkedRows) -> tuple[str, bool]:
    """Report how many comments were truncated, and whether that is a reservation.

    It is if an identity has significantly more truncated comments, or else significantly fewer. The
    intervals of `joint` must hold together.
    """
    gaps = _name_gaps(joint) or _name_gaps(joint, -1)
    overall = joint.overall
    were = "was" if overall.n_marked == 1 else "were"
    told = (
        f"{overall.n_marked:,} of {overall.n:,} comments {were} truncated: the model read only a "
        "part of each."
    )
    return told + (gaps or " No identity differs significantly."), bool(gaps)


def missing_sentence(found: MarkedComments, joint: MarkedRows) -> str:
    """Report how many comments have no score, and the identities with significantly more.

    The intervals of `joint` must hold together, since the identities with the largest gaps are
    selected.
    """
    overall = found.overall
    is_one = overall.n_marked == 1
    has, left_out = ("has", "It is") if is_one else ("have", "They are")
    why = describe_reasons(found.reasons or {})
    text = f"{overall.n_marked:,} of {overall.n:,} comments {has} no score ({why}). "
    text += f"{left_out} left out of all other numbers."
    return text + _name_gaps(joint)


def _name_gaps(joint: MarkedRows, sign: Literal[1, -1] = 1) -> str:
    """Name the identities with a share that is significantly higher, or lower if `sign` is -1."""
    gaps = {name: one.gap for name, one in joint.subgroups.items() if one.gap is not None}
    shown = {
        name: gap
        for name, gap in gaps.items()
        if gap.low is not None and gap.high is not None and min(sign * gap.low, sign * gap.high) > 0
    }
    if not shown:
        return ""
    most, *others = sorted(shown, key=lambda name: -sign * float(shown[name]))
    gap, rate = shown[most], joint.subgroups[most].rate
    often = "more often" if sign > 0 else "less often"
    also = f" Also significantly {often} for {shorten_names(others)}." if others else ""
    return (
        f" Compared with others it is significantly {often} so for {most}: {rate:.1%}, "
        f"{gap:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}].{also}"
    )
