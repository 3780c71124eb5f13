"""Subgroups: intersections, counts, agreement."""

from bias_metrics.groups.intersecting import SEPARATOR

__all__ = [
    "SEPARATOR",
]
