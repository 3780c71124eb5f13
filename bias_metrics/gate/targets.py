"""The numbers of a report that a rule checks, with their numbers of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bias_metrics._core.differences import Difference
from bias_metrics._core.values import MetricValue
from bias_metrics.gate.outcome import RIVALS
from bias_metrics.gate.rules import AGGREGATE, EACH, OVERALL, WORST, Kind, Rule
from bias_metrics.gate.verdict import Lack
from bias_metrics.metrics import CLASSES, METRICS, Class
from bias_metrics.suggestion import did_you_mean
from bias_metrics.table import BiasTable, Estimate, Key, RowCounts

ClassCounts = Mapping[str, int]
SUBGROUP, CATEGORY = "subgroup", "category"
_ROUNDING = 1e-9  # for equal weights, the effective sample size is the number of rows


class _EffectiveCounts(dict[str, int]):
    """Kish effective sample sizes of weighted rows, by class."""


@dataclass(frozen=True)
class Target:
    """A number that a rule checks, with its row counts."""

    scope: str
    """`overall`, `aggregate`, `worst`, `subgroup` or `category`."""
    group: str | None
    """The subgroup or category."""
    key: Key | None
    """Key of the number; None for the worst of several, and for a group within an aggregate."""
    own: ClassCounts
    background: ClassCounts
    """Numbers of rows by class, of the subgroup and its background, or of all rows. With sampling
    weights, effective sample sizes."""
    members: tuple[Target, ...] = ()
    """For `worst`, the compared subgroups; for `aggregate`, the covered subgroups."""
    categories: tuple[Lack, ...] = ()
    """Why each category that contains the group has too few rows to be judged in its place."""

    def find_estimate(self, table: BiasTable, kind: Kind) -> Estimate:
        """Return the number, or its difference from a rival's."""
        assert self.key is not None  # noqa: S101 - the target is a single number
        return table.numbers[self.key._replace(against=kind if kind in RIVALS else None)]

    def find_lack(self, rule: Rule, table: BiasTable, kind: Kind) -> Lack | None:
        """Return the class, or clusters, with too little support for the rule, or None.

        The worst of several subgroups, and an aggregate of subgroups, need support in all.
        """
        for member in self.members:
            if lack := member.find_lack(rule, table, kind):
                return replace(lack, group=member.group)
        if self.scope == WORST:
            return None
        lack = self.find_row_lack(rule)
        if lack is None and self.key is not None:
            # An aggregate has as many clusters as its weakest subgroup.
            n_clusters = self.find_estimate(table, kind).n_clusters
            if n_clusters is not None and n_clusters < rule.min_clusters:
                lack = Lack("cluster", n_clusters, rule.min_clusters)
        return None if lack is None else replace(lack, categories=self.categories)

    def find_row_lack(self, rule: Rule) -> Lack | None:
        """Return the first class with too few rows, or None."""
        own_classes, background_classes = (
            METRICS[rule.metric].classes if self.scope in {SUBGROUP, CATEGORY} else (CLASSES, ())
        )
        needed = {"positive": rule.min_positives, "negative": rule.min_negatives}
        sides: tuple[tuple[Literal["", "background"], ClassCounts, Sequence[Class]], ...] = (
            ("", self.own, own_classes),
            ("background", self.background, background_classes),
        )
        for side, counts, classes in sides:
            for name in classes:
                if counts[name] < needed[name]:
                    effective = isinstance(counts, _EffectiveCounts)
                    return Lack(name, counts[name], needed[name], side, effective)
        return None


def list_targets(
    table: BiasTable, rule: Rule, shared_background: ClassCounts | None = None
) -> Iterator[Target]:
    """Yield the numbers that a rule names, with their numbers of rows.

    Raises
    ------
    ValueError
        If the rule names a subgroup that is not in the table.
    """
    overall = _count_classes(table.counts[None])
    if rule.scope == OVERALL:
        yield Target(OVERALL, None, Key(rule.metric), overall, overall)
    elif rule.scope == AGGREGATE:
        rows = count_target_rows(table, table.covered, shared_background)
        covered = tuple(Target(SUBGROUP, name, None, *counts) for name, counts in rows.items())
        yield Target(AGGREGATE, None, Key(rule.metric), overall, overall, covered)
    else:
        groups = table.groups
        names = groups if rule.scope in {EACH, WORST} else rule.named_groups
        if unknown := [name for name in names if name not in groups]:
            msg = (
                f"`scope` must name subgroups of the report; got {', '.join(map(repr, unknown))} "
                f"(known: {', '.join(groups) or 'none'}).{did_you_mean(unknown[0], groups)}"
            )
            raise ValueError(msg)
        targets = [
            Target(SUBGROUP, name, Key(rule.metric, name, rule.threshold), *counts)
            for name, counts in count_target_rows(table, names, shared_background).items()
        ]
        if rule.scope == WORST and targets:
            targets = [Target(WORST, None, None, overall, overall, tuple(targets))]
        yield from targets


def count_target_rows(
    table: BiasTable, names: Sequence[str], shared_background: ClassCounts | None
) -> dict[str, tuple[ClassCounts, ClassCounts]]:
    """Return the rows by class of subgroups, or categories, and of their backgrounds.

    With sampling weights, effective sample sizes. Otherwise the background is `shared_background`,
    or by default all other rows.
    """
    overall, rows = _count_classes(table.counts[None]), {}
    for name in names:
        own = _count_classes(table.counts[name])
        outside: ClassCounts = {label: overall[label] - own[label] for label in CLASSES}
        effective = _count_effective(table.counts[name], "background_")
        rows[name] = own, effective or shared_background or outside
    return rows


def _count_classes(rows: RowCounts) -> ClassCounts:
    """Return the rows by class; with sampling weights, effective sample sizes."""
    return _count_effective(rows) or {"positive": rows.n_positive, "negative": rows.n_negative}


def _count_effective(rows: RowCounts, prefix: str = "") -> ClassCounts | None:
    if rows.effective is None:
        return None
    sizes = {label: rows.effective[prefix + label] for label in CLASSES}
    return _EffectiveCounts({label: math.floor(n + _ROUNDING) for label, n in sizes.items()})


# ---- Evaluation sets that are a complete list instead of a sample


def remove_sampling_error(estimate: Estimate) -> Estimate:
    """Return a number, or difference, with an interval of zero width.

    Phrases made from templates are a written list instead of a sample, so a value on the list is
    exact. An interval would describe other lists, for which a few templates are hardly evidence.

    Examples
    --------
    >>> from bias_metrics import MetricValue
    >>> print(remove_sampling_error(MetricValue(0.9, low=0.8, high=0.95)))
    0.900 [0.900, 0.900]
    """
    value = estimate.value
    if value is None:
        return estimate
    if not isinstance(estimate, Difference):
        return MetricValue(value, std_error=0.0, low=value, high=value)
    first, second = estimate.first, estimate.second
    size = None if first is None or second is None else abs(first) - abs(second)
    return Difference(first, second, value, 0.0, value, value, size_low=size, size_high=size)
