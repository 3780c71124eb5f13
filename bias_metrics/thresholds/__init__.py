"""Errors at a threshold: rates, Dixon's sums."""

from bias_metrics.thresholds.rate_gaps import MeasuredRates
from bias_metrics.thresholds.shares import Events

__all__ = ["Events", "MeasuredRates"]
