"""Colours of all plots: one scale per metric, so that plots can be compared."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from bias_metrics._core.tables import import_optional
from bias_metrics.plot._canvas import import_matplotlib

if TYPE_CHECKING:
    from matplotlib.colors import Colormap, Normalize

# Distinguishable with most kinds of colour blindness.
BLUE, ORANGE = "#0072b2", "#d55e00"
# Cells and panels without evidence; less important lines and texts.
UNDEFINED, GREY = "0.85", "0.45"

Colour = tuple[float, float, float, float]


@cache
def get_scale(metric: str, *, difference: bool = False) -> tuple[Normalize, Colormap]:
    """Return the scale and the colour map of a metric, given by the end of its name.

    AUCs: 0.5 to 1, white is good. AEGs: -1/2 to 1/2, white is good, red is higher. The difference
    of two models' AUCs (purple: the first is better) or AEGs: -0.2 to 0.2. Every colour map can
    also be read by lightness.
    """
    kind = metric.rpartition("_")[2]
    ends, colours = {
        ("auc", False): ((0.5, 1.0), "Oranges_r"),
        ("aeg", False): ((-0.5, 0.5), "RdBu_r"),
        ("auc", True): ((-0.2, 0.2), "PuOr"),
        ("aeg", True): ((-0.2, 0.2), "RdBu_r"),
        ("difference", False): ((0.0, 0.2), "Oranges"),
        ("percent", False): ((0.0, 50.0), "Purples"),
    }.get(("percent" if metric.startswith("percent_") else kind, difference), (None, ""))
    if ends is None:
        prefix = "the difference of " if difference else ""
        msg = f"get_scale: `metric` must be one that has a scale; got {prefix}{metric!r}."
        raise ValueError(msg)
    scale = import_matplotlib("colors").Normalize(*ends, clip=True)
    return scale, import_optional("matplotlib", "bias_metrics.plot").colormaps[colours]


def get_colour(metric: str, value: float, *, difference: bool = False) -> Colour:
    """Return the colour of a value on the scale of its metric."""
    scale, colours = get_scale(metric, difference=difference)
    red, green, blue, alpha = colours(float(scale(value)))
    return red, green, blue, alpha
