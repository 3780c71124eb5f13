"""The sentence that goes with each result of the gate."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bias_metrics.gate.judging import RIVALS, Measured, Outcome
from bias_metrics.gate.rules import Kind, Rule
from bias_metrics.metrics import METRICS, THRESHOLDS


def label(rule: Rule, scope: str, group: str | None) -> str:
    """Name the number: `bpsn_auc of gay`, `overall auc`, with the slice if there is one."""
    name = f"{rule.metric} of {group}" if group else f"{scope} {rule.metric}"
    if scope == "worst":
        name = f"worst {rule.metric}{f' ({group})' if group else ''}"
    if rule.threshold is not None:
        name = f"{name} at {THRESHOLDS[rule.threshold]}"
    return name if rule.slice is None else f"{name} in slice {rule.slice}"


def sentence(
    rule: Rule,
    kind: Kind,
    name: str,
    group: str | None,
    value: float,
    rival: float | None,
    number: Measured,
    limit: float,
    outcome: Outcome,
) -> str:
    """Say in words what was measured, what it was compared with, and the result.

    Parameters
    ----------
    rule : Rule
        The rule.
    kind : str
        What the number was compared with.
    name : str
        From `label`.
    group : str or None
        The subgroup.
    value, rival : float or None
        The candidate's value, and the rival's.
    number : Measured
        What was compared with the limit: the value, its size, or how it changed.
    limit : float
        Limit or margin.
    outcome : str
        The result.

    Returns
    -------
    str
        One sentence.
    """
    shown = f"{value:+.4f}" if rule.is_gap else f"{value:.4f}"
    if kind in RIVALS:
        before = f"{rival:+.4f}" if rule.is_gap else f"{rival:.4f}"
        what = f"{name} is {shown}, the {kind}'s {before}"
        return f"{what}: {_change(rule, number, limit, outcome)}."
    text = f"{name} is {shown}{_range(rule, number)}, {_against(rule, kind, limit, outcome)}"
    if outcome != "fail" or group is None:
        return f"{text}."
    metric = METRICS[rule.metric]
    return f"{text}: {metric.harm.format(group=group, side=metric.sides[value > 0])}."


def _against(rule: Rule, kind: Kind, limit: float, outcome: Outcome) -> str:
    shown = "" if rule.mode == "estimate" else "shown to be "
    within, beyond = ("at most", "above") if kind == "ceiling" else ("at least", "below")
    if outcome == "insufficient":
        return f"not shown to be either {within} or {beyond} the {kind} {limit:g}"
    return f"{shown}{within if outcome == 'pass' else beyond} the {kind} {limit:g}"


def _change(rule: Rule, number: Measured, limit: float, outcome: Outcome) -> str:
    assert number.value is not None  # noqa: S101 - judged already
    worse = number.value if rule.is_gap else -number.value
    noun = "the gap is" if rule.is_gap else "it is"
    how = f"{noun} {'wider' if rule.is_gap else 'lower'} by {worse:.4f}"
    if worse <= 0:
        how = f"{noun} {'narrower' if rule.is_gap else 'higher'} by {-worse:.4f}"
    if worse == 0:
        how = "no difference"
    shown = {
        "pass": "within the margin",
        "fail": "worse by more than the margin",
        "insufficient": "not shown to be within the margin",
        "error": "undefined against the margin",
    }[outcome]
    return f"{how}{_range(rule, number)}, {shown} {limit:g}"


def _range(rule: Rule, number: Measured) -> str:
    if rule.mode == "estimate" or number.low is None or number.high is None:
        return ""
    of = " of the size:" if rule.is_gap else ""
    return f" ({bounds(rule.confidence)}{of} {number.low:.4f} and {number.high:.4f})"


def bounds(confidence: float) -> str:
    """Name the bounds that rules look at; both of 95 % are the ends of a 90 % interval."""
    return f"one-sided {100 * confidence:g} % bounds"


def over(groups: Sequence[str], categories: Collection[str]) -> str:
    """Say what an aggregate covers where categories stand for small groups; else nothing."""
    n_rolled = sum(name in categories for name in groups)
    if not n_rolled:
        return ""
    alone, joined = len(groups) - n_rolled, "category" if n_rolled == 1 else "categories"
    of = f"{alone} {'identity' if alone == 1 else 'identities'} and " if alone else ""
    return f" over {of}{n_rolled} {joined}"


def alone_sentence(kind: Kind, name: str, lack: str, place: str, limit: float, outcome: str) -> str:
    """Say in words that a small group is judged in a category, and what is shown of it alone."""
    against = f"worse than the {kind}'s" if kind in RIVALS else f"beyond the {kind} {limit:g}"
    if outcome == "error":
        return f"{name} is not a finite number."
    shown = "it is shown" if outcome == "fail" else "it is not shown"
    return f"{name}: {lack}, so it is judged in {place}. Alone {shown} to be {against}."
