"""Rank the rows once, measure each identity, name its pattern of bias."""
