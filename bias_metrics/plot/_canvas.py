"""Figures, axes and labels for plots, and plain values of results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeAlias

from bias_metrics._core.tables import Tabular, import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MAX_LINE = 32  # characters in a line of a name
_MAX_NAME = 56  # characters of a name

PlotInput: TypeAlias = Tabular | Mapping[str, Any]
"""A result, or the output of its `to_dict()`, which may come from JSON."""


def read_plain_values(result: PlotInput) -> Mapping[str, Any]:
    """Return the plain values of a result."""
    return result if isinstance(result, Mapping) else result.to_dict()


def import_matplotlib(module: str) -> Any:
    """Import a module of matplotlib."""
    return import_optional(f"matplotlib.{module}", "bias_metrics.plot")


def wrap_name(name: str) -> str:
    """Return a name in lines of at most 32 characters, with unprintable characters escaped.

    Escaping keeps bidirectional control characters from reversing a line. The middle of a long name
    is left out, so that it does not cover other labels.
    """
    text = "".join(
        char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in name
    )
    if len(text) > _MAX_NAME:
        text = f"{text[: _MAX_NAME // 2]}…{text[-_MAX_NAME // 2 + 1 :]}"
    lines: list[str] = []
    while len(text) > _MAX_LINE:
        end = max(text.rfind(separator, 0, _MAX_LINE) for separator in "_ -") + 1 or _MAX_LINE
        lines.append(text[:end])
        text = text[end:]
    return "\n".join([*lines, text])


def create_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches."""
    return _define_figure_type()(figsize=(width, height), layout="constrained")


def create_panels(
    names: Iterable[str],
    panel: tuple[float, float],
    n_columns: int,
    *,
    title: str,
    xlabel: str,
    ylabel: str = "",
) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel per name, and the panels, which share their axes.

    The size of a panel is in inches, without its title; the title and the labels of axes are those
    of the figure. Positions are computed here, because for dozens of panels the automatic layout of
    matplotlib takes as long as the drawing.
    """
    n_lines = [wrap_name(name).count("\n") + 2 for name in names]
    rows = max(math.ceil(len(n_lines) / n_columns), 1)
    heading = 0.2 + 0.15 * max(n_lines, default=1)
    gap, left, right, above, below = 0.2, 0.7 if ylabel else 0.15, 0.15, 0.35, 0.6
    width = left + n_columns * (panel[0] + gap) - gap + right
    height = above + rows * (heading + panel[1]) + below
    figure = _define_figure_type()(figsize=(width, height))
    positions = {
        "left": left / width,
        "right": 1 - right / width,
        "top": 1 - (above + heading) / height,
        "bottom": below / height,
        "wspace": gap / panel[0],
        "hspace": heading / panel[1],
    }
    grid = figure.subplots(
        rows, n_columns, squeeze=False, sharex=True, sharey=True, gridspec_kw=positions
    )
    for index, axes in enumerate(grid.flat):
        for axis in (axes.xaxis, axes.yaxis):  # fixed, so that empty labels are not placed
            axis.set_label_coords(0, 0)
        if index >= len(n_lines):
            axes.set_axis_off()
        elif index + n_columns >= len(n_lines):  # the lowest panel of its column
            axes.tick_params(labelbottom=True)
    edge = 0.1
    figure.suptitle(
        title, fontsize=11, parse_math=False, x=edge / width, y=1 - edge / height, ha="left"
    )
    figure.supxlabel(xlabel, fontsize=9, x=left / width, y=edge / height, ha="left")
    figure.supylabel(ylabel, fontsize=9, x=edge / width)
    return figure, list(grid.flat[: len(n_lines)])


def write_panel_title(axes: Axes, title: str) -> None:
    """Write a title above a panel at a fixed height, which avoids measuring all its ticks."""
    axes.set_title(title, fontsize=9, parse_math=False, y=1.0)


def choose_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given axes, or else those of a new figure."""
    return create_figure(width, height).subplots() if ax is None else ax


def write_title(axes: Axes, title: str, *, own: bool) -> None:
    """Write a title above a new figure (`own`), or above the given axes."""
    if own:
        axes.figure.suptitle(title, fontsize=11, parse_math=False)
    elif title:
        axes.set_title(title, fontsize=11, parse_math=False)


@cache
def _define_figure_type() -> Any:
    figure: Any = import_matplotlib("figure").Figure

    class NotebookFigure(figure):
        """A figure that a notebook displays, without pyplot and its global state."""

        def _repr_png_(self) -> bytes:
            stream = BytesIO()
            self.savefig(stream, format="png")
            return stream.getvalue()

    return NotebookFigure
