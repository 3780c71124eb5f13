"""Evidence for small identities: joined in categories, and separately with joint bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bias_metrics.gate import (
    AGGREGATE,
    RIVALS,
    Check,
    Evidence,
    RolledAggregate,
    Rule,
    SmallGroups,
    list_covered_groups,
    list_small_groups,
    list_targets,
)
from biasgate.tasks.evidence.measure import RowMeasurer
from biasgate.tasks.evidence.rows import CANDIDATE


def add_categories(
    measurer: RowMeasurer,
    separate: Evidence,
    confidence: float,
    small: SmallGroups,
    rules: Sequence[Rule],
    joint_confidence: float | None = None,
) -> Evidence:
    """Add evidence to judge small groups in categories.

    Parameters
    ----------
    separate : Evidence
        The measurements without categories.
    confidence : float
        Two-sided confidence of each interval.
    small : SmallGroups
        The categories, and the groups that are not measured.
    rules : sequence of Rule
        The rules that the evidence is for.
    joint_confidence : float, optional
        Two-sided joint confidence of the bounds of all small groups. Default: `confidence`.

    Returns
    -------
    Evidence
        `separate` itself if no group is too small for a rule.
    """
    identities, categories = list(measurer.rows.members), measurer.categories
    has_categories = bool(categories)
    if not (categories or small.not_measured) or not any(
        _has_small_group(rule, separate) for rule in rules
    ):
        return separate
    joined = replace(measurer.measure(confidence, joined=has_categories), small_groups=small)
    names = list_small_groups(rules, joined)
    joint_evidence, rolled_aggregates = None, {}
    if names:
        roles = _list_compared_roles(rules, measurer.rivals)
        joint = confidence if joint_confidence is None else joint_confidence
        level = measurer.compute_joint_level(roles, names, (1 - joint) / 2)
        joint_evidence = measurer.measure_identities(names, level)
    evidence_by_groups: dict[tuple[str, ...], Evidence] = {}
    for rule in rules:
        if rule.scope == AGGREGATE:
            groups = list_covered_groups(rule, joined, measurer.power_mean_groups or identities)
            if not groups:
                continue
            if groups not in evidence_by_groups:
                evidence_by_groups[groups] = measurer.measure(
                    confidence, joined=has_categories, groups=groups
                )
            rolled_aggregates[rule.name] = RolledAggregate(groups, evidence_by_groups[groups])
    return replace(joined, joint_evidence=joint_evidence, rolled_aggregates=rolled_aggregates)


def _list_compared_roles(rules: Sequence[Rule], rivals: Sequence[str]) -> list[str]:
    """List the roles that numbers are compared with; the candidate itself for absolute limits."""
    kinds = dict.fromkeys(kind for rule in rules for kind, _ in rule.checks)
    own = [CANDIDATE] if any(kind not in RIVALS for kind in kinds) else []
    return own + [role for role in rivals if role in kinds]


def _has_small_group(rule: Rule, evidence: Evidence) -> bool:
    """Return True if a group is too small for a rule."""
    kind, limit = next(
        ((kind, limit) for kind, limit in rule.checks if evidence.can_judge(kind)), ("floor", 0.0)
    )
    check = Check(rule, kind, limit, evidence.table)
    targets = list_targets(evidence.table, rule, evidence.background)
    return any(check.find_lack(target) for target in targets)
