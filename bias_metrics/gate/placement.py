"""Placement of groups: by their own rows, or in the first category above with enough rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bias_metrics.gate.hierarchy import Hierarchy
from bias_metrics.gate.results import Check
from bias_metrics.gate.rules import SUBGROUP_METRICS, WORST, Rule
from bias_metrics.gate.targets import CATEGORY, SUBGROUP, Target, count_target_rows, list_targets
from bias_metrics.gate.verdict import Evidence, Lack, RuleResult
from bias_metrics.table import Key


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
        """Place every target; an aggregate may also use the top category of a hierarchy.

        The few rows of a group without a usable category are judged by themselves if it is listed
        in `not_measured` or, except for aggregates, in the hierarchy. For all others the rule lacks
        evidence.
        """
        places, settings = cls(), evidence.small_groups
        hierarchy = settings.hierarchy or Hierarchy({})
        for target in targets:
            lack, name = check.find_lack(target), str(target.group)
            if lack is None or target.scope != SUBGROUP:
                places.judged[target.group] = target
                continue
            ancestors = hierarchy.list_ancestors(name)
            category, category_lacks = _find_category(
                check, evidence, ancestors if is_aggregate else hierarchy.list_substitutes(name)
            )
            if category is not None:
                places.judged[category.group] = category
                replaced = places.instead_of.get(category.group, ())
                places.instead_of[category.group] = (*replaced, name)
                places.small.append((target, lack, str(category.group)))
            elif name in settings.not_measured or (ancestors and not is_aggregate):
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
    joint = None if evidence.joint_evidence is None else evidence.joint_evidence.table
    for target, lack, category in places.small:
        yield check.judge_small_group(target, lack, joint, category, evidence.small_groups)


def _find_category(
    check: Check, evidence: Evidence, names: Iterable[str]
) -> tuple[Target | None, tuple[Lack, ...]]:
    """Return the first category with enough rows, or what each category lacks."""
    lacks = []
    for name in names:
        if name in evidence.table.categories:
            [counts] = count_target_rows(evidence.table, (name,), evidence.background).values()
            key = Key(check.rule.metric, name, check.rule.threshold)
            category = Target(CATEGORY, name, key, *counts)
            lack = check.find_lack(category)
            if lack is None:
                return category, ()
            lacks.append(replace(lack, group=name))
    return None, tuple(lacks)


def list_small_groups(rules: Sequence[Rule], evidence: Evidence) -> list[str]:
    """Return the subgroups that a rule judges in a category, or by their own few rows.

    The evidence has categories; the order is that of the report.
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
