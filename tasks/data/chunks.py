"""Reading CSV, Parquet and JSON lines in chunks of rows, with errors that name the file.

Everything in a CSV file is read as text; `biasgate.tasks.data.reading` makes it into numbers.
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
from biasgate.tasks.common.errors import InputError, shown_names
from biasgate.tasks.common.files import found_instead
from biasgate.tasks.common.progress import progress
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.data.formats import (
    FormatError,
    is_json_lines,
    is_parquet,
    refuse_other_format,
    separator_by_name,
)
from biasgate.tasks.data.json_lines import json_columns, json_tables
from biasgate.tasks.data.unpacked import opened_table, refuse_bomb

ROWS_A_CHUNK = 100_000
# A table of hundreds of columns is read in fewer rows at a time, but at least this many: reused
# memory stays in the cache, and allocating new memory costs more than reading.
_VALUES_A_CHUNK, _LEAST_ROWS = 10_000_000, 10_000
_UTF_8 = "utf-8"
_ASCII = "".join(map(chr, range(128)))


def _usable_codec(name: str) -> str:
    """Return the name of a codec of text in which separators, quotes and line ends are ASCII."""
    with suppress(LookupError, UnicodeError):
        if _ASCII.encode(name) == _ASCII.encode():
            return codecs.lookup(name).name
    msg = "must be an encoding that Python knows and that contains ASCII, as in cp1252"
    raise ValueError(msg)


Encoding = Annotated[str, AfterValidator(_usable_codec)]
Separator = Annotated[str, StringConstraints(min_length=1, max_length=1)]
Decimal = Literal[".", ","]
_MOST_COLUMNS = 10_000
_HEADER_BYTES = 4 * 2**20
_BYTES_A_CHUNK = 256 * 2**20
_BLOCK_BYTES = 16 * 2**20
_OTHER_SEPARATORS = {";": "`;`", "\t": "a tab", "|": "`|`", ",": "a comma"}
# Labels of one class, or identities that nobody mentions, are packed as well as can be.
_PARQUET_ALLOWED = 4 * 2**30
_LIKE_A_NAME = re.compile(r"[^\W\d][\w.@/-]*|")


class TextForm(Settings):
    """How numbers and columns are written in a file of text."""

    separator: Separator | None = None
    """What separates the columns of a CSV file. Default: a tab for `.tsv`, else a comma."""
    decimal: Decimal | None = None
    """What separates the decimals of numbers in text. Default: a point."""
    encoding: Encoding | None = None
    """Encoding of a CSV file, as in `cp1252` for Latin-1 of Windows. Default: UTF-8."""

    def separator_of(self, path: Path) -> str:
        """Return what separates the columns of a CSV file."""
        return self.separator or separator_by_name(path)


_PLAIN = TextForm()


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows of a file."""

    path: Path
    """The file."""
    first_row: int
    """Row number, from 0, of the first row."""
    table: pa.Table
    """The raw columns asked for; from CSV all of type string."""
    rows_before: int = 0
    """Rows of the files before this one, where a set has several."""
    decimal: Decimal = "."
    """What separates the decimals of numbers in text."""


def file_columns(path: Path, form: TextForm = _PLAIN) -> list[str]:
    """Return the column names of a file; refuse more than 10,000."""
    with _named_errors(path, form):
        refuse_other_format(path)
        if is_parquet(path) or is_json_lines(path):
            names = list(pq.read_schema(path).names) if is_parquet(path) else json_columns(path)
            _refuse_wide(len(names))
            return names
        mark = form.separator_of(path)
        with opened_table(path) as (_, content):
            header = content.read(_HEADER_BYTES).lstrip().splitlines()[:1]
        _refuse_wide(b"".join(header).count(mark.encode()) + 1)
        # Not as a header: pandas would rename a repeated name.
        with opened_table(path) as (_, content):
            first = pd.read_csv(
                content,
                header=None,
                nrows=1,
                dtype=str,
                sep=mark,
                keep_default_na=False,
                encoding=form.encoding or _UTF_8,
            )
        return [str(name) for name in first.iloc[0]]


def _refuse_wide(n_columns: int) -> None:
    """Refuse more columns than memory should be spent on."""
    if n_columns > _MOST_COLUMNS:
        msg = (
            f"must have at most {_MOST_COLUMNS:,} columns; it has {n_columns:,} or more. Write "
            "the columns that you need to a separate file."
        )
        raise FormatError(msg)


def require_columns(path: Path, wanted: Sequence[str], form: TextForm = _PLAIN) -> None:
    """Raise an error if a file lacks a column."""
    present = file_columns(path, form)
    missing = [name for name in wanted if name not in present]
    twice = [name for name in wanted if present.count(name) > 1]
    if twice:
        msg = f"file {path} must have the column {twice[0]!r} once; it is repeated."
        raise InputError(msg)
    if missing:
        marks = [mark for mark in _OTHER_SEPARATORS if len(present) == 1 and mark in present[0]]
        if marks:
            named, shown = _OTHER_SEPARATORS[marks[0]], marks[0].replace("\t", "\\t")
            got = f'its first line has {named}: if it separates columns, set `separator: "{shown}"`'
        elif is_parquet(path) or set(wanted) & set(present):
            got = f"it has {shown_names(present)}"
        else:  # Without a header the first line is a row, and may be a comment.
            got = "its first line is not a header, or has other names"
        plural = "s" * (len(missing) > 1)
        msg = f"file {path} must have the column{plural} {', '.join(map(repr, missing))}; {got}."
        names = [name for name in present if _LIKE_A_NAME.fullmatch(name.strip())]
        raise InputError(msg + did_you_mean(missing[0], names))


def read_chunks(
    path: Path, columns: Sequence[str], size: int = ROWS_A_CHUNK, form: TextForm = _PLAIN
) -> Iterator[Chunk]:
    """Read the named columns, `size` rows at a time; fewer if there are hundreds of columns.

    A file that is truncated, malformed or in another encoding is refused.
    """
    wanted = list(dict.fromkeys(columns))
    require_columns(path, wanted, form)
    steps = _VALUES_A_CHUNK // max(len(wanted), 1) // _LEAST_ROWS
    size = min(size, max(steps, 1) * _LEAST_ROWS)
    first_row = 0
    if is_parquet(path):
        tables = _parquet(path, wanted, size)
    elif is_json_lines(path):
        tables = json_tables(path, wanted, size)
    else:
        tables = _csv(path, wanted, size, form)
    with _named_errors(path, form), progress(f"reading {path.name}") as advance:
        for table, share in tables:
            yield Chunk(path, first_row, table, decimal=form.decimal or ".")
            first_row += table.num_rows
            advance(table.num_rows, total=first_row / share if share else None)


def _parquet(path: Path, columns: list[str], size: int) -> Iterator[tuple[pa.Table, float]]:
    n_rows = n_bytes = 0
    with pq.ParquetFile(path) as file:
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        parts = (group.column(at) for group in groups for at in range(group.num_columns))
        read = (part for part in parts if part.path_in_schema in columns)
        encoded = sum(part.total_uncompressed_size for part in read)
        refuse_bomb(path, encoded, f"file {path}", always=_PARQUET_ALLOWED)
        kinds = {name: file.schema_arrow.field(name).type for name in columns}
    texts = {k: v for k, v in kinds.items() if pa.types.is_string(v) or pa.types.is_large_string(v)}
    # A text that many rows have is then read once: it must not fill memory. Nor must what is ahead.
    with pq.ParquetFile(path, read_dictionary=list(texts), pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=size, columns=columns):
            table = pa.Table.from_batches([batch]).select(columns)
            schema = pa.schema([(one.name, texts.get(one.name, one.type)) for one in table.schema])
            plain = _plain_bytes(table)
            n_bytes += plain
            refuse_bomb(path, n_bytes, f"file {path}", always=_PARQUET_ALLOWED)
            step = max(1, batch.num_rows // (1 + plain // _BYTES_A_CHUNK))
            for first in range(0, batch.num_rows, step):
                part = table.slice(first, step)
                n_rows += part.num_rows
                yield (part.cast(schema) if texts else part), n_rows / file.metadata.num_rows


def _plain_bytes(table: pa.Table) -> int:
    """Return how many bytes the values have when each row has its own."""
    total = 0
    for column in table.columns:
        for chunk in column.chunks:
            total += int(chunk.nbytes)
            if pa.types.is_dictionary(chunk.type) and len(chunk.dictionary):
                widths = pc.binary_length(chunk.dictionary.cast(pa.large_binary()))
                total += pc.sum(widths.take(chunk.indices)).as_py() or 0
    return total


def _csv(
    path: Path, columns: list[str], size: int, form: TextForm
) -> Iterator[tuple[pa.Table, float]]:
    """Yield chunks, and the share of the file's bytes read so far."""
    length, is_whole = path.stat().st_size, False
    # All columns are read, not with `usecols`: with it pandas drops surplus fields in silence,
    # and an unquoted comma shifts the values of its row.
    with (
        opened_table(path) as (stream, content),
        pd.read_csv(
            content,
            sep=form.separator_of(path),
            dtype=str,
            keep_default_na=False,
            chunksize=size,
            encoding=form.encoding or _UTF_8,
        ) as reader,
    ):
        for frame in reader:
            if not isinstance(frame.index, pd.RangeIndex):
                raise pd.errors.ParserError("its rows have more fields than its header")
            if not is_whole and frame.iloc[:, -1].eq("").any():  # it may be one that is missing
                _refuse_short_rows(path, form)
                is_whole = True
            arrays = [
                pa.array(frame[name], pa.large_string(), from_pandas=True) for name in columns
            ]
            table = (
                pa.table(arrays, names=columns) if columns else pa.table({"": pa.nulls(len(frame))})
            )
            yield table, stream.tell() / length


def _refuse_short_rows(path: Path, form: TextForm) -> None:
    """Refuse rows with fewer fields than the header, which pandas fills with empty ones.

    A line break inside a text without quotes, also a carriage return alone as pandas writes it,
    tears a row in two, and what follows it would be another comment's.
    """
    short: list[pa.csv.InvalidRow] = []

    def note_short(row: pa.csv.InvalidRow) -> str:
        if not short and row.actual_columns < row.expected_columns:
            short.append(row)
        return "skip"

    with opened_table(path) as (_, content), suppress(pa.ArrowInvalid):
        [first, *_] = file_columns(path, form)
        reader = pa.csv.open_csv(
            content,
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, encoding=form.encoding or _UTF_8
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=form.separator_of(path),
                newlines_in_values=True,
                invalid_row_handler=note_short,
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=[first], column_types={first: pa.binary()}, check_utf8=False
            ),
        )
        for _ in reader:
            if short:
                break
    for row in short:  # rows count from 0, without the header
        msg = (
            f"row {row.number - 2} has {format_count(row.actual_columns, 'field')}, the header "
            f"{row.expected_columns}. A line break in a text, even a single carriage "
            "return, splits its row in two"
        )
        raise pd.errors.ParserError(msg)


@contextmanager
def _named_errors(path: Path, form: TextForm) -> Iterator[None]:
    """Turn the errors of readers into an InputError that names the file and what to do."""
    try:
        yield
    except Exception as error:
        reason = _reason(error, path, form.encoding or _UTF_8)
        if reason is None:
            raise
        msg = f"file {path} {reason}"
        raise InputError(msg) from error


def _first_undecodable(path: Path, encoding: str) -> str:
    """Name the first line that is not in an encoding, and how to read the file."""
    with opened_table(path) as (_, lines):
        for number, line in enumerate(lines, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return (
                    f" Line {number} is not. Set its real `encoding`, as in `encoding: cp1252` for "
                    "files of Windows in Western Europe."
                )
    return ""


def _reason(error: Exception, path: Path, encoding: str) -> str | None:  # noqa: C901, PLR0911, PLR0912 - one line per cause
    match error:
        case FileNotFoundError():
            return f"does not exist.{found_instead(path)}"
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
            return f"must be {encoding.upper()}.{_first_undecodable(path, encoding)}"
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
