"""Values by term, of one or two models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bias_metrics.plot._canvas import Result, label, matplotlib, new_figure, plain
from bias_metrics.plot._colours import BLUE, GREY, ORANGE
from bias_metrics.plot._grids import bare_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CENTRED = {"ha": "center", "va": "center", "fontsize": 8}
_MARKERS = ((ORANGE, "o"), (BLUE, "D"))


def per_term_scatter(
    results: Mapping[str, Sequence[Result]], *, metric: str, lowest: float = 0.0
) -> Figure:
    """Draw a metric by term for one or two models, as in Dixon et al., Figures 3 to 5.

    A point is one trained model's value for one term, a line the value over all rows (the
    mean over trained models). The closer the points are to their line, the smaller the equality
    difference. Terms are ordered by the first model's mean, the highest first; a term without
    any value is last and grey.

    Parameters
    ----------
    results : mapping of str to sequence of EqualityDifference or mapping
        By the model's name, one result of `fped`, `fned` or `pinned_auc_equality_difference`
        per training, or its `to_dict()`.
    metric : str
        Label of the axis.
    lowest : float, default=0.0
        Where the axis starts, 0.5 for AUCs; lower if a value is.

    Returns
    -------
    matplotlib Figure
        A figure whose axis ends at 1.

    Raises
    ------
    ValueError
        If there are not one or two models.
    """
    if not 1 <= len(results) <= len(_MARKERS):
        msg = f"`results` must have one or two entries; got {len(results)}."
        raise ValueError(msg)
    models = {name: [plain(run) for run in runs] for name, runs in results.items()}
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
    figure = new_figure(width, 4.8)
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
        handles.append(
            matplotlib("lines").Line2D([], [], marker=marker, markersize=5, label=marker, **style)
        )
    legend = figure.legend(
        handles=handles, loc="outside upper right", ncols=2, fontsize=9, frameon=False
    )
    for text, name in zip(legend.get_texts(), models, strict=True):
        text.set(text=f"{label(name)} (line: all rows)", parse_math=False)
    values = [
        value for of_model in known.values() for found in of_model.values() for value in found
    ]
    start = min([lowest, *values])
    axes.set_ylim(start - 0.02 * (1 - start), 1 + 0.02 * (1 - start))
    axes.set_xlim(-0.7, max(len(terms), 1) - 0.3)
    axes.set_xticks(
        np.arange(len(terms)), list(map(label, terms)), rotation=90, parse_math=False, fontsize=8
    )
    for at, (term, tick) in enumerate(zip(terms, axes.get_xticklabels(), strict=True)):
        if not any(of_model[term] for of_model in known.values()):
            tick.set_color(GREY)
            axes.text(at, (1 + start) / 2, "no evidence", color=GREY, rotation=90, **_CENTRED)
    bare_axes(axes, "both")
    axes.set_ylabel(metric, fontsize=9, parse_math=False)
    return figure
