"""Grids of coloured cells, for heatmaps, comparisons and published tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.plot._canvas import matplotlib
from bias_metrics.plot._colours import UNDEFINED, Colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def label_grid(axes: Axes, rows: Sequence[str], columns: Sequence[str] | None = None) -> None:
    """Label the rows of a grid of cells and its columns, by default with the five metrics."""
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
    rectangle = matplotlib("patches").Rectangle
    # Within the grid, whose limits are set: neither its data nor the layout need be computed.
    axes.add_artist(rectangle((column, row), 1, 1, facecolor=face, edgecolor="white"))
    place = {"ha": "center", "va": "center", "fontsize": 8.5, "in_layout": False}
    axes.text(column + 0.5, row + 0.5, text, color=ink, **place | font)


def bare_axes(axes: Axes, grid: str) -> None:
    """Draw a faint grid and remove the frame except for the lower edge."""
    axes.grid(axis=grid, color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["left", "top", "right"]].set_visible(False)
