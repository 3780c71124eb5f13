"""Reader of CSV, Parquet and JSON lines in chunks of rows; its errors name the file.

All values of a CSV file are read as text; `biasgate.tasks.data.reading` converts the numbers.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pydantic import AfterValidator, StringConstraints

from bias_metrics.parts import format_count
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError, format_column_names, format_place
from biasgate.tasks.common.files import suggest_path
from biasgate.tasks.common.progress import show_progress
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.data.formats import (
    FormatError,
    find_default_separator,
    is_json_lines,
    is_parquet,
    refuse_other_format,
)
from biasgate.tasks.data.json_lines import read_json_columns, read_json_tables
from biasgate.tasks.data.unpacked import open_table, refuse_bomb

CHUNK_ROWS = 100_000
# Chunks of a table with hundreds of columns have fewer rows, but at least the minimum: reused
# memory stays in the cache, and allocating new memory costs more than reading.
_MAX_CHUNK_VALUES, _MIN_CHUNK_ROWS = 10_000_000, 10_000
_UTF_8 = "utf-8"
_ASCII = "".join(map(chr, range(128)))


def _validate_codec(name: str) -> str:
    """Return the canonical name of a text encoding in which separators and quotes are ASCII."""
    with suppress(LookupError, UnicodeError):
        if _ASCII.encode(name) == _ASCII.encode():
            return codecs.lookup(name).name
    msg = "must be an encoding that Python knows and that contains ASCII, as in cp1252"
    raise ValueError(msg)


Encoding = Annotated[str, AfterValidator(_validate_codec)]
Separator = Annotated[str, StringConstraints(min_length=1, max_length=1)]
Decimal = Literal[".", ","]
_MAX_COLUMNS = 10_000
_HEADER_BYTES = 4 * 2**20
_MAX_CHUNK_BYTES = 256 * 2**20
_BLOCK_BYTES = 16 * 2**20
_SEPARATOR_NAMES = {";": "`;`", "\t": "a tab", "|": "`|`", ",": "a comma"}
# A column with a single value, such as an identity without mentions, compresses extremely well.
_PARQUET_ALLOWANCE = 4 * 2**30
_NAME_PATTERN = re.compile(r"[^\W\d][\w.@/-]*|")


class TextFormat(Settings):
    """Notation of numbers and columns in a text file."""

    separator: Separator | None = None
    """Separator of the columns of a CSV file. Default: a tab for `.tsv`, else a comma."""
    decimal: Decimal | None = None
    """Decimal separator of numbers in text. Default: a point."""
    encoding: Encoding | None = None
    """Encoding of a CSV file, such as `cp1252` for Windows in Western Europe. Default: UTF-8."""

    def get_separator(self, path: Path) -> str:
        """Return the column separator of a CSV file."""
        return self.separator or find_default_separator(path)


_DEFAULT_FORMAT = TextFormat()


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a file."""

    path: Path
    first_row: int
    """Row number of the first row, from 0."""
    table: pa.Table
    """The requested columns, unconverted; from CSV all of type string."""
    rows_before: int = 0
    """Number of rows in the set's earlier files."""
    decimal: Decimal = "."
    """Decimal separator of numbers in text."""

    def locate_column(self, column: str | None) -> str:
        """Return the place of a column for an error text."""
        return format_place(file=self.path, column=column)


def read_column_names(path: Path, text_format: TextFormat = _DEFAULT_FORMAT) -> list[str]:
    """Return the column names of a file; refuse more than 10,000."""
    with _translate_errors(path, text_format):
        refuse_other_format(path)
        if is_parquet(path) or is_json_lines(path):
            names = pq.read_schema(path).names if is_parquet(path) else read_json_columns(path)
            _refuse_wide_table(len(names))
            return list(names)
        separator = text_format.get_separator(path)
        with open_table(path) as (_, content):
            header = content.read(_HEADER_BYTES).lstrip().splitlines()[:1]
        _refuse_wide_table(b"".join(header).count(separator.encode()) + 1)
        # Read the header as a row: pandas would rename a repeated name.
        with open_table(path) as (_, content):
            first_line = pd.read_csv(
                content,
                header=None,
                nrows=1,
                dtype=str,
                sep=separator,
                keep_default_na=False,
                encoding=text_format.encoding or _UTF_8,
            )
        return [str(name) for name in first_line.iloc[0]]


def _refuse_wide_table(n_columns: int) -> None:
    """Refuse tables that are too wide for the available memory."""
    if n_columns > _MAX_COLUMNS:
        msg = (
            f"must have at most {_MAX_COLUMNS:,} columns; it has {n_columns:,} or more. Write "
            "the columns that you need to a separate file."
        )
        raise FormatError(msg)


def require_columns(
    path: Path, wanted: Sequence[str], text_format: TextFormat = _DEFAULT_FORMAT
) -> None:
    """Raise an error if a file lacks a column."""
    present = read_column_names(path, text_format)
    missing = [name for name in wanted if name not in present]
    repeated = [name for name in wanted if present.count(name) > 1]
    if repeated:
        msg = f"file {path} must have the column {repeated[0]!r} once; it is repeated."
        raise InputError(msg)
    if missing:
        separators = [mark for mark in _SEPARATOR_NAMES if len(present) == 1 and mark in present[0]]
        if separators:
            [separator, *_] = separators
            option = separator.replace("\t", "\\t")
            got = (
                f"its first line has {_SEPARATOR_NAMES[separator]}: if it separates columns, set "
                f'`separator: "{option}"`'
            )
        elif is_parquet(path) or set(wanted) & set(present):
            got = f"it has {format_column_names(present, is_header=True)}"
        else:  # Do not quote the first line: without a header it may be a comment.
            got = "its first line is not a header, or has other names"
        plural = "s" * (len(missing) > 1)
        msg = f"file {path} must have the column{plural} {', '.join(map(repr, missing))}; {got}."
        names = [name for name in present if _NAME_PATTERN.fullmatch(name.strip())]
        raise InputError(msg + did_you_mean(missing[0], names))


def read_chunks(
    path: Path,
    columns: Sequence[str],
    size: int = CHUNK_ROWS,
    text_format: TextFormat = _DEFAULT_FORMAT,
) -> Iterator[Chunk]:
    """Read the named columns, `size` rows at a time, or fewer for hundreds of columns.

    Refuse a file that is truncated, malformed or in another encoding.
    """
    wanted = list(dict.fromkeys(columns))
    require_columns(path, wanted, text_format)
    steps = _MAX_CHUNK_VALUES // max(len(wanted), 1) // _MIN_CHUNK_ROWS
    size = min(size, max(steps, 1) * _MIN_CHUNK_ROWS)
    first_row = 0
    if is_parquet(path):
        tables = _read_parquet(path, wanted, size)
    elif is_json_lines(path):
        tables = read_json_tables(path, wanted, size)
    else:
        tables = _read_csv(path, wanted, size, text_format)
    with _translate_errors(path, text_format), show_progress(f"reading {path.name}") as advance:
        for table, share in tables:
            yield Chunk(path, first_row, table, decimal=text_format.decimal or ".")
            first_row += table.num_rows
            advance(table.num_rows, total=first_row / share if share else None)


def _read_parquet(path: Path, columns: list[str], size: int) -> Iterator[tuple[pa.Table, float]]:
    n_rows = n_bytes = 0
    with pq.ParquetFile(path) as file:
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        parts = (group.column(i) for group in groups for i in range(group.num_columns))
        wanted = (part for part in parts if part.path_in_schema in columns)
        encoded = sum(part.total_uncompressed_size for part in wanted)
        refuse_bomb(path, encoded, f"file {path}", allowance=_PARQUET_ALLOWANCE)
        types = {name: file.schema_arrow.field(name).type for name in columns}
    texts = {k: v for k, v in types.items() if pa.types.is_string(v) or pa.types.is_large_string(v)}
    # As a dictionary, a text that many rows share is in memory once. Buffering would read ahead.
    with pq.ParquetFile(path, read_dictionary=list(texts), pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=size, columns=columns):
            table = pa.Table.from_batches([batch]).select(columns)
            fields = [(field.name, texts.get(field.name, field.type)) for field in table.schema]
            schema = pa.schema(fields)
            batch_bytes = _count_plain_bytes(table)
            n_bytes += batch_bytes
            refuse_bomb(path, n_bytes, f"file {path}", allowance=_PARQUET_ALLOWANCE)
            step = max(1, batch.num_rows // (1 + batch_bytes // _MAX_CHUNK_BYTES))
            for start in range(0, batch.num_rows, step):
                part = table.slice(start, step)
                n_rows += part.num_rows
                yield (part.cast(schema) if texts else part), n_rows / file.metadata.num_rows


def _count_plain_bytes(table: pa.Table) -> int:
    """Return the size in bytes of the values without dictionary encoding."""
    total = 0
    for column in table.columns:
        for chunk in column.chunks:
            total += int(chunk.nbytes)
            if pa.types.is_dictionary(chunk.type) and len(chunk.dictionary):
                widths = pc.binary_length(chunk.dictionary.cast(pa.large_binary()))
                total += pc.sum(widths.take(chunk.indices)).as_py() or 0
    return total


def _read_csv(
    path: Path, columns: list[str], size: int, text_format: TextFormat
) -> Iterator[tuple[pa.Table, float]]:
    """Yield chunks, each with the share of the file's bytes read so far."""
    length, is_whole = path.stat().st_size, False
    # Read all columns: with `usecols`, pandas silently drops surplus fields, and an unquoted comma
    # shifts the values of its row.
    with (
        open_table(path) as (stream, content),
        pd.read_csv(
            content,
            sep=text_format.get_separator(path),
            dtype=str,
            keep_default_na=False,
            chunksize=size,
            encoding=text_format.encoding or _UTF_8,
        ) as reader,
    ):
        for frame in reader:
            if not isinstance(frame.index, pd.RangeIndex):
                raise pd.errors.ParserError("its rows have more fields than its header")
            if not is_whole and frame.iloc[:, -1].eq("").any():  # empty, or absent from its row
                _refuse_short_rows(path, text_format)
                is_whole = True
            arrays = [
                pa.array(frame[name], pa.large_string(), from_pandas=True) for name in columns
            ]
            table = (
                pa.table(arrays, names=columns) if columns else pa.table({"": pa.nulls(len(frame))})
            )
            yield table, stream.tell() / length


def _refuse_short_rows(path: Path, text_format: TextFormat) -> None:
    """Refuse rows with fewer fields than the header, which pandas fills with empty fields.

    A line break in an unquoted text splits its row in two. The fields after it would be read as
    another comment's. pandas does not quote a text with a single carriage return.
    """
    short: list[pa.csv.InvalidRow] = []

    def record_short_row(row: pa.csv.InvalidRow) -> str:
        if not short and row.actual_columns < row.expected_columns:
            short.append(row)
        return "skip"

    with open_table(path) as (_, content), suppress(pa.ArrowInvalid):
        [first, *_] = read_column_names(path, text_format)
        reader = pa.csv.open_csv(
            content,
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, encoding=text_format.encoding or _UTF_8
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=text_format.get_separator(path),
                newlines_in_values=True,
                invalid_row_handler=record_short_row,
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=[first], column_types={first: pa.binary()}, check_utf8=False
            ),
        )
        for _ in reader:
            if short:
                break
    for row in short:  # Arrow counts from 1 and includes the header
        msg = (
            f"row {row.number - 2} has {format_count(row.actual_columns, 'field')}, the header "
            f"{row.expected_columns}. A line break in a text, even a single carriage "
            "return, splits its row in two"
        )
        raise pd.errors.ParserError(msg)


@contextmanager
def _translate_errors(path: Path, text_format: TextFormat) -> Iterator[None]:
    """Turn the errors of readers into an InputError with the file and a remedy."""
    try:
        yield
    except Exception as error:
        reason = _describe_error(error, path, text_format.encoding or _UTF_8)
        if reason is None:
            raise
        msg = f"file {path} {reason}"
        raise InputError(msg) from error


def _locate_undecodable_line(path: Path, encoding: str) -> str:
    """Return a hint with the first line that an encoding cannot decode."""
    with open_table(path) as (_, lines):
        for number, line in enumerate(lines, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return (
                    f" Line {number} is not. Set its real `encoding`, as in `encoding: cp1252` for "
                    "files of Windows in Western Europe."
                )
    return ""


def _describe_error(error: Exception, path: Path, encoding: str) -> str | None:  # noqa: C901, PLR0911, PLR0912 - one line per cause
    match error:
        case FileNotFoundError():
            return f"does not exist.{suggest_path(path)}"
        case IsADirectoryError():
            return "must be a file; it is a folder."
        case PermissionError():
            return "must be readable; permission is denied."
        case gzip.BadGzipFile():
            return "must be compressed with gzip, as its name suggests; it is not. Rename it."
        case FormatError():
            return str(error)
        case pd.errors.EmptyDataError():
            return "must not be empty."
        case UnicodeDecodeError():
            return f"must be {encoding.upper()}.{_locate_undecodable_line(path, encoding)}"
        case EOFError() | zlib.error():
            return "is truncated: its compressed data end too early. Download it again."
        case pd.errors.ParserError():
            return (
                f"is malformed CSV: {str(error).strip()}. Write it with quotes around every text: "
                "in pandas `t.to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC)`."
            )
        case pa.ArrowNotImplementedError():
            return "is Parquet with columns or a compression that cannot be read here."
        case pa.ArrowInvalid():
            return "is not a readable Parquet file; it may be truncated. Download it again."
        case OSError():
            return f"cannot be read: {error.strerror or type(error).__name__}."
        case _:
            return None
