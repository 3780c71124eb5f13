"""The pictures of a report: a heatmap of metrics by identity, and score distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bias_metrics.rules import SUBGROUP_METRICS
from tasks.measuring import Layout, membership
from tasks.orchestration import task

# One scale per kind of metric in every picture, so that two pictures can be compared.
_AUC_SCALE = Normalize(0.5, 1.0)
_AEG_SCALE = Normalize(-0.5, 0.5)
UNDEFINED = "0.85"
# Blue and orange are told apart by nearly everyone.
BLUE, ORANGE = "#0072b2", "#d55e00"
_BINS = 40
_TITLES = {
    "subgroup_auc": "Subgroup\nAUC",
    "bpsn_auc": "BPSN\nAUC",
    "bnsp_auc": "BNSP\nAUC",
    "positive_aeg": "Positive\nAEG",
    "negative_aeg": "Negative\nAEG",
}


def metric_heatmap(report: Mapping[str, Any], *, intervals: bool = True) -> Figure:
    """Draw the five metrics by identity, as Tables 3 and 6 of Borkan et al. (2019) do.

    AUCs run from 0.5 to 1 (bright is good), AEGs from -1/2 to 1/2 (white is good, red: the
    subgroup scores higher, blue: lower). Below each value its interval. A cell without
    evidence, or too little of it for an interval, is grey and says so. Without `intervals`,
    as for published tables, which have none, every value is coloured and stands alone.
    """
    subgroups = report["bias"]["subgroups"]
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
    figure.suptitle(_title(report), fontsize=11, parse_math=False)
    return figure


def score_distributions(report: Mapping[str, Any], layout: Layout) -> Figure:
    """Draw each identity's scores by class over the background's, after Borkan's Table 7.

    Filled: rows that mention the identity; outlined: all other rows. Each histogram is a
    density, so that small groups can be compared with large ones, on a square root scale,
    since most comments crowd at one end.
    """
    y_true, y_score = layout.array("y_true"), layout.array("y_score")
    identities = list(report["bias"]["subgroups"])
    columns = 3
    rows = max(math.ceil(len(identities) / columns), 1)
    figure = Figure(figsize=(11, 0.8 + 2.1 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
    edges = np.linspace(float(y_score.min()), float(y_score.max()), _BINS + 1)
    for position, axes in enumerate(grid.flat):
        if position >= len(identities):
            axes.set_axis_off()
            continue
        inside = membership(layout, identities[position])
        _distribution(axes, y_true, y_score, inside, edges)
        title = f"{identities[position]} (n={int(inside.sum()):,})"
        axes.set_title(title, fontsize=9, parse_math=False)
    figure.supxlabel("score (density on a square root scale)", fontsize=9)
    handles = [
        Rectangle((0, 0), 1, 1, color=BLUE, alpha=0.5, label="non-toxic, mentions"),
        Rectangle((0, 0), 1, 1, color=ORANGE, alpha=0.5, label="toxic, mentions"),
        Rectangle((0, 0), 1, 1, fill=False, edgecolor="0.2", label="same class, other comments"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=3, fontsize=8, frameon=False)
    figure.suptitle(_title(report), fontsize=11, x=0.01, ha="left", parse_math=False)
    return figure


@task(name="draw figures")
def draw_figures(report: dict[str, Any], layout: str, folder: str) -> None:
    """Write `heatmap.png` and `distributions.png`. Safe to retry."""
    metric_heatmap(report).savefig(Path(folder) / "heatmap.png", dpi=120)
    score_distributions(report, Layout(Path(layout))).savefig(
        Path(folder) / "distributions.png", dpi=110
    )


def _title(report: Mapping[str, Any]) -> str:
    return f"{report['candidate']['name']} on {report['evaluation_set']['name']}"


def label_grid(axes: Axes, rows: Sequence[str]) -> None:
    """Name the rows of a grid of cells, and its columns after the five metrics."""
    axes.set_xlim(0, len(SUBGROUP_METRICS))
    axes.set_ylim(max(len(rows), 1), 0)
    axes.set_xticks(np.arange(len(SUBGROUP_METRICS)) + 0.5, [_TITLES[m] for m in SUBGROUP_METRICS])
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def fill_cell(
    axes: Axes, column: int, row: int, text: str, colour: Any = None, **font: Any
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


def _cell(
    axes: Axes, column: int, row: int, metric: str, cell: Mapping[str, Any], *, intervals: bool
) -> None:
    value, low, high = (cell.get(key) for key in ("value", "low", "high"))
    gap = metric.endswith("_aeg")
    if value is None:
        fill_cell(axes, column, row, "no evidence")
        return
    digits = cell.get("digits", 3)
    text = f"{value:+.{digits}f}" if gap else f"{value:.{digits}f}"
    if intervals and (low is None or high is None):
        fill_cell(axes, column, row, f"{value:.3f}\nno interval")
        return
    if intervals:
        text += f"\n[{low:+.2f}, {high:+.2f}]" if gap else f"\n[{low:.2f}, {high:.2f}]"
    scale, colours = (_AEG_SCALE, "RdBu_r") if gap else (_AUC_SCALE, "viridis")
    fill_cell(axes, column, row, text, colormaps[colours](scale(value)))


def _distribution(
    axes: Axes,
    y_true: npt.NDArray[np.bool_],
    y_score: npt.NDArray[np.floating],
    inside: npt.NDArray[np.bool_],
    edges: npt.NDArray[np.floating],
) -> None:
    for of_class, colour in ((~y_true, BLUE), (y_true, ORANGE)):
        own, background = y_score[of_class & inside], y_score[of_class & ~inside]
        if own.size:
            axes.hist(own, bins=edges, density=True, color=colour, alpha=0.5)
        if background.size:
            axes.hist(background, bins=edges, density=True, color=colour, histtype="step")
    axes.set_yscale("function", functions=(np.sqrt, np.square))
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    axes.spines[["left", "top", "right"]].set_visible(False)
