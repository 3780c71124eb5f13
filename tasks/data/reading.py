"""Reading CSV and Parquet in chunks, and turning raw columns into checked ones.

Numbers in CSV files are read as text and converted here, so that a bad one is named with its
place and no digit is lost. Error texts never quote a comment.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.errors import InputError, place

ROW_NUMBER = "row_number"
ROWS_A_CHUNK = 100_000
_NO_NUMBER = pa.array(["", "NA", "N/A", "NaN", "nan", "null", "None"])


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows of a file.

    Attributes
    ----------
    path : Path
        The file.
    first_row : int
        Row number, from 0, of the first row.
    table : pyarrow.Table
        The raw columns asked for; from CSV all of type string.
    """

    path: Path
    first_row: int
    table: pa.Table

    def where(self, column: str, offset: int, ids: pa.Array | None = None) -> str:
        """Say where a value stands."""
        found = None if ids is None else ids[offset].as_py()
        return place(file=self.path, column=column, row=self.first_row + offset, id=found)


def file_columns(path: Path) -> list[str]:
    """Return the column names of a CSV (gz too) or Parquet file.

    Raises
    ------
    InputError
        If the file is missing, empty or unreadable.
    """
    if is_parquet(path):
        with _named_errors(path):
            return list(pq.read_schema(path).names)
    with _named_errors(path):
        return [str(name) for name in pd.read_csv(path, nrows=0, dtype=str).columns]


def require_columns(path: Path, wanted: Sequence[str]) -> None:
    """Refuse a file that lacks a column."""
    present = file_columns(path)
    missing = [name for name in wanted if name not in present]
    if missing:
        msg = (
            f"file {path} must have the column{'s' * (len(missing) > 1)} "
            f"{', '.join(map(repr, missing))}; it has {', '.join(map(repr, present))}."
        )
        raise InputError(msg)


def read_chunks(path: Path, columns: Sequence[str], size: int = ROWS_A_CHUNK) -> Iterator[Chunk]:
    """Read the named columns, `size` rows at a time.

    Raises
    ------
    InputError
        If a column is missing, or the file is truncated, malformed or not UTF-8.
    """
    wanted = list(dict.fromkeys(columns))
    require_columns(path, wanted)
    first_row = 0
    with _named_errors(path):
        for table in _parquet(path, wanted, size) if is_parquet(path) else _csv(path, wanted, size):
            yield Chunk(path, first_row, table)
            first_row += table.num_rows


def is_parquet(path: Path) -> bool:
    """Whether the name says Parquet; anything else is read as CSV."""
    return path.suffix in {".parquet", ".pq"}


def to_ids(chunk: Chunk, column: str) -> pa.Array:
    """Return the ids as strings; `row_number` numbers the rows from 0.

    Raises
    ------
    InputError
        If an id is missing, or the column holds fractions.
    """
    if column == ROW_NUMBER:
        numbers = np.arange(chunk.first_row, chunk.first_row + chunk.table.num_rows)
        return pa.array(numbers).cast(pa.string())
    raw = _one(chunk, column)
    if pa.types.is_floating(raw.type):
        msg = (
            f"ids must be whole numbers or text; got {raw.type} "
            f"{place(file=chunk.path, column=column)}."
        )
        raise InputError(msg)
    ids = raw.cast(pa.string())
    _refuse(
        chunk, column, pc.fill_null(pc.equal(ids, ""), fill_value=True), "an id must not be empty"
    )
    return ids


def to_text(chunk: Chunk, column: str, ids: pa.Array) -> pa.Array:
    """Return the texts; an empty text stays empty, a missing one is refused."""
    raw = _one(chunk, column)
    if not (pa.types.is_string(raw.type) or pa.types.is_large_string(raw.type)):
        msg = f"texts must be strings; got {raw.type} {place(file=chunk.path, column=column)}."
        raise InputError(msg)
    _refuse(chunk, column, pc.is_null(raw), "a text must not be missing", ids)
    return raw.cast(pa.large_string())


def to_strings(chunk: Chunk, column: str, ids: pa.Array) -> pa.Array:
    """Return a column of names (a cluster, say) as strings; a missing one is refused."""
    raw = _one(chunk, column).cast(pa.string())
    _refuse(chunk, column, pc.is_null(raw), "a value must not be missing", ids)
    return raw


def to_numbers(chunk: Chunk, column: str, ids: pa.Array | None = None) -> pa.Array:
    """Return numbers as float64; an empty cell and NaN become null, anything else must be one."""
    raw = _one(chunk, column)
    if pa.types.is_string(raw.type) or pa.types.is_large_string(raw.type):
        raw = pc.utf8_trim_whitespace(raw)
        absent = pc.is_in(raw, value_set=_NO_NUMBER.cast(raw.type))
        raw = pc.if_else(absent, pa.scalar(None, raw.type), raw)
        try:
            return raw.cast(pa.float64())
        except pa.ArrowInvalid:
            wrong = pa.array([not _is_number(value) for value in raw.to_pylist()])
            _refuse(chunk, column, wrong, "a value must be a number", ids)
            return pa.array(
                [None if v is None else float(v) for v in raw.to_pylist()], pa.float64()
            )
    numbers = raw.cast(pa.float64()) if not pa.types.is_boolean(raw.type) else _from_bool(raw)
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)


def to_fractions(chunk: Chunk, column: str, ids: pa.Array, *, nullable: bool) -> pa.Array:
    """Return fractions in [0, 1]; nulls only where `nullable`.

    Raises
    ------
    InputError
        At the first value outside [0, 1], or missing where it must not be.
    """
    numbers = to_numbers(chunk, column, ids)
    inside = pc.and_(pc.greater_equal(numbers, 0.0), pc.less_equal(numbers, 1.0))
    wrong = pc.invert(pc.fill_null(inside, fill_value=nullable))
    _refuse(chunk, column, wrong, "a fraction must be in [0, 1]", ids, numbers)
    return numbers


def to_mapped(chunk: Chunk, column: str, ids: pa.Array, values: Mapping[str, float]) -> pa.Array:
    """Return the fractions that a mapping such as `{"toxic": 1, "nontoxic": 0}` names.

    Raises
    ------
    InputError
        At the first value that the mapping lacks.
    """
    raw = _one(chunk, column).cast(pa.string())
    position = pc.index_in(raw, value_set=pa.array(list(values), pa.string()))
    known = ", ".join(map(repr, values))
    _refuse(chunk, column, pc.is_null(position), f"a label must be one of {known}", ids)
    return pa.array(list(values.values()), pa.float64()).take(position)


def _parquet(path: Path, columns: list[str], size: int) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=size, columns=columns):
            yield pa.Table.from_batches([batch]).select(columns)


def _csv(path: Path, columns: list[str], size: int) -> Iterator[pa.Table]:
    with pd.read_csv(
        path,
        usecols=columns or None,
        dtype=str,
        keep_default_na=False,
        chunksize=size,
        encoding="utf-8",
    ) as reader:
        for frame in reader:
            arrays = [
                pa.array(frame[name], pa.large_string(), from_pandas=True) for name in columns
            ]
            yield pa.table(arrays, names=columns) if columns else _bare(len(frame))


def _bare(n_rows: int) -> pa.Table:
    return pa.table({"": pa.nulls(n_rows)})


def _one(chunk: Chunk, column: str) -> pa.Array:
    array = chunk.table.column(column).combine_chunks()
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _from_bool(raw: pa.Array) -> pa.Array:
    return raw.cast(pa.int8()).cast(pa.float64())


def _is_number(value: str | None) -> bool:
    try:
        float(value or 0)
    except ValueError:
        return False
    return True


def _refuse(
    chunk: Chunk,
    column: str,
    wrong: pa.Array,
    rule: str,
    ids: pa.Array | None = None,
    values: pa.Array | None = None,
) -> None:
    rows = np.flatnonzero(np.asarray(wrong.to_numpy(zero_copy_only=False), dtype=bool))
    if rows.size:
        first = int(rows[0])
        got = "" if values is None else f"; got {_shown(values[first].as_py())}"
        msg = f"{rule}{got} {chunk.where(column, first, ids)}."
        raise InputError(msg)


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)


class _named_errors:  # noqa: N801 - used like a function
    """Turn what readers raise into an InputError that names the file and what to do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        reason = _reason(error)
        if reason is not None:
            msg = f"file {self.path} {reason}"
            raise InputError(msg) from error


def _reason(error: BaseException | None) -> str | None:  # noqa: C901, PLR0911 - one line per cause
    match error:
        case None | InputError():
            return None
        case FileNotFoundError():
            return "does not exist."
        case IsADirectoryError():
            return "must be a file; it is a folder."
        case PermissionError():
            return "must be readable; permission is denied."
        case pd.errors.EmptyDataError():
            return "must not be empty."
        case UnicodeDecodeError():
            return f"must be UTF-8; byte {error.start} of a block is not. Convert it first."
        case EOFError() | zlib.error():
            return "is truncated: its compressed data end too early. Fetch it again."
        case pd.errors.ParserError():
            return f"is malformed CSV: {error}"
        case pa.ArrowInvalid():
            return "is not a readable Parquet file; it may be truncated. Fetch it again."
        case OSError():
            return f"cannot be read: {error.strerror or type(error).__name__}."
        case _:
            return None
