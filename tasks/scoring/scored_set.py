"""Kept scores of one candidate on one evaluation set: a folder of shards and its record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.records import Bound
from biasgate.tasks.records.record import Record
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.scoring.shards import REASON, Shards

RECORD = "record.json"


@dataclass(frozen=True, kw_only=True)
class ScoresRecord(Record):
    """`record.json`: candidate, set, number of scores, what decided them, when they were made."""

    candidate_digest: str
    set_digest: str
    precision: str
    n_rows: int
    n_shards: int
    bound: Bound
    made: str


@dataclass(frozen=True)
class ScoredSet:
    """Scores of all rows of a set."""

    url: str
    """The folder that holds the shards and `record.json`."""
    record: ScoresRecord
    """As in `record.json`."""

    @classmethod
    def load(cls, url: str) -> ScoredSet | None:
        """Open kept scores; return None if they are incomplete or were changed."""
        try:
            record = ScoresRecord.read(Folder(url).read(RECORD) or b"")
            found = cls(url, record)
            return found if len(found._read()) == record.n_rows else None
        except (ValueError, KeyError, TypeError):
            return None

    @classmethod
    def open(cls, url: str) -> ScoredSet:
        """Open kept scores, which must exist."""
        found = cls.load(url)
        if found is None:
            msg = f"{url} must hold scores; they are missing or were changed. Run again."
            raise InputError(msg)
        return found

    @classmethod
    def record_of(cls, url: str) -> ScoresRecord:
        """Return the record of kept scores, without reading a score."""
        content = Folder(url).read(RECORD)
        if content is None:
            msg = f"{url} must hold scores; they are missing. Run again."
            raise InputError(msg)
        return ScoresRecord.read(content)

    @property
    def candidate_digest(self) -> str:
        """Digest of the candidate."""
        return self.record.candidate_digest

    @property
    def precision(self) -> str:
        """Precision in which the scores were computed, such as `float64`."""
        return self.record.precision

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
        found = self.record.candidate_digest, self.record.set_digest, self.record.bound
        return found == (scorer.digest, evaluation_set.digest, scorer.bound)

    def reasons(self) -> Counter[str]:
        """Return how many rows have no score, by reason."""
        table = self.table()
        if REASON not in table.column_names:
            return Counter()
        return Counter(value for value in table[REASON].to_pylist() if value is not None)

    def table(self) -> pa.Table:
        """Read `id` and `score`, in the row order of the set.

        Where a row has no score, it is NaN, and the column `missing` says why.
        """
        try:
            return self._read()
        except KeyError as error:
            msg = f"{self.url} must hold complete shards; number {error} is not. Run again."
            raise InputError(msg) from error

    def _read(self) -> pa.Table:
        one = self.record
        digests = one.candidate_digest, one.set_digest
        shards = Shards(Folder(self.url), *digests, one.precision)
        tables = []
        for number in range(one.n_shards):
            table = shards.read(number)
            if table is None:
                raise KeyError(number)
            tables.append(table.replace_schema_metadata())
        return pa.concat_tables(tables, promote_options="default")
