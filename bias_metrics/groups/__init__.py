"""Intersections, categories and dominant rows of subgroups."""

from bias_metrics.groups.intersections import SEPARATOR, Intersections, IntersectionSupport
from bias_metrics.groups.subgroups import RollUp

__all__ = ["SEPARATOR", "IntersectionSupport", "Intersections", "RollUp"]
