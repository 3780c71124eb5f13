"""Exact bias metrics for classifier scores; numpy is the only dependency.

Start with `evaluate_bias`. `bias_metrics/README.md` lists every metric with its source.
"""

from bias_metrics._ranks import SortedClasses, SortedScores
from bias_metrics._values import MetricValue
from bias_metrics.aggregates import final_score, power_mean
from bias_metrics.aucs import (
    bnsp_auc,
    bpsn_auc,
    negative_aeg,
    positive_aeg,
    roc_auc,
    subgroup_auc,
)
from bias_metrics.report import (
    BiasReport,
    SubgroupBias,
    evaluate_bias,
    measure_subgroup,
    rank_scores,
    summarise_bias,
)

__all__ = [
    "BiasReport",
    "MetricValue",
    "SortedClasses",
    "SortedScores",
    "SubgroupBias",
    "bnsp_auc",
    "bpsn_auc",
    "evaluate_bias",
    "final_score",
    "measure_subgroup",
    "negative_aeg",
    "positive_aeg",
    "power_mean",
    "rank_scores",
    "roc_auc",
    "subgroup_auc",
    "summarise_bias",
]
