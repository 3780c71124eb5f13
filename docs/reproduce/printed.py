"""Published tables, drawn with the colours of all pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from bias_metrics.gate.rules import SUBGROUP_METRICS
from bias_metrics.plot._colours import GREY, Colour, get_colour
from bias_metrics.plot._report import fill_cell, label_grid


def published_report(
    rows: Iterable[Mapping[str, Any]],
    columns: str,
    *,
    n: str | None = None,
) -> dict[str, Any]:
    """Turn a model of a published table into the mapping that `plot.heatmap` reads.

    Draw it with `intervals=False`: published tables have no intervals. An empty cell has the value
    None, other cells keep up to three printed decimals.

    Parameters
    ----------
    rows : iterable of mappings
        Rows of `csv.DictReader`, with the name of an identity in `subgroup`.
    columns : str
        Prefix of the model's columns, before `_subgroup_auc` and so on.
    n : str, optional
        The column with the number of rows.
    """
    subgroups: dict[str, dict[str, Any]] = {}
    for row in rows:
        identity = row["subgroup"]
        if identity in subgroups:
            msg = f"`rows` must name each subgroup once; got {identity!r} twice."
            raise ValueError(msg)
        cells = {metric: _read_cell(row, f"{columns}_{metric}") for metric in SUBGROUP_METRICS}
        count = None if n is None else _read_number(row, n)
        subgroups[identity] = {"n": None if count is None else int(count), **cells}
    return {"subgroups": subgroups}


def _read_cell(row: Mapping[str, Any], column: str) -> dict[str, Any]:
    """Return a value with its number of printed decimals, three at most."""
    value = _read_number(row, column)
    text = str(row[column]).strip().lower()
    decimals = 3 if "e" in text else len(text.partition(".")[2])
    return {"value": value, "digits": min(decimals, 3)}


def _read_number(row: Mapping[str, Any], column: str) -> float | None:
    text = str(row[column]).strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        msg = f"`{column}` must be a finite number or empty; got {text!r} for {row['subgroup']}."
        raise ValueError(msg)
    return number


@dataclass(frozen=True)
class Printed:
    """A cell of a published table, with its printed text."""

    text: str
    metric: str | None = None
    """The metric that determines the colour; cells without a metric are white."""
    value: float | None = None
    """The number that determines the colour, if it is not the printed number."""

    @property
    def colour(self) -> Colour:
        """The colour of the value in all pictures."""
        if self.metric is None:
            return (1.0, 1.0, 1.0, 1.0)
        return get_colour(self.metric, float(self.text) if self.value is None else self.value)


def printed_table(
    rows: Mapping[str, Sequence[Printed | None]],
    columns: Sequence[str],
    *,
    title: str,
    note: str = "",
) -> Figure:
    """Draw a table with other columns than the five metrics, in the colours of all pictures.

    The rows have a cell per column; None is grey with the text "none". The title is above the
    table, the note below it.
    """
    figure = Figure(
        figsize=(2.6 + 1.35 * len(columns), 1.5 + 0.32 * max(len(rows), 1)), layout="constrained"
    )
    axes = figure.subplots()
    for row, (name, cells) in enumerate(rows.items()):
        if len(cells) != len(columns):
            msg = (
                f"printed_table: `rows` must have {len(columns)} cells each; "
                f"got {len(cells)} ({name})."
            )
            raise ValueError(msg)
        for column, cell in enumerate(cells):
            if cell is None:
                fill_cell(axes, column, row, "none")
            else:
                fill_cell(axes, column, row, cell.text, cell.colour)
    label_grid(axes, list(rows), columns)
    figure.suptitle(title, fontsize=11, parse_math=False)
    figure.supxlabel(note, fontsize=8, color=GREY, parse_math=False)
    return figure
