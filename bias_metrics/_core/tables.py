"""What every result offers: flat records, a table as text and as HTML, a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from importlib import import_module
from typing import Any

import numpy as np

from bias_metrics._core.checks import check_choice
from bias_metrics._core.values import MetricValue
from bias_metrics.suggestion import did_you_mean

Row = dict[str, Any]
# As many rows as pandas prints.
MAX_ROWS = 60
_INTERVAL = ("std_error", "low", "high")


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    header: Sequence[str]  # Names of the columns
    body: Sequence[Sequence[str]]  # The rows
    title: str = ""  # Above the table
    notes: Sequence[str] = ()  # Below it

    @classmethod
    def of(cls, rows: Sequence[Row], title: str = "") -> Table:
        """Make a table from flat records; columns that are empty in every row are left out."""
        known = list(rows[0]) if rows else []
        names = [name for name in known if any(row[name] is not None for row in rows)]
        return cls(names, [[_text(row[name]) for name in names] for row in rows], title)

    def text(self) -> str:
        """Return aligned lines of text without control characters."""
        shown, more = self._shown()
        lines = [[_printable(cell) for cell in row] for row in (self.header, *shown)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        numeric = [_is_number(column[1:]) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, numeric, strict=True)
            ).rstrip()
            for row in lines
        ]
        around = [_printable(line) for line in (*self.title.splitlines(), *more, *self.notes)]
        n_above = len(self.title.splitlines())
        return "\n".join([*around[:n_above], *table, *around[n_above:]])

    def html(self) -> str:
        """Return an HTML table in which every text is escaped."""
        shown, more = self._shown()
        above = "".join(f"<div>{escape(line)}</div>" for line in self.title.splitlines())
        below = "".join(f"<div>{escape(line)}</div>" for line in (*more, *self.notes))
        head = "".join(f"<th>{escape(name)}</th>" for name in self.header)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in shown
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div>{above}{table}{below}</div>"

    def _shown(self) -> tuple[Sequence[Sequence[str]], list[str]]:
        hidden = len(self.body) - MAX_ROWS
        return self.body[:MAX_ROWS], [f"... and {hidden:,} more rows"] if hidden > 0 else []


class Tabular:
    """A result, which is a dataclass or has a `to_dict` of its own, that can be read as rows.

    `print(result)` prints a table and a notebook shows one; `rows()` returns all numbers, and
    `to_frame()` returns them as a data frame.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; without those that are None unless a result has them."""
        return _fields(self)

    def rows(self) -> list[Row]:
        """Return flat records, all with the same keys; undefined values are None.

        Returns
        -------
        list of dict
            Only strings, numbers, booleans and None, ready for any data frame or a CSV file.
        """
        return [flat(self.to_dict())]

    def to_frame(self, library: str = "pandas") -> Any:
        """Return `rows()` as a data frame.

        Raises
        ------
        ModuleNotFoundError
            If the library is not installed.
        ValueError
            If `library` is neither of the two.
        """
        if check_choice("library", library, ("pandas", "polars")) == "pandas":
            return optional("pandas", "to_frame()").DataFrame(self.rows())
        polars = optional("polars", 'to_frame("polars")')
        return polars.DataFrame(self.rows(), infer_schema_length=None)

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        return Table.of(self.rows())


def known_name(named: Mapping[str, Any], name: str) -> Any:
    """Return the value of a name; a KeyError lists the known names."""
    if name not in named:
        hint = did_you_mean(name, named)
        msg = f"there is no {name!r} (known: {', '.join(named) or 'none'}).{hint}"
        raise KeyError(msg)
    return named[name]


def plain(value: Any) -> Any:
    """Return a result, or what holds results, as plain values: what JSON has."""
    if isinstance(value, MetricValue):
        return value.to_dict(interval=True)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return _fields(value) if is_dataclass(value) else value


def _fields(result: Any) -> dict[str, Any]:
    values = ((field, getattr(result, field.name)) for field in fields(result))
    return {
        field.name: plain(value)
        for field, value in values
        if value is not None or field.default is not None
    }


def flat(plain: Mapping[str, Any]) -> Row:
    """Flatten the output of a `to_dict()`: one number per value, and one column of reasons."""
    found: Row = {}
    reasons: list[str] = []
    _flatten(plain, "", found, reasons)
    own = found.pop("reason", None)
    return found | {"reason": "; ".join([*filter(None, [own]), *reasons]) or None}


def labelled(column: str, rows_of: Mapping[Any, Iterable[Row]]) -> list[Row]:
    """Stack the rows of several parts, each with the name of its part."""
    return [{column: name} | row for name, rows in rows_of.items() for row in rows]


def rows_of(named: Mapping[str, Tabular], overall: Tabular | None = None) -> dict[Any, list[Row]]:
    """Return the records by name, preceded by those of all rows, whose name is None."""
    first = {} if overall is None else {None: overall.rows()}
    return first | {name: value.rows() for name, value in named.items()}


def _flatten(plain: Mapping[str, Any], prefix: str, found: Row, reasons: list[str]) -> None:
    for key, value in plain.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and "value" in value:
            found[name] = value["value"]
            found |= {f"{name}_{part}": value[part] for part in _INTERVAL if part in value}
            if value["value"] is None:
                reasons.append(f"{name}: {value['reason']}")
        elif isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values()):
            found[name] = "; ".join(f"{one}: {text}" for one, text in value.items())
        elif isinstance(value, Mapping):
            _flatten(value, f"{name}_", found, reasons)
        elif isinstance(value, list | tuple):
            found[name] = ", ".join(map(str, value))
        else:
            found[name] = value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def _is_number(cells: Iterable[str]) -> bool:
    return all(cell[:1] in "+-.0123456789" for cell in cells)


# ---- Libraries that are imported only when needed; only numpy is required


def optional(module: str, what: str) -> Any:
    """Import a module, or say which package `what` needs."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise
        msg = f"{what} needs {package}, which is not installed. Run: pip install {package}"
        raise ModuleNotFoundError(msg, name=package) from error
