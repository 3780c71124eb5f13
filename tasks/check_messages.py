"""Messages about the results of a policy's checks: a template for each reason.

They contain names of identities: escape them for the medium that shows them.
"""

from __future__ import annotations

from collections.abc import Callable

from bias_metrics.gate import HARM_RULE as HARM
from bias_metrics.gate import (
    MISSING,
    RIVALS,
    TRUNCATED,
    BoundCounts,
    Lack,
    Loss,
    Objective,
    PassException,
    RuleResult,
)
from bias_metrics.metrics import AGGREGATE_METRICS, METRICS, THRESHOLDS
from bias_metrics.parts import format_count

_CLASSES = {"positive": "toxic", "negative": "harmless"}


def describe_check(result: RuleResult) -> str:
    """Return the sentence for a result: the measured value, the comparison and the outcome."""
    text = _TEMPLATES[result.reason](result)
    if result.dominated_by is None:
        return text
    units = result.dominated_by
    kind = "harmless" if units.label == "negative" else "toxic"
    subject = "" if units.subgroup is None else f" about {units.subgroup}"
    return (
        f"{text} Still undecided, because its bound is not reliable: of the {kind} "
        f"comments{subject}, {units}."
    )


def describe_loss(loss: Loss) -> str:
    """Return the metric of a loss and its lower bound."""
    return f"{loss.metric} by {describe_least_loss(loss)}"


def describe_least_loss(loss: Loss) -> str:
    """Return the lower bound of a loss."""
    least = loss.worse_by_at_least
    return f"at least {least:.3f}" if least >= 0.0005 else "more than 0"


def describe_exception(exception: PassException) -> str:
    """Return the sentence for an exception: a limit of the evidence behind a pass."""
    n_checks = exception.n_checks
    checks = "1 check was" if n_checks == 1 else f"{n_checks:,} checks were"
    if exception.why == "estimate":
        return (
            f"{checks} decided by the point estimate, whatever its uncertainty (`mode: estimate`)."
        )
    if exception.why == "no_rival":
        return f"no {exception.kind} to compare with: {checks} skipped."
    if exception.why == "no_rule":
        groups = "any identity" if exception.groups is None else ", ".join(exception.groups)
        return f"no blocking rule covers {groups}."
    if exception.loss is not None:
        permission = {
            "warning": "the policy only warns",
            "no_rule": "no rule of the policy covers this",
        }.get(str(exception.allowed_by), f"the policy tolerates {exception.allowed_by}")
        doubt = _SHARED_LOSS if exception.may_be_shared else ""
        return (
            f"{exception.group}: significantly worse than under the champion "
            f"({describe_loss(exception.loss)}); {permission} (`{HARM}`).{doubt}"
        )
    return _describe_small_exception(exception)


def describe_bounds(bounds: BoundCounts) -> str:
    """Return the number of computed bounds, and how many to expect wrong by chance."""
    if not bounds.alpha:
        return "Values are exact for these rows: nothing is estimated."
    parts = []
    if bounds.separately:
        parts.append(
            f"The rules use {format_count(bounds.separately, 'bound')}: expect up to "
            f"{bounds.expected_wrong:.2g} to be wrong by chance."
        )
    if bounds.jointly:
        parts.append(
            f"Losses are tested with {bounds.jointly:,} simultaneous bounds: at most "
            f"{100 * bounds.alpha:g} of 100 sets have any wrong one."
        )
    text = " ".join(parts) or "No rule uses a bound."
    if bounds.without_threshold:
        verb = "has" if len(bounds.without_threshold) == 1 else "have"
        names = " and the ".join(bounds.without_threshold)
        text += f" Losses in fpr_gap and fnr_gap are not tested: the {names} {verb} no `threshold`."
    return text


def name_objective(objective: Objective) -> str:
    """Return the name of the number that ranks versions."""
    means = AGGREGATE_METRICS[:-1]
    return f"power mean of {objective.metric}" if objective.metric in means else objective.metric


def describe_objective(objective: Objective) -> str:
    """Return the change of the objective from the champion's, with its bounds.

    Examples
    --------
    >>> describe_objective(Objective("auc", 0.95, 0.91, 0.90, 0.01, 0.004, 0.016))
    'auc is higher by 0.0100 (one-sided 95% bounds 0.0040 to 0.0160)'
    """
    name = name_objective(objective)
    if objective.change is None:
        return f"{name} has no difference: {objective.reason or 'it is undefined'}"
    change = f"{'higher' if objective.change > 0 else 'lower'} by {abs(objective.change):.4f}"
    if objective.change == 0:
        change = "the same"
    if objective.low is None or objective.high is None:
        return f"{name} is {change}, without bounds ({objective.reason or 'no reason given'})"
    bounds = f"{objective.low:.4f} to {objective.high:.4f}"
    return f"{name} is {change} ({_name_bounds(objective.confidence)} {bounds})"


# ---- Names of numbers


def _name_number(result: RuleResult) -> str:
    """Return the name of the number, such as `bpsn_auc of gay`, with threshold and slice."""
    group = result.group
    name = f"{result.metric} of {group}" if group else f"{result.scope} {result.metric}"
    if result.scope == "worst":
        name = f"worst {result.metric}{f' ({group})' if group else ''}"
    if result.threshold is not None:
        name = f"{name} at {THRESHOLDS[result.threshold]}"
    if result.slice is not None:
        name = f"{name} in slice {result.slice}"
    return name


def _name_covered_number(result: RuleResult) -> str:
    """Return the name of the number, with the identities and rows that it covers."""
    n_categories, n_covered = result.n_categories, len(result.instead_of)
    coverage = ""
    if n_categories:
        n_identities = n_covered - n_categories
        categories = "category" if n_categories == 1 else "categories"
        identities = ""
        if n_identities:
            noun = "identity" if n_identities == 1 else "identities"
            identities = f"{n_identities} {noun} and "
        coverage = f" over {identities}{n_categories} {categories}"
    return f"{_name_number(result)}{coverage}{' on these rows' if result.on_these_rows else ''}"


def _is_gap(result: RuleResult) -> bool:
    return METRICS[result.metric].is_gap


def _format_value(result: RuleResult, value: float | None) -> str:
    return f"{value:+.4f}" if _is_gap(result) else f"{value:.4f}"


def _name_bounds(confidence: float) -> str:
    """Return the name of the bounds. Two one-sided 95% bounds are the ends of a 90% interval."""
    return f"one-sided {100 * confidence:g}% bounds"


def _format_interval(result: RuleResult) -> str:
    if result.mode == "estimate" or result.low is None or result.high is None:
        return ""
    is_size = _is_gap(result) and not METRICS[result.metric].needs_rival
    quantity = " of the size:" if is_size else ""
    return f" ({_name_bounds(result.confidence)}{quantity} {result.low:.4f} to {result.high:.4f})"


def describe_lack(lack: Lack) -> str:
    """Return the number of available rows or clusters, and the number that the rule needs."""
    side_words = f"{lack.side} " if lack.side else ""
    kind = "cluster" if lack.of == "cluster" else f"{_CLASSES[lack.of]} {side_words}comment"
    unit = f"{'effective ' if lack.effective else ''}{kind}"
    text = f"{format_count(lack.n, unit)}, {lack.needed:,} needed"
    text = text if lack.group is None else f"{lack.group} has {text}"
    if lack.categories:
        text += f" (its categories: {', '.join(map(describe_lack, lack.categories))})"
    return text


# ---- Results of rules


def _describe_judged(result: RuleResult) -> str:
    name, value = _name_covered_number(result), result.value
    assert value is not None  # noqa: S101 - an undefined value is not judged
    if METRICS[result.metric].needs_rival:
        margin = _compare_with_margin(result, "more than")
        text = f"{name}: {value:.4f} of the comments{_format_interval(result)}, {margin}."
    elif result.kind in RIVALS:
        text = (
            f"{name} is {_format_value(result, value)}, the {result.kind}'s "
            f"{_format_value(result, result.rival)}: {_describe_change(result)}."
        )
    else:
        number = f"{_format_value(result, value)}{_format_interval(result)}"
        text = f"{name} is {number}, {_compare_with_limit(result)}"
        if result.reason == "not_met" and result.group is not None:
            metric = METRICS[result.metric]
            harm = metric.harm.format(group=result.group, side=metric.sides[value > 0])
            text = f"{text}: {harm}."
        else:
            text = f"{text}."
    if result.rows_for_margin is not None:
        text += (
            f" The margin needs {result.rows_for_margin:,} comments in each compared class; the "
            f"set has {result.n_compared:,}."
        )
    return text


def _compare_with_limit(result: RuleResult) -> str:
    """Return the comparison with the limit, based on the bound unless the mode is `estimate`."""
    limit = f"the {result.kind} {result.limit:g}"
    if result.reason == "undecided":
        return f"too close to {limit} to tell"
    is_above = (result.kind == "floor") == (result.reason == "met")
    if result.mode == "estimate":
        at_least, below = ("at least", "below") if result.kind == "floor" else ("above", "at most")
        return f"{at_least if is_above else below} {limit}"
    return f"significantly {'above' if is_above else 'below'} {limit}"


def _describe_change(result: RuleResult) -> str:
    is_gap, value, rival = _is_gap(result), result.value or 0.0, result.rival or 0.0
    loss = abs(value) - abs(rival) if is_gap else rival - value
    subject = "the gap is" if is_gap else "it is"
    change = f"{subject} {'wider' if is_gap else 'lower'} by {loss:.4f}"
    if loss <= 0:
        change = f"{subject} {'narrower' if is_gap else 'higher'} by {-loss:.4f}"
    if loss == 0:
        change = "no difference"
    return (
        f"{change}{_format_interval(result)}, {_compare_with_margin(result, 'worse by more than')}"
    )


def _compare_with_margin(result: RuleResult, beyond: str) -> str:
    """Return the comparison of a change with the margin."""
    margin = f"the margin {result.limit:g}"
    if result.reason == "undecided":
        return f"too close to {margin} to tell"
    return f"{'within' if result.reason == 'met' else beyond} {margin}"


def _describe_few_rows(result: RuleResult) -> str:
    assert result.lack is not None  # noqa: S101
    return f"{_name_covered_number(result)}: insufficient evidence: {describe_lack(result.lack)}."


def _describe_undefined(result: RuleResult) -> str:
    return f"{_name_covered_number(result)} is undefined: {result.why or 'no reason given'}."


def _describe_no_interval(result: RuleResult) -> str:
    reason = result.why or "it is not a finite number"
    return f"{_name_covered_number(result)} has no usable interval: {reason}."


def _describe_not_finite(result: RuleResult) -> str:
    return f"{_name_covered_number(result)} is not a finite number."


def _describe_no_rival(result: RuleResult) -> str:
    if result.rule == HARM:
        return "Losses are not tested: no champion to compare with."
    return f"{_name_number(result)}: no {result.kind} to compare with."


# ---- Groups with too few rows


def _describe_small_group(result: RuleResult) -> str:
    """Return the sentences for a group with too few rows.

    They name the category that is judged instead, and the loss that its own rows do not exclude.
    """
    assert result.lack is not None  # noqa: S101
    side = {"floor": "below", "ceiling": "above"}.get(result.kind, "")
    comparison = (
        f"{side} the {result.kind} {result.limit:g}" if side else f"worse than the {result.kind}'s"
    )
    lack = describe_lack(result.lack)
    parts = [f"{_name_covered_number(result)}: {lack}, {_describe_substitute(result)}."]
    own_rows = "Own comments"
    if result.outcome == "fail":
        own_rows = f"Own comments, significantly {comparison}"
    if result.value is None or result.not_excluded is None:
        parts.append(f"{own_rows}: no bound.")
    else:
        parts.append(f"{own_rows}: {_describe_own_bound(result)}")
        if result.outcome == "insufficient" and result.blind is not None:
            parts.append(
                f"The policy requires a loss above {result.blind:g} to be excluded (`blind`)."
            )
    shortages = [f"{n:,} more {_CLASSES[name]}" for name, n in result.rows_needed.items()]
    if shortages:
        has_rival = result.kind in RIVALS
        limit = (
            f"the margin {result.limit:g}" if has_rival else f"the {result.kind} {result.limit:g}"
        )
        parts.append(
            f"To decide {limit}, the rule needs about {' and '.join(shortages)} comments that "
            "mention it."
        )
    return " ".join([*parts, *([result.hint] if result.hint else [])])


def _describe_substitute(result: RuleResult) -> str:
    unmeasured = f"the policy lists it as not measured ({result.not_measured})"
    if result.judged_in is not None:
        addition = f"; {unmeasured}" if result.not_measured else ""
        return f"so it is judged in {result.judged_in}{addition}"
    if result.not_measured is not None:
        return f"and {unmeasured}"
    if result.outcome == "skipped" and result.blind is not None:
        return f"so it is judged by its own comments, with the wider margin {result.blind:g}"
    return "and no category covers it"


def _describe_own_bound(result: RuleResult) -> str:
    """Return the bound from a group's own rows, and the loss that they could detect."""
    percent, bound, value = f"{100 * result.confidence:g}%", result.not_excluded, result.value
    assert value is not None  # noqa: S101
    assert bound is not None  # noqa: S101
    if result.kind not in RIVALS:
        size = abs(value) if _is_gap(result) else value
        side = "lower" if result.kind == "floor" else "upper"
        power = _describe_power(result)
        return f"{size:.4f}, {percent} {side} bound {bound:.4f}; {power}."
    rival = 0.0 if result.rival is None else result.rival
    change = abs(value) - abs(rival) if _is_gap(result) else value - rival
    subject = "the gap changed" if _is_gap(result) else "changed"
    return (
        f"{subject} by {change:+.4f} from the {result.kind}'s {_format_value(result, rival)}; "
        f"{_describe_open_loss(bound)} ({percent} bound); 80% power to detect a loss of "
        f"{result.visible:.2g}."
    )


def _describe_open_loss(bound: float) -> str:
    """Return the largest loss that a group's own bound does not exclude."""
    return f"a loss of up to {bound:.2g} is not excluded" if bound > 0 else "a loss is excluded"


def _describe_power(result: RuleResult) -> str:
    """Return the value beyond a limit that is detected with 80% power, if the metric has it."""
    distance = result.visible
    detectable = (
        None
        if distance is None
        else result.limit + (-distance if result.kind == "floor" else distance)
    )
    if detectable is None or not 0 < detectable < METRICS[result.metric].largest:
        return "no possible value can be detected with 80% power"
    return f"80% power to detect {detectable:.2f}"


def _describe_small_exception(exception: PassException) -> str:
    """Return the exception for a group with too few rows, from its least certain check."""
    check, n_checks = exception.check, exception.n_checks
    assert check is not None  # noqa: S101
    checks = "1 check" if n_checks == 1 else f"{n_checks:,} checks"
    basis = f"judged in the category {check.judged_in}"
    if check.not_measured is not None:
        basis = f"not measured ({check.not_measured})"
    elif check.judged_in is None:
        basis = f"judged by its own comments, with the wider margin {check.blind:g}"
    parts = [f"{check.group}: {basis} ({checks})", _describe_own_number(check)]
    if exception.n_unbounded:
        parts.append(f"{exception.n_unbounded:,} of the checks without a bound")
    shortages = [f"{n:,} more {_CLASSES[name]}" for name, n in check.rows_needed.items()]
    if shortages:
        parts.append(f"{' and '.join(shortages)} comments needed")
    return f"{'; '.join(parts)}."


def _describe_own_number(check: RuleResult) -> str:
    """Return the value from a group's own rows, its bound and the detectable loss."""
    slice_words = "" if check.slice is None else f" in slice {check.slice}"
    value, open_loss = check.value, check.not_excluded
    if value is None or open_loss is None or check.visible is None:
        return f"no bound of {check.metric}{slice_words}"
    if check.kind not in RIVALS:
        size = abs(value) if check.kind == "ceiling" else value
        number = f"own {check.metric}{slice_words} {size:.3f}"
        side = "lower" if check.kind == "floor" else "upper"
        return f"{number}, {side} bound {open_loss:.2f}; {_describe_power(check)}"
    sign = "+" if _is_gap(check) else ""
    rival = value if check.rival is None else check.rival
    number = f"own {check.metric}{slice_words} {value:{sign}.3f}"
    number += f", the {check.kind}'s {rival:{sign}.3f}"
    power = f"; 80% power to detect a loss of {check.visible:.2g}" if check.visible else ""
    return f"{number}; {_describe_open_loss(open_loss)}{power}"


# ---- Losses


_SHARED_LOSS = " It may come from comments that also mention another identity with a loss."


def _count_bounds(result: RuleResult) -> str:
    if result.on_these_rows:
        return f"{result.n_bounds:,} differences on these rows"
    return f"{result.n_bounds:,} simultaneous {100 * result.confidence:g}% bounds"


def _describe_no_loss(result: RuleResult) -> str:
    worse = "worse" if result.on_these_rows else "significantly worse"
    rival = f"the {result.kind}"
    if result.limit:
        rival += f" by more than {result.limit:g}, or {2 * result.limit:g} for a gap"
    return f"No identity is {worse} than under {rival} ({_count_bounds(result)})."


def _describe_group_loss(result: RuleResult) -> str:
    is_gap, value, rival, bound = _is_gap(result), result.value, result.rival, result.bound
    assert value is not None  # noqa: S101
    assert rival is not None  # noqa: S101
    assert bound is not None  # noqa: S101
    loss = abs(value) - abs(rival) if is_gap else rival - value
    at_least = bound if is_gap else -bound
    at_threshold = "" if result.threshold is None else f" at {THRESHOLDS[result.threshold]}"
    subject = "the gap is wider by" if is_gap else "it is lower by"
    significance = "worse by" if result.on_these_rows else "significantly worse, by at least"
    rows = " on these rows" if result.on_these_rows else ""
    text = (
        f"{result.metric} of {result.group}{at_threshold}{rows} is {_format_value(result, value)}, "
        f"the {result.kind}'s {_format_value(result, rival)}: {subject} {loss:.4f}, {significance} "
        f"{at_least:.4f} ({_count_bounds(result)})."
    )
    if result.without:
        names = " or ".join(result.without)
        text += f" Without comments that also mention {names}, it is not significant."
    return text + (_SHARED_LOSS if result.may_be_shared else "")


# ---- Models without use, comments without a score


def _describe_chance(result: RuleResult) -> str:
    number = f"{result.value:.3f}"
    if result.low is not None and result.high is not None:
        number = f"{number} [{result.low:.3f}, {result.high:.3f}]"
    text = f"The overall AUC {number} is not significantly above 0.5"
    if result.bound is None:
        return f"{text}: it has no interval ({result.why or 'not measured'})."
    return f"{text}: the scores may not separate toxic comments, so no rule can pass."


def _describe_useless_threshold(result: RuleResult) -> str:
    amount = "hardly any" if result.reason == "flags_nothing" else "nearly every"
    return (
        f"At its threshold {result.at:g} the model flags {amount} comment: "
        f"{result.positives_flagged:.2%} of toxic and {result.value:.2%} of harmless comments. "
        "Error rates are meaningless there. Check that the threshold is on the scale of the scores."
    )


def _describe_unknown_truncation(result: RuleResult) -> str:
    return f"It is unknown which comments the model truncates, so `{result.rule}` cannot be met."


def _describe_share(result: RuleResult) -> str:
    name = f"{result.metric} of {result.group}" if result.group else f"overall {result.metric}"
    predicate = _MARKED[result.rule][result.n_marked != 1]
    counts = f"{result.n_marked:,} of {result.n_rows:,} comments {predicate}"
    if result.reason == "missing_not_ruled":
        source = "" if result.role == "candidate" else f" from the {result.role}"
        return f"{counts}{source}, and the policy sets no limit for that (`{MISSING}`)."
    if result.reason == "share_undefined":
        return f"{name} is undefined: {result.why}."
    if result.reason == "share_zero":
        return f"{name}: {_UNMARKED[result.rule].format(n=result.n_rows)}."
    if result.outcome == "insufficient":
        comparison = f"too close to the limit {result.limit:g} to tell"
    elif result.mode == "proven":
        side = "below" if result.outcome == "pass" else "above"
        comparison = f"significantly {side} the limit {result.limit:g}"
    else:
        side = "at most" if result.outcome == "pass" else "above"
        comparison = f"{side} the limit {result.limit:g}"
    bounds = ""
    if result.mode == "proven" and result.low is not None and result.high is not None:
        bounds = f" ({_name_bounds(result.confidence)} {result.low:.4f} to {result.high:.4f})"
    return f"{name} is {result.value:.4f}{bounds}, {comparison}: {counts}."


# For one comment, and for several.
_MARKED = {
    MISSING: ("has no score", "have no score"),
    TRUNCATED: ("was truncated", "were truncated"),
}
_UNMARKED = {
    MISSING: "all {n:,} comments have a score",
    TRUNCATED: "none of {n:,} comments was truncated",
}

_TEMPLATES: dict[str, Callable[[RuleResult], str]] = {
    "met": _describe_judged,
    "not_met": _describe_judged,
    "undecided": _describe_judged,
    "not_finite": _describe_not_finite,
    "no_interval": _describe_no_interval,
    "undefined": _describe_undefined,
    "few_rows": _describe_few_rows,
    "no_rival": _describe_no_rival,
    "small_group": _describe_small_group,
    "loss": _describe_group_loss,
    "no_loss": _describe_no_loss,
    "no_better_than_chance": _describe_chance,
    "flags_nothing": _describe_useless_threshold,
    "flags_everything": _describe_useless_threshold,
    "share": _describe_share,
    "share_zero": _describe_share,
    "share_undefined": _describe_share,
    "missing_not_ruled": _describe_share,
    "truncated_unknown": _describe_unknown_truncation,
}
