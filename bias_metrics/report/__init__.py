"""Many metrics at once: reports, comparisons, worst subgroup."""

from bias_metrics.report.comparison import CandidateComparisons
from bias_metrics.report.evaluation import SliceReports
from bias_metrics.report.jointly import joint_level
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import MeasuredSubgroup, Options
from bias_metrics.report.within import within_strata
from bias_metrics.worst import worst_first

__all__ = [
    "CandidateComparisons",
    "MeasuredSubgroup",
    "Measurement",
    "Options",
    "Pairing",
    "SliceReports",
    "joint_level",
    "within_strata",
    "worst_first",
]
