"""Equality curves: at every threshold, how much of an identity and of the rest is flagged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bias_metrics.plot._canvas import Result, axes_for, label, new_figure, plain
from bias_metrics.plot._colours import BLUE, GREY, ORANGE, UNDEFINED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def equality_curve(
    curve: Result, *, name: str = "", of: str = "negative", ax: Axes | None = None
) -> Figure:
    """Draw one identity's equality curve, as Figure 2 of Borkan et al. (2019) does.

    Horizontal axis: the share of the background's rows of one class that scores at or above a
    threshold; vertical axis: the identity's share. On the dashed diagonal both are flagged
    equally often. Above it (orange) the identity is flagged more, below it (blue) less. The AEG,
    in the title, is the orange area minus the blue one.

    Parameters
    ----------
    curve : EqualityCurve or mapping
        From `bias_metrics.equality_curve`, or its `to_dict()`.
    name : str, default=""
        Name of the identity, for the title.
    of : str, default="negative"
        The class of the curve, for the labels.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Figure
        A square from 0 to 1.
    """
    axes = axes_for(ax, 4.2, 4.4)
    _draw(axes, name, curve)
    axes.set_xlabel(f"share of the background's {of}s", fontsize=9)
    axes.set_ylabel(f"share of the identity's {of}s", fontsize=9)
    return axes.figure


def equality_curves(
    curves: Mapping[str, Result], *, of: str = "negative", title: str = ""
) -> Figure:
    """Draw the equality curves of several identities, as `equality_curve` draws each.

    Parameters
    ----------
    curves : mapping of str to EqualityCurve or mapping
        By identity.
    of : str, default="negative"
        The class of the curves, for the labels.
    title : str, default=""
        Above the picture.

    Returns
    -------
    matplotlib Figure
        One square from 0 to 1 per identity, four in a row.
    """
    rows = max(math.ceil(len(curves) / 4), 1)
    figure = new_figure(9.5, 0.9 + 2.5 * rows)
    grid = figure.subplots(rows, 4, squeeze=False, sharex=True, sharey=True)
    for position, axes in enumerate(grid.flat):
        if position >= len(curves):
            axes.set_axis_off()
        else:
            nothing_below = position + 4 >= len(curves)
            axes.tick_params(labelbottom=nothing_below)
    for axes, (name, curve) in zip(grid.flat, curves.items(), strict=False):
        _draw(axes, name, curve)
    figure.supxlabel(f"share of the background's {of}s at or above a threshold", fontsize=9)
    figure.supylabel(f"share of the identity's {of}s", fontsize=9)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure


def _draw(axes: Axes, name: str, result: Result) -> None:
    curve = plain(result)
    gap = curve["gap"]["value"]
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xticks((0, 0.5, 1), ("0", "½", "1"))
    axes.set_yticks((0, 0.5, 1), ("0", "½", "1"))
    axes.tick_params(labelsize=8)
    heading = f"{label(name)}\n" + ("" if gap is None else f"AEG {gap:+.3f}")
    axes.set_title(heading, fontsize=9, parse_math=False)
    if gap is None:
        axes.set_facecolor(UNDEFINED)
        axes.text(0.5, 0.5, "no evidence", color="0.35", ha="center", va="center", fontsize=8)
        return
    x, y = np.array(curve["background_rate"]), np.array(curve["subgroup_rate"])
    axes.plot(x, y, color="black", linewidth=1.2)
    for colour, side in ((ORANGE, y >= x), (BLUE, y <= x)):
        axes.fill_between(x, x, y, where=side, interpolate=True, color=colour, alpha=0.4, lw=0)


# ---- Reliability: the share of positives among rows of similar scores, by identity


_ACROSS = 4


def reliability(
    calibrated: Result, *, overall: Result | None = None, name: str = "", ax: Axes | None = None
) -> Figure:
    """Draw the reliability of one set of rows.

    Horizontal axis: the mean score of rows of similar scores; vertical axis: the share of
    positives among them, with its band. On the dashed diagonal both are equal: the scores are
    probabilities. Below it they are too high, above it too low.

    Parameters
    ----------
    calibrated : Calibrated or mapping
        From `bias_metrics.calibration_report`, or its `to_dict()`.
    overall : Calibrated or mapping, optional
        All rows, drawn in grey behind it.
    name : str, default=""
        For the title.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Figure
        A square from 0 to 1.
    """
    axes = axes_for(ax, 4.2, 4.4)
    _draw_bins(axes, name, plain(calibrated), None if overall is None else plain(overall))
    axes.set_xlabel("mean score", fontsize=9)
    axes.set_ylabel("share of positives", fontsize=9)
    return axes.figure


def reliability_panels(
    calibrated: Mapping[str, Result], *, overall: Result | None = None, title: str = ""
) -> Figure:
    """Draw the reliability of several identities, as `reliability` draws each.

    Parameters
    ----------
    calibrated : mapping of str to Calibrated or mapping
        By identity.
    overall : Calibrated or mapping, optional
        All rows, drawn in grey behind each.
    title : str, default=""
        Above the picture.

    Returns
    -------
    matplotlib Figure
        One square from 0 to 1 per identity, four in a row.
    """
    rows = max(math.ceil(len(calibrated) / _ACROSS), 1)
    figure = new_figure(9.5, 0.9 + 2.6 * rows)
    grid = figure.subplots(rows, _ACROSS, squeeze=False, sharex=True, sharey=True)
    behind = None if overall is None else plain(overall)
    for position, axes in enumerate(grid.flat):
        if position >= len(calibrated):
            axes.set_axis_off()
        elif position + _ACROSS >= len(calibrated):  # nothing below it
            axes.tick_params(labelbottom=True)
    for axes, (name, one) in zip(grid.flat, calibrated.items(), strict=False):
        _draw_bins(axes, name, plain(one), behind)
    figure.supxlabel("mean score", fontsize=9)
    figure.supylabel("share of positives", fontsize=9)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure


def _draw_bins(
    axes: Axes, name: str, found: Mapping[str, Any], behind: Mapping[str, Any] | None
) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xticks((0, 0.5, 1), ("0", "½", "1"))
    axes.set_yticks((0, 0.5, 1), ("0", "½", "1"))
    axes.tick_params(labelsize=8)
    error, bins = found["calibration_error"]["value"], found["reliability"]
    heading = f"{label(name)}\n" + ("" if error is None else f"calibration error {error:.3f}")
    axes.set_title(heading, fontsize=9, parse_math=False)
    if not bins:
        axes.set_facecolor(UNDEFINED)
        axes.text(0.5, 0.5, "no evidence", color="0.35", ha="center", va="center", fontsize=8)
        return
    if behind is not None:
        axes.plot(*_points(behind["reliability"]), color=GREY, linewidth=1.0)
    x, y = _points(bins)
    low, high = ([one[end] for one in bins] for end in ("low", "high"))
    axes.fill_between(x, low, high, color=BLUE, alpha=0.25, lw=0)
    axes.plot(x, y, color=BLUE, linewidth=1.2, marker="o", markersize=2.5)


def _points(bins: list[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    return [one["mean_score"] for one in bins], [one["share_positive"] for one in bins]
