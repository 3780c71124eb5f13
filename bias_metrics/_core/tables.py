"""Output of results: flat records, a data frame, and a table as text or HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from html import escape
from importlib import import_module
from typing import Any

import numpy as np

from bias_metrics._core.checks import check_choice
from bias_metrics._core.values import MetricValue
from bias_metrics.suggestion import did_you_mean

Row = dict[str, Any]
# The number of rows that pandas prints.
MAX_ROWS = 60
_INTERVAL = ("std_error", "low", "high")


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    header: Sequence[str]  # Names of the columns
    body: Sequence[Sequence[str]]  # Rows
    title: str = ""  # Printed above the table
    notes: Sequence[str] = ()  # Printed below the table

    @classmethod
    def from_records(cls, rows: Sequence[Row], title: str = "") -> Table:
        """Make a table from flat records, without columns that are empty in every row."""
        columns = list(rows[0]) if rows else []
        names = [name for name in columns if any(row[name] is not None for row in rows)]
        return cls(names, [[_format_cell(row[name]) for name in names] for row in rows], title)

    def to_text(self) -> str:
        """Return aligned lines of text without control characters."""
        shown, more = self._limit_rows()
        lines = [[_replace_controls(cell) for cell in row] for row in (self.header, *shown)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        numeric = [
            all(cell[:1] in "+-.0123456789" for cell in column[1:])
            for column in zip(*lines, strict=True)
        ]
        table = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, numeric, strict=True)
            ).rstrip()
            for row in lines
        ]
        around = [
            _replace_controls(line) for line in (*self.title.splitlines(), *more, *self.notes)
        ]
        n_above = len(self.title.splitlines())
        return "\n".join([*around[:n_above], *table, *around[n_above:]])

    def to_html(self) -> str:
        """Return an HTML table with all text escaped."""
        shown, more = self._limit_rows()
        above = "".join(f"<div>{escape(line)}</div>" for line in self.title.splitlines())
        below = "".join(f"<div>{escape(line)}</div>" for line in (*more, *self.notes))
        head = "".join(f"<th>{escape(name)}</th>" for name in self.header)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in shown
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div>{above}{table}{below}</div>"

    def _limit_rows(self) -> tuple[Sequence[Sequence[str]], list[str]]:
        hidden = len(self.body) - MAX_ROWS
        return self.body[:MAX_ROWS], [f"... and {hidden:,} more rows"] if hidden > 0 else []


class Tabular:
    """Base class of results: dataclasses, or classes with their own `to_dict`.

    `print(result)` prints a table, and a notebook renders it. `rows()` returns all numbers, and
    `to_frame()` returns them as a data frame.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without optional fields that are None."""
        return _read_fields(self)

    def rows(self) -> list[Row]:
        """Return flat records, all with the same keys; undefined values are None.

        Returns
        -------
        list of dict
            Only strings, numbers, booleans and None, ready for any data frame or a CSV file.
        """
        return [flatten_values(self.to_dict())]

    def to_frame(self, library: str = "pandas") -> Any:
        """Return `rows()` as a data frame.

        Raises
        ------
        ModuleNotFoundError
            If the library is not installed.
        ValueError
            If `library` is not "pandas" or "polars".
        """
        if check_choice("library", library, ("pandas", "polars")) == "pandas":
            return import_optional("pandas", "to_frame()").DataFrame(self.rows())
        polars = import_optional("polars", 'to_frame("polars")')
        return polars.DataFrame(self.rows(), infer_schema_length=None)

    def __str__(self) -> str:
        return self._table().to_text()

    def _repr_html_(self) -> str:
        return self._table().to_html()

    def _table(self) -> Table:
        return Table.from_records(self.rows())


def get_known_value(named: Mapping[str, Any], name: str) -> Any:
    """Return the value of a name; a KeyError lists the known names."""
    if name not in named:
        hint = did_you_mean(name, named)
        msg = f"there is no {name!r} (known: {', '.join(named) or 'none'}).{hint}"
        raise KeyError(msg)
    return named[name]


def to_plain_values(value: Any) -> Any:
    """Convert a result, or a collection of results, to JSON-ready values."""
    if isinstance(value, MetricValue):
        return value.to_dict(interval=True)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: to_plain_values(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [to_plain_values(item) for item in value]
    return _read_fields(value) if is_dataclass(value) else value


def _read_fields(result: Any) -> dict[str, Any]:
    values = ((field, getattr(result, field.name)) for field in fields(result))
    return {
        field.name: to_plain_values(value)
        for field, value in values
        if value is not None or field.default is not None
    }


def drop_defaults(result: Any, kept: Collection[str] = ()) -> dict[str, Any]:
    """Return the plain values of a dataclass; defaults only of the fields `kept`."""
    values = {}
    for field in fields(result):
        default = {} if field.default is MISSING else to_plain_values(field.default)
        value = to_plain_values(getattr(result, field.name))
        if field.name in kept or value != default:
            values[field.name] = value
    return values


def flatten_values(plain: Mapping[str, Any]) -> Row:
    """Flatten the output of `to_dict()`: a number per value, and a single column of reasons."""
    record: Row = {}
    reasons: list[str] = []
    _flatten_into(plain, "", record, reasons)
    reason = record.pop("reason", None)
    return record | {"reason": "; ".join([*filter(None, [reason]), *reasons]) or None}


def label_rows(column: str, rows_of: Mapping[Any, Iterable[Row]]) -> list[Row]:
    """Stack the rows of several parts, each labelled with the name of its part."""
    return [{column: name} | row for name, rows in rows_of.items() for row in rows]


def collect_rows(
    named: Mapping[str, Tabular], overall: Tabular | None = None
) -> dict[Any, list[Row]]:
    """Return records by name, preceded by those of all rows under None."""
    first = {} if overall is None else {None: overall.rows()}
    return first | {name: value.rows() for name, value in named.items()}


def _flatten_into(plain: Mapping[str, Any], prefix: str, record: Row, reasons: list[str]) -> None:
    for key, value in plain.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and "value" in value:
            record[name] = value["value"]
            record |= {f"{name}_{part}": value[part] for part in _INTERVAL if part in value}
            if value["value"] is None:
                reasons.append(f"{name}: {value['reason']}")
        elif isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values()):
            record[name] = "; ".join(f"{label}: {text}" for label, text in value.items())
        elif isinstance(value, Mapping):
            _flatten_into(value, f"{name}_", record, reasons)
        elif isinstance(value, list | tuple):
            record[name] = ", ".join(map(str, value))
        else:
            record[name] = value


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _replace_controls(text: str) -> str:
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


# ---- Optional libraries, imported only when needed


def import_optional(module: str, what: str) -> Any:
    """Import a module; an error names the package that `what` needs."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise
        msg = f"{what} needs {package}, which is not installed. Run: pip install {package}"
        raise ModuleNotFoundError(msg, name=package) from error
