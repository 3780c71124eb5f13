"""Errors at a threshold: rates, Dixon's sums, accuracy, advice."""
