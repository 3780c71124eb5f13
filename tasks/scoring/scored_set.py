"""Kept scores of one candidate on one evaluation set: a folder of shards and its record."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.records import Bound
from biasgate.tasks.records.record import Record
from biasgate.tasks.records.report import TrainedOn
from biasgate.tasks.scoring.outcomes import ANSWERED, OTHER, TRUNCATED, PartlyScored
from biasgate.tasks.scoring.scorer import Scorer

RECORD = "record.json"


@dataclass(frozen=True, kw_only=True)
class ScoresRecord(Record):
    """`record.json`: candidate, set, number of scores, what decided them, when they were made.

    `rows_per_second` is the rate of the process that finished them; null if workers shared them,
    or all were kept.
    """

    candidate_digest: str
    set_digest: str
    precision: str
    n_rows: int
    n_shards: int
    bound: Bound
    made: str
    rows_per_second: float | None = None
    trained_on: TrainedOn | None = None


@dataclass(frozen=True)
class ScoredSet:
    """Scores of all rows of a set."""

    url: str
    """The folder that holds the shards and `record.json`."""
    record: ScoresRecord
    """As in `record.json`."""

    @classmethod
    def load(cls, url: str) -> ScoredSet | None:
        """Open and check kept scores; return None if they are incomplete or were changed."""
        try:
            found = cls(url, ScoresRecord.read(Folder(url).read(RECORD) or b""))
            found.table()
        except (InputError, ValueError, TypeError):
            return None
        return found

    @classmethod
    def open(cls, url: str) -> ScoredSet:
        """Open kept scores, which must exist; `table` reads and checks them."""
        content = Folder(url).read(RECORD)
        if content is None:
            msg = f"{url} must hold scores; they are missing. Run again."
            raise InputError(msg)
        return cls(url, ScoresRecord.read(content))

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
            "float16" in scored_set.precision for scored_set in (self, other)
        )

    def is_of(self, scorer: Scorer, evaluation_set: EvaluationSet) -> bool:
        """Whether these are this candidate's scores on this set."""
        found = self.record.candidate_digest, self.record.set_digest, self.record.bound
        return found == (scorer.digest, evaluation_set.digest, scorer.bound)

    def reasons(self) -> Counter[str]:
        """Return how many rows have no score, by reason; rare answers of a service are one."""
        table = self.table()
        if REASON not in table.column_names:
            return Counter()
        found = Counter(value for value in table[REASON].to_pylist() if value is not None)
        answered = [reason for reason, _ in found.most_common() if reason.startswith(ANSWERED)]
        for rare in answered[_MOST_ANSWERS:]:
            found[OTHER] += found.pop(rare)
        return found

    def table(self) -> pa.Table:
        """Read `id` and `score`, in the row order of the set; refuse what was changed.

        Where a row has no score, it is NaN, and the column `missing` says why. The column
        `truncated` says whose text was truncated, if that is known.
        """
        one = self.record
        digests = one.candidate_digest, one.set_digest
        shards = Shards(Folder(self.url), *digests, one.precision)
        tables = []
        for number in range(one.n_shards):
            table = shards.read(number)
            if table is None:
                msg = f"{self.url} must hold complete shards; number {number} is not. Run again."
                raise InputError(msg)
            tables.append(table.replace_schema_metadata())
        found = pa.concat_tables(tables, promote_options="default")
        if len(found) != one.n_rows:
            msg = f"{self.url} must hold {one.n_rows:,} scores; it has {len(found):,}. Run again."
            raise InputError(msg)
        return found


ROWS_A_SHARD = 10_000
_KEY, _CHECKSUM = b"biasgate.shard", b"biasgate.sha256"
_SCHEMA = pa.schema({"id": pa.string(), "score": pa.float64()})
_MOST_ANSWERS = 3
REASON = "missing"
"""The column that says why a row has no score; in shards alone in which some have none."""


@dataclass(frozen=True)
class Shards:
    """The shards of one candidate's scores on one set."""

    folder: Folder
    """Where they are."""
    candidate_digest: str
    set_digest: str
    """The candidate and the set that they belong to."""
    precision: str
    """Precision in which the scores were computed, such as `float64` or `bfloat16`."""

    def read(self, number: int) -> pa.Table | None:
        """Return a finished shard; None if it is missing or invalid."""
        content = self.folder.read(_name(number))
        if content is None:
            return None
        try:
            # `pq.read_table` takes twice as long, and so do threads for so few rows.
            file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
            table = file.read(use_threads=False)
            found = table.schema.metadata or {}
            wanted = self._metadata(number, table)
        except (pa.ArrowException, OSError, KeyError):
            return None
        return table if all(found.get(key) == wanted[key] for key in wanted) else None

    def holds(self, number: int, ids: pa.Array) -> bool:
        """Whether a shard is finished and has these rows in this order."""
        table = self.read(number)
        return table is not None and table["id"].combine_chunks().equals(ids.cast(pa.string()))

    def write(
        self,
        number: int,
        ids: pa.Array,
        scored: PartlyScored,
    ) -> bool:
        """Write a shard atomically, unless another run did; return whether these are kept."""
        values = [ids.cast(pa.string()), pa.array(scored.scores, pa.float64())]
        table = pa.Table.from_arrays(values, schema=_SCHEMA)
        if any(scored.reasons):
            table = table.append_column(REASON, pa.array(scored.reasons, pa.string()))
        if scored.truncated is not None:
            table = table.append_column(TRUNCATED, pa.array(scored.truncated, pa.bool_()))
        table = table.replace_schema_metadata(self._metadata(number, table))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        name, content = _name(number), sink.getvalue().to_pybytes()
        if self.folder.create(name, content):
            return True
        if self.holds(number, ids):
            return bool(self.folder.read(name) == content)
        self.folder.write(name, content)
        return True

    def remove(self, number: int) -> None:
        """Remove a shard, if it is there."""
        self.folder.remove(_name(number))

    def locked(self, number: int) -> AbstractContextManager[None]:
        """Lock a shard against others that compute it."""
        return self.folder.locked(_name(number))

    def _metadata(self, number: int, table: pa.Table) -> dict[bytes, bytes]:
        key: dict[str, Any] = {
            "candidate_digest": self.candidate_digest,
            "set_digest": self.set_digest,
            "precision": self.precision,
            "number": number,
        }
        said = json.dumps(key, sort_keys=True).encode()
        digest = hashlib.sha256(said)
        ids = table["id"].combine_chunks()
        digest.update(pc.binary_length(ids).to_numpy().astype("<i4").tobytes())
        every = pc.binary_join(pa.ListArray.from_arrays([0, len(ids)], ids), "")
        digest.update(every[0].as_buffer())
        digest.update(table["score"].to_numpy().astype("<f8").tobytes())
        if REASON in table.column_names:
            digest.update(json.dumps(table[REASON].to_pylist()).encode())
        if TRUNCATED in table.column_names:
            digest.update(b"truncated" + np.packbits(table[TRUNCATED].to_numpy()).tobytes())
        return {_KEY: said, _CHECKSUM: digest.hexdigest().encode()}


def _name(number: int) -> str:
    return f"{number:06}.parquet"
