"""Counting shards of scored rows, and judging by the counts."""
