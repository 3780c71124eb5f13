"""Plots of results, drawn with matplotlib, which is imported only when a figure is drawn.

Every function returns a matplotlib Figure. A notebook displays it, `savefig` writes it to a
file, and `pyplot` is not needed. Functions with `ax=` can draw on your own axes instead.
All figures share a colour scale per metric, so that they can be compared.
"""

from bias_metrics.plot._report import comparison, heatmap, intervals, per_term_scatter
from bias_metrics.plot._scores import (
    distribution_panels,
    reliability,
    reliability_panels,
    score_distributions,
)

__all__ = [
    "comparison",
    "distribution_panels",
    "heatmap",
    "intervals",
    "per_term_scatter",
    "reliability",
    "reliability_panels",
    "score_distributions",
]
