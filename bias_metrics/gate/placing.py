"""Where each group is judged: alone, or in the first category above it with enough rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bias_metrics.gate.results import Check
from bias_metrics.gate.rolling import Hierarchy
from bias_metrics.gate.rules import SUBGROUP_METRICS, WORST, Rule
from bias_metrics.gate.targets import SUBGROUP, Target, category_target, targets_of
from bias_metrics.gate.verdict import Evidence, Lack, RuleResult


@dataclass
class _Places:
    """What is judged, the groups that each stands for, and the small groups.

    A small group comes with what it lacks, and the category that it is judged in if there is one.
    """

    judged: dict[str | None, Target] = field(default_factory=dict)
    instead_of: dict[str | None, tuple[str, ...]] = field(default_factory=dict)
    small: list[tuple[Target, Lack, str | None]] = field(default_factory=list)

    @classmethod
    def of(
        cls, check: Check, targets: Iterable[Target], found: Evidence, *, whole: bool = False
    ) -> _Places:
        """Place every target; for an aggregate (`whole`) the top of a hierarchy is a place too."""
        places = cls()
        for target in targets:
            lack, place = check.lack(target), None
            lacking: tuple[Lack, ...] = ()
            if lack is not None and target.scope == SUBGROUP:
                place, lacking = _place(check, target, found, whole=whole)
            if place is not None and lack is not None:
                places.judged[place.group] = place
                known = places.instead_of.get(place.group, ())
                places.instead_of[place.group] = (*known, str(target.group))
                places.small.append((target, lack, str(place.group)))
            elif lack is not None and _is_judged_alone(target, found, whole=whole):
                places.small.append((target, replace(lack, categories=lacking), None))
            else:
                places.judged[target.group] = replace(target, categories=lacking)
        return places


def judge_all(
    check: Check, targets: Iterable[Target], found: Evidence, covered: tuple[str, ...]
) -> Iterator[RuleResult]:
    """Judge every target; small groups in categories, if the evidence has them.

    `covered` names what an aggregate covers instead of the set's own groups, if anything.
    """
    targets = list(targets)
    worst = bool(targets) and targets[0].scope == WORST
    places = _Places.of(check, targets[0].members if worst else targets, found)
    if worst and places.judged:
        judged = replace(targets[0], members=tuple(places.judged.values()))
        yield check.judge(
            judged, tuple(name for names in places.instead_of.values() for name in names)
        )
    elif not worst:
        for name, target in places.judged.items():
            yield check.judge(target, places.instead_of.get(name, covered))
    for target, lack, place in places.small:
        yield check.judge_alone(
            target,
            lack,
            None if found.alone is None else found.alone.table,
            place=place,
            blind=found.small.blind,
            not_measured=found.small.not_measured.get(str(target.group)),
            hint=found.small.hints.get(str(target.group), ""),
        )


def _is_judged_alone(target: Target, found: Evidence, *, whole: bool) -> bool:
    """Say whether a group that no category stands for is judged by its own few rows.

    If it is known not to be measured or, but for an aggregate (`whole`), is in a hierarchy.
    """
    if target.scope != SUBGROUP or whole or found.small.hierarchy is None:
        return target.scope == SUBGROUP and str(target.group) in found.small.not_measured
    name = str(target.group)
    return name in found.small.not_measured or any(True for _ in found.small.hierarchy.above(name))


def _place(
    check: Check, target: Target, found: Evidence, *, whole: bool
) -> tuple[Target | None, tuple[Lack, ...]]:
    """Return the first category above with enough rows, or what they lack."""
    lacks = []
    known, hierarchy = found.table.categories, found.small.hierarchy or Hierarchy({})
    group = str(target.group)
    for name in hierarchy.above(group) if whole else hierarchy.grounds(group):
        if name in known:
            place = category_target(found.table, check.rule, name, found.background)
            lack = check.lack(place)
            if lack is None:
                return place, ()
            lacks.append(replace(lack, group=name))
    return None, tuple(lacks)


def small_groups(rules: Sequence[Rule], found: Evidence) -> list[str]:
    """Return the subgroups that some of the rules judge in a category.

    Parameters
    ----------
    rules : sequence of Rule
        The rules on this evidence.
    found : Evidence
        With categories.

    Returns
    -------
    list of str
        In the order of the report.
    """
    names: set[str] = set()
    for rule in rules:
        for kind, limit in rule.checks:
            if found.has(kind):
                targets = list(targets_of(found.table, rule, found.background))
                each = targets[0].members if rule.scope == WORST and targets else targets
                places = _Places.of(Check(rule, kind, limit, found.table), each, found)
                names |= {str(target.group) for target, _, _ in places.small}
    return [name for name in found.table.groups if name in names]


def covered_groups(rule: Rule, found: Evidence, groups: Iterable[str]) -> tuple[str, ...]:
    """Return what an aggregate covers: groups with support, and categories of the others.

    A group without any category of support stays, and so the aggregate lacks evidence, unless it
    is known not to be measured.
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
    check = Check(each, "floor", 0.5, found.table)
    targets = targets_of(found.table, each, found.background)
    places = _Places.of(check, targets, found, whole=True)
    return tuple(str(name) for name in places.judged)


def rolled(rule: Rule, found: Evidence) -> tuple[Evidence, tuple[str, ...]]:
    """Return the evidence for a rule on an aggregate, and what it covers if that was replaced."""
    known = found.rolled.get(rule.name)
    return (found, ()) if known is None else (known.evidence, known.groups)
