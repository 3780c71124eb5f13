"""Subgroups: intersections, categories and dominant rows."""

from bias_metrics.groups.intersecting import SEPARATOR, Intersections, Support
from bias_metrics.groups.subgroups import RollUp

__all__ = ["SEPARATOR", "Intersections", "RollUp", "Support"]
