"""Rules and verdicts, as data: messages are written elsewhere."""

from bias_metrics.gate.decide import (
    WORST_FIRST,
    EvidenceKey,
    decide,
    evidence_needed,
    needs_calibration,
    thresholds_needed,
    worst,
)
from bias_metrics.gate.doubts import USEFUL, Flagged, judge_usefulness, unjudged, without_proof
from bias_metrics.gate.exceptions import PassException, extent_of
from bias_metrics.gate.harm import (
    RULE,
    Bounds,
    HarmLimit,
    bounds_looked_at,
    judge_harm,
    unruled_harm,
)
from bias_metrics.gate.judging import RIVALS, Outcome
from bias_metrics.gate.losses import ALPHA, Loss, Losses
from bias_metrics.gate.marked import MISSING, TRUNCATED, ShareLimits, judge_missing, judge_truncated
from bias_metrics.gate.objective import Objective, ObjectiveMetric, measure_objective
from bias_metrics.gate.placing import covered_groups, small_groups
from bias_metrics.gate.planning import (
    Counts,
    Guess,
    chance_of_auc,
    chance_of_group,
    is_planned,
    lacks_support,
    least_rows,
    standard_error,
)
from bias_metrics.gate.power import rows_for_margin
from bias_metrics.gate.results import Check
from bias_metrics.gate.rolling import CIVIL_COMMENTS, Hierarchy
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
    correct_for_candidates,
    corrected_confidence,
)
from bias_metrics.gate.selection import selection_flattery
from bias_metrics.gate.targets import targets_of, without_sampling_error
from bias_metrics.gate.verdict import Evidence, Lack, Rolled, RuleResult, SmallGroups, Verdict

__all__ = [
    "AGGREGATE",
    "ALPHA",
    "CIVIL_COMMENTS",
    "EACH",
    "LEAST_COMPARED",
    "LEAST_ROWS",
    "MISSING",
    "OVERALL",
    "RIVALS",
    "RULE",
    "TRUNCATED",
    "USEFUL",
    "WORST",
    "WORST_FIRST",
    "Action",
    "Bounds",
    "Check",
    "Counts",
    "Evidence",
    "EvidenceKey",
    "Flagged",
    "Guess",
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
    "Rolled",
    "Rule",
    "RuleResult",
    "ShareLimits",
    "SmallGroups",
    "Verdict",
    "bounds_looked_at",
    "chance_of_auc",
    "chance_of_group",
    "correct_for_candidates",
    "corrected_confidence",
    "covered_groups",
    "decide",
    "evidence_needed",
    "extent_of",
    "is_planned",
    "judge_harm",
    "judge_missing",
    "judge_truncated",
    "judge_usefulness",
    "lacks_support",
    "least_rows",
    "measure_objective",
    "needs_calibration",
    "rows_for_margin",
    "selection_flattery",
    "small_groups",
    "standard_error",
    "targets_of",
    "thresholds_needed",
    "unjudged",
    "unruled_harm",
    "without_proof",
    "without_sampling_error",
    "worst",
]
