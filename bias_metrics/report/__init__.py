"""Many metrics at once: reports, comparisons, worst subgroup."""

from bias_metrics.report.jointly import bonferroni_level, joint_level, selected
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import MeasuredSubgroup, Options
from bias_metrics.report.within import within_strata
from bias_metrics.worst import worst_first

__all__ = [
    "MeasuredSubgroup",
    "Measurement",
    "Options",
    "Pairing",
    "bonferroni_level",
    "joint_level",
    "selected",
    "within_strata",
    "worst_first",
]
