"""Kept scores of a candidate on an evaluation set: a folder of shards with a record."""

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
ROWS_A_SHARD = 10_000
REASON = "missing"
"""Column with the reasons for missing scores; only in shards with missing scores."""
_SCHEMA = pa.schema({"id": pa.string(), "score": pa.float64()})
_KEY, _CHECKSUM = b"biasgate.shard", b"biasgate.sha256"
_MAX_ANSWERS = 3


@dataclass(frozen=True, kw_only=True)
class ScoresRecord(Record):
    """`record.json`: candidate, set, number of scores, files that decided them, and time.

    `rows_per_second` is the rate of the process that finished the scores. It is null if workers
    shared the rows, or if all scores were kept.
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
    """The folder with the shards and `record.json`."""
    record: ScoresRecord

    @classmethod
    def load(cls, url: str) -> ScoredSet | None:
        """Open and check kept scores; return None if they are incomplete or were changed."""
        try:
            scored_set = cls(url, ScoresRecord.read(Folder(url).read(RECORD) or b""))
            scored_set.table()
        except (InputError, ValueError, TypeError):
            return None
        return scored_set

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
        """Return True if a difference from the other scores is due to the models, not to rounding.

        Half precision causes ties and errors that a comparison would attribute to the model.
        Single and double precision do not.
        """
        return self.precision == other.precision or not any(
            "float16" in scored_set.precision for scored_set in (self, other)
        )

    def is_valid_for(self, scorer: Scorer, evaluation_set: EvaluationSet) -> bool:
        """Return True if these are the scores of a candidate on a set."""
        key = self.record.candidate_digest, self.record.set_digest, self.record.bound
        return key == (scorer.digest, evaluation_set.digest, scorer.bound)

    def reasons(self) -> Counter[str]:
        """Count missing scores by reason; the rare answers of a service are counted together."""
        table = self.table()
        if REASON not in table.column_names:
            return Counter()
        counts = Counter(value for value in table[REASON].to_pylist() if value is not None)
        answers = [reason for reason, _ in counts.most_common() if reason.startswith(ANSWERED)]
        for rare in answers[_MAX_ANSWERS:]:
            counts[OTHER] += counts.pop(rare)
        return counts

    def table(self) -> pa.Table:
        """Read `id` and `score` in the row order of the set; refuse changed shards.

        A missing score is NaN, with its reason in the column `missing`. The column `truncated`
        marks truncated texts, if they are known.
        """
        record = self.record
        digests = record.candidate_digest, record.set_digest
        shards = Shards(Folder(self.url), *digests, record.precision)
        tables = []
        for number in range(record.n_shards):
            shard = shards.read(number)
            if shard is None:
                msg = f"{self.url} must hold complete shards; number {number} is not. Run again."
                raise InputError(msg)
            tables.append(shard.replace_schema_metadata())
        table = pa.concat_tables(tables, promote_options="default")
        if len(table) != record.n_rows:
            msg = (
                f"{self.url} must hold {record.n_rows:,} scores; it has {len(table):,}. Run again."
            )
            raise InputError(msg)
        return table


@dataclass(frozen=True)
class Shards:
    """The shards of a candidate's scores on a set."""

    folder: Folder
    candidate_digest: str
    set_digest: str
    precision: str
    """Precision in which the scores were computed, such as `float64` or `bfloat16`."""

    def read(self, number: int) -> pa.Table | None:
        """Return a finished shard; None if it is missing or invalid."""
        content = self.folder.read(_name_shard(number))
        if content is None:
            return None
        try:
            # `pq.read_table` takes twice as long, and so do threads for so few rows.
            file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
            table = file.read(use_threads=False)
            metadata = table.schema.metadata or {}
            expected = self._make_metadata(number, table)
        except (pa.ArrowException, OSError, KeyError):
            return None
        return table if all(metadata.get(key) == expected[key] for key in expected) else None

    def has_rows(self, number: int, ids: pa.Array) -> bool:
        """Return True if a shard is finished and has these rows in this order."""
        table = self.read(number)
        return table is not None and table["id"].combine_chunks().equals(ids.cast(pa.string()))

    def write(self, number: int, ids: pa.Array, scored: PartlyScored) -> bool:
        """Write a shard atomically; return False if a shard of another run is kept instead."""
        values = [ids.cast(pa.string()), pa.array(scored.scores, pa.float64())]
        table = pa.Table.from_arrays(values, schema=_SCHEMA)
        if any(scored.reasons):
            table = table.append_column(REASON, pa.array(scored.reasons, pa.string()))
        if scored.truncated is not None:
            table = table.append_column(TRUNCATED, pa.array(scored.truncated, pa.bool_()))
        table = table.replace_schema_metadata(self._make_metadata(number, table))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        name, content = _name_shard(number), sink.getvalue().to_pybytes()
        if self.folder.create(name, content):
            return True
        if self.has_rows(number, ids):
            return bool(self.folder.read(name) == content)
        self.folder.write(name, content)
        return True

    def remove(self, number: int) -> None:
        """Remove a shard, if it exists."""
        self.folder.remove(_name_shard(number))

    def lock_shard(self, number: int) -> AbstractContextManager[None]:
        """Lock a shard against other runs that compute it."""
        return self.folder.locked(_name_shard(number))

    def _make_metadata(self, number: int, table: pa.Table) -> dict[bytes, bytes]:
        key: dict[str, Any] = {
            "candidate_digest": self.candidate_digest,
            "set_digest": self.set_digest,
            "precision": self.precision,
            "number": number,
        }
        content = json.dumps(key, sort_keys=True).encode()
        digest = hashlib.sha256(content)
        ids = table["id"].combine_chunks()
        digest.update(pc.binary_length(ids).to_numpy().astype("<i4").tobytes())
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(ids)], ids), "")
        digest.update(joined[0].as_buffer())
        digest.update(table["score"].to_numpy().astype("<f8").tobytes())
        if REASON in table.column_names:
            digest.update(json.dumps(table[REASON].to_pylist()).encode())
        if TRUNCATED in table.column_names:
            digest.update(b"truncated" + np.packbits(table[TRUNCATED].to_numpy()).tobytes())
        return {_KEY: content, _CHECKSUM: digest.hexdigest().encode()}


def _name_shard(number: int) -> str:
    return f"{number:06}.parquet"
