"""Subgroups: intersections and counts."""

from bias_metrics.groups.intersecting import SEPARATOR

__all__ = [
    "SEPARATOR",
]
