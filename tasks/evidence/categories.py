"""Small identities in the evidence: judged in their categories, and alone together."""

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
from biasgate.tasks.evidence.measure import Measuring
from biasgate.tasks.evidence.rows import CANDIDATE


def with_categories(
    measuring: Measuring,
    found: Evidence,
    confidence: float,
    small: SmallGroups,
    rules: Sequence[Rule],
    confidence_alone: float | None = None,
) -> Evidence:
    """Return evidence in which small groups can be judged in categories.

    Parameters
    ----------
    found : Evidence
        What was measured without categories.
    confidence : float
        Two-sided, of each interval.
    small : SmallGroups
        The categories, and the groups that are not measured.
    rules : sequence of Rule
        The rules that it is for.
    confidence_alone : float, optional
        Two-sided, of the bounds of all small groups together. Default: `confidence`.

    Returns
    -------
    Evidence
        `found` itself if no group is too small for a rule.
    """
    identities, categories = list(measuring.rows.members), measuring.categories
    if not (categories or small.not_measured) or not any(_lacks(one, found) for one in rules):
        return found
    joined = bool(categories)
    found = replace(measuring.evidence(confidence, joined=joined), small_groups=small)
    names = list_small_groups(rules, found)
    alone, rolled = None, {}
    if names:
        roles = _compared_with(rules, measuring.rivals)
        of_alone = confidence if confidence_alone is None else confidence_alone
        level = measuring.joint_level(roles, names, (1 - of_alone) / 2)
        alone = measuring.alone(names, level)
    over: dict[tuple[str, ...], Evidence] = {}
    for rule in rules:
        if rule.scope == AGGREGATE:
            groups = list_covered_groups(rule, found, measuring.power_mean_groups or identities)
            if not groups:
                continue
            if groups not in over:
                over[groups] = measuring.evidence(confidence, joined=joined, groups=groups)
            rolled[rule.name] = RolledAggregate(groups, over[groups])
    return replace(found, joint_evidence=alone, rolled_aggregates=rolled)


def _compared_with(rules: Sequence[Rule], rivals: Sequence[str]) -> list[str]:
    """Return the roles that numbers are compared with; the candidate's for limits of its own."""
    kinds = dict.fromkeys(kind for rule in rules for kind, _ in rule.checks)
    own = [CANDIDATE] if any(kind not in RIVALS for kind in kinds) else []
    return own + [role for role in rivals if role in kinds]


def _lacks(rule: Rule, found: Evidence) -> bool:
    """Say whether a group is too small for a rule."""
    kind, limit = next(
        ((kind, limit) for kind, limit in rule.checks if found.can_judge(kind)), ("floor", 0.0)
    )
    check = Check(rule, kind, limit, found.table)
    return any(
        check.find_lack(target) for target in list_targets(found.table, rule, found.background)
    )
