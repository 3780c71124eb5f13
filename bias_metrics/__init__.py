"""Exact bias metrics for classifier scores; numpy is the only dependency.

Start with `evaluate_bias`. `bias_metrics/README.md` lists every metric with its source.
"""

from bias_metrics._ranks import SortedClasses, SortedScores
from bias_metrics._values import MetricValue
from bias_metrics.aggregates import final_score, power_mean
from bias_metrics.agreement import label_agreement
from bias_metrics.aucs import (
    bnsp_auc,
    bpsn_auc,
    negative_aeg,
    positive_aeg,
    roc_auc,
    subgroup_auc,
)
from bias_metrics.comparison import BiasComparison, Difference, compare_bias
from bias_metrics.counterfactual import counterfactual_gaps, paired_gaps
from bias_metrics.dataset import identity_counts, term_frequencies, toxicity_by_length
from bias_metrics.evaluation import (
    evaluate_bias,
    measure_subgroup,
    rank_scores,
    summarise_bias,
)
from bias_metrics.intersecting import intersections
from bias_metrics.labels import label_sensitivity
from bias_metrics.report import BiasReport, SubgroupBias, WorstCell
from bias_metrics.subgroups import IDENTITY_HIERARCHY, roll_up, within_slice
from bias_metrics.worst import worst_subgroup

__all__ = [
    "IDENTITY_HIERARCHY",
    "BiasComparison",
    "BiasReport",
    "Difference",
    "MetricValue",
    "SortedClasses",
    "SortedScores",
    "SubgroupBias",
    "WorstCell",
    "bnsp_auc",
    "bpsn_auc",
    "compare_bias",
    "counterfactual_gaps",
    "evaluate_bias",
    "final_score",
    "identity_counts",
    "intersections",
    "label_agreement",
    "label_sensitivity",
    "measure_subgroup",
    "negative_aeg",
    "paired_gaps",
    "positive_aeg",
    "power_mean",
    "rank_scores",
    "roc_auc",
    "roll_up",
    "subgroup_auc",
    "summarise_bias",
    "term_frequencies",
    "toxicity_by_length",
    "within_slice",
    "worst_subgroup",
]
