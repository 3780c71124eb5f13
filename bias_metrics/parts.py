"""Parts that programs build on: packed masks, ranked rows, cuts, tables, intervals, limits."""

from bias_metrics._core.checks import LARGEST_WHOLE, MAX_WEIGHT
from bias_metrics._core.counted import counted
from bias_metrics._core.cuts import reaches, widened
from bias_metrics._core.influence import RankedRows, rank_rows
from bias_metrics._core.intervals import MIN_CLUSTERS
from bias_metrics._core.packed import PackedMasks
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.ranks import SortedClasses, SortedScores
from bias_metrics._core.tables import Table
from bias_metrics.groups.dominance import DominantUnits, dominant_units

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
    "counted",
    "dominant_units",
    "rank_rows",
    "reaches",
    "widened",
    "wilson_interval",
]
