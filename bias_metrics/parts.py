"""Parts that programs build on: packed masks, ranked rows, tables, intervals, words for counts."""

from bias_metrics._core.checks import MAX_WEIGHT
from bias_metrics._core.counted import counted
from bias_metrics._core.influence import RankedRows, rank_rows
from bias_metrics._core.intervals import MIN_CLUSTERS
from bias_metrics._core.packed import PackedMasks
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.tables import Table

__all__ = [
    "MAX_WEIGHT",
    "MIN_CLUSTERS",
    "PackedMasks",
    "RankedRows",
    "Table",
    "counted",
    "rank_rows",
    "wilson_interval",
]
