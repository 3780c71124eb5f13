"""Rules and verdicts, as data: messages are written elsewhere."""

from bias_metrics.gate.decision import (
    WORST_FIRST,
    EvidenceKey,
    find_worst_outcome,
    judge_rules,
    list_needed_evidence,
    list_needed_thresholds,
    needs_calibration,
)
from bias_metrics.gate.doubts import (
    USEFULNESS_RULE,
    FlagRates,
    judge_usefulness,
    list_unjudged_metrics,
    withdraw_dominated_passes,
)
from bias_metrics.gate.exceptions import PassException, find_pass_extent
from bias_metrics.gate.harm import (
    HARM_RULE,
    BoundCounts,
    HarmLimit,
    count_bounds,
    judge_harm,
    list_unblocked_harm,
)
from bias_metrics.gate.hierarchy import CIVIL_COMMENTS, Hierarchy
from bias_metrics.gate.losses import ALPHA, Loss, Losses
from bias_metrics.gate.objective import Objective, ObjectiveMetric, measure_objective
from bias_metrics.gate.outcome import RIVALS, Outcome
from bias_metrics.gate.placement import list_covered_groups, list_small_groups
from bias_metrics.gate.plans import (
    PlanAssumptions,
    PlannedCounts,
    estimate_auc_chance,
    estimate_group_chance,
    find_least_rows,
    is_planned,
    lacks_support,
    predict_standard_error,
)
from bias_metrics.gate.power import rows_for_margin
from bias_metrics.gate.results import Check
from bias_metrics.gate.rules import (
    AGGREGATE,
    EACH,
    LEAST_COMPARED,
    LEAST_ROWS,
    OVERALL,
    WORST,
    Action,
    Mode,
    Rule,
    correct_confidence,
    correct_for_candidates,
)
from bias_metrics.gate.selection import estimate_optimism
from bias_metrics.gate.share_limits import (
    MISSING,
    TRUNCATED,
    ShareLimits,
    judge_missing,
    judge_truncated,
)
from bias_metrics.gate.targets import list_targets, remove_sampling_error
from bias_metrics.gate.verdict import (
    Evidence,
    Lack,
    RolledAggregate,
    RuleResult,
    SmallGroups,
    Verdict,
)

__all__ = [
    "AGGREGATE",
    "ALPHA",
    "CIVIL_COMMENTS",
    "EACH",
    "HARM_RULE",
    "LEAST_COMPARED",
    "LEAST_ROWS",
    "MISSING",
    "OVERALL",
    "RIVALS",
    "TRUNCATED",
    "USEFULNESS_RULE",
    "WORST",
    "WORST_FIRST",
    "Action",
    "BoundCounts",
    "Check",
    "Evidence",
    "EvidenceKey",
    "FlagRates",
    "HarmLimit",
    "Hierarchy",
    "Lack",
    "Loss",
    "Losses",
    "Mode",
    "Objective",
    "ObjectiveMetric",
    "Outcome",
    "PassException",
    "PlanAssumptions",
    "PlannedCounts",
    "RolledAggregate",
    "Rule",
    "RuleResult",
    "ShareLimits",
    "SmallGroups",
    "Verdict",
    "correct_confidence",
    "correct_for_candidates",
    "count_bounds",
    "estimate_auc_chance",
    "estimate_group_chance",
    "estimate_optimism",
    "find_least_rows",
    "find_pass_extent",
    "find_worst_outcome",
    "is_planned",
    "judge_harm",
    "judge_missing",
    "judge_rules",
    "judge_truncated",
    "judge_usefulness",
    "lacks_support",
    "list_covered_groups",
    "list_needed_evidence",
    "list_needed_thresholds",
    "list_small_groups",
    "list_targets",
    "list_unblocked_harm",
    "list_unjudged_metrics",
    "measure_objective",
    "needs_calibration",
    "predict_standard_error",
    "remove_sampling_error",
    "rows_for_margin",
    "withdraw_dominated_passes",
]
