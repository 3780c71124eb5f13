"""The decision of the gate: rules compared with measured evidence, without side effects.

A rule gives a result per number and limit, with one of five outcomes: `pass`; `fail`;
`insufficient` (too few rows, or bounds on both sides of the limit); `error` (a number is missing
in spite of enough rows); `skipped` (the policy allows a first model without champion). The verdict
is the worst outcome of all blocking rules. A group is never dropped: without evidence it is
insufficient, which blocks like a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bias_metrics.gate.outcome import RIVALS, Outcome
from bias_metrics.gate.placement import judge_targets
from bias_metrics.gate.results import Check
from bias_metrics.gate.rules import AGGREGATE, LEAST_COMPARED, Rule
from bias_metrics.gate.targets import list_targets
from bias_metrics.gate.verdict import Evidence, RuleResult, Verdict
from bias_metrics.metrics import METRICS
from bias_metrics.table import Key

WORST_FIRST: tuple[Outcome, ...] = ("error", "fail", "insufficient", "pass")
EvidenceKey = tuple[str | None, float]


def list_needed_evidence(rules: Sequence[Rule]) -> list[EvidenceKey]:
    """Return the slices, and the two-sided confidences, for which rules need evidence."""
    return list(dict.fromkeys((rule.slice, rule.level) for rule in rules))


def list_needed_thresholds(rules: Sequence[Rule]) -> dict[str, set[str]]:
    """Return the names of the rules' thresholds, each with the models compared at it.

    `candidate` is always included; `champion` and `reference` if a rule has a margin.
    """
    roles: dict[str, set[str]] = {}
    for rule in rules:
        if rule.threshold is not None:
            rivals = {kind for kind, _ in rule.checks if kind in RIVALS}
            roles.setdefault(rule.threshold, {"candidate"}).update(rivals)
    return roles


def needs_calibration(rules: Sequence[Rule]) -> bool:
    """Return True if a rule is about calibration, which is measured only on request."""
    return any(METRICS[rule.metric].needs_probabilities for rule in rules)


def judge_rules(
    evidence: Mapping[EvidenceKey, Evidence],
    rules: Sequence[Rule],
    *,
    allow_first: bool = False,
) -> Verdict:
    """Judge a candidate on an evaluation set by a policy's rules.

    Parameters
    ----------
    evidence : mapping of (str or None, float) to Evidence
        Measurements by slice and two-sided confidence; `list_needed_evidence` lists the keys.
    rules : sequence of Rule
        The rules, at least one blocking.
    allow_first : bool, default=False
        Whether rules against a missing champion may be skipped.

    Returns
    -------
    Verdict
        The worst outcome among blocking results (error, fail, insufficient, pass), and every
        result.

    Raises
    ------
    ValueError
        If all rules only warn, evidence is missing (also at a rule's threshold), or a rule names an
        unknown subgroup.
    """
    if not any(rule.action == "block" for rule in rules):
        msg = "`rules` must hold at least one blocking rule; a gate without rules passes nothing."
        raise ValueError(msg)
    missing = [key for key in list_needed_evidence(rules) if key not in evidence]
    if missing:
        msg = f"`evidence` must cover every slice and confidence of the rules; lacks {missing}."
        raise ValueError(msg)
    for rule in rules:
        _refuse_missing_numbers(rule, evidence[rule.slice, rule.level])
    outcomes: list[Outcome] = []
    all_results: list[RuleResult] = []
    for rule in rules:
        results = list(_judge_rule(rule, evidence, allow_first=allow_first))
        if rule.action == "block" and not results:
            outcomes.append("insufficient")  # a rule without numbers to check has not passed
        outcomes += [
            result.outcome
            for result in results
            if result.is_counted and result.outcome != "skipped"
        ]
        all_results += results
    return Verdict(find_worst_outcome(outcomes), tuple(all_results))


def find_worst_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the worst outcome; `insufficient` for an empty sequence."""
    return next((outcome for outcome in WORST_FIRST if outcome in outcomes), "insufficient")


def _judge_rule(
    rule: Rule, evidence: Mapping[EvidenceKey, Evidence], *, allow_first: bool
) -> Iterator[RuleResult]:
    """Yield a result per number and limit."""
    selected = evidence[rule.slice, rule.level]
    if not selected.is_sample:
        rule = replace(rule, mode="estimate", min_positives=1, min_negatives=1, min_clusters=1)
    covered: tuple[str, ...] = ()
    n_categories = 0
    if rule.scope == AGGREGATE and rule.name in selected.rolled_aggregates:
        hierarchy = selected.small_groups.hierarchy
        rolled = selected.rolled_aggregates[rule.name]
        selected, covered = rolled.evidence, rolled.groups
        n_categories = sum(name in hierarchy.categories for name in covered) if hierarchy else 0
    targets = list(list_targets(selected.table, rule, selected.background))
    for kind, limit in rule.checks:
        check = Check(
            rule, kind, limit, selected.table, LEAST_COMPARED, n_categories, not selected.is_sample
        )
        if selected.can_judge(kind):
            yield from judge_targets(check, targets, selected, covered)
        else:
            outcome = "skipped" if kind == "champion" and allow_first else "insufficient"
            for target in targets:
                yield check.build_result(target, None, outcome=outcome, reason="no_rival")


def _refuse_missing_numbers(rule: Rule, evidence: Evidence) -> None:
    """Refuse evidence without a rule's threshold or calibration, for the candidate or a rival."""
    rivals = [kind for kind, _ in rule.checks if kind in RIVALS and evidence.can_judge(kind)]
    for rival in (None, *rivals):
        if rule.threshold is not None and (rule.threshold, rival) not in evidence.table.thresholds:
            msg = f"`evidence` must be measured at threshold {rule.threshold!r} for {rule.name}."
            raise ValueError(msg)
        if METRICS[rule.metric].needs_probabilities:
            keys = (Key(rule.metric, name, against=rival) for name in evidence.table.groups)
            if not all(key in evidence.table for key in keys):
                msg = f"`evidence` must have the calibration that {rule.name} is about."
                raise ValueError(msg)
