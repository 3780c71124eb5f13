"""Frozen evaluation sets: a Parquet file of rows and a record of their origin.

Every source writes this format. All rows are kept, even without identity ratings; rows are
selected and labels are cut at thresholds only when measuring. Columns of `rows.parquet`, in this
order (optional columns only if the source has them):

==================  =============  =======================================================
`id`                string         unique
`text`              large_string   optional; the comment, never logged
`label`             double         fraction of raters, 0 to 1
`cluster`           string         optional; rows of a cluster are not independent
`weight`            double         optional; at least 0, a row of weight 0 does not count
`identity/<name>`   double, null   fraction of raters that saw the identity; null: not rated
`slice/<name>`      bool           optional; membership of a slice such as short comments
`terms`             list of int32  optional; matched identity terms, by their number in the
                                   record; not part of the digest, as the text implies them
==================  =============  =======================================================
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import JsonValue

from biasgate.tasks.common.arrow_arrays import convert_column, make_int_array
from biasgate.tasks.common.errors import InputError, format_id, format_place
from biasgate.tasks.common.files import file_digest, whole_folder, write_json

ROWS, RECORD = "rows.parquet", "record.json"
IDENTITY, SLICE, WEIGHT, TERMS = "identity/", "slice/", "weight", "terms"
CLUSTER, SAMPLED_FROM, UNLABELLED = "cluster", "sampled_from", "n_unlabelled"
DIGEST_FORMAT = "biasgate evaluation set 1"
_STEP_ROWS = 100_000
_GROUP_ROWS = 10_000


@dataclass(frozen=True)
class EvaluationSet:
    """A frozen set on disk."""

    folder: Path
    """Folder of `rows.parquet` and `record.json`."""
    record: Mapping[str, Any] = field(hash=False)
    """`name`, `digest`, `n_rows`, `split`, `source` and `file_sha256`."""

    @classmethod
    def load(cls, folder: Path) -> EvaluationSet:
        """Open a frozen set; refuse it if its rows have changed since it was frozen."""
        try:
            record = json.loads((folder / RECORD).read_text("utf-8"))
            is_altered = file_digest(folder / ROWS) != record["file_sha256"]
        except (OSError, ValueError, KeyError) as error:
            msg = f"{folder} must be a frozen evaluation set; got {type(error).__name__}."
            raise InputError(msg) from error
        if is_altered:
            msg = (
                f"{folder / ROWS} has changed since it was frozen. Delete {folder}, then run again."
            )
            raise InputError(msg)
        return cls(folder, record)

    @property
    def name(self) -> str:
        """Name given in the configuration."""
        return str(self.record["name"])

    @property
    def digest(self) -> str:
        """SHA-256 over split, schema and values in id order."""
        return str(self.record["digest"])

    def compute_digest(self) -> str:
        """Recompute `digest` from the current rows."""
        order = _sort_by_id(self.folder / ROWS, self.name)
        return digest_rows(self.folder / ROWS, str(self.record["split"]), order)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.record["n_rows"])

    @property
    def sampled_from(self) -> int | None:
        """Number of rows of the whole set if this is a random sample; else None."""
        n_rows = self.record.get(SAMPLED_FROM)
        return None if n_rows is None else int(n_rows)

    @property
    def n_unlabelled(self) -> int:
        """Number of the source's rows that were excluded for lack of a label."""
        return int(self.record.get(UNLABELLED, 0))

    @property
    def columns(self) -> list[str]:
        """Column names of the rows."""
        return list(self._metadata.schema.to_arrow_schema().names)

    @property
    def identities(self) -> list[str]:
        """Names of the identity columns."""
        return [name.removeprefix(IDENTITY) for name in self.columns if name.startswith(IDENTITY)]

    @property
    def has_text(self) -> bool:
        """True if the rows have text."""
        return "text" in self.columns

    @property
    def terms(self) -> list[tuple[str, list[str]]]:
        """Each identity term, with the identities that it implies; the index is its number."""
        return [(str(term), list(names)) for term, names in self.record.get(TERMS, [])]

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a whole column, in row order."""
        return next(self.iter_columns([name]))

    @cached_property
    def _metadata(self) -> pq.FileMetaData:
        """Metadata of the file, parsed once: for thousands of columns, parsing is slow."""
        return pq.read_metadata(self.folder / ROWS)

    def _open_rows(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.folder / ROWS, metadata=self._metadata, pre_buffer=False)

    def iter_columns(self, names: Iterable[str]) -> Iterator[pa.ChunkedArray]:
        """Yield whole columns, one at a time; the file is opened once."""
        with self._open_rows() as file:
            for name in names:
                yield file.read(columns=[name]).column(0)

    def iter_batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `size` rows of some columns, in row order."""
        with self._open_rows() as file:
            yield from file.iter_batches(batch_size=size, columns=list(columns))

    def read_rows(self, columns: Sequence[str], start: int, n_rows: int) -> pa.Table:
        """Read at most `n_rows` rows of some columns from row `start`, by whole row groups."""
        with self._open_rows() as file:
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            ends = np.cumsum(sizes)
            first_group = int(np.searchsorted(ends, start, side="right"))
            last_group = int(np.searchsorted(ends, start + n_rows, side="left"))
            groups = range(first_group, min(last_group + 1, len(sizes)))
            table = file.read_row_groups(list(groups), columns=list(columns))
            return table.slice(start - (int(ends[first_group]) - sizes[first_group]), n_rows)


def freeze_rows(
    chunks: Iterable[pa.Table],
    folder: Path,
    *,
    name: str,
    split: str,
    source: Mapping[str, JsonValue],
    notes: Callable[[], Mapping[str, JsonValue]] = dict,
) -> EvaluationSet:
    """Write checked chunks of rows as a frozen set, atomically.

    Refuse repeated ids, and a set without rows. Memory holds a single chunk at a time, later a
    single column.

    Parameters
    ----------
    chunks : iterable of pyarrow.Table
        Rows in the columns listed at the top of this module, all with the same schema. The source
        has checked the values, as it can report file and row.
    folder : Path
        Folder of the new set.
    name : str
        Name of the set.
    split : str
        Split of the source; part of the digest.
    source : mapping
        Origin of the set, for the record: kind, files with digests, options.
    notes : callable
        Returns further entries of the record; called after the last chunk.

    Returns
    -------
    EvaluationSet
        The frozen set.

    Raises
    ------
    InputError
        If ids are repeated or the chunks are empty.
    """
    with whole_folder(folder) as temporary:
        n_rows = _write_rows(chunks, temporary / ROWS)
        if n_rows == 0:
            files = source.get("files")
            listed = ", ".join(map(str, files)) if isinstance(files, dict | list) else ""
            location = format_place(file=listed or None)
            msg = f"evaluation set {name!r} must have rows; its source has none {location}."
            raise InputError(msg)
        order = _sort_by_id(temporary / ROWS, name)
        record = {
            "name": name,
            "digest": digest_rows(temporary / ROWS, split, order),
            "n_rows": n_rows,
            "split": split,
            "source": dict(source),
            "file_sha256": file_digest(temporary / ROWS),
            **notes(),
        }
        write_json(temporary / RECORD, record)
    return EvaluationSet(folder, record)


def digest_rows(rows: Path, split: str, order: np.ndarray) -> str:
    """Compute a SHA-256 over split, schema and column values in id order.

    The digest does not depend on row order, compression and row groups. It excludes `terms`, which
    other columns imply. A null differs from 0 and from an empty text. Memory holds a single column.
    """
    schema = pq.read_schema(rows)
    fields = (field for field in schema if field.name != TERMS)
    columns = sorted((field.name, _name_type(field.type)) for field in fields)
    digest = hashlib.sha256()
    digest.update(json.dumps([DIGEST_FORMAT, split, columns, len(order)]).encode())
    with pq.ParquetFile(rows, pre_buffer=False) as file:
        for name, type_name in columns:
            # Combine chunks first: `take` on many chunks would combine all of them on every call.
            column = file.read(columns=[name]).column(0).combine_chunks()
            for start in range(0, len(order), _STEP_ROWS):
                part = column.take(make_int_array(order[start : start + _STEP_ROWS]))
                digest.update(np.packbits(convert_column(part.is_valid())).tobytes())
                if part.null_count:
                    fill = {"text": "", "bool": False}.get(type_name, 0)
                    part = pc.fill_null(part, fill)
                if type_name == "text":
                    digest.update(convert_column(pc.binary_length(part)).astype("<i8").tobytes())
                    digest.update("".join(part.to_pylist()).encode())
                else:
                    values = convert_column(part.cast(pa.float64())) + 0.0
                    digest.update(values.astype("<f8").tobytes())
    return digest.hexdigest()


def _name_type(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    return "bool" if pa.types.is_boolean(kind) else "number"


def _write_rows(chunks: Iterable[pa.Table], path: Path) -> int:
    """Write the rows, and return their number."""
    n_rows = 0
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for chunk in chunks:
            if writer is None:
                options = {"compression": "zstd", "write_page_checksum": True}
                writer = stack.enter_context(pq.ParquetWriter(path, chunk.schema, **options))
            writer.write_table(chunk, row_group_size=_GROUP_ROWS)
            n_rows += chunk.num_rows
    return n_rows


def _sort_by_id(rows: Path, name: str) -> np.ndarray:
    """Return the row numbers in the order of the ids; refuse repeated ids."""
    with pq.ParquetFile(rows) as file:  # `pq.read_table` imports pandas
        ids = file.read(columns=["id"]).column(0)
    order = convert_column(pc.sort_indices(ids))
    sorted_ids = ids.take(make_int_array(order)).combine_chunks()
    repeats = convert_column(pc.equal(sorted_ids[1:], sorted_ids[:-1]))
    if repeats.any():
        index = int(np.flatnonzero(repeats)[0])
        first, second = sorted((int(order[index]), int(order[index + 1])))
        msg = (
            f"ids of evaluation set {name!r} must be unique; id {format_id(sorted_ids[index])} is "
            f"in rows {first} and {second} ({int(repeats.sum())} repeated in all)."
        )
        raise InputError(msg)
    return np.asarray(order)
