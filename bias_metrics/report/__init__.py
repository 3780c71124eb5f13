"""Many metrics at once: reports, comparisons, bootstrap, worst subgroup."""

from bias_metrics.report.jointly import bonferroni_level, joint_level
from bias_metrics.report.steps import measure_members, ranked_members, summarise_bias
from bias_metrics.report.uncertainty import with_intervals
from bias_metrics.report.worst import worst_first

__all__ = [
    "bonferroni_level",
    "joint_level",
    "measure_members",
    "ranked_members",
    "summarise_bias",
    "with_intervals",
    "worst_first",
]
