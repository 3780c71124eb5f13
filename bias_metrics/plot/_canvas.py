"""Figures and axes to draw on, and how a result is read for a picture."""

from __future__ import annotations

from collections.abc import Mapping
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
