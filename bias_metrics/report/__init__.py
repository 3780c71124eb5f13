"""Many metrics at once: reports, comparisons, worst subgroup."""

from bias_metrics.report.jointly import joint_level
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import MeasuredSubgroup, Options
from bias_metrics.report.within import within_strata
from bias_metrics.worst import worst_first

__all__ = [
    "MeasuredSubgroup",
    "Measurement",
    "Options",
    "Pairing",
    "joint_level",
    "within_strata",
    "worst_first",
]
