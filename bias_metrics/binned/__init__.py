"""Counts of scores in narrow bins, which can be added over shards, days and machines."""

from bias_metrics.binned.comparison import bound_difference

__all__ = ["bound_difference"]
