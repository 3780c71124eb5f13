"""The decision of the gate: rules against measured evidence, pure and without side effects.

A rule gives one result per number and limit. A result is `pass`, `fail`, `insufficient` (too
few rows, or bounds on both sides of the limit), `error` (there should be a number but there
is none) or `skipped` (no champion yet, and the policy allows that). The verdict is the worst
result of all blocking rules. A group is never dropped: without evidence it is insufficient,
which blocks like a failure, unless somebody waived it by name until a date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

from bias_metrics.gate.judging import RIVALS, Measured, Outcome, judge, measured, worst_of
from bias_metrics.gate.rules import AGGREGATE, WORST, Kind, Rule, Waiver
from bias_metrics.gate.targets import Target, targets_of
from bias_metrics.gate.verdict import Evidence, RuleResult, Verdict
from bias_metrics.gate.wording import label, sentence
from bias_metrics.suggestion import did_you_mean

WORST_FIRST: tuple[Outcome, ...] = ("error", "fail", "insufficient", "pass")
EvidenceKey = tuple[str | None, float]


def evidence_needed(rules: Sequence[Rule]) -> list[EvidenceKey]:
    """Return the slices, and the two-sided confidences, for which rules need evidence."""
    return list(dict.fromkeys((rule.slice, rule.level) for rule in rules))


def thresholds_needed(rules: Sequence[Rule]) -> dict[str, set[str]]:
    """Return the names of the rules' thresholds, each with the models compared at it.

    `candidate` always; `champion` and `reference` where a rule has a margin.
    """
    found: dict[str, set[str]] = {}
    for rule in rules:
        if rule.threshold is not None:
            rivals = {kind for kind, _ in rule.checks if kind in RIVALS}
            found.setdefault(rule.threshold, {"candidate"}).update(rivals)
    return found


def decide(
    evidence: Mapping[EvidenceKey, Evidence],
    rules: Sequence[Rule],
    *,
    today: date,
    waivers: Sequence[Waiver] = (),
    allow_first: bool = False,
) -> Verdict:
    """Judge one candidate on one evaluation set by a policy's rules.

    Parameters
    ----------
    evidence : mapping of (str or None, float) to Evidence
        What was measured, by slice and two-sided confidence; `evidence_needed` lists them.
    rules : sequence of Rule
        At least one of them must block.
    today : date
        The day on which waivers must hold.
    waivers : sequence of Waiver
        Missing evidence that should not block.
    allow_first : bool, default=False
        Whether rules against a champion may be skipped if there is none.

    Returns
    -------
    Verdict
        The worst outcome among blocking results (error, fail, insufficient, pass), and every
        result.

    Raises
    ------
    ValueError
        If there is no blocking rule, evidence is missing (also at a rule's threshold), a rule or
        waiver names a subgroup that is not in the report, or a waiver names an unknown rule.
    """
    if not any(rule.action == "block" for rule in rules):
        msg = "`rules` must hold at least one blocking rule; a gate without rules passes nothing."
        raise ValueError(msg)
    missing = [key for key in evidence_needed(rules) if key not in evidence]
    if missing:
        msg = f"`evidence` must cover every slice and confidence of the rules; lacks {missing}."
        raise ValueError(msg)
    for rule in rules:
        _refuse_missing_thresholds(rule, evidence[rule.slice, rule.level])
    judge_rule = _Judge(evidence, tuple(waivers), today, allow_first=allow_first)
    judged = [(rule, tuple(judge_rule.results(rule))) for rule in rules]
    _refuse_lost_waivers(waivers, rules, [one for _, results in judged for one in results])
    outcomes: list[Outcome] = []
    for rule, results in judged:
        if rule.action == "block" and not results:
            outcomes.append("insufficient")  # a rule with nothing to check has not passed
        outcomes += [one.outcome for one in results if one.counts and one.outcome != "skipped"]
    return Verdict(worst(outcomes), tuple(one for _, results in judged for one in results))


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the worst of some outcomes; if there are none, `insufficient`."""
    return next((one for one in WORST_FIRST if one in outcomes), "insufficient")


@dataclass(frozen=True)
class _Judge:
    """Judges rules by the evidence and the waivers."""

    evidence: Mapping[EvidenceKey, Evidence]
    waivers: tuple[Waiver, ...]
    today: date
    allow_first: bool

    def results(self, rule: Rule) -> Iterator[RuleResult]:
        """Yield one result per number and limit."""
        found = self.evidence[rule.slice, rule.level]
        targets = list(targets_of(found.report, rule, found.background))
        for kind, limit in rule.checks:
            for target in targets:
                if kind in RIVALS and getattr(found, kind) is None:
                    yield self._waived(self._without_rival(rule, kind, limit, target))
                else:
                    content = getattr(found, kind) if kind in RIVALS else found.report
                    yield self._waived(_against(rule, kind, limit, target, content))

    def _without_rival(self, rule: Rule, kind: Kind, limit: float, target: Target) -> RuleResult:
        skipped = kind == "champion" and self.allow_first
        return _result(
            rule,
            kind,
            limit,
            target,
            outcome="skipped" if skipped else "insufficient",
            sentence=f"{label(rule, target.scope, target.group)}: no {kind} to compare with.",
        )

    def _waived(self, result: RuleResult) -> RuleResult:
        if result.outcome == "insufficient":
            for one in self.waivers:
                if one.covers(result.rule, _waivable(result), self.today):
                    by = f"{one.decided_by} until {one.expires.isoformat()}: {one.reason}"
                    return replace(result, waived_by=by)
        return result


def _against(
    rule: Rule, kind: Kind, limit: float, target: Target, content: Mapping[str, Any]
) -> RuleResult:
    """Compare a number of a report, or of a comparison, with a limit."""
    group, number, cell = _number(rule, kind, target, content)
    rival = cell["second"] if kind in RIVALS else None
    value = cell["first"] if kind in RIVALS else cell["value"]
    name = label(rule, target.scope, group)
    lack, bound = target.lack_of_support(rule, content), None
    outcome: Outcome
    if lack is not None:
        outcome, text = "insufficient", f"{name}: not enough evidence: {lack}."
    elif number.value is None:
        outcome = "insufficient" if target.scope == AGGREGATE else "error"
        text = f"{name} is undefined: {number.reason or 'no reason given'}."
    else:
        outcome, bound = judge(number, kind, rule, limit)
        if bound is None:
            text = f"{name} has no usable interval: {number.reason or 'it is not a finite number'}."
        else:
            text = sentence(rule, kind, name, group, value, rival, number, limit, outcome)
    return _result(
        rule,
        kind,
        limit,
        target,
        group=group,
        value=value,
        rival=rival,
        low=number.low,
        high=number.high,
        bound=bound,
        n_clusters=cell.get("n_clusters"),
        outcome=outcome,
        sentence=text,
        **_thresholds(rule, kind, content),
    )


def _thresholds(rule: Rule, kind: Kind, content: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers behind the name of a rule's threshold."""
    if rule.threshold is None:
        return {}
    found = content["thresholds"][rule.threshold]
    if kind not in RIVALS:
        return {"at": found["threshold"]}
    return dict(zip(("at", "rival_at"), found["thresholds"], strict=True))


def _number(
    rule: Rule, kind: Kind, target: Target, content: Mapping[str, Any]
) -> tuple[str | None, Measured, Mapping[str, Any]]:
    """Return a number's group, the number as a rule sees it, and its cell."""
    if target.scope != WORST:
        cell = target.cell(content)
        return target.group, measured(cell, kind, is_gap=rule.is_gap), cell
    cells = {str(one.group): one.cell(content) for one in target.members}
    numbers = {name: measured(cell, kind, is_gap=rule.is_gap) for name, cell in cells.items()}
    name, number = worst_of(numbers, worse_is_up=rule.is_gap)
    return name, number, cells[name]


def _result(
    rule: Rule,
    kind: Kind,
    limit: float,
    target: Target,
    *,
    outcome: Outcome | Literal["skipped"],
    sentence: str,
    group: str | None = None,
    **numbers: Any,
) -> RuleResult:
    group = group or target.group
    own = next((one.own for one in target.members if one.group == group), target.own)
    return RuleResult(
        rule=rule.name,
        kind=kind,
        metric=rule.metric,
        threshold=rule.threshold,
        scope=target.scope,
        group=group,
        slice=rule.slice,
        mode=rule.mode,
        confidence=rule.confidence,
        limit=limit,
        n_positive=own["positive"],
        n_negative=own["negative"],
        action=rule.action,
        outcome=outcome,
        sentence=sentence,
        **numbers,
    )


def _refuse_missing_thresholds(rule: Rule, found: Evidence) -> None:
    """Refuse evidence that was not measured at a rule's threshold."""
    rivals = [getattr(found, kind) for kind, _ in rule.checks if kind in RIVALS]
    for content in (found.report, *rivals):
        if rule.threshold is None or content is None:
            continue
        if rule.threshold not in content.get("thresholds", {}):
            msg = f"`evidence` must be measured at threshold {rule.threshold!r} for {rule.name}."
            raise ValueError(msg)


def _waivable(result: RuleResult) -> str | None:
    """Return the group that a waiver names; the worst subgroup cannot be named."""
    return None if result.scope == WORST else result.group


def _refuse_lost_waivers(
    waivers: Sequence[Waiver], rules: Sequence[Rule], results: Sequence[RuleResult]
) -> None:
    """Refuse a waiver that can never apply, since it must have been meant for something else."""
    names = {rule.name for rule in rules}
    groups = {(one.rule, _waivable(one)) for one in results}
    for one in waivers:
        if one.rule not in names:
            msg = (
                f"`waivers` must name rules; got {one.rule!r} (known: {', '.join(sorted(names))})."
                f"{did_you_mean(one.rule, names)}"
            )
            raise ValueError(msg)
        if (one.rule, one.group) not in groups:
            msg = f"`waivers` must name groups of the rule {one.rule}; got {one.group!r}."
            raise ValueError(msg)
