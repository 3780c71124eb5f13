"""Shards: the scores of a limited number of rows, each in one file that can be verified.

A shard is `<number>.parquet` (`id`, `score`) in a folder named by the digests of set and
candidate. Its metadata name both, with a SHA-256 of these names and all values: a file that is
incomplete, changed, misplaced or of other rows is treated as missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from biasgate.tasks.common.folders import Folder

ROWS_A_SHARD = 10_000
_KEY, _CHECKSUM = b"biasgate.shard", b"biasgate.sha256"
_SCHEMA = pa.schema({"id": pa.string(), "score": pa.float64()})
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
            table = pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
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
        scores: np.ndarray,
        reasons: Sequence[str | None] = (),
    ) -> bool:
        """Write a shard atomically, unless another run did; return whether these are kept.

        Where there is no score, it is NaN, and `reasons` says why.
        """
        values = [ids.cast(pa.string()), pa.array(scores, pa.float64())]
        table = pa.Table.from_arrays(values, schema=_SCHEMA)
        if any(reasons):
            table = table.append_column(REASON, pa.array(reasons, pa.string()))
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
        digest.update(json.dumps(table["id"].to_pylist()).encode())
        digest.update(table["score"].to_numpy().astype("<f8").tobytes())
        if REASON in table.column_names:
            digest.update(json.dumps(table[REASON].to_pylist()).encode())
        return {_KEY: said, _CHECKSUM: digest.hexdigest().encode()}


def _name(number: int) -> str:
    return f"{number:06}.parquet"
