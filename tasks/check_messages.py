"""Messages about the results of a policy's checks: a template for each reason.

They contain names of identities: escape them for the medium that shows them.
"""

from __future__ import annotations

from collections.abc import Callable

from bias_metrics.gate import HARM_RULE as HARM
from bias_metrics.gate import RIVALS, BoundCounts, Lack, Loss, Objective, PassException, RuleResult
from bias_metrics.gate.marked import MISSING, TRUNCATED
from bias_metrics.metrics import AGGREGATE_METRICS, METRICS, THRESHOLDS
from bias_metrics.parts import format_count

_CLASSES = {"positive": "toxic", "negative": "harmless"}


def check_message(result: RuleResult) -> str:
    """Return the sentence for a result: the measured value, the comparison and the outcome."""
    text = _TEMPLATES[result.reason](result)
    if result.dominated_by is None:
        return text
    units = result.dominated_by
    kind = "harmless" if units.label == "negative" else "toxic"
    whose = "" if units.subgroup is None else f" about {units.subgroup}"
    return (
        f"{text} Still undecided, because its bound is not reliable: of the {kind} "
        f"comments{whose}, {units}."
    )


def loss_message(loss: Loss) -> str:
    """Return the metric of a loss and its lower bound."""
    return f"{loss.metric} by {least_loss(loss)}"


def least_loss(loss: Loss) -> str:
    """Return the lower bound of a loss."""
    least = loss.worse_by_at_least
    return f"at least {least:.3f}" if least >= 0.0005 else "more than 0"


def exception_message(exception: PassException) -> str:
    """Return the sentence for an exception: a limit of the evidence behind a pass."""
    n = exception.n_checks
    checks = "1 check was" if n == 1 else f"{n:,} checks were"
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
        why = {
            "warning": "the policy only warns",
            "no_rule": "no rule of the policy covers this",
        }.get(str(exception.allowed_by), f"the policy tolerates {exception.allowed_by}")
        doubt = _SHARED if exception.may_be_shared else ""
        return (
            f"{exception.group}: significantly worse than under the champion "
            f"({loss_message(exception.loss)}); {why} (`{HARM}`).{doubt}"
        )
    return _small_exception(exception)


def bounds_message(bounds: BoundCounts) -> str:
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


def objective_name(objective: Objective) -> str:
    """Return the name of the number that ranks versions."""
    means = AGGREGATE_METRICS[:-1]
    return f"power mean of {objective.metric}" if objective.metric in means else objective.metric


def objective_message(objective: Objective) -> str:
    """Return the change of the objective from the champion's, with its bounds.

    Examples
    --------
    >>> objective_message(Objective("auc", 0.95, 0.91, 0.90, 0.01, 0.004, 0.016))
    'auc is higher by 0.0100 (one-sided 95% bounds 0.0040 to 0.0160)'
    """
    name = objective_name(objective)
    if objective.change is None:
        return f"{name} has no difference: {objective.reason or 'it is undefined'}"
    how = f"{'higher' if objective.change > 0 else 'lower'} by {abs(objective.change):.4f}"
    if objective.change == 0:
        how = "the same"
    if objective.low is None or objective.high is None:
        return f"{name} is {how}, without bounds ({objective.reason or 'no reason given'})"
    ends = f"{objective.low:.4f} to {objective.high:.4f}"
    return f"{name} is {how} ({_bounds(objective.confidence)} {ends})"


# ---- Names of numbers


def _label(result: RuleResult) -> str:
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


def _full_label(result: RuleResult) -> str:
    """Return the name of the number, with the identities and rows that it covers."""
    n, covered = result.n_categories, len(result.instead_of)
    over = ""
    if n:
        alone, joined = covered - n, "category" if n == 1 else "categories"
        of = f"{alone} {'identity' if alone == 1 else 'identities'} and " if alone else ""
        over = f" over {of}{n} {joined}"
    return f"{_label(result)}{over}{' on these rows' if result.on_these_rows else ''}"


def _is_gap(result: RuleResult) -> bool:
    return METRICS[result.metric].is_gap


def _signed(result: RuleResult, value: float | None) -> str:
    return f"{value:+.4f}" if _is_gap(result) else f"{value:.4f}"


def _bounds(confidence: float) -> str:
    """Return the name of the bounds. Two one-sided 95% bounds are the ends of a 90% interval."""
    return f"one-sided {100 * confidence:g}% bounds"


def _interval(result: RuleResult) -> str:
    if result.mode == "estimate" or result.low is None or result.high is None:
        return ""
    is_size = _is_gap(result) and not METRICS[result.metric].needs_rival
    of = " of the size:" if is_size else ""
    return f" ({_bounds(result.confidence)}{of} {result.low:.4f} to {result.high:.4f})"


def lack_message(lack: Lack) -> str:
    """Return the number of available rows or clusters, and the number that the rule needs."""
    side = f"{lack.side} " if lack.side else ""
    kind = "cluster" if lack.of == "cluster" else f"{_CLASSES[lack.of]} {side}comment"
    what = f"{'effective ' if lack.effective else ''}{kind}"
    text = f"{format_count(lack.n, what)}, {lack.needed:,} needed"
    text = text if lack.group is None else f"{lack.group} has {text}"
    if lack.categories:
        text += f" (its categories: {', '.join(map(lack_message, lack.categories))})"
    return text


# ---- Results of rules


def _judged(result: RuleResult) -> str:
    name, value = _full_label(result), result.value
    assert value is not None  # noqa: S101 - an undefined value is not judged
    if METRICS[result.metric].needs_rival:
        margin = _margin(result, "more than")
        text = f"{name}: {value:.4f} of the comments{_interval(result)}, {margin}."
    elif result.kind in RIVALS:
        text = (
            f"{name} is {_signed(result, value)}, the {result.kind}'s "
            f"{_signed(result, result.rival)}: {_change(result)}."
        )
    else:
        text = f"{name} is {_signed(result, value)}{_interval(result)}, {_limit(result)}"
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


def _limit(result: RuleResult) -> str:
    """Return the comparison with the limit, based on the bound unless the mode is `estimate`."""
    limit = f"the {result.kind} {result.limit:g}"
    if result.reason == "undecided":
        return f"too close to {limit} to tell"
    is_above = (result.kind == "floor") == (result.reason == "met")
    if result.mode == "estimate":
        at_least, below = ("at least", "below") if result.kind == "floor" else ("above", "at most")
        return f"{at_least if is_above else below} {limit}"
    return f"significantly {'above' if is_above else 'below'} {limit}"


def _change(result: RuleResult) -> str:
    is_gap, value, rival = _is_gap(result), result.value or 0.0, result.rival or 0.0
    worse = abs(value) - abs(rival) if is_gap else rival - value
    noun = "the gap is" if is_gap else "it is"
    how = f"{noun} {'wider' if is_gap else 'lower'} by {worse:.4f}"
    if worse <= 0:
        how = f"{noun} {'narrower' if is_gap else 'higher'} by {-worse:.4f}"
    if worse == 0:
        how = "no difference"
    return f"{how}{_interval(result)}, {_margin(result, 'worse by more than')}"


def _margin(result: RuleResult, beyond: str) -> str:
    """Return the comparison of a change with the margin."""
    margin = f"the margin {result.limit:g}"
    if result.reason == "undecided":
        return f"too close to {margin} to tell"
    return f"{'within' if result.reason == 'met' else beyond} {margin}"


def _few_rows(result: RuleResult) -> str:
    assert result.lack is not None  # noqa: S101
    return f"{_full_label(result)}: insufficient evidence: {lack_message(result.lack)}."


def _undefined(result: RuleResult) -> str:
    return f"{_full_label(result)} is undefined: {result.why or 'no reason given'}."


def _no_interval(result: RuleResult) -> str:
    why = result.why or "it is not a finite number"
    return f"{_full_label(result)} has no usable interval: {why}."


def _not_finite(result: RuleResult) -> str:
    return f"{_full_label(result)} is not a finite number."


def _no_rival(result: RuleResult) -> str:
    if result.rule == HARM:
        return "Losses are not tested: no champion to compare with."
    return f"{_label(result)}: no {result.kind} to compare with."


# ---- Groups with too few rows


def _small_group(result: RuleResult) -> str:
    """Return the sentences for a group with too few rows.

    They name the category that is judged instead, and the loss that its own rows do not exclude.
    """
    assert result.lack is not None  # noqa: S101
    side = {"floor": "below", "ceiling": "above"}.get(result.kind, "")
    against = (
        f"{side} the {result.kind} {result.limit:g}" if side else f"worse than the {result.kind}'s"
    )
    parts = [f"{_full_label(result)}: {lack_message(result.lack)}, {_judged_in(result)}."]
    own = "Own comments"
    if result.outcome == "fail":
        own = f"Own comments, significantly {against}"
    if result.value is None or result.not_excluded is None:
        parts.append(f"{own}: no bound.")
    else:
        parts.append(f"{own}: {_left_open(result)}")
        if result.outcome == "insufficient" and result.blind is not None:
            parts.append(
                f"The policy requires a loss above {result.blind:g} to be excluded (`blind`)."
            )
    more = [f"{n:,} more {_CLASSES[name]}" for name, n in result.rows_needed.items()]
    if more:
        rival = result.kind in RIVALS
        what = f"the margin {result.limit:g}" if rival else f"the {result.kind} {result.limit:g}"
        parts.append(
            f"To decide {what}, the rule needs about {' and '.join(more)} comments that mention it."
        )
    return " ".join([*parts, *([result.hint] if result.hint else [])])


def _judged_in(result: RuleResult) -> str:
    unmeasured = f"the policy lists it as not measured ({result.not_measured})"
    if result.judged_in is not None:
        also = f"; {unmeasured}" if result.not_measured else ""
        return f"so it is judged in {result.judged_in}{also}"
    if result.not_measured is not None:
        return f"and {unmeasured}"
    if result.outcome == "skipped" and result.blind is not None:
        return f"so it is judged by its own comments, with the wider margin {result.blind:g}"
    return "and no category covers it"


def _left_open(result: RuleResult) -> str:
    """Return the bound from a group's own rows, and the loss that they could detect."""
    percent, bound, value = f"{100 * result.confidence:g}%", result.not_excluded, result.value
    assert value is not None  # noqa: S101
    assert bound is not None  # noqa: S101
    if result.kind not in RIVALS:
        own = abs(value) if _is_gap(result) else value
        end = "lower" if result.kind == "floor" else "upper"
        power = _detected(result)
        return f"{own:.4f}, {percent} {end} bound {bound:.4f}; {power}."
    rival = 0.0 if result.rival is None else result.rival
    change = abs(value) - abs(rival) if _is_gap(result) else value - rival
    noun = "the gap changed" if _is_gap(result) else "changed"
    return (
        f"{noun} by {change:+.4f} from the {result.kind}'s {_signed(result, rival)}; "
        f"{_open_loss(bound)} ({percent} bound); 80% power to detect a loss of "
        f"{result.visible:.2g}."
    )


def _open_loss(bound: float) -> str:
    """Return the largest loss that a group's own bound does not exclude."""
    return f"a loss of up to {bound:.2g} is not excluded" if bound > 0 else "a loss is excluded"


def _detected(result: RuleResult) -> str:
    """Return the value beyond a limit that is detected with 80% power, if the metric has it."""
    beyond = result.visible
    seen = (
        None if beyond is None else result.limit + (-beyond if result.kind == "floor" else beyond)
    )
    if seen is None or not 0 < seen < METRICS[result.metric].largest:
        return "no possible value can be detected with 80% power"
    return f"80% power to detect {seen:.2f}"


def _small_exception(exception: PassException) -> str:
    """Return the exception for a group with too few rows, from its least certain check."""
    check, n = exception.check, exception.n_checks
    assert check is not None  # noqa: S101
    checks = "1 check" if n == 1 else f"{n:,} checks"
    stands = f"judged in the category {check.judged_in}"
    if check.not_measured is not None:
        stands = f"not measured ({check.not_measured})"
    elif check.judged_in is None:
        stands = f"judged by its own comments, with the wider margin {check.blind:g}"
    parts = [f"{check.group}: {stands} ({checks})", _own_number(check)]
    if exception.n_unbounded:
        parts.append(f"{exception.n_unbounded:,} of the checks without a bound")
    more = [f"{n:,} more {_CLASSES[name]}" for name, n in check.rows_needed.items()]
    if more:
        parts.append(f"{' and '.join(more)} comments needed")
    return f"{'; '.join(parts)}."


def _own_number(check: RuleResult) -> str:
    """Return the value from a group's own rows, its bound and the detectable loss."""
    among = "" if check.slice is None else f" in slice {check.slice}"
    value, open_loss = check.value, check.not_excluded
    if value is None or open_loss is None or check.visible is None:
        return f"no bound of {check.metric}{among}"
    if check.kind not in RIVALS:
        size = abs(value) if check.kind == "ceiling" else value
        own = f"own {check.metric}{among} {size:.3f}"
        end = "lower" if check.kind == "floor" else "upper"
        return f"{own}, {end} bound {open_loss:.2f}; {_detected(check)}"
    signed = "+" if _is_gap(check) else ""
    rival = value if check.rival is None else check.rival
    own = f"own {check.metric}{among} {value:{signed}.3f}, the {check.kind}'s {rival:{signed}.3f}"
    power = f"; 80% power to detect a loss of {check.visible:.2g}" if check.visible else ""
    return f"{own}; {_open_loss(open_loss)}{power}"


# ---- Losses


_SHARED = " It may come from comments that also mention another identity with a loss."


def _family(result: RuleResult) -> str:
    if result.on_these_rows:
        return f"{result.n_bounds:,} differences on these rows"
    return f"{result.n_bounds:,} simultaneous {100 * result.confidence:g}% bounds"


def _no_loss(result: RuleResult) -> str:
    worse = "worse" if result.on_these_rows else "significantly worse"
    limits = f"{result.limit:g}, or {2 * result.limit:g} for a gap"
    more = f" by more than {limits}" if result.limit else ""
    return f"No identity is {worse} than under the {result.kind}{more} ({_family(result)})."


def _loss(result: RuleResult) -> str:
    is_gap, value, rival, bound = _is_gap(result), result.value, result.rival, result.bound
    assert value is not None  # noqa: S101
    assert rival is not None  # noqa: S101
    assert bound is not None  # noqa: S101
    by = abs(value) - abs(rival) if is_gap else rival - value
    at_least = bound if is_gap else -bound
    at = "" if result.threshold is None else f" at {THRESHOLDS[result.threshold]}"
    noun = "the gap is wider by" if is_gap else "it is lower by"
    how = "worse by" if result.on_these_rows else "significantly worse, by at least"
    of = f"{result.metric} of {result.group}{at}{' on these rows' if result.on_these_rows else ''}"
    text = (
        f"{of} is {_signed(result, value)}, the {result.kind}'s {_signed(result, rival)}: {noun} "
        f"{by:.4f}, {how} {at_least:.4f} ({_family(result)})."
    )
    if result.without:
        names = " or ".join(result.without)
        text += f" Without comments that also mention {names}, it is not significant."
    return text + (_SHARED if result.may_be_shared else "")


# ---- Models without use, comments without a score


def _no_better_than_chance(result: RuleResult) -> str:
    number = f"{result.value:.3f}"
    if result.low is not None and result.high is not None:
        number = f"{number} [{result.low:.3f}, {result.high:.3f}]"
    text = f"The overall AUC {number} is not significantly above 0.5"
    if result.bound is None:
        return f"{text}: it has no interval ({result.why or 'not measured'})."
    return f"{text}: the scores may not separate toxic comments, so no rule can pass."


def _useless_threshold(result: RuleResult) -> str:
    which = "hardly any" if result.reason == "flags_nothing" else "nearly every"
    return (
        f"At its threshold {result.at:g} the model flags {which} comment: "
        f"{result.positives_flagged:.2%} of toxic and {result.value:.2%} of harmless comments. "
        "Error rates are meaningless there. Check that the threshold is on the scale of the scores."
    )


def _truncated_unknown(result: RuleResult) -> str:
    return f"It is unknown which comments the model truncates, so `{result.rule}` cannot be met."


def _share(result: RuleResult) -> str:
    name = f"{result.metric} of {result.group}" if result.group else f"overall {result.metric}"
    are = _MARKED[result.rule][result.n_marked != 1]
    told = f"{result.n_marked:,} of {result.n_rows:,} comments {are}"
    if result.reason == "missing_not_ruled":
        whose = "" if result.role == "candidate" else f" from the {result.role}"
        return f"{told}{whose}, and the policy sets no limit for that (`{MISSING}`)."
    if result.reason == "share_undefined":
        return f"{name} is undefined: {result.why}."
    if result.reason == "share_zero":
        return f"{name}: {_UNMARKED[result.rule].format(n=result.n_rows)}."
    if result.outcome == "insufficient":
        against = f"too close to the limit {result.limit:g} to tell"
    elif result.mode == "proven":
        side = "below" if result.outcome == "pass" else "above"
        against = f"significantly {side} the limit {result.limit:g}"
    else:
        side = "at most" if result.outcome == "pass" else "above"
        against = f"{side} the limit {result.limit:g}"
    ends = ""
    if result.mode == "proven" and result.low is not None and result.high is not None:
        ends = f" ({_bounds(result.confidence)} {result.low:.4f} to {result.high:.4f})"
    return f"{name} is {result.value:.4f}{ends}, {against}: {told}."


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
    "met": _judged,
    "not_met": _judged,
    "undecided": _judged,
    "not_finite": _not_finite,
    "no_interval": _no_interval,
    "undefined": _undefined,
    "few_rows": _few_rows,
    "no_rival": _no_rival,
    "small_group": _small_group,
    "loss": _loss,
    "no_loss": _no_loss,
    "no_better_than_chance": _no_better_than_chance,
    "flags_nothing": _useless_threshold,
    "flags_everything": _useless_threshold,
    "share": _share,
    "share_zero": _share,
    "share_undefined": _share,
    "missing_not_ruled": _share,
    "truncated_unknown": _truncated_unknown,
}
