"""Figures and axes to draw on, and how a result is read for a picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from bias_metrics._core.tables import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class HasDict(Protocol):
    """A result."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""


_LINE = 32  # most characters in a line of a name
_LONGEST = 56  # most characters of a name

Result: TypeAlias = HasDict | Mapping[str, Any]
"""A result, or the output of its `to_dict()`, also as read from JSON."""


def plain(result: Result) -> Mapping[str, Any]:
    """Return the plain values of a result."""
    return result if isinstance(result, Mapping) else result.to_dict()


def matplotlib(module: str) -> Any:
    """Import a module of matplotlib."""
    return optional(f"matplotlib.{module}", "bias_metrics.plot")


def label(name: str) -> str:
    """Return a name in lines of at most 32 characters; marks that would turn a line are escaped.

    Of a long name the middle is left out, so that it does not cover its neighbours.
    """
    plain = "".join(
        one if one.isprintable() or one == "\n" else f"\\u{ord(one):04x}" for one in name
    )
    if len(plain) > _LONGEST:
        plain = f"{plain[: _LONGEST // 2]}…{plain[-_LONGEST // 2 + 1 :]}"
    lines: list[str] = []
    rest = plain
    while len(rest) > _LINE:
        end = max(rest.rfind(sign, 0, _LINE) for sign in "_ -") + 1 or _LINE
        lines.append(rest[:end])
        rest = rest[end:]
    return "\n".join([*lines, rest])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches."""
    return _picture_type()(figsize=(width, height), layout="constrained")


def panel_grid(
    names: Iterable[str], panel: tuple[float, float], across: int, **said: str
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels with common axes: one for each name, so many in a row.

    A panel's size is in inches, without the title above it. What is `said` of all panels are the
    figure's `title`, `xlabel` and `ylabel`. Their places are computed here: with dozens of panels,
    matplotlib takes as long to find them as to draw the picture.
    """
    lines = [label(name).count("\n") + 2 for name in names]
    rows = max(math.ceil(len(lines) / across), 1)
    heading = 0.2 + 0.15 * max(lines, default=1)
    gap, left, right, above, below = 0.2, 0.7 if "ylabel" in said else 0.15, 0.15, 0.35, 0.6
    width = left + across * (panel[0] + gap) - gap + right
    height = above + rows * (heading + panel[1]) + below
    figure = _picture_type()(figsize=(width, height))
    places = {
        "left": left / width,
        "right": 1 - right / width,
        "top": 1 - (above + heading) / height,
        "bottom": below / height,
        "wspace": gap / panel[0],
        "hspace": heading / panel[1],
    }
    grid = figure.subplots(
        rows, across, squeeze=False, sharex=True, sharey=True, gridspec_kw=places
    )
    for position, axes in enumerate(grid.flat):
        for axis in (axes.xaxis, axes.yaxis):  # or else the place of their empty labels is found
            axis.set_label_coords(0, 0)
        if position >= len(lines):
            axes.set_axis_off()
        elif position + across >= len(lines):  # nothing below it
            axes.tick_params(labelbottom=True)
    edge = 0.1
    figure.suptitle(
        said["title"], fontsize=11, parse_math=False, x=edge / width, y=1 - edge / height, ha="left"
    )
    figure.supxlabel(said["xlabel"], fontsize=9, x=left / width, y=edge / height, ha="left")
    figure.supylabel(said.get("ylabel", ""), fontsize=9, x=edge / width)
    return figure, list(grid.flat[: len(lines)])


def entitle_panel(axes: Axes, title: str) -> None:
    """Write a title above a panel. By default all its ticks are measured, to be clear of them."""
    axes.set_title(title, fontsize=9, parse_math=False, y=1.0)


def axes_for(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given axes, or those of a new figure."""
    return new_figure(width, height).subplots() if ax is None else ax


def entitle(axes: Axes, title: str, *, own: bool) -> None:
    """Write a title above our own figure, or above the axes that were given."""
    if own:
        axes.figure.suptitle(title, fontsize=11, parse_math=False)
    elif title:
        axes.set_title(title, fontsize=11, parse_math=False)


@cache
def _picture_type() -> Any:
    figure: Any = matplotlib("figure").Figure

    class Picture(figure):
        """A figure that a notebook displays, without pyplot and its global state."""

        def _repr_png_(self) -> bytes:
            stream = BytesIO()
            self.savefig(stream, format="png")
            return stream.getvalue()

    return Picture
