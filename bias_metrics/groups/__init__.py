"""Subgroups: intersections, counts, agreement, counterfactual pairs."""

from bias_metrics.groups.intersecting import SEPARATOR

__all__ = [
    "SEPARATOR",
]
