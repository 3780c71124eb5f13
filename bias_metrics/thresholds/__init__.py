"""Errors at a threshold: rates, by term, Dixon's sums."""

from bias_metrics.thresholds.rate_gaps import MeasuredRates
from bias_metrics.thresholds.shares import Events
from bias_metrics.thresholds.terms import ErrorsByTerm, TermErrors, errors_by_term

__all__ = ["ErrorsByTerm", "Events", "MeasuredRates", "TermErrors", "errors_by_term"]
