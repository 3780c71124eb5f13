"""Counts of scores in narrow bins: they add up over shards, days and machines."""
