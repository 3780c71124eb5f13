"""Rank the rows once, measure each identity, say which pattern of bias it has."""
