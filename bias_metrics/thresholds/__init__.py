"""Errors at a threshold: rates, rates by term, Dixon's sums, changed decisions, marked rows."""

from bias_metrics.thresholds.changes import ChangedDecisions
from bias_metrics.thresholds.decisions import ThresholdReport
from bias_metrics.thresholds.dixon import EqualityDifference
from bias_metrics.thresholds.errors import ErrorCurve, ErrorRates
from bias_metrics.thresholds.indicators import GroupIndicators, Indicators
from bias_metrics.thresholds.marked_rows import MarkedRows, MarkedShare
from bias_metrics.thresholds.rate_gaps import MeasuredRates, compare_rate_gaps
from bias_metrics.thresholds.shares import CountedShare, Events
from bias_metrics.thresholds.terms import ErrorsByTerm, TermErrors, errors_by_term
from bias_metrics.thresholds.thresholds import EqualErrorRate, ThresholdTable
from bias_metrics.thresholds.transfer import FlagChange, ThresholdTransfer

__all__ = [
    "ChangedDecisions",
    "CountedShare",
    "EqualErrorRate",
    "EqualityDifference",
    "ErrorCurve",
    "ErrorRates",
    "ErrorsByTerm",
    "Events",
    "FlagChange",
    "GroupIndicators",
    "Indicators",
    "MarkedRows",
    "MarkedShare",
    "MeasuredRates",
    "TermErrors",
    "ThresholdReport",
    "ThresholdTable",
    "ThresholdTransfer",
    "compare_rate_gaps",
    "errors_by_term",
]
