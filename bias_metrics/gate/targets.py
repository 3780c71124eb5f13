"""The numbers of a report that a rule checks, and the rows behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bias_metrics.gate.rules import AGGREGATE, EACH, OVERALL, WORST, Rule
from bias_metrics.metrics import CLASSES, METRICS
from bias_metrics.suggestion import did_you_mean

Counts = Mapping[str, int]
SUBGROUP, CATEGORY = "subgroup", "category"
ALONE = {SUBGROUP, CATEGORY}


@dataclass(frozen=True)
class Target:
    """One number of a report or a comparison; both have the same shape.

    Attributes
    ----------
    scope : str
        `overall`, `aggregate`, `worst`, `subgroup` or `category`.
    group : str or None
        The subgroup or category.
    path : tuple of str
        The keys under which the number is found.
    own, background : mapping
        Rows by class: of the subgroup and of its background, or of all.
    members : tuple of Target
        For `worst`: the subgroups among which it is the worst.
    covers : mapping of str to mapping
        For `aggregate`: the rows by class of each subgroup that it covers.
    note : str
        What to add where support is lacking.
    """

    scope: str
    group: str | None
    path: tuple[str, ...]
    own: Counts
    background: Counts
    members: tuple[Target, ...] = ()
    covers: Mapping[str, Counts] = field(default_factory=dict)
    note: str = ""

    def cell(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Find the number."""
        found: Any = content
        for key in self.path:
            found = found[key]
        cell: Mapping[str, Any] = found
        return cell

    def lack_of_support(self, rule: Rule, content: Mapping[str, Any]) -> str | None:
        """Say which rows or clusters are too few for the rule; None if there are enough."""
        lack = self._lack(rule, content)
        return None if lack is None else lack + self.note

    def _lack(self, rule: Rule, content: Mapping[str, Any]) -> str | None:
        if self.members:
            lacks = ((one.group, one.lack_of_support(rule, content)) for one in self.members)
            return next((f"{group} has {lack}" for group, lack in lacks if lack), None)
        of_own, of_background = (
            METRICS[rule.metric].classes if self.scope in ALONE else (CLASSES, ())
        )
        needed = {"positive": rule.min_positives, "negative": rule.min_negatives}
        sides = (("", self.own, of_own), ("background ", self.background, of_background))
        for side, counts, classes in sides:
            for name in classes:
                if counts[name] < needed[name]:
                    return f"{counts[name]} {side}{name}s where {needed[name]} are needed"
        for group, counts in self.covers.items():
            for name in CLASSES:
                if counts[name] < needed[name]:
                    return f"{group} has {counts[name]} {name}s where {needed[name]} are needed"
        n_clusters = self.cell(content).get("n_clusters")
        if n_clusters is not None and n_clusters < rule.min_clusters:
            return f"{n_clusters} clusters where {rule.min_clusters} are needed"
        return None


def targets_of(
    report: Mapping[str, Any], rule: Rule, shared_background: Counts | None = None
) -> Iterator[Target]:
    """Yield the numbers that a rule names, with the rows behind them.

    Raises
    ------
    ValueError
        If the rule names a subgroup that is not in the report.
    """
    everyone, subgroups = _counts(report["overall"]), report["subgroups"]
    if rule.scope == OVERALL:
        yield Target(OVERALL, None, ("overall", rule.metric), everyone, everyone)
    elif rule.scope == AGGREGATE:
        whole = METRICS[rule.metric].compares is None
        path = (rule.metric,) if whole else ("power_mean", rule.metric)
        known = {**subgroups, **report.get("categories", {})}
        covers = {name: _counts(known[name]) for name in report["power_mean"].get("groups", ())}
        yield Target(AGGREGATE, None, path, everyone, everyone, covers=covers)
    else:
        all_of_them = rule.scope in {EACH, WORST}
        names = tuple(subgroups) if all_of_them else _known(rule.named_groups, subgroups)
        found = [_target(report, rule, name, shared_background) for name in names]
        if rule.scope == WORST and found:
            found = [Target(WORST, None, (), everyone, everyone, tuple(found))]
        yield from found


def category_target(
    report: Mapping[str, Any], rule: Rule, name: str, shared_background: Counts | None = None
) -> Target:
    """Return the number that a rule names for a category."""
    return _target(report, rule, name, shared_background, within="categories")


def _target(
    report: Mapping[str, Any],
    rule: Rule,
    name: str,
    shared: Counts | None,
    within: str = "subgroups",
) -> Target:
    everyone, own = _counts(report["overall"]), _counts(report[within][name])
    outside: Counts = {key: everyone[key] - own[key] for key in CLASSES}
    at = () if rule.threshold is None else ("thresholds", rule.threshold)
    scope = SUBGROUP if within == "subgroups" else CATEGORY
    return Target(scope, name, (*at, within, name, rule.metric), own, shared or outside)


def _known(names: tuple[str, ...], subgroups: Mapping[str, Any]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in subgroups]
    if unknown:
        msg = (
            f"`scope` must name subgroups of the report; got {', '.join(map(repr, unknown))} "
            f"(known: {', '.join(subgroups) or 'none'}).{did_you_mean(unknown[0], subgroups)}"
        )
        raise ValueError(msg)
    return names


def _counts(rows: Mapping[str, Any]) -> Counts:
    return {"positive": rows["n_positive"], "negative": rows["n"] - rows["n_positive"]}
