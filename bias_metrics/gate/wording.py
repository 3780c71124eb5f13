"""The sentence that goes with each result of the gate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bias_metrics.gate.judging import RIVALS, Measured, Outcome
from bias_metrics.gate.rules import Kind, Rule
from bias_metrics.metrics import METRICS, THRESHOLDS

LACKS = "not enough evidence"
"""Says of a number that too few rows or clusters stand behind it for the rule."""


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
    """Say what was measured (`name`, from `label`), what it was compared with, and the result."""
    shown = f"{value:+.4f}" if rule.is_gap else f"{value:.4f}"
    if METRICS[rule.metric].needs_rival:
        within = {
            "pass": "within the margin",
            "fail": "more than the margin",
            "insufficient": "not shown to be within the margin",
            "error": "undefined against the margin",
        }[outcome]
        return f"{name}: {value:.4f} of the comments{_range(rule, number)}, {within} {limit:g}."
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


@dataclass(frozen=True)
class Alone:
    """What the rows of a group that has too few of them say alone."""

    not_excluded: float | None
    """Its one-sided bound: the loss against a rival, the value, or the size of a gap."""
    visible: float | None
    """The loss, or the distance beyond a limit, that is shown with a chance of 80 %."""
    rows_needed: Mapping[str, int]
    """How many more rows of each class the rule needs, for a model as good as the rival."""


def alone_sentence(
    rule: Rule,
    kind: Kind,
    name: str,
    lack: str,
    limit: float,
    outcome: str,
    change: tuple[float | None, float | None] | None,
    *,
    place: str | None,
    blind: float | None,
    not_measured: str | None,
    known: Alone,
) -> str:
    """Say in words what stands for a group that has too few rows, and what they leave open.

    `change` is what is compared with the limit, and the rival's value; None if it is undefined.
    """
    if outcome == "error":
        return f"{name} is not a finite number."
    side = {"floor": "below", "ceiling": "above"}.get(kind, "")
    against = f"{side} the {kind} {limit:g}" if side else f"worse than the {kind}'s"
    parts = [f"{name}: {lack}, {_stands_for(place, blind, not_measured, outcome)}."]
    if outcome == "fail":
        parts.append(f"Alone it is shown to be {against}.")
    if change is None or known.not_excluded is None:
        return " ".join([*parts, "Its own rows give no bound.", *_needed(kind, limit, known)])
    parts.append(_left_open(rule, kind, limit, change, known))
    if outcome == "insufficient" and blind is not None:
        parts.append(f"The policy lets no loss of more than {blind:g} stay open (`blind`).")
    return " ".join([*parts, *_needed(kind, limit, known)])


def _stands_for(
    place: str | None, blind: float | None, not_measured: str | None, outcome: str
) -> str:
    unmeasured = f"the policy says that it is not measured here ({not_measured})"
    if place is not None:
        return f"so it is judged in {place}" + (f"; {unmeasured}" if not_measured else "")
    if not_measured is not None:
        return f"and {unmeasured}"
    if outcome == "skipped" and blind is not None:
        return f"so it is judged by its own rows, with the wider margin {blind:g}"
    return "and no category stands for it"


def _left_open(
    rule: Rule,
    kind: Kind,
    limit: float,
    change: tuple[float | None, float | None],
    known: Alone,
) -> str:
    """Say what a group's own bound does not exclude, and what would be seen."""
    value, rival = change
    assert value is not None  # noqa: S101 - a bound belongs to a value
    percent = f"{100 * rule.confidence:g} %"
    bound, visible = known.not_excluded, known.visible
    if kind not in RIVALS:
        would = would_be_seen(rule.metric, kind, limit, visible)
        return (
            f"Alone it is {value:.4f}; {bound:.4f} is not excluded ({percent} bound), and "
            f"{would} in 80 of 100 such sets."
        )
    verb = "grew" if rule.is_gap else "changed"
    before = f"{rival:+.4f}" if rule.is_gap else f"{rival:.4f}"
    whose = f"{'the size of ' if rule.is_gap else ''}the {kind}'s {before}"
    left = "no loss is left open"
    if bound is not None and bound > 0:
        left = f"a loss of {bound:.2g} is not excluded"
    return (
        f"Alone it {verb} by {value:+.4f} from {whose}; {left} ({percent} bound), and a loss of "
        f"{visible:.2g} would be seen in 80 of 100 such sets."
    )


def _needed(kind: Kind, limit: float, known: Alone) -> Iterator[str]:
    words = {"positive": "toxic", "negative": "non-toxic"}  # as readers call the classes
    more = [f"{n:,} more {words[name]}" for name, n in known.rows_needed.items()]
    if more:
        what = f"the margin {limit:g}" if kind in RIVALS else f"the {kind} {limit:g}"
        yield f"The rule needs about {' and '.join(more)} comments that mention it for {what}."


def would_be_seen(metric: str, kind: Kind, limit: float, visible: float | None) -> str:
    """Say which value beyond a limit would be seen; of those that the metric can have, maybe none.

    `visible` is how far beyond it a value must be.
    """
    seen = None if visible is None else limit + (-visible if kind == "floor" else visible)
    if seen is None or not 0 < seen < METRICS[metric].largest:
        return "no value would be seen"
    return f"{seen:.2f} would be seen"
