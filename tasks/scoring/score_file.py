"""Candidate kind `scores`: a file of ids and scores, by default a Kaggle submission."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import Field

from tasks.data import reading
from tasks.data.evaluation_set import EvaluationSet
from tasks.errors import InputError, place
from tasks.files import file_digest, json_digest
from tasks.scoring.candidate import CandidateSettings, Scorer, Workplace
from tasks.settings import ConfigPath


class ScoreFile(CandidateSettings):
    """Scores that were made elsewhere.

    Attributes
    ----------
    path : Path
        CSV (gz too) or Parquet with one row per row of the evaluation set.
    id, score : str
        Its columns; `id: row_number` numbers the rows from 0.
    """

    kind: Literal["scores"]
    path: ConfigPath
    id: str = "id"
    score: str = Field(default="prediction")

    def check(self) -> None:
        """Refuse a file that is missing or lacks a column."""
        wanted = [name for name in (self.id, self.score) if name != reading.ROW_NUMBER]
        reading.require_columns(self.path, wanted)

    def open(self, workplace: Workplace) -> ScoreTable:
        """Read and check the whole file."""
        del workplace
        return ScoreTable(self)


class ScoreTable(Scorer):
    """The scores of a file, looked up by id."""

    columns = ("id",)

    def __init__(self, settings: ScoreFile) -> None:
        self.path = settings.path
        columns = [settings.id, settings.score]
        self.digest = json_digest(["scores", file_digest(self.path), columns])
        wanted = [name for name in columns if name != reading.ROW_NUMBER]
        ids, scores = [], []
        for chunk in reading.read_chunks(self.path, wanted):
            ids.append(reading.to_ids(chunk, settings.id))
            numbers = reading.to_scores(chunk, settings.score, ids[-1])
            scores.append(numbers.to_numpy())
        if not sum(map(len, ids)):
            msg = f"file {self.path} must have rows; it has none."
            raise InputError(msg)
        self._index = pd.Index(pa.chunked_array(ids).to_pandas())
        self._scores = np.concatenate(scores)
        repeated = np.flatnonzero(self._index.duplicated())
        if repeated.size:
            row = int(repeated[0])
            where = place(file=self.path, row=row, id=self._index[row])
            msg = f"ids must be unique; got a second {self._index[row]} {where}."
            raise InputError(msg)

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse ids that only the file or only the set has: never join by position."""
        wanted = pd.Index(evaluation_set.column("id").to_pandas())
        missing = wanted.difference(self._index, sort=False)
        extra = self._index.difference(wanted, sort=False)
        if len(missing) or len(extra):
            parts = [
                f"{len(ids)} {side}, such as id {ids[0]}"
                for ids, side in (
                    (missing, "of the set have no score"),
                    (extra, "have a score but are not in the set"),
                )
                if len(ids)
            ]
            msg = (
                f"ids of file {self.path} must be those of evaluation set "
                f"{evaluation_set.name!r} ({evaluation_set.n_rows} rows): {'; '.join(parts)}."
            )
            raise InputError(msg)

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the scores of these ids."""
        return np.asarray(self._scores[self._index.get_indexer(rows.column("id").to_pandas())])
