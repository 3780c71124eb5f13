"""Plots of scores: their distributions, and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray, check_mask, check_scores
from bias_metrics._core.index import refuse_misaligned, require_aligned
from bias_metrics._core.masks import Subgroups
from bias_metrics.plot._canvas import (
    PlotInput,
    choose_axes,
    create_panels,
    import_matplotlib,
    read_plain_values,
    wrap_name,
    write_panel_title,
)
from bias_metrics.plot._colours import BLUE, GREY, ORANGE, UNDEFINED
from bias_metrics.rows import Background, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _scale_axes(axes: Axes) -> Axes:
    """Scale both axes from 0 to 1."""
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_xticks((0, 0.5, 1), ("0", "½", "1"))
    axes.set_yticks((0, 0.5, 1), ("0", "½", "1"))
    return axes


# ---- Reliability: the share of positives among rows of similar scores, by identity


def reliability(
    calibrated: PlotInput,
    *,
    overall: PlotInput | None = None,
    name: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw the reliability of a set of rows.

    Each point is a bin of rows with similar scores: its mean score on the horizontal axis, and its
    share of positives on the vertical axis, with a confidence band. On the dashed diagonal the
    scores are calibrated; below it they are too high, above it too low.

    Parameters
    ----------
    calibrated : Calibrated or mapping
        From `bias_metrics.calibration_report`, or its `to_dict()`.
    overall : Calibrated or mapping, optional
        All rows, drawn in grey in the background.
    name : str, default=""
        Name in the title.
    ax : matplotlib Axes, optional
        Axes to draw on; default those of a new figure.

    Returns
    -------
    matplotlib Figure
        A square from 0 to 1.
    """
    axes = _scale_axes(choose_axes(ax, 4.2, 4.4))
    reference = None if overall is None else read_plain_values(overall)
    _draw_bins(axes, name, read_plain_values(calibrated), reference)
    axes.set_xlabel("mean score", fontsize=9)
    axes.set_ylabel("share of positives", fontsize=9)
    return axes.figure


def reliability_panels(
    calibrated: Mapping[str, PlotInput], *, overall: PlotInput | None = None, title: str = ""
) -> Figure:
    """Draw the reliability of several identities, as `reliability` draws each.

    The panels are squares from 0 to 1, four in a row. `overall`, the calibration of all rows, is
    drawn in grey in the background of each.
    """
    figure, squares = create_panels(
        calibrated, (2.0, 2.0), 4, title=title, xlabel="mean score", ylabel="share of positives"
    )
    _scale_axes(figure.axes[0])  # all panels share these axes
    reference = None if overall is None else read_plain_values(overall)
    for axes, (name, result) in zip(squares, calibrated.items(), strict=True):
        _draw_bins(axes, name, read_plain_values(result), reference)
    return figure


def _draw_bins(
    axes: Axes, name: str, calibration: Mapping[str, Any], reference: Mapping[str, Any] | None
) -> None:
    """Draw the bins of a set of rows, over those of a reference."""
    bias, bins = calibration["bias"]["value"], calibration["reliability"]
    heading = "" if bias is None else f"mean score {bias:+.3f} off"
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=0.8)
    axes.set_aspect("equal")
    axes.tick_params(labelsize=8)
    write_panel_title(axes, f"{wrap_name(name)}\n{heading}")
    if not bins:
        axes.set_facecolor(UNDEFINED)
        axes.text(0.5, 0.5, "no evidence", color="0.35", ha="center", va="center", fontsize=8)
        return
    if reference is not None:
        axes.plot(*_list_points(reference["reliability"]), color=GREY, linewidth=1.0)
    x, y = _list_points(bins)
    low, high = ([score_bin[end] for score_bin in bins] for end in ("low", "high"))
    axes.fill_between(x, low, high, color=BLUE, alpha=0.25, lw=0)
    axes.plot(x, y, color=BLUE, linewidth=1.2, marker="o", markersize=2.5)


def _list_points(bins: list[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    scores = [score_bin["mean_score"] for score_bin in bins]
    return scores, [score_bin["share_positive"] for score_bin in bins]


_BINS = 40
Panel = tuple[BoolArray, FloatArray, BoolArray]
HistogramCounts = npt.NDArray[np.int64]


@require_aligned
def score_distributions(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    background: Background = "outside_subgroup",
    title: str = "",
) -> Figure:
    """Draw each identity's scores by class over those of its background.

    As in Table 7 of Borkan et al. (2019). Filled histograms are rows that mention the identity,
    outlined histograms its background. Each histogram is a density, so that groups of different
    size can be compared. The square root scale spreads the low densities, since most scores lie at
    one end. A group without rows is grey, with the label "no evidence".

    Parameters
    ----------
    y_true, y_score, subgroups, background
        As in `evaluate_bias`.
    title : str, default=""
        Title of the figure.

    Returns
    -------
    matplotlib Figure
        Three panels per row, with common axes.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.
    """
    rows = Rows(y_true, subgroups, background=background)
    labels, scores, excluded = rows.y_true, rows.check_scores("y_score", y_score), rows.excluded
    others = None
    if excluded is not None:
        others = np.ones_like(labels)
        others[excluded] = False
    panels = {name: (labels, scores, mask) for name, mask in rows.subgroups.items()}
    return distribution_panels(panels, title=title, background=others)


def distribution_panels(
    panels: Mapping[str, Panel], *, title: str = "", background: BoolArray | None = None
) -> Figure:
    """Draw `score_distributions` of groups with separate rows.

    A panel has `y_true`, `y_score` and `in_subgroup` of a group. `background` marks the rows of
    every group's background, by default all rows outside the group. Three panels are in a row, with
    common axes.
    """
    checked = {}
    for name, panel in panels.items():
        arrays = {f"panels[{name!r}][{i}]": array for i, array in enumerate(panel)}
        refuse_misaligned(arrays | {"background": background})
        (like, y_true), (score_name, y_score), (mask_name, inside) = arrays.items()
        labels = check_mask(like, y_true)
        own_scores = check_scores(score_name, y_score, labels.size, like=like)
        checked[name] = labels, own_scores, check_mask(mask_name, inside, labels.size, like=like)
    figure, all_axes = create_panels(
        checked, (3.5, 1.6), 3, title=title, xlabel="score (density on a square root scale)"
    )
    scores = [score for _, score, _ in checked.values() if score.size]
    ends = [float(end) for score in scores for end in (score.min(), score.max())]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    if low == high:  # bins need a width even if all scores are equal
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, _BINS + 1)
    mask = None if background is None else check_mask("background", background)
    counter = _BinCounter(edges, mask)
    for axes, (name, (y_true, y_score, inside)) in zip(all_axes, checked.items(), strict=True):
        _draw_distribution(axes, counter.count_panel(y_true, y_score, inside), edges)
        write_panel_title(axes, f"{wrap_name(name)} (n={int(inside.sum()):,})")
    shared = figure.axes[0]  # all panels share these axes
    shared.set_yscale("function", functions=(np.sqrt, np.square))
    shared.set_ylim(bottom=0)
    rectangle = import_matplotlib("patches").Rectangle
    handles = [
        rectangle((0, 0), 1, 1, color=BLUE, alpha=0.5, label="non-toxic, mentions"),
        rectangle((0, 0), 1, 1, color=ORANGE, alpha=0.5, label="toxic, mentions"),
        rectangle((0, 0), 1, 1, fill=False, edgecolor="0.2", label="same class, background"),
    ]
    figure.legend(handles=handles, loc="lower right", ncols=3, fontsize=8, frameon=False)
    return figure


class _BinCounter:
    """Counts of rows by class in each bin, for groups and their backgrounds.

    Rows that consecutive panels share, such as those of the same report, are counted once.
    """

    def __init__(self, edges: FloatArray, background: BoolArray | None) -> None:
        self._edges, self._background = edges, background
        self._rows: tuple[BoolArray, FloatArray] | None = None
        self._counts: list[HistogramCounts] = []

    def count_panel(
        self, y_true: BoolArray, y_score: FloatArray, inside: BoolArray
    ) -> list[tuple[HistogramCounts, HistogramCounts]]:
        """Return the counts of the group and its background, for negatives and for positives."""
        if self._rows is None or self._rows[0] is not y_true or self._rows[1] is not y_score:
            selected = slice(None) if self._background is None else self._background
            self._rows = y_true, y_score
            self._counts = self._count_bins(y_true[selected], y_score[selected])
        own = self._count_bins(y_true[inside], y_score[inside])
        if self._background is not None:
            return list(zip(own, self._counts, strict=True))
        return [(inner, total - inner) for inner, total in zip(own, self._counts, strict=True)]

    def _count_bins(self, y_true: BoolArray, y_score: FloatArray) -> list[HistogramCounts]:
        return [np.histogram(y_score[mask], self._edges)[0] for mask in (~y_true, y_true)]


def _draw_distribution(
    axes: Axes, counts: Sequence[tuple[HistogramCounts, HistogramCounts]], edges: FloatArray
) -> None:
    """Draw the histograms of a panel, for negatives and for positives."""
    if not any(own.any() for own, _ in counts):
        axes.set_facecolor(UNDEFINED)
        axes.text(0.5, 0.5, "no evidence", ha="center", color="0.35", transform=axes.transAxes)
    for (own, background), colour in zip(counts, (BLUE, ORANGE), strict=True):
        if own.any():
            # A single shape: with one bar per bin, dozens of panels take seconds to draw.
            axes.stairs(_compute_density(own, edges), edges, fill=True, color=colour, alpha=0.5)
        if background.any():
            heights = _compute_density(background, edges)
            axes.hist(edges[:-1], bins=edges, weights=heights, color=colour, histtype="step")
    axes.tick_params(labelsize=8)
    axes.yaxis.set_visible(False)
    axes.spines[["left", "top", "right"]].set_visible(False)


def _compute_density(counts: HistogramCounts, edges: FloatArray) -> FloatArray:
    return np.asarray(counts / (counts.sum() * np.diff(edges)))
