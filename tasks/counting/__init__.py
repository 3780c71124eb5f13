"""Counts of scored rows in shards, and verdicts based on these counts."""
