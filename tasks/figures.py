"""The pictures of a report: a heatmap of metrics by identity, and score distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.worst import worst_first
from tasks.colours import BLUE, ORANGE, UNDEFINED, colour_of
from tasks.grids import fill_cell, label_grid
from tasks.layout import Layout
from tasks.orchestration import say, task

_BINS = 40
# Identities that a picture shows: of more, the worst.
ROWS, PANELS = 60, 30
Panel = tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating], npt.NDArray[np.bool_]]


def metric_heatmap(report: Mapping[str, Any], *, intervals: bool = True) -> Figure:
    """Draw the five metrics by identity, as Tables 3 and 6 of Borkan et al. (2019) do.

    AUCs run from 0.5 to 1 (bright is good), AEGs from -1/2 to 1/2 (white is good, red: the
    subgroup scores higher, blue: lower). Below each value its interval. A cell without
    evidence, or too little of it for an interval, is grey and says so. Of many identities the
    worst are drawn, and the title says so. Without `intervals`,
    as for published tables, which have none, every value is coloured and stands alone.
    """
    found = report["bias"]["subgroups"]
    shown, left_out = shown_identities(found, ROWS)
    subgroups = {name: found[name] for name in shown}
    height = 1.6 + (0.44 if intervals else 0.3) * max(len(subgroups), 1)
    figure = Figure(figsize=(8.5, height), layout="constrained")
    axes = figure.subplots()
    for column, metric in enumerate(SUBGROUP_METRICS):
        for row, cells in enumerate(subgroups.values()):
            _cell(axes, column, row, metric, cells[metric], intervals=intervals)
    labels = [
        name if cells["n"] is None else f"{name}  (n={cells['n']:,})"
        for name, cells in subgroups.items()
    ]
    label_grid(axes, labels)
    figure.suptitle(_title(report) + left_out, fontsize=11, parse_math=False)
    return figure


def shown_identities(subgroups: Mapping[str, Any], most: int) -> tuple[list[str], str]:
    """Return the identities that are drawn, and how the title says that others are not."""
    if len(subgroups) <= most:
        return list(subgroups), ""
    return worst_first(subgroups)[:most], f": the worst {most} of {len(subgroups):,} identities"


def score_distributions(report: Mapping[str, Any], layout: Layout) -> Figure:
    """Draw each identity's scores by class over the background's, after Borkan's Table 7."""
    masks = layout.masks()
    shown, left_out = shown_identities(report["bias"]["subgroups"], PANELS)
    return distribution_panels(
        {name: (layout.array("y_true"), layout.array("y_score"), masks[name]) for name in shown},
        title=_title(report) + left_out,
        background=layout.background(),
    )


def distribution_panels(
    panels: Mapping[str, Panel], *, title: str, background: npt.NDArray[np.bool_] | None = None
) -> Figure:
    """Draw scores by class inside a group and in its background, one panel per group.

    Filled: rows that mention the identity; outlined: the background. Each histogram is a
    density, so that small groups can be compared with large ones, on a square root scale,
    since most comments crowd at one end. A group without rows is grey and says so.

    Parameters
    ----------
    panels : mapping of str to (bool array, float array, bool array), each of shape (n,)
        By the group's name: `y_true`, `y_score` and `in_subgroup`.
    title : str
        Of the figure.
    background : bool array of shape (n,), optional
        The rows of every group's background; default all rows outside the group.

    Returns
    -------
    Figure
        Three panels in a row, on the same two scales.
    """
    columns = 3
    rows = max(math.ceil(len(panels) / columns), 1)
    figure = Figure(figsize=(11, 1.1 + 2.1 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    ends = [float(end) for _, score, _ in panels.values() for end in (score.min(), score.max())]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    if low == high:  # a model that gives one score still has a picture
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, _BINS + 1)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for position, (name, (y_true, y_score, inside)) in enumerate(panels.items()):
        axes = grid.flat[position]
        outside = ~inside if background is None else background
        _distribution(axes, y_true, y_score, (inside, outside), edges)
        axes.set_title(f"{name} (n={int(inside.sum()):,})", fontsize=9, parse_math=False)
        if position + columns >= len(panels):  # nothing below it
            axes.tick_params(labelbottom=True)
    # Left, since the legend stands in the same line.
    figure.supxlabel("score (density on a square root scale)", fontsize=9, x=0.01, ha="left")
    handles = [
        Rectangle((0, 0), 1, 1, color=BLUE, alpha=0.5, label="non-toxic, mentions"),
        Rectangle((0, 0), 1, 1, color=ORANGE, alpha=0.5, label="toxic, mentions"),
        Rectangle((0, 0), 1, 1, fill=False, edgecolor="0.2", label="same class, background"),
    ]
    figure.legend(handles=handles, loc="outside lower right", ncols=3, fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left", parse_math=False)
    return figure


@task(name="draw figures", task_run_name="draw {folder!m}")
def draw_figures(report: dict[str, Any], layout: str, folder: str) -> None:
    """Write `heatmap.png` and `distributions.png`. Safe to retry."""
    say(f"drawing {_title(report)}", aside=True)
    metric_heatmap(report).savefig(Path(folder) / "heatmap.png", dpi=120)
    score_distributions(report, Layout(Path(layout))).savefig(
        Path(folder) / "distributions.png", dpi=110
    )


def _title(report: Mapping[str, Any]) -> str:
    return f"{report['candidate']['name']} on {report['evaluation_set']['name']}"


def _cell(
    axes: Axes, column: int, row: int, metric: str, cell: Mapping[str, Any], *, intervals: bool
) -> None:
    value, low, high = (cell.get(key) for key in ("value", "low", "high"))
    gap = METRICS[metric].is_gap
    if value is None:
        fill_cell(axes, column, row, "no evidence")
        return
    digits = cell.get("digits", 3)
    text = f"{value:+.{digits}f}" if gap else f"{value:.{digits}f}"
    if intervals and (low is None or high is None):
        fill_cell(axes, column, row, f"{value:.3f}\nno interval")
        return
    if intervals:
        # Three decimals, as the value: a bound of .998 is not 1.
        text += f"\n[{low:+.3f}, {high:+.3f}]" if gap else f"\n[{low:.3f}, {high:.3f}]"
    fill_cell(axes, column, row, text, colour_of(metric, value))


def _distribution(
    axes: Axes,
    y_true: npt.NDArray[np.bool_],
    y_score: npt.NDArray[np.floating],
    groups: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
    edges: npt.NDArray[np.floating],
) -> None:
    inside, outside = groups
    if not inside.any():
        axes.set_facecolor(UNDEFINED)
        axes.text(0.5, 0.5, "no evidence", ha="center", color="0.35", transform=axes.transAxes)
    for of_class, colour in ((~y_true, BLUE), (y_true, ORANGE)):
        own, background = y_score[of_class & inside], y_score[of_class & outside]
        if own.size:
            axes.hist(own, bins=edges, density=True, color=colour, alpha=0.5)
        if background.size:
            axes.hist(background, bins=edges, density=True, color=colour, histtype="step")
    axes.set_yscale("function", functions=(np.sqrt, np.square))
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    axes.spines[["left", "top", "right"]].set_visible(False)
