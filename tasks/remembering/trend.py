"""Comparison of the last night with earlier nights: changes, their causes and significance."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Literal

from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import hold_lock, json_digest, write_json
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.records import Decided, LoggedVerdict, Report
from biasgate.tasks.records.trend import Cause, Changed, Digests, Night, Remembered, Trend
from biasgate.tasks.remembering.memory import Memory
from biasgate.tasks.remembering.moved import (
    Moved,
    compute_family_level,
    find_moves,
    find_not_compared,
)
from biasgate.tasks.remembering.reading import FILE
from biasgate.tasks.store import Workplace

_MAX_MOVES = 10


def find_changes(tonight: Night, before: Sequence[Night]) -> list[Changed]:
    """Compare each model and set with its last earlier night.

    A candidate is matched by its name, also with another model. A model is also matched by its
    version, in case the candidate was renamed. The later match is used, or that of the name if
    both are of the same night.
    """
    changes: list[Changed] = []
    for model in tonight.models:
        matches = [_find_last(model, before, "candidate"), _find_last(model, before, "model")]
        last = max(filter(None, matches), key=itemgetter(0), default=None)
        changes.append(
            Changed(
                candidate=model.candidate,
                evaluation_set=model.evaluation_set,
                since=None if last is None else last[0],
                causes=[] if last is None else find_causes(model.digests, last[1].digests),
                outcome=model.outcome,
                outcome_before=None if last is None else last[1].outcome,
            )
        )
    return changes


def _find_last(
    remembered: Remembered, before: Sequence[Night], key: Literal["model", "candidate"]
) -> tuple[int, Remembered] | None:
    """Find the last night with the same model, or candidate, on the same set."""
    for night in reversed(before):
        for other in night.models:
            is_same = getattr(remembered, key) == getattr(other, key)
            if is_same and remembered.evaluation_set == other.evaluation_set:
                return night.number, other
    return None


def describe_moves(moves: Sequence[Moved]) -> list[str]:
    """List the identities with significant changes, as sentences."""
    sentences = [move.sentence for move in moves[:_MAX_MOVES]]
    if len(moves) > _MAX_MOVES:
        sentences.append(f"{len(moves) - _MAX_MOVES:,} more identities moved.")
    return sentences


def describe_news(
    tonight: Night, before: Sequence[Night], changed: Sequence[Changed], moved: Sequence[str]
) -> list[str]:
    """List the news of a night as sentences: first `moved`, then changes and missing models."""
    sentences = list(moved)
    for change in changed:
        place = f"{change.candidate} on {change.evaluation_set}"
        if change.since is None:
            sentences.append(f"{place}: new.")
        elif change.causes:
            causes = ", ".join(f"new {cause}" for cause in change.causes)
            sentences.append(f"{place}: {causes} since night {change.since}.")
        if change.outcome_before is not None and change.outcome_before != change.outcome:
            outcome, outcome_before = (
                WORDS[outcome].text.lower() for outcome in (change.outcome, change.outcome_before)
            )
            sentences.append(
                f"{place}: {outcome}; in night {change.since} it was {outcome_before}."
            )
    names = {name for model in tonight.models for name in (model.model, model.candidate)}
    last = next((night.models for night in reversed(before) if night.models), [])
    absent = dict.fromkeys(
        remembered.candidate
        for remembered in last
        if names.isdisjoint((remembered.model, remembered.candidate))
    )
    sentences += [f"{name}: not measured tonight." for name in absent]
    return sentences


@task(name="remember night")
def remember_night(
    measured: list[list[Measured]],
    decided: Decided,
    run_id: str,
    output: str,
    *,
    evaluation: str,
    n_before: int,
    workplace: Workplace,
) -> Trend | None:
    """Compare this night with the last `n_before` nights, log it, and write `trend.json`.

    Safe to retry: a night is identified by the run of its evaluation. Errors of reading or logging
    are printed, and do not affect verdicts.
    """
    memory = Memory(workplace.gateway, evaluation)
    judged = {(v.candidate.name, v.evaluation_set.name) for v in decided.verdicts}
    measurements = [
        measurement
        for set_measurements in measured
        for measurement in set_measurements
        if (measurement.candidate.name, measurement.source.name) in judged
    ]
    try:
        with _lock_nights(workplace, evaluation):
            nights = memory.read_nights(n_before + 1)
            before = [night for night in nights if night.run_id != run_id][-n_before:]
            number = _find_number(run_id, nights)
            tonight = build_night(
                measurements, decided.verdicts, evaluation=evaluation, number=number, run_id=run_id
            )
            moved = describe_moves(find_moves([*before, tonight]))
            changed = find_changes(tonight, before)
            tonight = replace(tonight, news=describe_news(tonight, before, changed, moved))
            memory.add(tonight)
    except InputError as error:
        log_message(f"this night could not be compared with earlier nights: {error}")
        return None
    trend = Trend(
        schema_version=SCHEMA_VERSION,
        evaluation=evaluation,
        nights=[*before, tonight],
        changed=changed,
        moved=moved,
        not_compared=find_not_compared([*before, tonight]),
    )
    write_json(Path(output) / FILE, trend)
    for sentence in tonight.news:
        log_message(f"night {number}: {sentence}")
    return trend


def remember_failure(evaluation: str, run_id: str, kind: str, workplace: Workplace) -> None:
    """Log a failed night, which has a number but no models.

    Parameters
    ----------
    run_id : str
        The flow run.
    kind : str
        The name of the error.
    """
    memory = Memory(workplace.gateway, evaluation)
    with _lock_nights(workplace, evaluation):
        number = _find_number(run_id, memory.read_nights(1))
        night = build_night([], [], evaluation=evaluation, number=number, run_id=run_id)
        sentence = f"failed ({kind}); see the log of flow run {run_id}."
        memory.add(replace(night, news=[sentence]))


def _lock_nights(workplace: Workplace, evaluation: str) -> AbstractContextManager[None]:
    return hold_lock(workplace.store / f"nights-{json_digest(evaluation)[:16]}")


def _find_number(run_id: str, nights: Sequence[Night]) -> int:
    """Return the number of the night of a run, or the next number for a new run."""
    number = next((night.number for night in nights if night.run_id == run_id), None)
    return number or (nights[-1].number + 1 if nights else 1)


SCHEMA_VERSION = 1
CAUSES: tuple[Cause, ...] = ("model", "data", "options", "policy", "code")
# Counts and origins of rows follow from the data, so they are not part of the options.
_NO_CHOICES = ("n_", "sampled_from", "source", "split")


def build_night(
    measured: Sequence[Measured],
    verdicts: Sequence[LoggedVerdict],
    *,
    evaluation: str,
    number: int,
    run_id: str,
) -> Night:
    """Build the record of a night.

    Parameters
    ----------
    number : int
        Number of the night, from 1.
    """
    verdict_by_place = {(v.candidate.name, v.evaluation_set.name): v for v in verdicts}
    n_numbers = sum(
        subgroup[metric].low is not None
        for measurement in measured
        for subgroup in measurement.report.bias.subgroups.values()
        for metric in SUBGROUP_METRICS
    )
    level = compute_family_level(n_numbers)
    return Night(
        schema_version=SCHEMA_VERSION,
        evaluation=evaluation,
        number=number,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        run_id=run_id,
        joint_confidence=level,
        models=[
            _build_entry(
                measurement,
                verdict_by_place[measurement.candidate.name, measurement.source.name],
                level,
            )
            for measurement in measured
        ],
        news=[],
    )


def _build_entry(measured: Measured, verdict: LoggedVerdict, level: float) -> Remembered:
    report = measured.report
    joint = measure_joint_intervals(EvidenceFile(Path(measured.folder) / EVIDENCE), level)
    choices = {
        key: value
        for key, value in report.evaluation_set.choices.to_dict().items()
        if not key.startswith(_NO_CHOICES)
    }
    digests = Digests(
        model=_compute_model_digest(measured, verdict),
        data=report.evaluation_set.digest,
        options=json_digest([choices, sorted(report.bias.subgroups)]),
        policy=verdict.policy.digest,
        code=json_digest(verdict.code),
    )
    return Remembered(
        candidate=measured.candidate.name,
        model=measured.candidate.uri or measured.candidate.name,
        evaluation_set=measured.source.name,
        run_id=verdict.run_id,
        outcome=verdict.outcome,
        digests=digests,
        numbers=list_numbers(report),
        joint=joint,
        reasons={
            key: subgroup[metric].reason or "it has no interval"
            for name, subgroup in report.bias.subgroups.items()
            for metric in SUBGROUP_METRICS
            if (key := f"{metric}/{name}") not in joint
        },
    )


def measure_joint_intervals(evidence: EvidenceFile, level: float) -> dict[str, list[float]]:
    """Measure the joint intervals of the identities' numbers, by key.

    Numbers without an interval are left out.
    """
    table = evidence.measure_set(level).table
    evidence.release()
    intervals = {}
    for name in table.groups:
        for metric in SUBGROUP_METRICS:
            low, high = table[metric, name].low, table[metric, name].high
            if low is not None and high is not None:
                intervals[f"{metric}/{name}"] = [low, high]
    return intervals


def _compute_model_digest(measured: Measured, verdict: LoggedVerdict) -> str:
    """Return the digest of a model; for a registered version, of its files and options.

    So a version has the same digest in the night of its training and when it is loaded later.
    """
    bound = verdict.candidate.bound
    if bound.what == "files" and measured.candidate.uri:
        return json_digest([bound.digest, measured.candidate.opened_as()])
    return measured.report.candidate.digest


def list_numbers(report: Report) -> dict[str, list[float | None]]:
    """Return value, low and high of every number by key; shares have no interval."""
    table, n_rows = report.bias, report.bias.counts[None].n
    overall = table.overall
    cells = {"auc/overall": overall.auc, "final_score": overall.final_score}
    cells |= {f"power_mean/{name}": overall[name] for name in FINAL_SCORE_PARTS}
    for name, subgroup in table.subgroups.items():
        cells |= {f"{metric}/{name}": subgroup[metric] for metric in SUBGROUP_METRICS}
    numbers: dict[str, list[float | None]] = {
        key: [cell.value, cell.low, cell.high] for key, cell in cells.items()
    }
    for group, counts in table.counts.items():
        toxic_share = counts.n_positive / counts.n if counts.n else None
        numbers[f"toxic_share/{'overall' if group is None else group}"] = [toxic_share, None, None]
        if group is not None:
            numbers[f"share/{group}"] = [counts.n / n_rows if n_rows else None, None, None]
    return numbers


def find_causes(now: Digests, before: Digests) -> list[Cause]:
    """Return the parts whose digests changed."""
    return [cause for cause in CAUSES if getattr(now, cause) != getattr(before, cause)]
