"""Third step: comments without a score, overall and for each identity."""

from __future__ import annotations

from dataclasses import replace

from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import Missing
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.scoring.scored_set import ScoredSet

_WORDS = {
    "empty": "empty",
    "language": "language not supported",
    "no_score": "none in the file",
    "no_answer": "no usable answer",
    "refused": "refused",
    "too_long": "too long",
}


@task(name="count missing scores", task_run_name="count missing scores of {evidence.folder!m}")
def count_missing(evidence: EvidenceFile, scores: str) -> Missing | None:
    """Return how many comments have no score, and why; None if all have one. Only reads."""
    if evidence.is_complete:
        return None
    found = evidence.missing(CONFIDENCE)
    reasons = dict(sorted(ScoredSet.open(scores).reasons().items()))
    known = Missing.from_dict(found.to_dict() | {"reasons": reasons, "sentence": ""})
    return replace(known, sentence=missing_sentence(known))


def missing_sentence(found: Missing) -> str:
    """Say how many comments have no score, and for which identity it is most often so."""
    overall = found.overall
    why = ", ".join(f"{_WORDS.get(reason, reason)} {n:,}" for reason, n in found.reasons.items())
    is_one = overall.n_missing == 1
    has, left_out = ("has", "It is") if is_one else ("have", "They are")
    text = f"{overall.n_missing:,} of {overall.n:,} comments {has} no score ({why}). "
    text += f"{left_out} left out of all other numbers."
    gaps = {
        name: one.missing_gap
        for name, one in found.subgroups.items()
        if one.missing_gap is not None and one.missing_gap.value is not None
    }
    if not gaps:
        return text
    most = max(gaps, key=lambda name: gaps[name].value or 0.0)
    gap, rate = gaps[most], found.subgroups[most].missing_rate.value or 0.0
    bounds = "" if gap.low is None else f" [{gap.low:+.3f}, {gap.high:+.3f}]"
    return (
        f"{text} Compared with others it is most often so "
        f"for {most}: {rate:.1%}, {gap.value:+.3f}{bounds}."
    )
