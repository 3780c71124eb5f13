"""Placement of groups: by their own rows, or in the first category above with enough rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bias_metrics.gate.results import Check
from bias_metrics.gate.rolling import Hierarchy
from bias_metrics.gate.rules import SUBGROUP_METRICS, WORST, Rule
from bias_metrics.gate.targets import SUBGROUP, Target, build_category_target, list_targets
from bias_metrics.gate.verdict import Evidence, Lack, RuleResult


@dataclass
class _Places:
    """The targets to judge, the groups that each replaces, and the small groups.

    A small group is listed with its lack of rows, and with the category that replaces it, if any.
    """

    judged: dict[str | None, Target] = field(default_factory=dict)
    instead_of: dict[str | None, tuple[str, ...]] = field(default_factory=dict)
    small: list[tuple[Target, Lack, str | None]] = field(default_factory=list)

    @classmethod
    def place_targets(
        cls,
        check: Check,
        targets: Iterable[Target],
        evidence: Evidence,
        *,
        is_aggregate: bool = False,
    ) -> _Places:
        """Place every target; an aggregate may also use the top category of a hierarchy."""
        places = cls()
        for target in targets:
            lack, category = check.find_lack(target), None
            category_lacks: tuple[Lack, ...] = ()
            if lack is not None and target.scope == SUBGROUP:
                category, category_lacks = _find_category(
                    check, target, evidence, is_aggregate=is_aggregate
                )
            if category is not None and lack is not None:
                places.judged[category.group] = category
                replaced = places.instead_of.get(category.group, ())
                places.instead_of[category.group] = (*replaced, str(target.group))
                places.small.append((target, lack, str(category.group)))
            elif lack is not None and _is_judged_by_own_rows(
                target, evidence, is_aggregate=is_aggregate
            ):
                places.small.append((target, replace(lack, categories=category_lacks), None))
            else:
                places.judged[target.group] = replace(target, categories=category_lacks)
        return places


def judge_targets(
    check: Check, targets: Iterable[Target], evidence: Evidence, covered: tuple[str, ...]
) -> Iterator[RuleResult]:
    """Judge every target, with small groups in categories if the evidence has them.

    `covered` names the groups and categories of an aggregate, if they are not the set's own groups.
    """
    targets = list(targets)
    is_worst = bool(targets) and targets[0].scope == WORST
    places = _Places.place_targets(check, targets[0].members if is_worst else targets, evidence)
    if is_worst and places.judged:
        judged = replace(targets[0], members=tuple(places.judged.values()))
        yield check.judge_target(
            judged, tuple(name for names in places.instead_of.values() for name in names)
        )
    elif not is_worst:
        for name, target in places.judged.items():
            yield check.judge_target(target, places.instead_of.get(name, covered))
    for target, lack, category in places.small:
        yield check.judge_small_group(
            target,
            lack,
            None if evidence.joint_evidence is None else evidence.joint_evidence.table,
            category=category,
            blind=evidence.small_groups.blind,
            not_measured=evidence.small_groups.not_measured.get(str(target.group)),
            hint=evidence.small_groups.hints.get(str(target.group), ""),
        )


def _is_judged_by_own_rows(target: Target, evidence: Evidence, *, is_aggregate: bool) -> bool:
    """Return True if the few rows of a group without a usable category are judged by themselves.

    This applies to groups listed in `not_measured` and, except for aggregates, to groups in a
    hierarchy. For all others the rule lacks evidence.
    """
    if target.scope != SUBGROUP:
        return False
    name = str(target.group)
    if name in evidence.small_groups.not_measured:
        return True
    hierarchy = evidence.small_groups.hierarchy
    return not is_aggregate and hierarchy is not None and bool(hierarchy.list_ancestors(name))


def _find_category(
    check: Check, target: Target, evidence: Evidence, *, is_aggregate: bool
) -> tuple[Target | None, tuple[Lack, ...]]:
    """Return the first category above with enough rows, or what each category lacks."""
    lacks = []
    hierarchy, group = evidence.small_groups.hierarchy or Hierarchy({}), str(target.group)
    for name in (
        hierarchy.list_ancestors(group) if is_aggregate else hierarchy.list_substitutes(group)
    ):
        if name in evidence.table.categories:
            category = build_category_target(evidence.table, check.rule, name, evidence.background)
            lack = check.find_lack(category)
            if lack is None:
                return category, ()
            lacks.append(replace(lack, group=name))
    return None, tuple(lacks)


def list_small_groups(rules: Sequence[Rule], evidence: Evidence) -> list[str]:
    """Return the subgroups that a rule judges in a category, or by their own few rows.

    Parameters
    ----------
    rules : sequence of Rule
        The rules on this evidence.
    evidence : Evidence
        Evidence with categories.

    Returns
    -------
    list of str
        In the order of the report.
    """
    names: set[str] = set()
    for rule in rules:
        for kind, limit in rule.checks:
            if evidence.can_judge(kind):
                targets = list(list_targets(evidence.table, rule, evidence.background))
                members = targets[0].members if rule.scope == WORST and targets else targets
                check = Check(rule, kind, limit, evidence.table)
                places = _Places.place_targets(check, members, evidence)
                names |= {str(target.group) for target, _, _ in places.small}
    return [name for name in evidence.table.groups if name in names]


def list_covered_groups(rule: Rule, evidence: Evidence, groups: Iterable[str]) -> tuple[str, ...]:
    """Return the groups with enough rows for an aggregate, and the categories of all others.

    A group without a usable category is kept, so that the aggregate lacks evidence, unless the
    group is listed in `not_measured`.
    """
    metric = rule.metric if rule.metric in SUBGROUP_METRICS else "subgroup_auc"
    each = Rule(
        metric,
        tuple(groups),
        floor=0.5,
        min_positives=rule.min_positives,
        min_negatives=rule.min_negatives,
        min_clusters=rule.min_clusters,
    )
    check = Check(each, "floor", 0.5, evidence.table)
    targets = list_targets(evidence.table, each, evidence.background)
    places = _Places.place_targets(check, targets, evidence, is_aggregate=True)
    return tuple(str(name) for name in places.judged)


def select_rolled_evidence(rule: Rule, evidence: Evidence) -> tuple[Evidence, tuple[str, ...]]:
    """Return the evidence for an aggregate rule, and the groups it covers if any is rolled up."""
    replacement = evidence.rolled_aggregates.get(rule.name)
    return (evidence, ()) if replacement is None else (replacement.evidence, replacement.groups)
