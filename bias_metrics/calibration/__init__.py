"""Calibration by subgroup: whether scores are the probabilities that they claim to be."""

from bias_metrics.calibration.calibration import MeasuredCalibration

__all__ = ["MeasuredCalibration"]
