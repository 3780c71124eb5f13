"""Exact bias metrics for classifier scores; numpy is the only dependency.

Start with `evaluate_bias`. `bias_metrics/README.md` lists every metric with its source. The classes
of other results are in the modules of the functions that return them.
"""

from bias_metrics import plot
from bias_metrics._core.differences import Difference
from bias_metrics._core.values import Estimate, MetricValue
from bias_metrics.binned.counts import ScoreCounts
from bias_metrics.borkan import (
    bnsp_auc,
    bpsn_auc,
    final_score,
    negative_aeg,
    positive_aeg,
    power_mean,
    roc_auc,
    subgroup_auc,
)
from bias_metrics.calibration import calibration_report, compare_calibration
from bias_metrics.groups.intersections import intersections
from bias_metrics.groups.subgroups import IDENTITY_HIERARCHY, roll_up
from bias_metrics.kaggle import compute_bias_metrics_for_model
from bias_metrics.report.comparison import compare_bias, compare_candidates
from bias_metrics.report.evaluation import evaluate_bias, evaluate_slices
from bias_metrics.rows import Rows
from bias_metrics.table import BiasTable, Key, RowCounts
from bias_metrics.thresholds.changes import changed_decisions
from bias_metrics.thresholds.decisions import threshold_report
from bias_metrics.thresholds.dixon import fned, fped
from bias_metrics.thresholds.indicators import decision_indicators
from bias_metrics.thresholds.marked_rows import marked_rows
from bias_metrics.thresholds.pinned_auc import pinned_auc, pinned_auc_equality_difference
from bias_metrics.thresholds.rate_gaps import rate_gaps
from bias_metrics.thresholds.thresholds import (
    equal_error_range,
    equal_error_rate,
    error_rates,
    threshold_table,
)
from bias_metrics.thresholds.transfer import transfer_threshold

__all__ = [
    "IDENTITY_HIERARCHY",
    "BiasTable",
    "Difference",
    "Estimate",
    "Key",
    "MetricValue",
    "RowCounts",
    "Rows",
    "ScoreCounts",
    "bnsp_auc",
    "bpsn_auc",
    "calibration_report",
    "changed_decisions",
    "compare_bias",
    "compare_calibration",
    "compare_candidates",
    "compute_bias_metrics_for_model",
    "decision_indicators",
    "equal_error_range",
    "equal_error_rate",
    "error_rates",
    "evaluate_bias",
    "evaluate_slices",
    "final_score",
    "fned",
    "fped",
    "intersections",
    "marked_rows",
    "negative_aeg",
    "pinned_auc",
    "pinned_auc_equality_difference",
    "plot",
    "positive_aeg",
    "power_mean",
    "rate_gaps",
    "roc_auc",
    "roll_up",
    "subgroup_auc",
    "threshold_report",
    "threshold_table",
    "transfer_threshold",
]
