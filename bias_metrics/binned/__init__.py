"""Counts of scores in narrow bins: they add up over shards, days and machines."""

from bias_metrics.binned.comparison import widest

__all__ = ["widest"]
