"""Calibration by subgroup: whether scores are the probabilities that they claim to be."""
