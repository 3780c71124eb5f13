"""Tonight beside the nights before: what changed, why, and by more than chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Literal

from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest, locked, write_json
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.records import Decided, LoggedVerdict, Report
from biasgate.tasks.records.trend import Cause, Changed, Digests, Night, Remembered, Trend
from biasgate.tasks.remembering.memory import Memory
from biasgate.tasks.remembering.moved import Moved, family_confidence, find_moves, find_not_compared
from biasgate.tasks.remembering.reading import FILE
from biasgate.tasks.store import Workplace

_MOST = 10


def changes_of(tonight: Night, before: Sequence[Night]) -> list[Changed]:
    """Return, for each model and set, what is other than when it was measured last.

    A candidate is followed by its name, with whatever model it had; a version that has another name
    now, by itself. The later of the two nights counts, the one of the name if they are the same.
    """
    found: list[Changed] = []
    for model in tonight.models:
        known = [_last(model, before, "candidate"), _last(model, before, "model")]
        last = max(filter(None, known), key=itemgetter(0), default=None)
        found.append(
            Changed(
                candidate=model.candidate,
                evaluation_set=model.evaluation_set,
                since=None if last is None else last[0],
                causes=[] if last is None else causes_of(model.digests, last[1].digests),
                outcome=model.outcome,
                outcome_before=None if last is None else last[1].outcome,
            )
        )
    return found


def _last(
    remembered: Remembered, before: Sequence[Night], key: Literal["model", "candidate"]
) -> tuple[int, Remembered] | None:
    """Return the last night that measured the same model, or candidate, on the same set."""
    for night in reversed(before):
        for other in night.models:
            same = getattr(remembered, key) == getattr(other, key)
            if same and remembered.evaluation_set == other.evaluation_set:
                return night.number, other
    return None


def moves_in_words(moves: Sequence[Moved]) -> list[str]:
    """Return who moved, in sentences."""
    sentences = [one.sentence for one in moves[:_MOST]]
    if len(moves) > _MOST:
        sentences.append(f"{len(moves) - _MOST:,} more identities moved.")
    return sentences


def sentences_of(
    tonight: Night, before: Sequence[Night], changed: Sequence[Changed], moved: Sequence[str]
) -> list[str]:
    """Return in words what is news tonight, beginning with who moved; nothing if nothing is."""
    told = list(moved)
    for one in changed:
        of = f"{one.candidate} on {one.evaluation_set}"
        if one.since is None:
            told.append(f"{of}: new.")
        elif one.causes:
            causes = ", ".join(f"new {cause}" for cause in one.causes)
            told.append(f"{of}: {causes} since night {one.since}.")
        was = one.outcome_before
        if was is not None and was != one.outcome:
            before_is, now_is = (WORDS[word].text.lower() for word in (was, one.outcome))
            told.append(f"{of}: {now_is}; in night {one.since} it was {before_is}.")
    now = {name for model in tonight.models for name in (model.model, model.candidate)}
    last = next((night.models for night in reversed(before) if night.models), [])
    gone = dict.fromkeys(
        remembered.candidate
        for remembered in last
        if now.isdisjoint((remembered.model, remembered.candidate))
    )
    told += [f"{name}: not measured tonight." for name in gone]
    return told


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
    """Compare tonight with so many nights before, log it, and write `trend.json`.

    Safe to retry: a night is known by its evaluation's run. What cannot be read or logged is said,
    and changes no verdict.
    """
    memory = Memory(workplace.gateway, evaluation)
    flat = [one for on_sets in measured for one in on_sets]
    known = {(v.candidate.name, v.evaluation_set.name) for v in decided.verdicts}
    flat = [one for one in flat if (one.candidate.name, one.source.name) in known]
    try:
        with _one_at_a_time(workplace, evaluation):
            nights = memory.nights(n_before + 1)
            before = [night for night in nights if night.run_id != run_id][-n_before:]
            number = _number_of(run_id, nights)
            tonight = remember(
                flat, decided.verdicts, evaluation=evaluation, number=number, run_id=run_id
            )
            moved = moves_in_words(find_moves([*before, tonight]))
            changed = changes_of(tonight, before)
            tonight = replace(tonight, news=sentences_of(tonight, before, changed, moved))
            memory.add(tonight)
    except InputError as error:
        say(f"this night could not be compared with earlier nights: {error}")
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
        say(f"night {number}: {sentence}")
    return trend


def remember_failure(evaluation: str, run_id: str, kind: str, workplace: Workplace) -> None:
    """Remember that a night failed: it has a number, and no models.

    Parameters
    ----------
    run_id : str
        The flow run.
    kind : str
        The name of the error.
    """
    memory = Memory(workplace.gateway, evaluation)
    with _one_at_a_time(workplace, evaluation):
        number = _number_of(run_id, memory.nights(1))
        night = remember([], [], evaluation=evaluation, number=number, run_id=run_id)
        told = f"failed ({kind}); see the log of flow run {run_id}."
        memory.add(replace(night, news=[told]))


def _one_at_a_time(workplace: Workplace, evaluation: str) -> AbstractContextManager[None]:
    return locked(workplace.store / f"nights-{json_digest(evaluation)[:16]}")


def _number_of(run_id: str, nights: Sequence[Night]) -> int:
    """Return the number of the night of a run; the next one if it is not known."""
    again = next((night.number for night in nights if night.run_id == run_id), None)
    return again or (nights[-1].number + 1 if nights else 1)


SCHEMA_VERSION = 1
CAUSES: tuple[Cause, ...] = ("model", "data", "options", "policy", "code")
# The rows of a night are not a choice: these say how many there were, or where they came from.
_NO_CHOICES = ("n_", "sampled_from", "source", "split")


def remember(
    measured: Sequence[Measured],
    verdicts: Sequence[LoggedVerdict],
    *,
    evaluation: str,
    number: int,
    run_id: str,
) -> Night:
    """Return the record of one night.

    Parameters
    ----------
    number : int
        Of the night, from 1.
    """
    by_place = {(v.candidate.name, v.evaluation_set.name): v for v in verdicts}
    n_numbers = sum(
        subgroup[metric].low is not None
        for one in measured
        for subgroup in one.report.bias.subgroups.values()
        for metric in SUBGROUP_METRICS
    )
    level = family_confidence(n_numbers)
    return Night(
        schema_version=SCHEMA_VERSION,
        evaluation=evaluation,
        number=number,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        run_id=run_id,
        joint_confidence=level,
        models=[
            _remembered(one, by_place[one.candidate.name, one.source.name], level)
            for one in measured
        ],
        news=[],
    )


def _remembered(measured: Measured, verdict: LoggedVerdict, level: float) -> Remembered:
    report = measured.report
    joint = joint_intervals(EvidenceFile(Path(measured.folder) / EVIDENCE), level)
    choices = {
        key: value
        for key, value in report.evaluation_set.choices.to_dict().items()
        if not key.startswith(_NO_CHOICES)
    }
    digests = Digests(
        model=_model_digest(measured, verdict),
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
        numbers=numbers_of(report),
        joint=joint,
        reasons={key: reason for key, reason in _reasons(report) if key not in joint},
    )


def joint_intervals(evidence: EvidenceFile, level: float) -> dict[str, list[float]]:
    """Return the ends of the interval of each number of an identity that has one."""
    table = evidence.measure_set(level).table
    evidence.release()
    found = {}
    for name in table.groups:
        for metric in SUBGROUP_METRICS:
            low, high = table[metric, name].low, table[metric, name].high
            if low is not None and high is not None:
                found[f"{metric}/{name}"] = [low, high]
    return found


def _reasons(report: Report) -> Iterator[tuple[str, str]]:
    for name, subgroup in report.bias.subgroups.items():
        for metric in SUBGROUP_METRICS:
            yield f"{metric}/{name}", subgroup[metric].reason or "it has no interval"


def _model_digest(measured: Measured, verdict: LoggedVerdict) -> str:
    """Return the digest of what scored: of a version, its files and how they are opened.

    It is the same whether the version was trained in that night or taken from the registry.
    """
    bound = verdict.candidate.bound
    if bound.what == "files" and measured.candidate.uri:
        return json_digest([bound.digest, measured.candidate.opened_as()])
    return measured.report.candidate.digest


def numbers_of(report: Report) -> dict[str, list[float | None]]:
    """Return value, low and high of every number; shares have no interval."""
    table, n_rows = report.bias, report.bias.counts[None].n
    overall = table.overall
    cells = {"auc/overall": overall.auc, "final_score": overall.final_score}
    cells |= {f"power_mean/{name}": overall[name] for name in FINAL_SCORE_PARTS}
    for name, of_group in table.subgroups.items():
        cells |= {f"{metric}/{name}": of_group[metric] for metric in SUBGROUP_METRICS}
    found: dict[str, list[float | None]] = {
        key: [cell.value, cell.low, cell.high] for key, cell in cells.items()
    }
    for group, rows in table.counts.items():
        share = rows.n_positive / rows.n if rows.n else None
        found[f"toxic_share/{'overall' if group is None else group}"] = [share, None, None]
        if group is not None:
            found[f"share/{group}"] = [rows.n / n_rows if n_rows else None, None, None]
    return found


def causes_of(now: Digests, before: Digests) -> list[Cause]:
    """Return what is other now."""
    return [one for one in CAUSES if getattr(now, one) != getattr(before, one)]
