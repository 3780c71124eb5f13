"""Grids of coloured cells: what heatmaps, comparisons and published tables are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from tasks.colours import GREY, UNDEFINED, Colour, colour_of


@dataclass(frozen=True)
class Printed:
    """A cell of a published table.

    Attributes
    ----------
    text : str
        As it was printed.
    metric : str, optional
        Decides the colour, as in `tasks.colours`; without one the cell is white.
    value : float, optional
        What is coloured, where it is not the printed number itself.
    """

    text: str
    metric: str | None = None
    value: float | None = None

    @property
    def colour(self) -> Colour:
        """The same colour that the value has in every picture."""
        if self.metric is None:
            return (1.0, 1.0, 1.0, 1.0)
        return colour_of(self.metric, float(self.text) if self.value is None else self.value)


def printed_table(
    rows: Mapping[str, Sequence[Printed | None]],
    columns: Sequence[str],
    *,
    title: str,
    note: str = "",
) -> Figure:
    """Draw a table whose columns are not the five metrics, coloured as every other picture.

    Parameters
    ----------
    rows : mapping of str to sequence of Printed or None
        By the row's name, one cell per column; None is grey and says "none".
    columns : sequence of str
        Names of the columns; a line break is allowed.
    title, note : str
        Above the table, and small below it.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a row has not one cell per column.
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


def label_grid(axes: Axes, rows: Sequence[str], columns: Sequence[str] | None = None) -> None:
    """Name the rows of a grid of cells, and its columns, by default after the five metrics."""
    names = columns
    if names is None:
        names = [METRICS[metric].title.replace(" ", "\n") for metric in SUBGROUP_METRICS]
    axes.set_xlim(0, len(names))
    axes.set_ylim(max(len(rows), 1), 0)
    axes.set_xticks(np.arange(len(names)) + 0.5, names, parse_math=False)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def fill_cell(
    axes: Axes, column: int, row: int, text: str, colour: Colour | None = None, **font: Any
) -> None:
    """Paint one cell of a grid and write on it; without a colour it is grey."""
    ink = "0.35"
    if colour is not None:
        luminance = float(np.dot(colour[:3], (0.299, 0.587, 0.114)))
        ink = "black" if luminance > 0.5 else "white"
    face = UNDEFINED if colour is None else colour
    axes.add_patch(Rectangle((column, row), 1, 1, facecolor=face, edgecolor="white"))
    place = {"ha": "center", "va": "center", "fontsize": 8.5}
    axes.text(column + 0.5, row + 0.5, text, color=ink, **place | font)


def bare_axes(axes: Axes, grid: str) -> None:
    """Draw a faint grid and drop the frame but for the lower edge."""
    axes.grid(axis=grid, color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["left", "top", "right"]].set_visible(False)
