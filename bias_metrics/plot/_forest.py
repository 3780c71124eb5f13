"""A forest plot: one metric with its interval for each identity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.plot._canvas import Result, axes_for, entitle, label, plain
from bias_metrics.plot._colours import BLUE, GREY, ORANGE
from bias_metrics.plot._grids import bare_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def intervals(
    report: Result,
    metric: str,
    *,
    floor: float | None = None,
    ceiling: float | None = None,
    order: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw one metric with its interval for each identity, the worst on top.

    A blue dot: the whole interval keeps the limit. An orange diamond: the whole interval is beyond
    it. A grey square: the limit is within the interval, or there is none. Identities without a
    value come last and say so.

    Parameters
    ----------
    report : BiasReport or mapping
        From `evaluate_bias`, or its `to_dict()`.
    metric : str
        One of the five metrics.
    floor : float, optional
        For AUCs: a dashed line at the smallest acceptable value.
    ceiling : float, optional
        For AEGs: dashed lines at the largest acceptable distance from 0.
    order : sequence of str, optional
        The identities from top to bottom, so that several pictures have the same rows; default the
        worst first.
    title : str, default=""
        Above the picture.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Figure
        From 0.5 to 1 for AUCs and from -1/2 to 1/2 for AEGs, or further if an AUC's interval
        is longer.

    Raises
    ------
    ValueError
        If `metric` is not one of the five, or the limit is not for its kind.
    """
    if metric not in SUBGROUP_METRICS:
        msg = f"`metric` must be one of {', '.join(SUBGROUP_METRICS)}; got {metric!r}."
        raise ValueError(msg)
    gap = METRICS[metric].is_gap
    wrong = ("floor", floor) if gap else ("ceiling", ceiling)
    if wrong[1] is not None:
        msg = f"`{wrong[0]}` must not be given for {metric}; got {wrong[1]}."
        raise ValueError(msg)
    cells = {name: bias[metric] for name, bias in plain(report)["subgroups"].items()}
    if order is None:
        order = sorted(cells, key=lambda name: _goodness(cells[name]["value"], gap=gap))
    axes = axes_for(ax, 8.5, 1.5 + 0.26 * max(len(order), 1))
    for limit in (floor, ceiling, None if ceiling is None else -ceiling):
        if limit is not None:
            axes.axvline(limit, color="black", linestyle="--", linewidth=1)
    if gap:
        axes.axvline(0, color=GREY, linewidth=0.8)
    for row, name in enumerate(order):
        _line(axes, row, cells[name], "+.3f" if gap else ".3f", floor=floor, ceiling=ceiling)
    found = [cell.get(key) for cell in cells.values() for key in ("value", "low")]
    found.append(floor)
    lowest = min([-0.5 if gap else 0.5, *(number for number in found if number is not None)])
    axes.set_xlim(lowest - 0.01, 0.51 if gap else 1.005)
    axes.set_ylim(max(len(order), 1) - 0.4, -0.6)
    axes.set_yticks(np.arange(len(order)), list(map(label, order)), parse_math=False, fontsize=9)
    axes.tick_params(axis="y", length=0)
    bare_axes(axes, "x")
    axes.set_xlabel(metric, fontsize=9)
    entitle(axes, title, own=ax is None)
    return axes.figure


def _goodness(value: float | None, *, gap: bool) -> float:
    if value is None:
        return math.inf
    return -abs(value) if gap else value


def _line(
    axes: Axes,
    row: int,
    cell: Mapping[str, Any],
    form: str,
    *,
    floor: float | None,
    ceiling: float | None,
) -> None:
    value, low, high = (cell.get(key) for key in ("value", "low", "high"))
    colour, marker, known = GREY, "s", False
    if value is not None and low is not None and high is not None:
        known = True
        least, most = low, high
        if ceiling is not None:  # the size must be at most so large
            nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
            least, most = ceiling - max(abs(low), abs(high)), ceiling - nearest
        limit = 0.0 if ceiling is not None else -math.inf if floor is None else floor
        if least >= limit or most < limit:
            colour, marker = (BLUE, "o") if least >= limit else (ORANGE, "D")
    text = "no evidence"
    if value is not None:
        interval = f"[{low:{form}}, {high:{form}}]" if known else "no interval"
        text = f"{value:{form}}  {interval}"
        axes.plot(value, row, marker, color=colour, markersize=5)
    if known:
        axes.plot([low, high], [row, row], color=colour, linewidth=1.5)
    place = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
    axes.text(1.02, row, text, color="black" if known else GREY, **place)
