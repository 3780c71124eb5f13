"""The decision of the gate: rules against a report, pure and without side effects.

A rule gives one result per number it names. A result is `pass`, `fail`, `insufficient` (too
few rows to say) or `error` (there should be a number and there is none); over all blocking
rules the worst wins. A group is never dropped: without evidence it is insufficient, which
blocks like a failure does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["pass", "fail", "insufficient", "error"]
Action = Literal["block", "warn"]

WORST_FIRST: tuple[Outcome, ...] = ("error", "fail", "insufficient", "pass")
OVERALL, EACH, AGGREGATE = "overall", "each", "aggregate"

# Which classes each metric compares: (of the subgroup, of the background).
_COMPARED = {
    "subgroup_auc": (("positive", "negative"), ()),
    "bpsn_auc": (("negative",), ("positive",)),
    "bnsp_auc": (("positive",), ("negative",)),
    "positive_aeg": (("positive",), ("positive",)),
    "negative_aeg": (("negative",), ("negative",)),
}
SUBGROUP_METRICS = tuple(_COMPARED)
AGGREGATE_METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "final_score")
OVERALL_METRICS = ("auc",)

_MEANING = {
    "subgroup_auc": "toxic and non-toxic comments that mention {group} are told apart badly",
    "bpsn_auc": "non-toxic comments that mention {group} score like toxic ones that do not",
    "bnsp_auc": "toxic comments that mention {group} score like non-toxic ones that do not",
    "positive_aeg": "toxic comments that mention {group} score {side} than other toxic ones",
    "negative_aeg": "non-toxic comments that mention {group} score {side} than other such",
}


@dataclass(frozen=True)
class Rule:
    """One demand on one metric.

    Attributes
    ----------
    metric : str
        One of the metrics of its scope.
    scope : str or tuple of str
        `overall`, `each` (every subgroup), `aggregate` (power means, final score) or the
        names of subgroups.
    floor : float, optional
        Smallest value that passes (AUCs, power means, final score).
    ceiling : float, optional
        Largest absolute value that passes (AEGs).
    min_positives, min_negatives : int
        Support: rows needed in each class that the metric compares, in the subgroup as in
        the background; with fewer the result is `insufficient`, whatever the value.
    action : {"block", "warn"}
        Whether the result counts for the verdict.
    """

    metric: str
    scope: str | tuple[str, ...]
    floor: float | None = None
    ceiling: float | None = None
    min_positives: int = 1
    min_negatives: int = 1
    action: Action = "block"

    def __post_init__(self) -> None:
        """Refuse a rule that could not decide anything."""
        known = {OVERALL: OVERALL_METRICS, AGGREGATE: AGGREGATE_METRICS}.get(
            str(self.scope), SUBGROUP_METRICS
        )
        if self.metric not in known:
            msg = (
                f"`metric` must be one of {', '.join(known)} in scope {self.scope}; "
                f"got {self.metric!r}."
            )
            raise ValueError(msg)
        gap = self.metric.endswith("_aeg")
        if gap and (self.floor is not None or self.ceiling is None):
            msg = f"`ceiling`, not `floor`, must limit {self.metric}: 0 is its best value."
            raise ValueError(msg)
        if not gap and (self.ceiling is not None or self.floor is None):
            msg = f"`floor`, not `ceiling`, must limit {self.metric}: 1 is its best value."
            raise ValueError(msg)
        limit = self.ceiling if gap else self.floor
        if limit is None or not 0 < limit <= (0.5 if gap else 1):
            msg = f"the limit of {self.metric} must be in (0, {0.5 if gap else 1}]; got {limit}."
            raise ValueError(msg)
        if min(self.min_positives, self.min_negatives) < 1:
            msg = "`min_positives` and `min_negatives` must be at least 1."
            raise ValueError(msg)


@dataclass(frozen=True)
class RuleResult:
    """What one rule says about one number.

    Attributes
    ----------
    metric, scope : str
        The number; `scope` is `overall`, `aggregate` or `subgroup`.
    group : str or None
        The subgroup.
    value : float or None
        The estimate; None when undefined.
    limit : float
        Floor or ceiling.
    n_positive, n_negative : int
        Rows of the subgroup, or of all for the other scopes.
    outcome, action : str
        See the module.
    sentence : str
        The result in words.
    """

    metric: str
    scope: str
    group: str | None
    value: float | None
    limit: float
    n_positive: int
    n_negative: int
    outcome: Outcome
    action: Action
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """The decision over all rules.

    Attributes
    ----------
    outcome : str
        The worst outcome among blocking results.
    results : tuple of RuleResult
        Every result, in the order of the rules.
    """

    outcome: Outcome
    results: tuple[RuleResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"outcome": self.outcome, "results": [result.to_dict() for result in self.results]}


def decide(report: Mapping[str, Any], rules: Sequence[Rule]) -> Verdict:
    """Judge one report by a policy's rules.

    Parameters
    ----------
    report : mapping
        `BiasReport.to_dict()`.
    rules : sequence of Rule
        At least one of them blocking.

    Returns
    -------
    Verdict
        The worst outcome among blocking rules (error, fail, insufficient, pass), and every
        result.

    Raises
    ------
    ValueError
        If there is no blocking rule, or a rule names a subgroup that the report lacks.
    """
    if not any(rule.action == "block" for rule in rules):
        msg = "`rules` must hold at least one blocking rule; a gate without rules passes nothing."
        raise ValueError(msg)
    judged = [(rule, tuple(_results(report, rule))) for rule in rules]
    outcomes: list[Outcome] = []
    for rule, results in judged:
        if rule.action == "block":
            # A rule that found nothing to look at has not been passed.
            outcomes += [result.outcome for result in results] or ["insufficient"]
    return Verdict(worst(outcomes), tuple(result for _, results in judged for result in results))


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the worst of some outcomes; of none, `insufficient`."""
    return next((one for one in WORST_FIRST if one in outcomes), "insufficient")


def _results(report: Mapping[str, Any], rule: Rule) -> Iterator[RuleResult]:
    overall = report["overall"]
    all_counts = _counts(overall["n"], overall["n_positive"])
    if rule.scope == OVERALL:
        yield _judge(rule, OVERALL, None, overall["auc"], all_counts, all_counts)
        return
    if rule.scope == AGGREGATE:
        part = report if rule.metric == "final_score" else report["power_mean"]
        yield _judge(rule, AGGREGATE, None, part[rule.metric], all_counts, all_counts)
        return
    subgroups = report["subgroups"]
    names = tuple(subgroups) if rule.scope == EACH else _named(rule.scope, subgroups)
    for name in names:
        cells = subgroups[name]
        own = _counts(cells["n"], cells["n_positive"])
        background = {key: all_counts[key] - own[key] for key in own}
        yield _judge(rule, "subgroup", name, cells[rule.metric], own, background)


def _named(scope: str | tuple[str, ...], subgroups: Mapping[str, Any]) -> tuple[str, ...]:
    names = (scope,) if isinstance(scope, str) else scope
    unknown = [name for name in names if name not in subgroups]
    if unknown:
        msg = (
            f"`scope` must name subgroups of the report; got {', '.join(map(repr, unknown))} "
            f"(known: {', '.join(subgroups) or 'none'})."
        )
        raise ValueError(msg)
    return names


def _counts(n: int, n_positive: int) -> dict[str, int]:
    return {"positive": n_positive, "negative": n - n_positive}


def _judge(
    rule: Rule,
    scope: str,
    group: str | None,
    cell: Mapping[str, Any],
    own: Mapping[str, int],
    background: Mapping[str, int],
) -> RuleResult:
    value = cell["value"]
    limit = rule.floor if rule.floor is not None else rule.ceiling
    assert limit is not None  # noqa: S101 - Rule has checked it
    lack = _lack_of_support(rule, scope, own, background)
    label = f"{rule.metric} of {group}" if group else f"{scope} {rule.metric}"
    outcome: Outcome
    if lack:
        outcome, sentence = "insufficient", f"{label}: not enough evidence, {lack}."
    elif value is None or not math.isfinite(value):
        outcome = "insufficient" if scope == AGGREGATE else "error"
        sentence = f"{label} is undefined: {cell.get('reason', 'no reason given')}."
    else:
        size = abs(value) if rule.floor is None else value
        short = size - limit if rule.floor is None else limit - value
        outcome = "pass" if short <= 0 else "fail"
        sentence = _sentence(rule, label, group, value, limit, short)
    return RuleResult(
        metric=rule.metric,
        scope=scope,
        group=group,
        value=value,
        limit=limit,
        n_positive=own["positive"],
        n_negative=own["negative"],
        outcome=outcome,
        action=rule.action,
        sentence=sentence,
    )


def _lack_of_support(
    rule: Rule, scope: str, own: Mapping[str, int], background: Mapping[str, int]
) -> str | None:
    of_own, of_background = _COMPARED[rule.metric] if scope == "subgroup" else (tuple(own), ())
    needed = {"positive": rule.min_positives, "negative": rule.min_negatives}
    for place, counts, classes in (("", own, of_own), ("background ", background, of_background)):
        for name in classes:
            if counts[name] < needed[name]:
                return f"{counts[name]} {place}{name}s where {needed[name]} are needed"
    return None


def _sentence(
    rule: Rule, label: str, group: str | None, value: float, limit: float, short: float
) -> str:
    gap = rule.floor is None
    kind = "ceiling" if gap else "floor"
    number = f"{value:+.4f}" if gap else f"{value:.4f}"
    if short <= 0:
        return f"{label} is {number}, within the {kind} {limit:g}."
    text = f"{label} is {number}, {'above' if gap else 'below'} the {kind} {limit:g} by {short:.4f}"
    if group is None:
        return f"{text}."
    side = "higher" if value > 0 else "lower"
    return f"{text}: {_MEANING[rule.metric].format(group=group, side=side)}."
