"""The numbers of a report that a rule checks, and the rows behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bias_metrics._core.counted import too_few
from bias_metrics.gate.rules import AGGREGATE, EACH, OVERALL, WORST, Rule
from bias_metrics.metrics import CLASSES, METRICS
from bias_metrics.suggestion import did_you_mean

Counts = Mapping[str, int]
SUBGROUP, CATEGORY = "subgroup", "category"
_ROUNDING = 1e-9  # equal weights are worth their number of rows


class _Effective(dict[str, int]):
    """Rows of equal weight that weighted rows are worth."""


@dataclass(frozen=True)
class Target:
    """One number of a report or a comparison; both have the same shape."""

    scope: str
    """`overall`, `aggregate`, `worst`, `subgroup` or `category`."""
    group: str | None
    """The subgroup or category."""
    path: tuple[str, ...]
    """The keys under which the number is found."""
    own: Counts
    background: Counts
    """Rows by class: of the subgroup and of its background, or of all. With sampling weights, how
    many rows of equal weight they are worth."""
    members: tuple[Target, ...] = ()
    """For `worst`: the subgroups among which it is the worst. For `aggregate`: those that it
    covers."""
    note: str = ""
    """What to add where support is lacking."""

    def cell(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Find the number."""
        found: Any = content
        for key in self.path:
            found = found[key]
        cell: Mapping[str, Any] = found
        return cell

    def lack_of_support(self, rule: Rule, content: Mapping[str, Any]) -> str | None:
        """Say which rows or clusters are too few for the rule; None if there are enough.

        The worst of several subgroups, and an aggregate of them, need support in each one.
        """
        for member in self.members:
            if lack := member.lack_of_support(rule, content):
                return f"{member.group} has {lack}"
        if self.scope == WORST:
            return None
        lack = self.lack_of_rows(rule) or self.lack_of_clusters(rule, content)
        return None if lack is None else lack + self.note

    def lack_of_rows(self, rule: Rule) -> str | None:
        """Say which rows are too few."""
        of_own, of_background = (
            METRICS[rule.metric].classes if self.scope in {SUBGROUP, CATEGORY} else (CLASSES, ())
        )
        needed = {"positive": rule.min_positives, "negative": rule.min_negatives}
        sides = (("", self.own, of_own), ("background ", self.background, of_background))
        for side, counts, classes in sides:
            for name in classes:
                if counts[name] < needed[name]:
                    what = f"effective {side}" if isinstance(counts, _Effective) else side
                    return too_few(counts[name], f"{what}{name}", needed[name])
        return None

    def lack_of_clusters(self, rule: Rule, content: Mapping[str, Any]) -> str | None:
        """Say that clusters are too few; an aggregate has as many as its weakest subgroup."""
        n_clusters = self.cell(content).get("n_clusters") if self.path else None
        if n_clusters is not None and n_clusters < rule.min_clusters:
            return too_few(n_clusters, "cluster", rule.min_clusters)
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
    everyone = _counts(report["overall"])
    if rule.scope == OVERALL:
        yield Target(OVERALL, None, ("overall", rule.metric), everyone, everyone)
    elif rule.scope == AGGREGATE:
        whole = METRICS[rule.metric].compares is None
        path = (rule.metric,) if whole else ("power_mean", rule.metric)
        rows = _rows_of(report, report["power_mean"]["groups"], shared_background)
        covered = tuple(Target(SUBGROUP, name, (), *counts) for name, counts in rows.items())
        yield Target(AGGREGATE, None, path, everyone, everyone, covered)
    else:
        subgroups = report["subgroups"]
        all_of_them = rule.scope in {EACH, WORST}
        names = tuple(subgroups) if all_of_them else _known(rule.named_groups, subgroups)
        found = [
            Target(SUBGROUP, name, _path(rule, "subgroups", name), *counts)
            for name, counts in _rows_of(report, names, shared_background).items()
        ]
        if rule.scope == WORST and found:
            found = [Target(WORST, None, (), everyone, everyone, tuple(found))]
        yield from found


def category_target(
    report: Mapping[str, Any], rule: Rule, name: str, shared_background: Counts | None = None
) -> Target:
    """Return the number that a rule names for a category."""
    [counts] = _rows_of(report, (name,), shared_background).values()
    return Target(CATEGORY, name, _path(rule, "categories", name), *counts)


def _path(rule: Rule, within: str, name: str) -> tuple[str, ...]:
    at: tuple[str, ...] = () if rule.threshold is None else ("thresholds", rule.threshold)
    if METRICS[rule.metric].needs_probabilities:
        at = ("calibration",)
    return (*at, within, name, rule.metric)


def _rows_of(
    report: Mapping[str, Any], names: Sequence[str], shared_background: Counts | None
) -> dict[str, tuple[Counts, Counts]]:
    """Return the rows of each subgroup, or category, and of its background, by class."""
    overall = report["overall"]
    everyone, found = _counts(overall), {}
    known = {**report.get("categories", {}), **report["subgroups"]}
    for name in names:
        own = _counts(known[name])
        outside: Counts = {key: everyone[key] - own[key] for key in CLASSES}
        effective = _effective(known[name], "background_")
        found[name] = own, effective or shared_background or outside
    return found


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
    """Return the rows by class; with sampling weights, how many equal ones they are worth."""
    known = {"positive": rows["n_positive"], "negative": rows["n"] - rows["n_positive"]}
    return _effective(rows) or known


def _effective(rows: Mapping[str, Any], of: str = "") -> Counts | None:
    if "effective" not in rows:
        return None
    known = {name: rows["effective"][of + name] for name in CLASSES}
    return _Effective({name: math.floor(one + _ROUNDING) for name, one in known.items()})


# ---- Numbers of rows that are the whole list in question: they have no sampling error


_OF_SAMPLES = {"reason", "row_std_error", "n_clusters", "p_value", "p_holm", "p_bh"}


def without_sampling_error(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report or comparison whose intervals have zero width.

    Phrases made from templates are a list that somebody wrote, and not drawn from anything. The
    value on the list is known exactly. Intervals would be about other lists of such phrases,
    which a few templates say almost nothing about.

    Parameters
    ----------
    content : mapping
        `BiasReport.to_dict()` or `BiasComparison.to_dict()`, or a mapping of them.

    Returns
    -------
    dict
        The same values; those that are undefined stay undefined.

    Examples
    --------
    >>> without_sampling_error({"auc": {"value": 0.9, "low": 0.8, "high": 0.95}})
    {'auc': {'value': 0.9, 'low': 0.9, 'high': 0.9, 'std_error': 0.0}}
    """
    if "value" in content:
        return dict(content) if content["value"] is None else _exact(content)
    return {
        key: without_sampling_error(value) if isinstance(value, Mapping) else value
        for key, value in content.items()
    }


def _exact(cell: Mapping[str, Any]) -> dict[str, Any]:
    value = cell["value"]
    found = {key: one for key, one in cell.items() if key not in _OF_SAMPLES}
    found |= {"low": value, "high": value, "std_error": 0.0}
    if "first" in cell:
        size = abs(cell["first"]) - abs(cell["second"])
        found |= {"size_low": size, "size_high": size}
    return found
