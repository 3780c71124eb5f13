"""The one writer of CSV: a name of others is never a formula, whichever file it is in."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

# A spreadsheet takes a cell that starts so for a formula, unless it is a number or one word.
_FORMULA = re.compile(r"\s*[=+@\t\r-]")
_HARMLESS = re.compile(r"[+-](\d*\.?\d*(e[+-]?\d+)?|[\d.-]*[^\W\d][\w.-]*)", re.IGNORECASE)


def csv_of(columns: Iterable[str], rows: Iterable[Iterable[Any]], line_end: str = "\n") -> str:
    """Return a table as CSV; None is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator=line_end)
    writer.writerows([as_cell(value) for value in row] for row in (columns, *rows))
    return stream.getvalue()


def as_cell(value: Any) -> Any:
    """Return text that a spreadsheet would run as a formula with `'` before it; others unchanged.

    Numbers stay numbers, and an id such as `-5` or `-dQw4w9` stays as it is; `-1+1` is a sum. Text
    that begins with `'` gets a second one, so that without the first `'` of a cell the text is
    exact.
    """
    if not isinstance(value, str):
        return value
    is_formula = _FORMULA.match(value) and not _HARMLESS.fullmatch(value)
    return f"'{value}" if is_formula or value.startswith("'") else value
