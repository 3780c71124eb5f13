"""Reports of all metrics, comparisons of models, and the worst subgroup."""

from bias_metrics.extremes import sort_worst_first
from bias_metrics.report.comparison import CandidateComparisons
from bias_metrics.report.evaluation import SliceReports
from bias_metrics.report.joint_level import compute_joint_level
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import MeasuredSubgroup, ReportOptions
from bias_metrics.report.strata import measure_within_strata

__all__ = [
    "CandidateComparisons",
    "MeasuredSubgroup",
    "Measurement",
    "Pairing",
    "ReportOptions",
    "SliceReports",
    "compute_joint_level",
    "measure_within_strata",
    "sort_worst_first",
]
