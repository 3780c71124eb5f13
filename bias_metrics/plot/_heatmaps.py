"""Heatmaps of the five metrics by identity: one model, or two compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bias_metrics.metrics import AEGS, METRICS, SUBGROUP_METRICS
from bias_metrics.plot._canvas import Result, axes_for, entitle, label, matplotlib, plain
from bias_metrics.plot._colours import GREY, colour_of, scale_of
from bias_metrics.plot._grids import fill_cell, label_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def heatmap(
    report: Result, *, title: str = "", intervals: bool = True, ax: Axes | None = None
) -> Figure:
    """Draw the five metrics by identity, as Tables 3 and 6 of Borkan et al. (2019) do.

    AUCs run from 0.5 to 1 (white is good), AEGs from -1/2 to 1/2 (white is good, red: the
    subgroup scores higher, blue: lower). Below each value is its interval. A cell without
    evidence, or with too little for an interval, is grey and says so.

    Parameters
    ----------
    report : BiasReport or mapping
        From `evaluate_bias`, or its `to_dict()`.
    title : str, default=""
        Above the picture.
    intervals : bool, default=True
        False colours every value and shows no intervals, as for published tables, which have
        none.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Figure
        One row per identity, one column per metric.
    """
    subgroups = plain(report)["subgroups"]
    axes = axes_for(ax, 8.5, 1.6 + (0.44 if intervals else 0.3) * max(len(subgroups), 1))
    for column, metric in enumerate(SUBGROUP_METRICS):
        for row, cells in enumerate(subgroups.values()):
            _cell(axes, column, row, metric, cells[metric], intervals=intervals)
    labels = [
        label(name) if cells["n"] is None else f"{label(name)}  (n={cells['n']:,})"
        for name, cells in subgroups.items()
    ]
    label_grid(axes, labels)
    entitle(axes, title, own=ax is None)
    return axes.figure


def comparison(
    compared: Result, *, first: str = "first", second: str = "second", ax: Axes | None = None
) -> Figure:
    """Draw the difference of every metric by identity, the first model minus the second.

    Each cell has the difference and its interval. A dot and bold type: the difference is
    significant, its p-value adjusted by Holm for all cells. Grey: no interval. For AUCs purple
    is good for the first model and orange bad; an AEG's difference has no good side, red only
    says that the first model's is higher. Colours reach their full strength at 0.2.

    Parameters
    ----------
    compared : BiasComparison or mapping
        From `compare_bias`, or its `to_dict()`.
    first, second : str
        The models' names.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Figure
        One row per identity, one column per metric, two colour bars.
    """
    found = plain(compared)
    subgroups, level = found["subgroups"], 1 - found["confidence"]
    rows = max(len(subgroups), 1)
    axes = axes_for(ax, 8.5, 2.6 + 0.44 * rows)
    for row, cells in enumerate(subgroups.values()):
        for column, metric in enumerate(SUBGROUP_METRICS):
            _difference(axes, column, row, metric, cells[metric], level)
    label_grid(axes, list(map(label, subgroups)))
    title = f"{first} minus {second}"
    note = f"● bold: shown at {found['confidence']:.0%} after Holm's adjustment"
    if ax is None:
        entitle(axes, title, own=True)
    axes.set_title(
        note if ax is None else f"{title}\n{note}", fontsize=8.5, color=GREY, parse_math=False
    )
    _colour_bars(axes, rows)
    return axes.figure


def _colour_bars(axes: Axes, rows: int) -> None:
    bars = (
        ("auc", "AUC difference\n(purple: the first is better)"),
        (AEGS[0], "AEG difference\n(red: the first is higher)"),
    )
    for place, (metric, text) in zip((0.0, 0.55), bars, strict=True):
        # In inches below the grid, however many rows it has.
        inset = axes.inset_axes((place, -0.3 / (0.44 * rows), 0.45, 0.12 / (0.44 * rows)))
        mappable = matplotlib("cm").ScalarMappable(*scale_of(metric, difference=True))
        bar = axes.figure.colorbar(mappable, cax=inset, orientation="horizontal", extend="both")
        bar.set_label(text, fontsize=8)
        bar.ax.tick_params(labelsize=8)


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
        # Three decimals, like the value: a bound of .998 is not 1.
        text += f"\n[{low:+.3f}, {high:+.3f}]" if gap else f"\n[{low:.3f}, {high:.3f}]"
    fill_cell(axes, column, row, text, colour_of(metric, value))


def _difference(
    axes: Axes, column: int, row: int, metric: str, cell: Mapping[str, Any], level: float
) -> None:
    value, low, high, p_holm = (cell.get(key) for key in ("value", "low", "high", "p_holm"))
    if value is None:
        fill_cell(axes, column, row, "no evidence")
        return
    if low is None or high is None:
        fill_cell(axes, column, row, f"{value:+.3f}\nno interval")
        return
    shown = p_holm is not None and p_holm <= level and not low <= 0 <= high
    fill_cell(
        axes,
        column,
        row,
        f"{'● ' if shown else ''}{value:+.3f}\n[{low:+.3f}, {high:+.3f}]",
        colour_of(metric, value, difference=True),
        weight="bold" if shown else "normal",
    )
