"""Second step: scores of one candidate on one evaluation set, made once and kept.

Scores live in `store/scores/<set digest>/<candidate digest>/` as `scores.parquet` (`id`,
`score`) beside `record.json`. Neither digest changed: nothing is scored again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.data.evaluation_set import EvaluationSet
from tasks.errors import InputError, place
from tasks.files import file_digest, locked, whole_folder, write_json
from tasks.orchestration import task
from tasks.progress import progress
from tasks.scoring.candidate import CandidateSettings, Scorer, Workplace
from tasks.scoring.kinds import CANDIDATES

SCORES, RECORD = "scores.parquet", "record.json"
_ROWS_A_BATCH = 20_000


@dataclass(frozen=True)
class ScoredSet:
    """Scores on disk.

    Attributes
    ----------
    folder : Path
        Holds `scores.parquet` and `record.json`.
    record : dict
        `candidate_digest`, `set_digest`, `n_rows`, `file_sha256`.
    """

    folder: Path
    record: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> ScoredSet | None:
        """Open kept scores; None where there are none or they were altered."""
        try:
            record = json.loads((folder / RECORD).read_text("utf-8"))
            if file_digest(folder / SCORES) != record["file_sha256"]:
                return None
        except (OSError, ValueError, KeyError):
            return None
        return cls(folder, record)

    @classmethod
    def open(cls, folder: Path) -> ScoredSet:
        """Open kept scores that must be there.

        Raises
        ------
        InputError
            If they are gone or were altered.
        """
        found = cls.load(folder)
        if found is None:
            msg = f"{folder} must hold scores; they are gone or were altered. Run again."
            raise InputError(msg)
        return found

    @property
    def candidate_digest(self) -> str:
        """Digest of the candidate that gave the scores."""
        return str(self.record["candidate_digest"])

    def table(self) -> pa.Table:
        """Read `id` and `score`, in the row order of the set."""
        return pq.read_table(self.folder / SCORES)


def score_rows(
    scorer: Scorer, evaluation_set: EvaluationSet, candidate: CandidateSettings, store: Path
) -> ScoredSet:
    """Return a candidate's scores on a set, computed only if they are not kept already.

    Parameters
    ----------
    scorer : Scorer
        The opened candidate.
    evaluation_set : EvaluationSet
        The rows.
    candidate : CandidateSettings
        Its settings.
    store : Path
        Scores are kept below `store/scores`.

    Returns
    -------
    ScoredSet
        One finite score per row, in the row order of the set.

    Raises
    ------
    InputError
        If the set cannot be scored, a score is not finite, or all scores are one or two
        values and the candidate does not allow that.
    """
    scorer.check(evaluation_set)
    folder = store / "scores" / evaluation_set.digest[:16] / scorer.digest[:16]
    with locked(folder):
        kept = ScoredSet.load(folder) or _score_into(folder, scorer, evaluation_set, candidate)
    if not candidate.allow_two_valued:
        _refuse_two_valued(kept, candidate)
    return kept


@task(name="score candidate")
def score_candidate(candidate: dict[str, Any], set_folder: str, store: str) -> str:
    """Open the candidate, score the frozen set, return the scores' folder. Safe to retry."""
    settings = CANDIDATES.validate_python(candidate)
    workplace = Workplace.at(store)
    scorer = settings.open(workplace)
    scored = score_rows(scorer, EvaluationSet.load(Path(set_folder)), settings, workplace.store)
    return str(scored.folder)


def _score_into(
    folder: Path, scorer: Scorer, evaluation_set: EvaluationSet, candidate: CandidateSettings
) -> ScoredSet:
    with whole_folder(folder) as temporary:
        n_rows = _write_scores(scorer, evaluation_set, candidate, temporary / SCORES)
        record = {
            "candidate_digest": scorer.digest,
            "set_digest": evaluation_set.digest,
            "n_rows": n_rows,
            "file_sha256": file_digest(temporary / SCORES),
        }
        write_json(temporary / RECORD, record)
    return ScoredSet(folder, record)


def _write_scores(
    scorer: Scorer, evaluation_set: EvaluationSet, candidate: CandidateSettings, path: Path
) -> int:
    n_rows = 0
    writer: pq.ParquetWriter | None = None
    what = f"score {candidate.name} on {evaluation_set.name}"
    try:
        with progress(what, total=evaluation_set.n_rows, unit="rows") as advance:
            for rows in evaluation_set.batches(list(scorer.columns), _ROWS_A_BATCH):
                scores = _checked(scorer.score(rows), rows, n_rows, candidate)
                part = pa.table({"id": rows.column("id"), "score": scores})
                writer = writer or pq.ParquetWriter(path, part.schema, write_page_checksum=True)
                writer.write_table(part)
                n_rows += rows.num_rows
                advance(rows.num_rows)
    finally:
        if writer is not None:
            writer.close()
    return n_rows


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
            f"scores; all are {shown}, which looks like class labels. Log the model with "
            "`pyfunc_predict_fn='predict_proba'`, or set `allow_two_valued: true`."
        )
        raise InputError(msg)
