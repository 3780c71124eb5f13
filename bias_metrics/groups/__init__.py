"""Subgroups: intersections, categories and dominant rows."""

from bias_metrics.groups.intersecting import SEPARATOR

__all__ = [
    "SEPARATOR",
]
