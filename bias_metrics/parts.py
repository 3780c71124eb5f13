"""Building blocks for programs: packed masks, ranked rows, cuts, tables, intervals, limits."""

from bias_metrics._core.checks import LARGEST_WHOLE, MAX_WEIGHT
from bias_metrics._core.cuts import reaches_cut, widen_floats
from bias_metrics._core.influence import RankedRows, rank_rows
from bias_metrics._core.intervals import MIN_CLUSTERS
from bias_metrics._core.masks import PackedMasks
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.ranks import SortedClasses, SortedScores
from bias_metrics._core.tables import Table
from bias_metrics._core.wording import format_count
from bias_metrics.groups.dominance import DominantUnits, find_dominant_units

__all__ = [
    "LARGEST_WHOLE",
    "MAX_WEIGHT",
    "MIN_CLUSTERS",
    "DominantUnits",
    "PackedMasks",
    "RankedRows",
    "SortedClasses",
    "SortedScores",
    "Table",
    "find_dominant_units",
    "format_count",
    "rank_rows",
    "reaches_cut",
    "widen_floats",
    "wilson_interval",
]
