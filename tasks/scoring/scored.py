"""Second step: scores of one candidate on one evaluation set, computed once and kept.

Scores live in `store/scores/<set digest>/<candidate digest>/`, or below the URL in
`BIASGATE_SCORES`: one file per shard of rows, and `record.json` once all are complete. While
neither digest changes, nothing is scored again. The shards that a killed run finished are
reused by the next one; two runs at the same time share the work.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

import numpy as np
import pyarrow as pa

from biasgate.tasks.common.errors import CandidateError, InputError, place, without_quotes
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.common.prefect_task import is_spread, say, task
from biasgate.tasks.common.progress import progress
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.candidate import CandidateSettings, Scorer
from biasgate.tasks.scoring.shards import Shards
from biasgate.tasks.store import Workplace

RECORD = "record.json"


class ScoresRecord(TypedDict):
    """`record.json`: the candidate, the set, and the number of scores."""

    candidate_digest: str
    set_digest: str
    precision: str
    n_rows: int
    n_shards: int


@dataclass(frozen=True)
class ScoredSet:
    """Scores of all rows of a set.

    Attributes
    ----------
    url : str
        The folder that holds the shards and `record.json`.
    record : ScoresRecord
        As in `record.json`.
    """

    url: str
    record: ScoresRecord

    @classmethod
    def load(cls, url: str) -> ScoredSet | None:
        """Open kept scores; return None if they are incomplete or were changed."""
        try:
            record = json.loads(Folder(url).read(RECORD) or b"")
            found = cls(url, record)
            return found if len(found._read()) == record["n_rows"] else None
        except (ValueError, KeyError, TypeError):
            return None

    @classmethod
    def open(cls, url: str) -> ScoredSet:
        """Open kept scores, which must exist.

        Raises
        ------
        InputError
            If they are missing or were changed.
        """
        found = cls.load(url)
        if found is None:
            msg = f"{url} must hold scores; they are missing or were changed. Run again."
            raise InputError(msg)
        return found

    @classmethod
    def digest_of(cls, url: str) -> str:
        """Return the digest of the candidate of kept scores, without reading a score.

        Raises
        ------
        InputError
            If there is no record.
        """
        content = Folder(url).read(RECORD)
        if content is None:
            msg = f"{url} must hold scores; they are missing. Run again."
            raise InputError(msg)
        return cls(url, json.loads(content)).candidate_digest

    @property
    def candidate_digest(self) -> str:
        """Digest of the candidate."""
        return self.record["candidate_digest"]

    @property
    def precision(self) -> str:
        """Precision in which the scores were computed, such as `float64`."""
        return self.record["precision"]

    def is_comparable(self, other: ScoredSet) -> bool:
        """Whether a difference from the other scores is due to the models, not to rounding.

        Half precision causes ties and errors that a comparison would attribute to the model;
        single and double precision do not.
        """
        return self.precision == other.precision or not any(
            "float16" in one.precision for one in (self, other)
        )

    def is_of(self, scorer: Scorer, evaluation_set: EvaluationSet) -> bool:
        """Whether these are this candidate's scores on this set."""
        digests = self.record["candidate_digest"], self.record["set_digest"]
        return digests == (scorer.digest, evaluation_set.digest)

    def table(self) -> pa.Table:
        """Read `id` and `score`, in the row order of the set.

        Raises
        ------
        InputError
            If a shard is missing or was changed.
        """
        try:
            return self._read()
        except KeyError as error:
            msg = f"{self.url} must hold complete shards; number {error} is not. Run again."
            raise InputError(msg) from error

    def _read(self) -> pa.Table:
        one = self.record
        digests = one["candidate_digest"], one["set_digest"]
        shards = Shards(Folder(self.url), *digests, one["precision"])
        tables = []
        for number in range(one["n_shards"]):
            table = shards.read(number)
            if table is None:
                raise KeyError(number)
            tables.append(table.replace_schema_metadata())
        return pa.concat_tables(tables)


def score_rows(
    scorer: Scorer,
    evaluation_set: EvaluationSet,
    candidate: CandidateSettings,
    scores: str,
) -> ScoredSet:
    """Return a candidate's scores on a set, computing only the missing ones.

    Parameters
    ----------
    scorer : Scorer
        The opened candidate.
    evaluation_set : EvaluationSet
        The rows.
    candidate : CandidateSettings
        Its settings.
    scores : str
        Folder, or URL that fsspec can open, below which scores are kept.

    Returns
    -------
    ScoredSet
        One finite score per row, in the row order of the set.

    Raises
    ------
    InputError
        If the set cannot be scored, a score is not finite, or the scores have only one or
        two values and the candidate does not allow that.
    """
    scorer.check(evaluation_set)
    shards = shards_of(scorer, evaluation_set, scores)
    kept = ScoredSet.load(shards.folder.url)
    if kept is None or not kept.is_of(scorer, evaluation_set):
        n_shards = -(-evaluation_set.n_rows // candidate.rows_a_shard)
        # Two runs that start at different shards share the work instead of repeating it.
        what = f"{candidate.name} on {evaluation_set.name}"
        say(f"scoring {what}: {evaluation_set.n_rows:,} rows")
        first = random.randrange(n_shards)  # noqa: S311
        numbers = [(first + step) % n_shards for step in range(n_shards)]
        score_shards(scorer, evaluation_set, candidate, shards, numbers)
        kept = finish_scores(shards, evaluation_set, n_shards)
        say(f"scored {what}", aside=True)
    else:
        say(f"reusing kept scores of {candidate.name} on {evaluation_set.name}", aside=True)
    if not candidate.allow_two_valued:
        _refuse_two_valued(kept, candidate)
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
) -> None:
    """Compute the missing ones of some shards; safe for several callers at once.

    `part` names the shards in messages, unless they are all.
    """
    size, n_rows = candidate.rows_a_shard, evaluation_set.n_rows
    what = f"score {candidate.name} on {evaluation_set.name}{part}"
    total = sum(min(size, n_rows - number * size) for number in numbers)
    with progress(what, total=total, unit="rows", always=True) as advance:
        for number in numbers:
            start = number * size
            ids = evaluation_set.rows(["id"], start, size)["id"].combine_chunks()
            with shards.locked(number):
                if not shards.holds(number, ids):
                    table = evaluation_set.rows(list(scorer.columns), start, size)
                    [rows] = table.combine_chunks().to_batches()
                    call, of = partial(scorer.score, rows), f"candidate {candidate.name!r}"
                    scores = without_quotes(call, of, CandidateError)
                    shards.write(number, ids, _checked(scores, rows, start, candidate))
            advance(len(ids))


def finish_scores(shards: Shards, evaluation_set: EvaluationSet, n_shards: int) -> ScoredSet:
    """Record that all shards are complete."""
    record: ScoresRecord = {
        "candidate_digest": shards.candidate_digest,
        "set_digest": shards.set_digest,
        "precision": shards.precision,
        "n_rows": evaluation_set.n_rows,
        "n_shards": n_shards,
    }
    shards.folder.write(RECORD, json.dumps(record, indent=2).encode())
    return ScoredSet(shards.folder.url, record)


@task(name="check candidate", task_run_name="check {candidate.name}")
def check_candidate(
    candidate: CandidateSettings, set_folders: list[str], workplace: Workplace
) -> None:
    """Refuse a candidate that cannot be scored on one of the frozen sets. Only reads."""
    with candidate.open(workplace) as scorer:
        sets = [EvaluationSet.load(Path(folder)) for folder in set_folders]
        for one in sets:
            scorer.check(one)
        if not is_spread() and any(
            ScoredSet.load(shards_of(scorer, one, workplace.scores).folder.url) is None
            for one in sets
        ):
            scorer.try_out()


@task(name="score candidate", task_run_name="score {candidate.name} on {set_folder!e}")
def score_candidate(candidate: CandidateSettings, set_folder: str, workplace: Workplace) -> str:
    """Open the candidate, score the frozen set, return the scores' folder. Safe to retry."""
    with candidate.open(workplace) as scorer:
        evaluation_set = EvaluationSet.load(Path(set_folder))
        return score_rows(scorer, evaluation_set, candidate, workplace.scores).url


def _checked(
    scores: np.ndarray, rows: pa.RecordBatch, first_row: int, candidate: CandidateSettings
) -> np.ndarray:
    if scores.shape != (rows.num_rows,):
        msg = (
            f"candidate {candidate.name!r} must give one score per row; got shape "
            f"{scores.shape} for {rows.num_rows} rows."
        )
        raise InputError(msg)
    wrong = np.flatnonzero(~np.isfinite(scores))
    if wrong.size:
        at = int(wrong[0])
        where = place(row=first_row + at, id=rows.column("id")[at].as_py())
        msg = f"scores of candidate {candidate.name!r} must be finite; got {scores[at]} {where}."
        raise InputError(msg)
    return scores


def _refuse_two_valued(scored: ScoredSet, candidate: CandidateSettings) -> None:
    values = np.unique(scored.table()["score"].to_numpy())
    if values.size <= 2:
        shown = " and ".join(f"{value:g}" for value in values)
        msg = (
            f"scores of candidate {candidate.name!r} must be probabilities or other graded "
            f"scores; all are {shown}, which looks like class labels. Use the model's "
            "probabilities (in MLflow, log it with `pyfunc_predict_fn='predict_proba'`), or set "
            "`allow_two_valued: true`."
        )
        raise InputError(msg)
