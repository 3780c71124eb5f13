"""Further pictures of metrics: two models compared, forest plots, published tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from bias_metrics.metrics import AEGS, METRICS, SUBGROUP_METRICS
from tasks.colours import BLUE, GREY, ORANGE, colour_of, scale_of
from tasks.grids import bare_axes, fill_cell, label_grid


def published_report(
    rows: Iterable[Mapping[str, Any]],
    columns: str,
    *,
    name: str,
    evaluation_set: str,
    n: str | None = None,
) -> dict[str, Any]:
    """Turn one model of a published table into the mapping that `metric_heatmap` reads.

    Draw it with `intervals=False`: published tables have no intervals.

    Parameters
    ----------
    rows : iterable of mappings
        One per identity, as `csv.DictReader` gives them, with its name in `subgroup`.
    columns : str
        What stands before `_subgroup_auc` and so on in the names of the model's columns.
    name, evaluation_set : str
        For the picture's title.
    n : str, optional
        The column with the number of rows.

    Returns
    -------
    dict
        With `candidate`, `evaluation_set` and `bias`; an empty cell has the value None, the
        others keep the decimals they were printed with, three at most.

    Raises
    ------
    KeyError
        If a column is missing.
    ValueError
        If a cell is neither a finite number nor empty, or an identity comes twice.
    """
    subgroups: dict[str, dict[str, Any]] = {}
    for row in rows:
        identity = row["subgroup"]
        if identity in subgroups:
            msg = f"`rows` must name each subgroup once; got {identity!r} twice."
            raise ValueError(msg)
        cells = {metric: _printed(row, f"{columns}_{metric}") for metric in SUBGROUP_METRICS}
        count = None if n is None else _number(row, n)
        subgroups[identity] = {"n": None if count is None else int(count), **cells}
    return {
        "candidate": {"name": name},
        "evaluation_set": {"name": evaluation_set},
        "bias": {"subgroups": subgroups},
    }


def comparison_heatmap(comparison: Mapping[str, Any], *, first: str, second: str) -> Figure:
    """Draw the difference of every metric by identity, the first model less the second.

    Each cell has the difference and its interval. A dot and bold type: the difference is
    shown, its p-value adjusted by Holm for all cells. Grey: no interval. For AUCs purple is
    good for the first model and orange bad; an AEG's difference has no good side, red only
    says that the first model's is higher. Colours are full at 0.2 in every picture.

    Parameters
    ----------
    comparison : mapping
        `BiasComparison.to_dict()`.
    first, second : str
        The models' names.

    Returns
    -------
    Figure
        One row per identity, one column per metric, two colour bars.
    """
    subgroups = comparison["subgroups"]
    level = 1 - comparison["confidence"]
    rows = max(len(subgroups), 1)
    figure = Figure(figsize=(8.5, 2.6 + 0.44 * rows), layout="constrained")
    axes = figure.subplots()
    for row, cells in enumerate(subgroups.values()):
        for column, metric in enumerate(SUBGROUP_METRICS):
            _difference(axes, column, row, metric, cells[metric], level)
    label_grid(axes, list(subgroups))
    figure.suptitle(f"{first} less {second}", fontsize=11, parse_math=False)
    bars = (
        ("auc", "AUC difference\n(purple: the first is better)"),
        (AEGS[0], "AEG difference\n(red: the first is higher)"),
    )
    for place, (metric, text) in zip((0.0, 0.55), bars, strict=True):
        # In inches below the grid, however many rows it has.
        inset = axes.inset_axes((place, -0.3 / (0.44 * rows), 0.45, 0.12 / (0.44 * rows)))
        mappable = ScalarMappable(*scale_of(metric, difference=True))
        bar = figure.colorbar(mappable, cax=inset, orientation="horizontal", extend="both")
        bar.set_label(text, fontsize=8)
        bar.ax.tick_params(labelsize=8)
    axes.set_title(
        f"● bold: shown at {comparison['confidence']:.0%} after Holm's adjustment",
        fontsize=8.5,
        color=GREY,
    )
    return figure


def forest_plot(
    report: Mapping[str, Any],
    metric: str,
    *,
    floor: float | None = None,
    ceiling: float | None = None,
) -> Figure:
    """Draw one metric with its interval for each identity, the worst on top.

    A blue dot keeps the limit, an orange diamond does not; hollow: no interval. Identities
    without a value stand last and say so.

    Parameters
    ----------
    report : mapping
        The report of an evaluation, as for `metric_heatmap`.
    metric : str
        One of the five metrics.
    floor : float, optional
        A dashed line at the smallest value wanted, for AUCs.
    ceiling : float, optional
        Dashed lines at the largest distance from 0 wanted, for AEGs.

    Returns
    -------
    Figure
        From 0.5 to 1 for AUCs and from -1/2 to 1/2 for AEGs, further when an AUC's interval
        is.

    Raises
    ------
    ValueError
        If `metric` is none of the five, or the limit is not for its kind.
    """
    if metric not in SUBGROUP_METRICS:
        msg = f"`metric` must be one of {', '.join(SUBGROUP_METRICS)}; got {metric!r}."
        raise ValueError(msg)
    gap = METRICS[metric].is_gap
    wrong = ("floor", floor) if gap else ("ceiling", ceiling)
    if wrong[1] is not None:
        msg = f"`{wrong[0]}` must not be given for {metric}; got {wrong[1]}."
        raise ValueError(msg)
    cells = {name: bias[metric] for name, bias in report["bias"]["subgroups"].items()}
    order = sorted(cells, key=lambda name: _goodness(cells[name]["value"], gap=gap))
    figure = Figure(figsize=(8.5, 1.5 + 0.26 * max(len(order), 1)), layout="constrained")
    axes = figure.subplots()
    for limit in (floor, ceiling, None if ceiling is None else -ceiling):
        if limit is not None:
            axes.axvline(limit, color="black", linestyle="--", linewidth=1)
    if gap:
        axes.axvline(0, color=GREY, linewidth=0.8)
    for row, name in enumerate(order):
        value = cells[name]["value"]
        kept = value is None or (
            abs(value) <= (math.inf if ceiling is None else ceiling)
            if gap
            else value >= (0 if floor is None else floor)
        )
        _line(axes, row, cells[name], "+.3f" if gap else ".3f", kept=kept)
    found = [cell.get(key) for cell in cells.values() for key in ("value", "low")]
    found.append(floor)
    lowest = min([-0.5 if gap else 0.5, *(number for number in found if number is not None)])
    axes.set_xlim(lowest - 0.01, 0.51 if gap else 1.005)
    axes.set_ylim(max(len(order), 1) - 0.4, -0.6)
    axes.set_yticks(np.arange(len(order)), order, parse_math=False, fontsize=9)
    axes.tick_params(axis="y", length=0)
    bare_axes(axes, "x")
    axes.set_xlabel(metric, fontsize=9)
    title = f"{report['candidate']['name']} on {report['evaluation_set']['name']}"
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure


def _printed(row: Mapping[str, Any], column: str) -> dict[str, Any]:
    """Return a value with the decimals it was printed with, three at most."""
    value = _number(row, column)
    text = str(row[column]).strip().lower()
    decimals = 3 if "e" in text else len(text.partition(".")[2])
    return {"value": value, "digits": min(decimals, 3)}


def _number(row: Mapping[str, Any], column: str) -> float | None:
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


def _goodness(value: float | None, *, gap: bool) -> float:
    if value is None:
        return math.inf
    return -abs(value) if gap else value


def _line(axes: Axes, row: int, cell: Mapping[str, Any], form: str, *, kept: bool) -> None:
    value, low, high = (cell.get(key) for key in ("value", "low", "high"))
    known = value is not None and low is not None and high is not None
    colour, marker = (BLUE, "o") if kept else (ORANGE, "D")
    text = "no evidence"
    if value is not None:
        interval = f"[{low:{form}}, {high:{form}}]" if known else "no interval"
        text = f"{value:{form}}  {interval}"
        face = colour if known else "white"
        axes.plot(value, row, marker, color=colour, markerfacecolor=face, markersize=5)
    if known:
        axes.plot([low, high], [row, row], color=colour, linewidth=1.5)
    place = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
    axes.text(1.02, row, text, color="black" if known else GREY, **place)
