"""Writer of all CSV files, in which foreign text never becomes a spreadsheet formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

# Spreadsheets read such a cell as a formula, unless it is a number or a single word.
_FORMULA = re.compile(r"\s*[=+@\t\r-]")
_HARMLESS = re.compile(r"[+-](\d*\.?\d*(e[+-]?\d+)?|[\d.-]*[^\W\d][\w.-]*)", re.IGNORECASE)


def format_csv(columns: Iterable[str], rows: Iterable[Iterable[Any]], line_end: str = "\n") -> str:
    """Return a table as CSV; None is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator=line_end)
    writer.writerows([escape_cell(value) for value in row] for row in (columns, *rows))
    return stream.getvalue()


def escape_cell(value: Any) -> Any:
    """Return a cell with `'` before a text that a spreadsheet would run as a formula.

    Numbers are unchanged, and so are ids such as `-5` or `-dQw4w9`; `-1+1` is a formula. Text that
    begins with `'` gets a second `'`. The original is thus the cell without its first `'`.
    """
    if not isinstance(value, str):
        return value
    is_formula = _FORMULA.match(value) and not _HARMLESS.fullmatch(value)
    return f"'{value}" if is_formula or value.startswith("'") else value
