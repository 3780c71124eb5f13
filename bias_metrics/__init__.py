"""Exact bias metrics for classifier scores; numpy is the only dependency.

Start with `evaluate_bias`. `bias_metrics/README.md` lists every metric with its source.
"""

from bias_metrics import plot
from bias_metrics._core.differences import Difference
from bias_metrics._core.ranks import SortedClasses, SortedScores
from bias_metrics._core.values import Estimate, MetricValue, Named
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
from bias_metrics.calibration import (
    Calibrated,
    CalibrationComparison,
    CalibrationReport,
    ReliabilityBin,
    calibration_report,
    compare_calibration,
)
from bias_metrics.gate.selection import selection_flattery
from bias_metrics.gate.verdict import RuleResult, Verdict
from bias_metrics.groups.intersecting import Intersections, Support, intersections
from bias_metrics.groups.subgroups import IDENTITY_HIERARCHY, RollUp, roll_up
from bias_metrics.kaggle import compute_bias_metrics_for_model
from bias_metrics.mitigation.pool import PoolChoice
from bias_metrics.mitigation.weights import BalancingWeights
from bias_metrics.report.comparison import CandidateComparisons, compare_bias, compare_candidates
from bias_metrics.report.evaluation import (
    SliceReports,
    evaluate_bias,
    evaluate_slices,
)
from bias_metrics.rows import Rows
from bias_metrics.spread import SubgroupSpread
from bias_metrics.table import BiasTable, Key, RowCounts
from bias_metrics.thresholds.changes import ChangedDecisions, changed_decisions
from bias_metrics.thresholds.decisions import ThresholdReport, threshold_report
from bias_metrics.thresholds.dixon import EqualityDifference, fned, fped
from bias_metrics.thresholds.errors import ErrorCurve, ErrorRates
from bias_metrics.thresholds.indicators import GroupIndicators, Indicators, decision_indicators
from bias_metrics.thresholds.missing import MissingScores, MissingShare, missing_scores
from bias_metrics.thresholds.pinned import pinned_auc, pinned_auc_equality_difference
from bias_metrics.thresholds.rate_gaps import compare_rate_gaps, rate_gaps
from bias_metrics.thresholds.shares import CountedShare
from bias_metrics.thresholds.thresholds import (
    EqualErrorRate,
    ThresholdTable,
    equal_error_range,
    equal_error_rate,
    error_rates,
    threshold_table,
)
from bias_metrics.thresholds.transfer import FlagChange, ThresholdTransfer, transfer_threshold
from bias_metrics.worst import WorstSubgroup

__all__ = [
    "IDENTITY_HIERARCHY",
    "BalancingWeights",
    "BiasTable",
    "Calibrated",
    "CalibrationComparison",
    "CalibrationReport",
    "CandidateComparisons",
    "ChangedDecisions",
    "CountedShare",
    "Difference",
    "EqualErrorRate",
    "EqualityDifference",
    "ErrorCurve",
    "ErrorRates",
    "Estimate",
    "FlagChange",
    "GroupIndicators",
    "Indicators",
    "Intersections",
    "Key",
    "MetricValue",
    "MissingScores",
    "MissingShare",
    "Named",
    "PoolChoice",
    "ReliabilityBin",
    "RollUp",
    "RowCounts",
    "Rows",
    "RuleResult",
    "ScoreCounts",
    "SliceReports",
    "SortedClasses",
    "SortedScores",
    "SubgroupSpread",
    "Support",
    "ThresholdReport",
    "ThresholdTable",
    "ThresholdTransfer",
    "Verdict",
    "WorstSubgroup",
    "bnsp_auc",
    "bpsn_auc",
    "calibration_report",
    "changed_decisions",
    "compare_bias",
    "compare_calibration",
    "compare_candidates",
    "compare_rate_gaps",
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
    "missing_scores",
    "negative_aeg",
    "pinned_auc",
    "pinned_auc_equality_difference",
    "plot",
    "positive_aeg",
    "power_mean",
    "rate_gaps",
    "roc_auc",
    "roll_up",
    "selection_flattery",
    "subgroup_auc",
    "threshold_report",
    "threshold_table",
    "transfer_threshold",
]
