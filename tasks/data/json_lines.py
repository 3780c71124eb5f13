"""Reader of JSON lines: one object per line, as in `{"id": 1, "label": 0}`.

A value inside a nested object is a column with a dotted name, as in `doc.label`.
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
from biasgate.tasks.data.unpacked import open_table

_MAX_LEVELS = 4
# Objects may omit null keys, so the columns are the union of the keys of this many lines.
_HEADER_LINES = 1000


def read_json_columns(path: Path) -> list[str]:
    """Return the keys of the first lines, in order of appearance."""
    with open_table(path) as (_, lines):
        header = islice(_parse_rows(lines), _HEADER_LINES)
        keys = dict.fromkeys(key for row in header for key in _list_keys(row))
    if not keys:
        msg = "must not be empty."
        raise FormatError(msg)
    return list(keys)


def read_json_tables(path: Path, columns: list[str], size: int) -> Iterator[tuple[pa.Table, float]]:
    """Yield tables of `size` rows, each with the share of the file's bytes read so far.

    A key that a line omits is null. The values of a column must have a single type.
    """
    length = path.stat().st_size
    with open_table(path) as (stream, lines):
        rows, first_row = _parse_rows(lines), 0
        while part := list(islice(rows, size)):
            arrays = [
                _build_array([find_value(row, name) for row in part], name, first_row)
                for name in columns
            ]
            yield pa.table(arrays, names=columns), stream.tell() / length
            first_row += len(part)


def find_value(row: Mapping[str, JsonValue], name: str) -> JsonValue:
    """Return the value of a key, or of a dotted path into nested objects; None if missing.

    A key that contains dots has priority over a path.
    """
    if name in row:
        return row[name]
    head, dot, rest = name.partition(".")
    while dot:
        nested = row.get(head)
        if isinstance(nested, dict) and (value := find_value(nested, rest)) is not None:
            return value
        part, dot, rest = rest.partition(".")
        head = f"{head}.{part}"
    return None


def _list_keys(row: Mapping[str, JsonValue], levels: int = _MAX_LEVELS) -> Iterator[str]:
    for key, value in row.items():
        yield key
        if isinstance(value, dict) and levels > 1:
            yield from (f"{key}.{nested}" for nested in _list_keys(value, levels - 1))


def _parse_rows(lines: Iterable[bytes]) -> Iterator[dict[str, JsonValue]]:
    """Yield an object per line; errors give the line's number and never quote it."""
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


def _build_array(values: list[Any], name: str, first_row: int) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        types = sorted({type(value).__name__ for value in values if value is not None})
    msg = (
        f"must have values of a single type in column {name!r}; rows {first_row} to "
        f"{first_row + len(values) - 1} have {' and '.join(types)}."
    )
    raise FormatError(msg)
