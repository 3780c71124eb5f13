"""Labels that raters gave: what their disagreement means for every metric."""

from bias_metrics.raters.expected import FINAL, OVERALL, Key

__all__ = [
    "FINAL",
    "OVERALL",
    "Key",
]
