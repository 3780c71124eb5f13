"""Third step: bias metrics, one task per identity over the rows of the evidence.

Many identities are divided among a limited number of tasks, which share what one of them read and
ranked. Each unpacks the memberships of its own identities, one after the other. Comments without
a score are counted beside.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bias_metrics import BiasTable
from bias_metrics.families import bonferroni_level
from bias_metrics.report import MeasuredSubgroup, Options
from bias_metrics.thresholds import MissingScores
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import Missing, Report
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.outcomes import describe_reasons
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.wording import first_names

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
            found[name] = evidence.measurement.subgroup(name)
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
    model.take(measured)
    return model.report(Options.of(model.rows, power_mean_groups=groups, confidence=CONFIDENCE))


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
def count_missing(evidence: EvidenceFile, scores: str) -> Missing | None:
    """Return how many comments have no score, and why; None if all have one. Only reads."""
    if evidence.is_complete:
        return None
    found = evidence.missing(CONFIDENCE)
    reasons = dict(sorted(ScoredSet.open(scores).reasons().items()))
    known = Missing.from_dict(found.to_dict() | {"reasons": reasons, "sentence": ""})
    level = bonferroni_level(len(found.subgroups), (1 - CONFIDENCE) / 2)
    return replace(known, sentence=missing_sentence(known, evidence.missing(level)))


def missing_sentence(found: Missing, joint: MissingScores) -> str:
    """Report how many comments have no score, and the identities with significantly more.

    The intervals of `joint` must hold together, since the identities with the largest gaps are
    selected.
    """
    overall = found.overall
    is_one = overall.n_missing == 1
    has, left_out = ("has", "It is") if is_one else ("have", "They are")
    why = describe_reasons(found.reasons)
    text = f"{overall.n_missing:,} of {overall.n:,} comments {has} no score ({why}). "
    text += f"{left_out} left out of all other numbers."
    gaps = {name: one.missing_gap for name, one in joint.subgroups.items()}
    shown = {name: gap for name, gap in gaps.items() if gap and gap.low is not None and gap.low > 0}
    if not shown:
        return text
    most, *others = sorted(shown, key=lambda name: -float(shown[name]))
    gap, rate = shown[most], joint.subgroups[most].missing_rate
    also = f" Also significantly more often for {first_names(others)}." if others else ""
    return (
        f"{text} Compared with others it is significantly more often so for {most}: {rate:.1%}, "
        f"{gap:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}].{also}"
    )
