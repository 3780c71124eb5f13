"""Plots of a report or a comparison: intervals, heatmaps, and values by term."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bias_metrics._core.differences import Difference
from bias_metrics._core.tables import to_plain_values as to_plain
from bias_metrics.metrics import AEGS, METRICS, SUBGROUP_METRICS
from bias_metrics.plot._canvas import (
    PlotInput,
    choose_axes,
    create_figure,
    import_matplotlib,
    read_plain_values,
    wrap_name,
    write_title,
)
from bias_metrics.plot._colours import BLUE, GREY, ORANGE, UNDEFINED, Colour, get_colour, get_scale
from bias_metrics.table import BiasTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TableLike: TypeAlias = BiasTable | Mapping[str, Any]
"""A table, or a mapping whose `subgroups` holds plain values by group and metric."""


def read_cells(table: TableLike, *, differences: bool = False) -> Mapping[str, Mapping[str, Any]]:
    """Return the plain values of the metrics and the number of rows, by group."""
    if not isinstance(table, BiasTable):
        subgroups: Mapping[str, Mapping[str, Any]] = table["subgroups"]
        return subgroups
    numbers = [number for cells in table.subgroups.values() for number in cells.values()]
    if any(isinstance(number, Difference) is not differences for number in numbers):
        content, function = (
            ("numbers of one model", "heatmap") if differences else ("differences", "comparison")
        )
        msg = f"the table has {content}; draw it with `{function}`."
        raise ValueError(msg)
    return {
        name: {"n": table.counts[name].n} | to_plain(cells)
        for name, cells in table.subgroups.items()
    }


def intervals(
    report: TableLike,
    metric: str,
    *,
    floor: float | None = None,
    ceiling: float | None = None,
    order: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw a metric with its interval for each identity, the worst on top.

    Blue dot: the whole interval is within the limit, or no limit is given. Orange diamond: the
    whole interval is beyond the limit. Grey square: the limit is inside the interval, or the
    interval is missing. Identities without a value come last, with the label "no evidence".

    Parameters
    ----------
    report : BiasTable or mapping
        From `evaluate_bias`; or `{"subgroups": ...}` with plain values by group and metric.
    metric : str
        One of the five subgroup metrics.
    floor : float, optional
        For AUCs, the smallest acceptable value, drawn as a dashed line.
    ceiling : float, optional
        For AEGs, the largest acceptable distance from 0, drawn as two dashed lines.
    order : sequence of str, optional
        The identities from top to bottom, to give several plots the same rows; default the worst
        first.
    title : str, default=""
        Title of the plot.
    ax : matplotlib Axes, optional
        Axes to draw on; default those of a new figure.

    Returns
    -------
    matplotlib Figure
        A figure. Its axis runs from 0.5 to 1 for AUCs and from -1/2 to 1/2 for AEGs, or further
        down if a value or lower bound is lower.

    Raises
    ------
    ValueError
        If `metric` has another value, or a floor is given for an AEG or a ceiling for an AUC.
    """
    if metric not in SUBGROUP_METRICS:
        msg = f"`metric` must be one of {', '.join(SUBGROUP_METRICS)}; got {metric!r}."
        raise ValueError(msg)
    is_gap = METRICS[metric].is_gap
    name, limit = ("floor", floor) if is_gap else ("ceiling", ceiling)
    if limit is not None:
        msg = f"`{name}` must not be given for {metric}; got {limit}."
        raise ValueError(msg)
    cells = {name: bias[metric] for name, bias in read_cells(report).items()}
    if order is None:

        def rank_value(name: str) -> float:
            """Return a sort key: the worst is lowest, a missing value highest."""
            value: float | None = cells[name]["value"]
            if value is None:
                return math.inf
            return -abs(value) if is_gap else value

        order = sorted(cells, key=rank_value)
    axes = choose_axes(ax, 8.5, 1.5 + 0.26 * max(len(order), 1))
    for limit in (floor, ceiling, None if ceiling is None else -ceiling):
        if limit is not None:
            axes.axvline(limit, color="black", linestyle="--", linewidth=1)
    if is_gap:
        axes.axvline(0, color=GREY, linewidth=0.8)
    for row, name in enumerate(order):
        form = "+.3f" if is_gap else ".3f"
        _draw_interval(axes, row, cells[name], form, floor=floor, ceiling=ceiling)
    values = [cell.get(key) for cell in cells.values() for key in ("value", "low")]
    values.append(floor)
    lowest = min([-0.5 if is_gap else 0.5, *(value for value in values if value is not None)])
    axes.set_xlim(lowest - 0.01, 0.51 if is_gap else 1.005)
    axes.set_ylim(max(len(order), 1) - 0.4, -0.6)
    axes.set_yticks(
        np.arange(len(order)), list(map(wrap_name, order)), parse_math=False, fontsize=9
    )
    axes.tick_params(axis="y", length=0)
    strip_axes(axes, "x")
    axes.set_xlabel(metric, fontsize=9)
    write_title(axes, title, own=ax is None)
    return axes.figure


def _draw_interval(
    axes: Axes,
    row: int,
    cell: Mapping[str, Any],
    form: str,
    *,
    floor: float | None,
    ceiling: float | None,
) -> None:
    """Draw the value and interval of an identity, coloured by its position to the limit."""
    value, low, high = (cell.get(key) for key in ("value", "low", "high"))
    colour, marker, has_interval = GREY, "s", False
    if value is not None and low is not None and high is not None:
        has_interval = True
        least, most = low, high
        if ceiling is not None:  # compare the distance below the ceiling with 0
            nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
            least, most = ceiling - max(abs(low), abs(high)), ceiling - nearest
        limit = 0.0 if ceiling is not None else -math.inf if floor is None else floor
        if least >= limit or most < limit:
            colour, marker = (BLUE, "o") if least >= limit else (ORANGE, "D")
    text = "no evidence"
    if value is not None:
        interval = f"[{low:{form}}, {high:{form}}]" if has_interval else "no interval"
        text = f"{value:{form}}  {interval}"
        axes.plot(value, row, marker, color=colour, markersize=5)
    if has_interval:
        axes.plot([low, high], [row, row], color=colour, linewidth=1.5)
    style = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
    axes.text(1.02, row, text, color="black" if has_interval else GREY, **style)


def heatmap(
    report: TableLike, *, title: str = "", intervals: bool = True, ax: Axes | None = None
) -> Figure:
    """Draw the five metrics by identity, as Tables 3 and 6 of Borkan et al. (2019) do.

    AUCs run from 0.5 to 1 (white is good), AEGs from -1/2 to 1/2 (white is good, red: the
    subgroup scores higher, blue: lower). Below each value is its interval. A cell without a value
    or interval is grey, with the label "no evidence" or "no interval".

    Parameters
    ----------
    report : BiasTable or mapping
        From `evaluate_bias`; or `{"subgroups": ...}` with plain values by group and metric.
    title : str, default=""
        Title of the plot.
    intervals : bool, default=True
        False colours every value and omits intervals, for published tables without intervals.
    ax : matplotlib Axes, optional
        Axes to draw on; default those of a new figure.

    Returns
    -------
    matplotlib Figure
        One row per identity, one column per metric.
    """
    subgroups = read_cells(report)
    axes = choose_axes(ax, 8.5, 1.6 + (0.44 if intervals else 0.3) * max(len(subgroups), 1))
    for column, metric in enumerate(SUBGROUP_METRICS):
        for row, cells in enumerate(subgroups.values()):
            _draw_value(axes, column, row, metric, cells[metric], intervals=intervals)
    labels = [
        wrap_name(name) if cells["n"] is None else f"{wrap_name(name)}  (n={cells['n']:,})"
        for name, cells in subgroups.items()
    ]
    label_grid(axes, labels)
    write_title(axes, title, own=ax is None)
    return axes.figure


def comparison(
    compared: TableLike, *, first: str = "first", second: str = "second", ax: Axes | None = None
) -> Figure:
    """Draw the difference of every metric by identity, the first model minus the second.

    Each cell has the difference and its interval. A dot and bold type mark a significant
    difference, by Holm's adjustment for all cells. A grey cell has no interval. For AUCs, purple
    means that the first model is better, and orange that it is worse. A difference of AEGs has no
    better side; red means that the first model's AEG is higher. Colours are strongest at 0.2.

    Parameters
    ----------
    compared : BiasTable or mapping
        From `compare_bias`; or plain values as in `intervals`, with their `confidence`.
    first, second : str
        The models' names.
    ax : matplotlib Axes, optional
        Axes to draw on; default those of a new figure.

    Returns
    -------
    matplotlib Figure
        One row per identity, one column per metric, two colour bars.
    """
    subgroups = read_cells(compared, differences=True)
    confidence = compared.confidence if isinstance(compared, BiasTable) else compared["confidence"]
    rows = max(len(subgroups), 1)
    axes = choose_axes(ax, 8.5, 2.6 + 0.44 * rows)
    for row, cells in enumerate(subgroups.values()):
        for column, metric in enumerate(SUBGROUP_METRICS):
            _draw_difference(axes, column, row, metric, cells[metric], 1 - confidence)
    label_grid(axes, list(map(wrap_name, subgroups)))
    title = f"{first} minus {second}"
    note = f"● bold: shown at {confidence:.0%} after Holm's adjustment"
    if ax is None:
        write_title(axes, title, own=True)
    axes.set_title(
        note if ax is None else f"{title}\n{note}", fontsize=8.5, color=GREY, parse_math=False
    )
    bars = (
        ("auc", "AUC difference\n(purple: the first is better)"),
        (AEGS[0], "AEG difference\n(red: the first is higher)"),
    )
    for left, (metric, text) in zip((0.0, 0.55), bars, strict=True):
        # At a fixed distance in inches below the grid, whatever its number of rows.
        inset = axes.inset_axes((left, -0.3 / (0.44 * rows), 0.45, 0.12 / (0.44 * rows)))
        mappable = import_matplotlib("cm").ScalarMappable(*get_scale(metric, difference=True))
        bar = axes.figure.colorbar(mappable, cax=inset, orientation="horizontal", extend="both")
        bar.set_label(text, fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return axes.figure


def _draw_value(
    axes: Axes, column: int, row: int, metric: str, cell: Mapping[str, Any], *, intervals: bool
) -> None:
    value, low, high = (cell.get(key) for key in ("value", "low", "high"))
    is_gap = METRICS[metric].is_gap
    if value is None:
        fill_cell(axes, column, row, "no evidence")
        return
    digits = cell.get("digits", 3)
    text = f"{value:+.{digits}f}" if is_gap else f"{value:.{digits}f}"
    if intervals and (low is None or high is None):
        fill_cell(axes, column, row, f"{value:.3f}\nno interval")
        return
    if intervals:
        # Three decimals, like the value: a bound of .998 must not read as 1.
        text += f"\n[{low:+.3f}, {high:+.3f}]" if is_gap else f"\n[{low:.3f}, {high:.3f}]"
    fill_cell(axes, column, row, text, get_colour(metric, value))


def _draw_difference(
    axes: Axes, column: int, row: int, metric: str, cell: Mapping[str, Any], alpha: float
) -> None:
    value, low, high, p_holm = (cell.get(key) for key in ("value", "low", "high", "p_holm"))
    if value is None:
        fill_cell(axes, column, row, "no evidence")
        return
    if low is None or high is None:
        fill_cell(axes, column, row, f"{value:+.3f}\nno interval")
        return
    is_significant = p_holm is not None and p_holm <= alpha and not low <= 0 <= high
    fill_cell(
        axes,
        column,
        row,
        f"{'● ' if is_significant else ''}{value:+.3f}\n[{low:+.3f}, {high:+.3f}]",
        get_colour(metric, value, difference=True),
        weight="bold" if is_significant else "normal",
    )


_CENTRED = {"ha": "center", "va": "center", "fontsize": 8}
_MARKERS = ((ORANGE, "o"), (BLUE, "D"))


def per_term_scatter(
    results: Mapping[str, Sequence[PlotInput]], *, metric: str, lowest: float = 0.0
) -> Figure:
    """Draw a metric by term for one or two models, as in Dixon et al., Figures 3 to 5.

    A point is the value of a trained model for a term; a line is the value over all rows (the
    mean over trained models). The closer the points are to their line, the smaller the equality
    difference. Terms are sorted by the first model's mean in descending order; terms without values
    come last, in grey.

    Parameters
    ----------
    results : mapping of str to sequence of EqualityDifference or mapping
        Results of `fped`, `fned` or `pinned_auc_equality_difference`, or of their `to_dict()`, by
        the model's name; one result per training.
    metric : str
        Label of the axis.
    lowest : float, default=0.0
        Start of the axis, such as 0.5 for AUCs; lower if a value is lower.

    Returns
    -------
    matplotlib Figure
        A figure whose axis ends at 1.

    Raises
    ------
    ValueError
        If the number of models is not one or two.
    """
    if not 1 <= len(results) <= len(_MARKERS):
        msg = f"`results` must have one or two entries; got {len(results)}."
        raise ValueError(msg)
    models = {name: [read_plain_values(run) for run in runs] for name, runs in results.items()}
    terms = list(
        dict.fromkeys(term for runs in models.values() for run in runs for term in run["subgroups"])
    )
    values = {
        name: {
            term: [
                cell["value"]
                for run in runs
                if (cell := run["subgroups"].get(term)) and cell["value"] is not None
            ]
            for term in terms
        }
        for name, runs in models.items()
    }
    leading = next(iter(values.values()))
    terms.sort(key=lambda term: -math.fsum(leading[term]) / max(len(leading[term]), 1))
    terms.sort(key=lambda term: not any(by_term[term] for by_term in values.values()))
    width = max(6.0, 1.6 + 0.19 * len(terms))
    figure = create_figure(width, 4.8)
    axes = figure.subplots()
    handles = []
    for (colour, marker), (name, by_term) in zip(_MARKERS, values.items(), strict=False):
        shift = 0.0 if len(models) == 1 else -0.16 if marker == "o" else 0.16
        pairs = [(i + shift, value) for i, term in enumerate(terms) for value in by_term[term]]
        x, y = zip(*pairs, strict=True) if pairs else ((), ())
        axes.scatter(x, y, color=colour, marker=marker, s=20, alpha=0.7, linewidths=0)
        overall = [run["overall"]["value"] for run in models[name]]
        overall = [value for value in overall if value is not None]
        style = {"color": colour, "linestyle": "-" if marker == "o" else "--"}
        if overall:
            axes.axhline(math.fsum(overall) / len(overall), linewidth=1.2, **style)
        handles.append(
            import_matplotlib("lines").Line2D(
                [], [], marker=marker, markersize=5, label=marker, **style
            )
        )
    legend = figure.legend(
        handles=handles, loc="outside upper right", ncols=2, fontsize=9, frameon=False
    )
    for text, name in zip(legend.get_texts(), models, strict=True):
        text.set(text=f"{wrap_name(name)} (line: all rows)", parse_math=False)
    points = [value for by_term in values.values() for term in terms for value in by_term[term]]
    start = min([lowest, *points])
    axes.set_ylim(start - 0.02 * (1 - start), 1 + 0.02 * (1 - start))
    axes.set_xlim(-0.7, max(len(terms), 1) - 0.3)
    axes.set_xticks(
        np.arange(len(terms)),
        list(map(wrap_name, terms)),
        rotation=90,
        parse_math=False,
        fontsize=8,
    )
    for i, (term, tick) in enumerate(zip(terms, axes.get_xticklabels(), strict=True)):
        if not any(by_term[term] for by_term in values.values()):
            tick.set_color(GREY)
            axes.text(i, (1 + start) / 2, "no evidence", color=GREY, rotation=90, **_CENTRED)
    strip_axes(axes, "both")
    axes.set_ylabel(metric, fontsize=9, parse_math=False)
    return figure


def label_grid(axes: Axes, rows: Sequence[str], columns: Sequence[str] | None = None) -> None:
    """Label the rows and columns of a grid of cells; columns default to the five metrics."""
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
    """Fill a cell of a grid with a colour, by default grey, and a text."""
    ink = "0.35"
    if colour is not None:
        luminance = float(np.dot(colour[:3], (0.299, 0.587, 0.114)))
        ink = "black" if luminance > 0.5 else "white"
    face = UNDEFINED if colour is None else colour
    rectangle = import_matplotlib("patches").Rectangle
    # The limits of the grid are set, so that the cell need not enter its data limits or layout.
    cell = rectangle((column, row), 1, 1, facecolor=face, edgecolor="white", in_layout=False)
    axes.add_artist(cell)
    style = {"ha": "center", "va": "center", "fontsize": 8.5, "in_layout": False}
    axes.text(column + 0.5, row + 0.5, text, color=ink, **style | font)


def strip_axes(axes: Axes, grid: str) -> None:
    """Draw a faint grid, and remove the frame except for its lower edge."""
    axes.grid(axis=grid, color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["left", "top", "right"]].set_visible(False)
