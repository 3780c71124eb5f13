"""Ranks, cells, intervals and covariances shared by all metrics."""
