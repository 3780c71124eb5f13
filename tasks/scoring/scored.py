"""Second step: scores of one candidate on one evaluation set, computed once and kept.

Scores live in `store/scores/<set digest>/<candidate digest>/`, or below the URL in
`BIASGATE_SCORES`: one file per shard of rows, and `record.json` once all are complete. While
neither digest changes, nothing is scored again. The shards that a killed run finished are
reused by the next one; two runs at the same time share the work.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from biasgate.tasks.common.errors import (
    CandidateError,
    InputError,
    describe_missing_module,
    format_place,
    withhold_message,
)
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.common.prefect_task import is_distributed, log_message, task
from biasgate.tasks.common.progress import format_duration, show_progress
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.candidate import CandidateSettings, refuse_other_scale
from biasgate.tasks.scoring.outcomes import PartlyScored, describe_reasons
from biasgate.tasks.scoring.scored_set import RECORD, ScoredSet, ScoresRecord, Shards
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.scoring.training_rows import find_training_rows
from biasgate.tasks.store import Workplace


def score_rows(
    scorer: Scorer,
    evaluation_set: EvaluationSet,
    candidate: CandidateSettings,
    scores: str,
) -> ScoredSet:
    """Return a candidate's scores on a set, computing only the missing ones.

    `scores`: folder, or URL that fsspec can open, below which scores are kept.

    Returns one finite score per row, in the row order of the set.
    """
    _check_set(scorer, evaluation_set, candidate)
    shards = shards_of(scorer, evaluation_set, scores)
    kept = ScoredSet.load(shards.folder.url)
    if kept is None or not kept.is_of(scorer, evaluation_set):
        n_shards = -(-evaluation_set.n_rows // candidate.rows_a_shard)
        # Two runs that start at different shards share the work instead of repeating it.
        what = f"{candidate.name} on {evaluation_set.name}"
        log_message(f"scoring {what}: {evaluation_set.n_rows:,} rows")
        first = random.randrange(n_shards)  # noqa: S311
        numbers = [(first + step) % n_shards for step in range(n_shards)]
        rate = score_shards(scorer, evaluation_set, candidate, shards, numbers)
        kept = finish_scores(shards, evaluation_set, n_shards, scorer, rate)
        log_message(f"scored {what}", aside=True)
    else:
        shards.folder.touch()
        log_message(
            f"reusing saved scores of {candidate.name} on {evaluation_set.name}", aside=True
        )
    if not candidate.scores_in_levels:
        _refuse_two_valued(kept, candidate)
    known = kept.table()["score"].to_numpy()
    refuse_other_scale(candidate.name, candidate.threshold, known[~np.isnan(known)])
    return kept


def shards_of(scorer: Scorer, evaluation_set: EvaluationSet, scores: str) -> Shards:
    """Return the shards of a candidate on a set, which may not exist yet."""
    folder = Folder(scores).child(evaluation_set.digest[:16], scorer.digest[:16])
    return Shards(folder, scorer.digest, evaluation_set.digest, scorer.precision)


def score_shards(
    scorer: Scorer,
    evaluation_set: EvaluationSet,
    candidate: CandidateSettings,
    shards: Shards,
    numbers: Sequence[int],
    part: str = "",
) -> float | None:
    """Compute the missing ones of some shards; safe for several callers at once.

    `part` names the shards in messages, unless they are all.

    Returns the rows that were scored per second, the loading of the model included; None if all
    were kept.
    """
    size, n_rows = candidate.rows_a_shard, evaluation_set.n_rows
    what = f"score {candidate.name} on {evaluation_set.name}{part}"
    total = sum(min(size, n_rows - number * size) for number in numbers)
    made: list[int] = []
    n_done, n_kept, started = 0, 0, time.monotonic()
    due = 0.0  # first after one shard, then at ever longer intervals

    def complete(number: int) -> int:
        start = number * size
        ids = evaluation_set.read_rows(["id"], start, size)["id"].combine_chunks()
        with shards.locked(number):
            if not shards.holds(number, ids):
                table = evaluation_set.read_rows(list(scorer.columns), start, size)
                [rows] = table.combine_chunks().to_batches()
                score, of = partial(scorer.score, rows), f"candidate {candidate.name!r}"
                scores = withhold_message(score, of, CandidateError)
                if not made:  # the first call loads the model
                    scorer.refuse_changed()
                partly = _checked(scores, rows, start, candidate)
                if partly.truncated is None and scorer.reads_whole:
                    partly = replace(partly, truncated=np.zeros(len(ids), np.bool_))
                if shards.write(number, ids, partly):
                    made.append(number)
        return len(ids)

    with (
        show_progress(what, total=total, unit="rows", always=True) as advance,
        calling(scorer.at_once) as each,
    ):
        for n_completed in each(complete, numbers):
            advance(n_completed)
            n_done += n_completed
            elapsed = time.monotonic() - started
            if not made:
                n_kept = n_done
            elif elapsed >= due and n_done < total:
                left = elapsed * (total - n_done) / (n_done - n_kept)
                log_message(
                    f"{what}: {n_done:,} of {total:,} comments done, about "
                    f"{format_duration(left)} left"
                )
                due = 2 * elapsed
    if not made:
        return None
    _refuse_changed(scorer, shards, made)
    n_made = sum(min(size, n_rows - number * size) for number in made)
    return n_made / (time.monotonic() - started)


def _refuse_changed(scorer: Scorer, shards: Shards, made: Sequence[int]) -> None:
    """Remove the shards of a model whose files changed meanwhile, since its digest names others."""
    try:
        scorer.refuse_changed()
    except (CandidateError, InputError):
        for number in made:
            shards.remove(number)
        raise


def finish_scores(
    shards: Shards,
    evaluation_set: EvaluationSet,
    n_shards: int,
    scorer: Scorer,
    rows_per_second: float | None = None,
) -> ScoredSet:
    """Record that all shards are complete, and what decided the scores."""
    record = ScoresRecord(
        candidate_digest=shards.candidate_digest,
        set_digest=shards.set_digest,
        precision=shards.precision,
        n_rows=evaluation_set.n_rows,
        n_shards=n_shards,
        bound=scorer.bound,
        trained_on=find_training_rows(scorer.files, evaluation_set),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        rows_per_second=rows_per_second,
    )
    shards.folder.write(RECORD, json.dumps(record.to_dict(), indent=2).encode())
    return ScoredSet(shards.folder.url, record)


@task(name="check candidate", task_run_name="check {candidate.name}")
def check_candidate(
    candidate: CandidateSettings, set_folders: list[str], workplace: Workplace
) -> None:
    """Refuse a candidate that cannot be scored on one of the frozen sets. Only reads."""
    with candidate.opened(workplace) as scorer:
        sets = [EvaluationSet.load(Path(folder)) for folder in set_folders]
        for evaluation_set in sets:
            _check_set(scorer, evaluation_set, candidate)
        if not is_distributed() and any(
            ScoredSet.load(shards_of(scorer, evaluation_set, workplace.scores).folder.url) is None
            for evaluation_set in sets
        ):
            try:
                scorer.try_out()
            except Exception as error:
                lacking = describe_missing_module(error)
                if lacking is None or isinstance(error, CandidateError | InputError):
                    raise
                msg = f"candidate {candidate.name!r} cannot be loaded: {lacking}"
                raise InputError(msg) from error


@task(name="score candidate", task_run_name="score {candidate.name} on {set_folder!e}")
def score_candidate(candidate: CandidateSettings, set_folder: str, workplace: Workplace) -> str:
    """Open the candidate, score the frozen set, return the scores' folder. Safe to retry."""
    with candidate.opened(workplace) as scorer:
        evaluation_set = EvaluationSet.load(Path(set_folder))
        return score_rows(scorer, evaluation_set, candidate, workplace.scores).url


def _check_set(scorer: Scorer, evaluation_set: EvaluationSet, candidate: CandidateSettings) -> None:
    """Raise an error, before any work starts, if an opened candidate cannot score a set."""

    def check() -> None:
        candidate.refuse_unfit(evaluation_set, scorer.files)
        scorer.check(evaluation_set)

    who = f"candidate {candidate.name!r}, which checks evaluation set {evaluation_set.name!r},"
    withhold_message(check, who, CandidateError)


def _checked(
    scored: np.ndarray | PartlyScored,
    rows: pa.RecordBatch,
    first_row: int,
    candidate: CandidateSettings,
) -> PartlyScored:
    """Return the scores, NaN if a row has none."""
    partly = scored if isinstance(scored, PartlyScored) else PartlyScored(scored)
    scores, reasons = partly.scores, partly.reasons or (None,) * rows.num_rows
    if scores.shape != (rows.num_rows,):
        msg = (
            f"candidate {candidate.name!r} must return a single score per row; got shape "
            f"{scores.shape} for {rows.num_rows} rows."
        )
        raise InputError(msg)
    explained = np.array([reason is not None for reason in reasons], dtype=np.bool_)
    wrong = np.flatnonzero(~np.isfinite(scores) & ~explained)
    if wrong.size:
        at = int(wrong[0])
        where = format_place(row=first_row + at, id=rows.column("id")[at].as_py())
        msg = f"scores of candidate {candidate.name!r} must be finite; got {scores[at]} {where}."
        raise InputError(msg)
    return replace(partly, scores=np.where(explained, np.nan, scores))


def _refuse_two_valued(scored: ScoredSet, candidate: CandidateSettings) -> None:
    scores = scored.table()["score"].to_numpy()
    known = scores[~np.isnan(scores)]
    values = np.unique(known)
    if known.size <= 2 and known.size < scores.size:
        lacking = f"only {known.size} have one" if known.size else "all are missing"
        why = describe_reasons(dict(scored.reasons().most_common()))
        msg = (
            f"candidate {candidate.name!r} must have a score for some rows; of {scores.size}, "
            f"{lacking} ({why})."
        )
        raise InputError(msg)
    if values.size <= 2:
        shown = " and ".join(f"{value:g}" for value in values)
        msg = (
            f"scores of candidate {candidate.name!r} must be probabilities or other graded "
            f"scores; all are {shown}, which looks like class labels. Use the model's "
            "probabilities (in MLflow, log it with `pyfunc_predict_fn='predict_proba'`), or set "
            "`allow_two_valued: true`."
        )
        raise InputError(msg)


@contextmanager
def calling(at_once: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a `map` that makes several calls at a time; after an error no other call begins.

    `at_once`: the most calls at a time; with one, all are made in the thread of the caller.
    """
    if at_once == 1:
        yield map
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield pool.map


# Each part opens the candidate again: enough parts for all workers, but no more than pays off.
PARTS = 32


@dataclass(frozen=True)
class Part:
    """A range of the shards of one candidate's scores on one set."""

    first: int
    last: int
    """Numbers of the first and the last shard."""
    scores: str
    """Folder or URL below which the flow keeps scores; overrides a worker's own environment."""


@task(name="share out shards", task_run_name="share out {candidate.name} on {set_folder!e}")
def share_out(candidate: CandidateSettings, set_folder: str, workplace: Workplace) -> list[Part]:
    """Return ranges of shards for workers. Only reads.

    Empty if the tasks of this flow run in its own process, or all scores are kept.
    """
    if not is_distributed():
        return []
    evaluation_set = EvaluationSet.load(Path(set_folder))
    with candidate.opened(workplace) as scorer:
        _check_set(scorer, evaluation_set, candidate)
        kept = ScoredSet.load(shards_of(scorer, evaluation_set, workplace.scores).folder.url)
        if kept is not None and kept.is_of(scorer, evaluation_set):
            return []
    n_shards = -(-evaluation_set.n_rows // candidate.rows_a_shard)
    n_parts = min(n_shards, PARTS)
    starts = [n_shards * part // n_parts for part in range(n_parts + 1)]
    return [Part(first, after - 1, workplace.scores) for first, after in pairwise(starts)]


@task(
    name="score shards",
    task_run_name="score {candidate.name} on {set_folder!e}, shards {part.first} to {part.last}",
)
def score_part(
    part: Part, candidate: CandidateSettings, set_folder: str, workplace: Workplace
) -> None:
    """Compute the missing shards of a range. Safe to retry."""
    evaluation_set = EvaluationSet.load(Path(set_folder))
    numbers = range(part.first, part.last + 1)
    with candidate.opened(workplace) as scorer:
        shards = shards_of(scorer, evaluation_set, part.scores)
        which = f", shards {part.first} to {part.last}"
        score_shards(scorer, evaluation_set, candidate, shards, numbers, which)
