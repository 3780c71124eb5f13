"""Rank the rows once, measure each identity, explain the numbers."""
