"""Errors at a threshold: rates, Dixon's sums, accuracy, advice."""

from bias_metrics.thresholds.errors import flagged
from bias_metrics.thresholds.rate_cells import rate_cells

__all__ = [
    "flagged",
    "rate_cells",
]
