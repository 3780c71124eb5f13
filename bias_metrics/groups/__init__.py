"""Subgroups: intersections, counts, agreement, counterfactual pairs."""
