"""Scores of a candidate on an evaluation set, computed once and kept.

Scores are in `store/scores/<set digest>/<candidate digest>/`, or below the URL in
`BIASGATE_SCORES`: a file for each shard of rows, and `record.json` once all shards are complete.
They are reused until a digest changes. A run reuses the finished shards of a killed run, and
simultaneous runs share the work.
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
    """Return a candidate's scores in the row order of a set; compute only missing shards.

    `scores`: folder, or URL that fsspec can open, below which scores are kept.
    """
    _check_set(scorer, evaluation_set, candidate)
    shards = locate_shards(scorer, evaluation_set, scores)
    kept = ScoredSet.load(shards.folder.url)
    described = f"{candidate.name} on {evaluation_set.name}"
    if kept is None or not kept.is_valid_for(scorer, evaluation_set):
        n_shards = -(-evaluation_set.n_rows // candidate.rows_a_shard)
        log_message(f"scoring {described}: {evaluation_set.n_rows:,} rows")
        # Two runs that start at different shards share the work instead of repeating it.
        first = random.randrange(n_shards)  # noqa: S311
        numbers = [(first + step) % n_shards for step in range(n_shards)]
        rate = score_shards(scorer, evaluation_set, candidate, shards, numbers)
        kept = finish_scores(shards, evaluation_set, n_shards, scorer, rate)
        log_message(f"scored {described}", aside=True)
    else:
        shards.folder.touch()
        log_message(f"reusing saved scores of {described}", aside=True)
    if not candidate.has_score_levels:
        _refuse_two_valued(kept, candidate)
    values = kept.table()["score"].to_numpy()
    refuse_other_scale(candidate.name, candidate.threshold, values[~np.isnan(values)])
    return kept


def locate_shards(scorer: Scorer, evaluation_set: EvaluationSet, scores: str) -> Shards:
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
    """Compute the missing shards among `numbers`; safe for several callers at once.

    `part` describes the shards in messages, unless they are all.

    Returns the rows scored per second, including the loading of the model. None if all shards were
    kept.
    """
    size, n_rows = candidate.rows_a_shard, evaluation_set.n_rows
    described = f"score {candidate.name} on {evaluation_set.name}{part}"
    total = sum(min(size, n_rows - number * size) for number in numbers)
    written: list[int] = []
    n_done, n_kept, started = 0, 0, time.monotonic()
    due = 0.0  # first after one shard, then at ever longer intervals

    def complete_shard(number: int) -> int:
        start = number * size
        ids = evaluation_set.read_rows(["id"], start, size)["id"].combine_chunks()
        with shards.lock_shard(number):
            if not shards.has_rows(number, ids):
                table = evaluation_set.read_rows(list(scorer.columns), start, size)
                [rows] = table.combine_chunks().to_batches()
                score = partial(scorer.score, rows)
                scores = withhold_message(score, f"candidate {candidate.name!r}", CandidateError)
                if not written:  # the first call loads the model
                    scorer.refuse_changes()
                scored = _check_scores(scores, rows, start, candidate)
                if scored.truncated is None and scorer.reads_whole:
                    scored = replace(scored, truncated=np.zeros(len(ids), np.bool_))
                if shards.write(number, ids, scored):
                    written.append(number)
        return len(ids)

    with (
        show_progress(described, total=total, unit="rows", always=True) as advance,
        open_mapper(scorer.at_once) as map_calls,
    ):
        for n_completed in map_calls(complete_shard, numbers):
            advance(n_completed)
            n_done += n_completed
            elapsed = time.monotonic() - started
            if not written:
                n_kept = n_done
            elif elapsed >= due and n_done < total:
                left = elapsed * (total - n_done) / (n_done - n_kept)
                log_message(
                    f"{described}: {n_done:,} of {total:,} comments done, about "
                    f"{format_duration(left)} left"
                )
                due = 2 * elapsed
    if not written:
        return None
    _refuse_changes(scorer, shards, written)
    n_written = sum(min(size, n_rows - number * size) for number in written)
    return n_written / (time.monotonic() - started)


def _refuse_changes(scorer: Scorer, shards: Shards, written: Sequence[int]) -> None:
    """Remove shards if the model's files changed meanwhile: their digest is of the old files."""
    try:
        scorer.refuse_changes()
    except (CandidateError, InputError):
        for number in written:
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
    with candidate.open_verified(workplace) as scorer:
        sets = [EvaluationSet.load(Path(folder)) for folder in set_folders]
        for evaluation_set in sets:
            _check_set(scorer, evaluation_set, candidate)
        if is_distributed() or all(
            ScoredSet.load(locate_shards(scorer, evaluation_set, workplace.scores).folder.url)
            for evaluation_set in sets
        ):
            return
        try:
            scorer.try_out()
        except Exception as error:
            missing_module = describe_missing_module(error)
            if missing_module is None or isinstance(error, CandidateError | InputError):
                raise
            msg = f"candidate {candidate.name!r} cannot be loaded: {missing_module}"
            raise InputError(msg) from error


@task(name="score candidate", task_run_name="score {candidate.name} on {set_folder!e}")
def score_candidate(candidate: CandidateSettings, set_folder: str, workplace: Workplace) -> str:
    """Open the candidate, score the frozen set, return the scores' folder. Safe to retry."""
    with candidate.open_verified(workplace) as scorer:
        evaluation_set = EvaluationSet.load(Path(set_folder))
        return score_rows(scorer, evaluation_set, candidate, workplace.scores).url


def _check_set(scorer: Scorer, evaluation_set: EvaluationSet, candidate: CandidateSettings) -> None:
    """Raise an error, before any work starts, if an opened candidate cannot score a set."""

    def check() -> None:
        candidate.refuse_unfit(evaluation_set, scorer.files)
        scorer.check(evaluation_set)

    described = (
        f"candidate {candidate.name!r}, which checks evaluation set {evaluation_set.name!r},"
    )
    withhold_message(check, described, CandidateError)


def _check_scores(
    scores: np.ndarray | PartlyScored,
    rows: pa.RecordBatch,
    first_row: int,
    candidate: CandidateSettings,
) -> PartlyScored:
    """Refuse a wrong number of scores, and scores that are neither finite nor explained."""
    scored = scores if isinstance(scores, PartlyScored) else PartlyScored(scores)
    values, reasons = scored.scores, scored.reasons or (None,) * rows.num_rows
    if values.shape != (rows.num_rows,):
        msg = (
            f"candidate {candidate.name!r} must return a single score per row; got shape "
            f"{values.shape} for {rows.num_rows} rows."
        )
        raise InputError(msg)
    is_missing = np.array([reason is not None for reason in reasons], dtype=np.bool_)
    wrong = np.flatnonzero(~np.isfinite(values) & ~is_missing)
    if wrong.size:
        row = int(wrong[0])
        place = format_place(row=first_row + row, id=rows.column("id")[row].as_py())
        msg = f"scores of candidate {candidate.name!r} must be finite; got {values[row]} {place}."
        raise InputError(msg)
    return replace(scored, scores=np.where(is_missing, np.nan, values))


def _refuse_two_valued(scored: ScoredSet, candidate: CandidateSettings) -> None:
    scores = scored.table()["score"].to_numpy()
    valid = scores[~np.isnan(scores)]
    values = np.unique(valid)
    if valid.size <= 2 and valid.size < scores.size:
        lack = f"only {valid.size} have one" if valid.size else "all are missing"

        reasons = describe_reasons(dict(scored.reasons().most_common()))
        msg = (
            f"candidate {candidate.name!r} must have a score for some rows; of {scores.size}, "
            f"{lack} ({reasons})."
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
def open_mapper(at_once: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a `map` that makes up to `at_once` calls at a time.

    After an error, further calls do not begin. If `at_once` is 1, the caller's thread makes all
    calls.
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
    """A range of the shards of a candidate's scores on a set."""

    first: int
    last: int
    """Number of the last shard in the range."""
    scores: str
    """Folder or URL below which the flow keeps scores; overrides a worker's own environment."""


@task(name="share out shards", task_run_name="share out {candidate.name} on {set_folder!e}")
def divide_shards(
    candidate: CandidateSettings, set_folder: str, workplace: Workplace
) -> list[Part]:
    """Return ranges of shards for workers. Only reads.

    Empty if the tasks of this flow run in its own process, or if all scores are kept.
    """
    if not is_distributed():
        return []
    evaluation_set = EvaluationSet.load(Path(set_folder))
    with candidate.open_verified(workplace) as scorer:
        _check_set(scorer, evaluation_set, candidate)
        kept = ScoredSet.load(locate_shards(scorer, evaluation_set, workplace.scores).folder.url)
        if kept is not None and kept.is_valid_for(scorer, evaluation_set):
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
    with candidate.open_verified(workplace) as scorer:
        shards = locate_shards(scorer, evaluation_set, part.scores)
        described = f", shards {part.first} to {part.last}"
        score_shards(scorer, evaluation_set, candidate, shards, numbers, described)
