"""Counts of scores in narrow bins: they add up over shards, days and machines."""

from bias_metrics.binned.clusters import ClusterTotals
from bias_metrics.binned.comparison import widest
from bias_metrics.binned.rates import NO_CLUSTERS

__all__ = ["NO_CLUSTERS", "ClusterTotals", "widest"]
