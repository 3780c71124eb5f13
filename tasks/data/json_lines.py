"""Reading files of JSON lines: one object per line, as in `{"id": 1, "label": 0}`.

A value inside another object is a column with a dotted name, as in `doc.label`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pydantic import JsonValue

from biasgate.tasks.data.unpacked import opened_table

_MOST_LEVELS = 4
# An object may leave out null keys, so the columns are the keys of this many lines together.
_LINES_OF_HEADER = 1000


class JsonLinesError(ValueError):
    """A line that is not an object; the text names the line and never quotes it."""


def json_columns(path: Path) -> list[str]:
    """Return the keys of the first lines, in the order in which they appear.

    Raises
    ------
    JsonLinesError
        If a line is not an object, or there are no lines.
    """
    with _opened(path) as (_, lines):
        header = islice(_rows(lines), _LINES_OF_HEADER)
        found = dict.fromkeys(key for row in header for key in _keys(row))
    if not found:
        msg = "must not be empty."
        raise JsonLinesError(msg)
    return list(found)


def json_tables(path: Path, columns: list[str], size: int) -> Iterator[tuple[pa.Table, float]]:
    """Yield tables of `size` rows, and the share of the file's bytes read so far.

    A key that a line leaves out is null.

    Raises
    ------
    JsonLinesError
        If a line is not an object, or the values of a column have several types.
    """
    length = path.stat().st_size
    with _opened(path) as (stream, lines):
        rows, first = _rows(lines), 0
        while part := list(islice(rows, size)):
            arrays = [
                _array([value_of(row, name) for row in part], name, first) for name in columns
            ]
            yield pa.table(arrays, names=columns), stream.tell() / length
            first += len(part)


def value_of(row: Mapping[str, JsonValue], name: str) -> JsonValue:
    """Return the value with a name, or with a dotted one inside other objects; None if missing."""
    if name in row:
        return row[name]
    head, dot, rest = name.partition(".")
    while dot:
        if (
            isinstance(within := row.get(head), dict)
            and (found := value_of(within, rest)) is not None
        ):
            return found
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def _keys(row: Mapping[str, JsonValue], levels: int = _MOST_LEVELS) -> Iterator[str]:
    for key, value in row.items():
        yield key
        if isinstance(value, dict) and levels > 1:
            yield from (f"{key}.{below}" for below in _keys(value, levels - 1))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], Iterator[str]]]:
    """Yield the file's bytes, to measure progress, and its lines."""
    with opened_table(path) as (stream, content):
        yield (
            stream,
            (line.decode("utf-8" if at else "utf-8-sig") for at, line in enumerate(content)),
        )


def _rows(lines: Iterator[str]) -> Iterator[dict[str, JsonValue]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            msg = f"must hold one JSON object per line; line {number} is not one."
            raise JsonLinesError(msg)
        yield row


def _array(values: list[Any], name: str, first: int) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = sorted({type(value).__name__ for value in values if value is not None})
    msg = (
        f"must have values of one type in column {name!r}; rows {first} to "
        f"{first + len(values) - 1} have {' and '.join(kinds)}."
    )
    raise JsonLinesError(msg)
