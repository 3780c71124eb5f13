"""Pictures term by term: values of one or two models, and equality curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tasks.colours import BLUE, GREY, ORANGE, UNDEFINED
from tasks.grids import bare_axes

_CENTRED = {"ha": "center", "va": "center", "fontsize": 8}
_MARKERS = ((ORANGE, "o"), (BLUE, "D"))


def per_term_scatter(
    models: Mapping[str, Sequence[Mapping[str, Any]]], *, metric: str, lowest: float = 0.0
) -> Figure:
    """Draw a metric term by term for one or two models, after Dixon et al., Figures 3 to 5.

    A point is one trained model's value for one term, a line the value over all rows (the
    mean over trained models). The closer the points to their line, the smaller the equality
    difference. Terms stand by the first model's mean, the highest first; a term without any
    value is last and grey.

    Parameters
    ----------
    models : mapping of str to sequence of mappings
        By the model's name, one `to_dict()` of `fped`, `fned` or
        `pinned_auc_equality_difference` per training; each with `overall` and `subgroups`.
    metric : str
        Label of the axis.
    lowest : float, default=0.0
        Where the axis starts, 0.5 for AUCs; lower when a value is.

    Returns
    -------
    Figure
        Up to 1.

    Raises
    ------
    ValueError
        If there are not one or two models.
    """
    if not 1 <= len(models) <= len(_MARKERS):
        msg = f"`models` must have one or two entries; got {len(models)}."
        raise ValueError(msg)
    terms = list(dict.fromkeys(t for runs in models.values() for r in runs for t in r["subgroups"]))
    points = {
        name: {
            term: [found["value"] for run in runs if (found := run["subgroups"].get(term))]
            for term in terms
        }
        for name, runs in models.items()
    }
    known = {
        name: {term: [v for v in values if v is not None] for term, values in of_model.items()}
        for name, of_model in points.items()
    }
    leading = next(iter(known.values()))
    terms.sort(key=lambda term: -math.fsum(leading[term]) / max(len(leading[term]), 1))
    terms.sort(key=lambda term: not any(of_model[term] for of_model in known.values()))
    width = max(6.0, 1.6 + 0.19 * len(terms))
    figure = Figure(figsize=(width, 4.8), layout="constrained")
    axes = figure.subplots()
    handles = []
    for (colour, marker), (name, of_model) in zip(_MARKERS, known.items(), strict=False):
        shift = 0.0 if len(models) == 1 else -0.16 if marker == "o" else 0.16
        pairs = [(at + shift, value) for at, term in enumerate(terms) for value in of_model[term]]
        x, y = zip(*pairs, strict=True) if pairs else ((), ())
        axes.scatter(x, y, color=colour, marker=marker, s=20, alpha=0.7, linewidths=0)
        overall = [run["overall"]["value"] for run in models[name]]
        overall = [value for value in overall if value is not None]
        style = {"color": colour, "linestyle": "-" if marker == "o" else "--"}
        if overall:
            axes.axhline(math.fsum(overall) / len(overall), linewidth=1.2, **style)
        handles.append(Line2D([], [], marker=marker, markersize=5, label=marker, **style))
    legend = figure.legend(
        handles=handles, loc="outside upper right", ncols=2, fontsize=9, frameon=False
    )
    for text, name in zip(legend.get_texts(), models, strict=True):
        text.set(text=f"{name} (line: all rows)", parse_math=False)
    values = [
        value for of_model in known.values() for found in of_model.values() for value in found
    ]
    start = min([lowest, *values])
    axes.set_ylim(start - 0.02 * (1 - start), 1 + 0.02 * (1 - start))
    axes.set_xlim(-0.7, max(len(terms), 1) - 0.3)
    axes.set_xticks(np.arange(len(terms)), terms, rotation=90, parse_math=False, fontsize=8)
    for at, (term, label) in enumerate(zip(terms, axes.get_xticklabels(), strict=True)):
        if not any(of_model[term] for of_model in known.values()):
            label.set_color(GREY)
            axes.text(at, (1 + start) / 2, "no evidence", color=GREY, rotation=90, **_CENTRED)
    bare_axes(axes, "both")
    axes.set_ylabel(metric, fontsize=9, parse_math=False)
    return figure


def equality_curves(
    curves: Mapping[str, Mapping[str, Any]], *, of: str = "negative", title: str = ""
) -> Figure:
    """Draw each identity's equality curve, as Figure 2 of Borkan et al. (2019) does.

    Right: the share of the background's rows of one class that scores at or above a
    threshold; up: the identity's share. On the dashed diagonal both are flagged alike; filled
    orange above it the identity is flagged more, blue below it less. The AEG, in each
    panel's title, is the orange area less the blue one.

    Parameters
    ----------
    curves : mapping of str to mapping
        By identity, `equality_curve(...).to_dict()`.
    of : str, default="negative"
        The class of the curves, for the labels.
    title : str, default=""
        Of the figure.

    Returns
    -------
    Figure
        One square from 0 to 1 per identity, four in a row.
    """
    rows = max(math.ceil(len(curves) / 4), 1)
    figure = Figure(figsize=(9.5, 0.9 + 2.5 * rows), layout="constrained")
    grid = figure.subplots(rows, 4, squeeze=False, sharex=True, sharey=True)
    for position, axes in enumerate(grid.flat):
        if position >= len(curves):
            axes.set_axis_off()
        elif position + 4 >= len(curves):  # nothing below it
            axes.tick_params(labelbottom=True)
    for axes, (name, curve) in zip(grid.flat, curves.items(), strict=False):
        gap = curve["gap"]["value"]
        axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=0.8)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xticks((0, 0.5, 1), ("0", "½", "1"))
        axes.set_yticks((0, 0.5, 1), ("0", "½", "1"))
        axes.tick_params(labelsize=8)
        heading = f"{name}\n" + ("" if gap is None else f"AEG {gap:+.3f}")
        axes.set_title(heading, fontsize=9, parse_math=False)
        if gap is None:
            axes.set_facecolor(UNDEFINED)
            axes.text(0.5, 0.5, "no evidence", color="0.35", **_CENTRED)
            continue
        x, y = np.array(curve["background_rate"]), np.array(curve["subgroup_rate"])
        axes.plot(x, y, color="black", linewidth=1.2)
        for colour, side in ((ORANGE, y >= x), (BLUE, y <= x)):
            axes.fill_between(x, x, y, where=side, interpolate=True, color=colour, alpha=0.4, lw=0)
    figure.supxlabel(f"share of the background's {of}s at or above a threshold", fontsize=9)
    figure.supylabel(f"share of the identity's {of}s", fontsize=9)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure
