"""Reading files of JSON lines: one object per line, as in `{"id": 1, "label": 0}`.

A value inside another object is a column with a dotted name, as in `doc.label`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import JsonValue

from biasgate.tasks.data.formats import FormatError
from biasgate.tasks.data.unpacked import opened_table

_MOST_LEVELS = 4
# An object may leave out null keys, so the columns are the keys of this many lines together.
_LINES_OF_HEADER = 1000


def json_columns(path: Path) -> list[str]:
    """Return the keys of the first lines, in the order in which they appear."""
    with opened_table(path) as (_, lines):
        header = islice(_rows(lines), _LINES_OF_HEADER)
        keys = dict.fromkeys(key for row in header for key in _keys(row))
    if not keys:
        msg = "must not be empty."
        raise FormatError(msg)
    return list(keys)


def json_tables(path: Path, columns: list[str], size: int) -> Iterator[tuple[pa.Table, float]]:
    """Yield tables of `size` rows, and the share of the file's bytes read so far.

    A key that a line leaves out is null. The values of a column must have one type.
    """
    length = path.stat().st_size
    with opened_table(path) as (stream, lines):
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
        within = row.get(head)
        if isinstance(within, dict) and (value := value_of(within, rest)) is not None:
            return value
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def _keys(row: Mapping[str, JsonValue], levels: int = _MOST_LEVELS) -> Iterator[str]:
    for key, value in row.items():
        yield key
        if isinstance(value, dict) and levels > 1:
            yield from (f"{key}.{below}" for below in _keys(value, levels - 1))


def _rows(lines: Iterable[bytes]) -> Iterator[dict[str, JsonValue]]:
    """Yield the objects; the error for another line names it and never quotes it."""
    for number, line in enumerate(lines, start=1):
        text = line.decode("utf-8" if number > 1 else "utf-8-sig")
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            msg = f"must hold a JSON object on each line; line {number} is not a JSON object."
            raise FormatError(msg)
        yield row


def _array(values: list[Any], name: str, first: int) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = sorted({type(value).__name__ for value in values if value is not None})
    msg = (
        f"must have values of a single type in column {name!r}; rows {first} to "
        f"{first + len(values) - 1} have {' and '.join(kinds)}."
    )
    raise FormatError(msg)
