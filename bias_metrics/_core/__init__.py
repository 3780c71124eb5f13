"""Ranks, cells, intervals and covariances that every metric shares."""
