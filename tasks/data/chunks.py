"""Reading CSV and Parquet files in chunks of rows, with errors that name the file.

Everything in a CSV file is read as text; `tasks.data.reading` makes it into numbers.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import InputError, place
from tasks.progress import progress

ROWS_A_CHUNK = 100_000
# Values that are held at once: a table of thousands of columns is read in fewer rows at a time.
_VALUES_A_CHUNK = 50_000_000
_LIKE_A_NAME = re.compile(r"[^\W\d][\w.@/-]*|Unnamed: \d+")


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
        # Without a header the first line is a row, and may be a comment.
        found = (
            f"it has {', '.join(map(repr, present))}"
            if all(map(_LIKE_A_NAME.fullmatch, present))
            else "its first line is no header of column names, or has names of other characters"
        )
        plural = "s" * (len(missing) > 1)
        msg = f"file {path} must have the column{plural} {', '.join(map(repr, missing))}; {found}."
        raise InputError(msg)


def read_chunks(path: Path, columns: Sequence[str], size: int = ROWS_A_CHUNK) -> Iterator[Chunk]:
    """Read the named columns, `size` rows at a time; fewer where there are thousands of columns.

    Raises
    ------
    InputError
        If a column is missing, or the file is truncated, malformed or not UTF-8.
    """
    wanted = list(dict.fromkeys(columns))
    require_columns(path, wanted)
    size = min(size, max(_VALUES_A_CHUNK // max(len(wanted), 1), 1))
    first_row = 0
    read = _parquet if is_parquet(path) else _csv
    with _named_errors(path), progress(f"reading {path.name}") as advance:
        for table, share in read(path, wanted, size):
            yield Chunk(path, first_row, table)
            first_row += table.num_rows
            advance(table.num_rows, total=first_row / share if share else None)


def is_parquet(path: Path) -> bool:
    """Whether the name says Parquet; anything else is read as CSV."""
    return path.suffix in {".parquet", ".pq"}


def _parquet(path: Path, columns: list[str], size: int) -> Iterator[tuple[pa.Table, float]]:
    n_rows = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=size, columns=columns):
            n_rows += batch.num_rows
            yield (
                pa.Table.from_batches([batch]).select(columns),
                n_rows / file.metadata.num_rows,
            )


def _csv(path: Path, columns: list[str], size: int) -> Iterator[tuple[pa.Table, float]]:
    """Yield chunks, and the share of the file's bytes read so far."""
    length = path.stat().st_size
    # All columns are read, not with `usecols`: with it pandas drops surplus fields in silence,
    # and an unquoted comma shifts the values of its row.
    with (
        path.open("rb") as stream,
        pd.read_csv(
            stream,
            dtype=str,
            keep_default_na=False,
            chunksize=size,
            encoding="utf-8",
            compression="gzip" if path.suffix == ".gz" else None,
        ) as reader,
    ):
        for frame in reader:
            if not isinstance(frame.index, pd.RangeIndex):
                raise pd.errors.ParserError("its rows have more fields than its header")
            arrays = [
                pa.array(frame[name], pa.large_string(), from_pandas=True) for name in columns
            ]
            table = pa.table(arrays, names=columns) if columns else _bare(len(frame))
            yield table, stream.tell() / length


def _bare(n_rows: int) -> pa.Table:
    return pa.table({"": pa.nulls(n_rows)})


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
            return f"is malformed CSV: {str(error).strip()}."
        case pa.ArrowInvalid():
            return "is not a readable Parquet file; it may be truncated. Fetch it again."
        case OSError():
            return f"cannot be read: {error.strerror or type(error).__name__}."
        case _:
            return None
