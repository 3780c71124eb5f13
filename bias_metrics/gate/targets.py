"""The numbers of a report that a rule checks, and the rows behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bias_metrics._core.differences import Difference
from bias_metrics._core.values import MetricValue
from bias_metrics.gate.judging import RIVALS
from bias_metrics.gate.rules import AGGREGATE, EACH, OVERALL, WORST, Kind, Rule
from bias_metrics.gate.verdict import Lack
from bias_metrics.metrics import CLASSES, METRICS, Class
from bias_metrics.suggestion import did_you_mean
from bias_metrics.table import BiasTable, Estimate, Key, RowCounts

Counts = Mapping[str, int]
SUBGROUP, CATEGORY = "subgroup", "category"
_ROUNDING = 1e-9  # equal weights are worth their number of rows


class _Effective(dict[str, int]):
    """Rows of equal weight that weighted rows are worth."""


@dataclass(frozen=True)
class Target:
    """One number of a table, and the rows behind it."""

    scope: str
    """`overall`, `aggregate`, `worst`, `subgroup` or `category`."""
    group: str | None
    """The subgroup or category."""
    key: Key | None
    """Where the number is found; None for the worst of several, and for a group as part of an
    aggregate."""
    own: Counts
    background: Counts
    """Rows by class: of the subgroup and of its background, or of all. With sampling weights, how
    many rows of equal weight they are worth."""
    members: tuple[Target, ...] = ()
    """For `worst`: the subgroups among which it is the worst. For `aggregate`: those that it
    covers."""
    categories: tuple[Lack, ...] = ()
    """What the categories of a group lack, in which it might have been judged."""

    def estimate(self, table: BiasTable, kind: Kind) -> Estimate:
        """Find the number, or its difference from a rival's."""
        assert self.key is not None  # noqa: S101 - the callers ask single numbers
        return table.numbers[self.key._replace(against=kind if kind in RIVALS else None)]

    def lack_of_support(self, rule: Rule, table: BiasTable, kind: Kind) -> Lack | None:
        """Return which rows or clusters are too few for the rule; None if there are enough.

        The worst of several subgroups, and an aggregate of them, need support in each one.
        """
        for member in self.members:
            if lack := member.lack_of_support(rule, table, kind):
                return replace(lack, group=member.group)
        if self.scope == WORST:
            return None
        lack = self.lack_of_rows(rule) or self.lack_of_clusters(rule, table, kind)
        return None if lack is None else replace(lack, categories=self.categories)

    def lack_of_rows(self, rule: Rule) -> Lack | None:
        """Return which rows are too few."""
        of_own, of_background = (
            METRICS[rule.metric].classes if self.scope in {SUBGROUP, CATEGORY} else (CLASSES, ())
        )
        needed = {"positive": rule.min_positives, "negative": rule.min_negatives}
        sides: tuple[tuple[Literal["", "background"], Counts, Sequence[Class]], ...] = (
            ("", self.own, of_own),
            ("background", self.background, of_background),
        )
        for side, counts, classes in sides:
            for name in classes:
                if counts[name] < needed[name]:
                    effective = isinstance(counts, _Effective)
                    return Lack(name, counts[name], needed[name], side, effective)
        return None

    def lack_of_clusters(self, rule: Rule, table: BiasTable, kind: Kind) -> Lack | None:
        """Return that clusters are too few; an aggregate has as many as its weakest subgroup."""
        n_clusters = None if self.key is None else self.estimate(table, kind).n_clusters
        if n_clusters is not None and n_clusters < rule.min_clusters:
            return Lack("cluster", n_clusters, rule.min_clusters)
        return None


def targets_of(
    table: BiasTable, rule: Rule, shared_background: Counts | None = None
) -> Iterator[Target]:
    """Yield the numbers that a rule names, with the rows behind them.

    Raises
    ------
    ValueError
        If the rule names a subgroup that is not in the table.
    """
    everyone = _counts(table.counts[None])
    if rule.scope == OVERALL:
        yield Target(OVERALL, None, Key(rule.metric), everyone, everyone)
    elif rule.scope == AGGREGATE:
        rows = _rows_of(table, table.covered, shared_background)
        covered = tuple(Target(SUBGROUP, name, None, *counts) for name, counts in rows.items())
        yield Target(AGGREGATE, None, Key(rule.metric), everyone, everyone, covered)
    else:
        groups = table.groups
        names = groups if rule.scope in {EACH, WORST} else _known(rule.named_groups, groups)
        found = [
            Target(SUBGROUP, name, Key(rule.metric, name, rule.threshold), *counts)
            for name, counts in _rows_of(table, names, shared_background).items()
        ]
        if rule.scope == WORST and found:
            found = [Target(WORST, None, None, everyone, everyone, tuple(found))]
        yield from found


def category_target(
    table: BiasTable, rule: Rule, name: str, shared_background: Counts | None = None
) -> Target:
    """Return the number that a rule names for a category."""
    [counts] = _rows_of(table, (name,), shared_background).values()
    return Target(CATEGORY, name, Key(rule.metric, name, rule.threshold), *counts)


def _rows_of(
    table: BiasTable, names: Sequence[str], shared_background: Counts | None
) -> dict[str, tuple[Counts, Counts]]:
    """Return the rows of each subgroup, or category, and of its background, by class."""
    everyone, found = _counts(table.counts[None]), {}
    for name in names:
        own = _counts(table.counts[name])
        outside: Counts = {key: everyone[key] - own[key] for key in CLASSES}
        effective = _effective(table.counts[name], "background_")
        found[name] = own, effective or shared_background or outside
    return found


def _known(names: Sequence[str], subgroups: Sequence[str]) -> Sequence[str]:
    unknown = [name for name in names if name not in subgroups]
    if unknown:
        msg = (
            f"`scope` must name subgroups of the report; got {', '.join(map(repr, unknown))} "
            f"(known: {', '.join(subgroups) or 'none'}).{did_you_mean(unknown[0], subgroups)}"
        )
        raise ValueError(msg)
    return names


def _counts(rows: RowCounts) -> Counts:
    """Return the rows by class; with sampling weights, how many equal ones they are worth."""
    known = {"positive": rows.n_positive, "negative": rows.n_negative}
    return _effective(rows) or known


def _effective(rows: RowCounts, of: str = "") -> Counts | None:
    if rows.effective is None:
        return None
    known = {name: rows.effective[of + name] for name in CLASSES}
    return _Effective({name: math.floor(one + _ROUNDING) for name, one in known.items()})


# ---- Numbers of rows that are the whole list in question: they have no sampling error


def without_sampling_error(estimate: Estimate) -> Estimate:
    """Return a number, or difference, whose interval has zero width.

    Phrases made from templates are a list that somebody wrote, and not drawn from anything. The
    value on the list is known exactly. An interval would be about other lists of such phrases,
    which a few templates say almost nothing about.

    Examples
    --------
    >>> from bias_metrics import MetricValue
    >>> print(without_sampling_error(MetricValue(0.9, low=0.8, high=0.95)))
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
