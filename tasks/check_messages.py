"""Messages on the results of a policy's checks: the words for each reason, and for its values.

Names of identities are in them: escape them where they are shown.
"""

from __future__ import annotations

from collections.abc import Callable

from bias_metrics.gate import RIVALS, Bounds, Lack, Loss, Objective, PassException, RuleResult
from bias_metrics.gate import RULE as HARM
from bias_metrics.gate.missing import RULE as MISSING
from bias_metrics.metrics import AGGREGATE_METRICS, METRICS, THRESHOLDS
from bias_metrics.parts import counted

_CLASSES = {"positive": "toxic", "negative": "non-toxic"}


def check_message(result: RuleResult) -> str:
    """Return the sentence for a result: what was measured, compared with what, and the outcome."""
    text = _TEMPLATES[result.reason](result)
    if result.dominated_by is None:
        return text
    units = result.dominated_by
    kind = "harmless" if units.label == "negative" else "toxic"
    whose = "" if units.subgroup is None else f" about {units.subgroup}"
    return (
        f"{text} That is not enough: of the {kind} comments{whose} {units}, so that its bound is "
        "not proven."
    )


def loss_message(loss: Loss) -> str:
    """Return the metric of a loss and its lower bound."""
    return f"{loss.metric} by {least_loss(loss)}"


def least_loss(loss: Loss) -> str:
    """Return the lower bound of a loss."""
    least = loss.worse_by_at_least
    return f"at least {least:.3f}" if least >= 0.0005 else "more than 0"


def exception_message(exception: PassException) -> str:
    """Return the sentence for what a pass does not cover."""
    n = exception.n_checks
    checks = "1 check was" if n == 1 else f"{n:,} checks were"
    if exception.why == "estimate":
        return f"{checks} decided by the estimate alone, however unsure it is (`mode: estimate`)."
    if exception.why == "no_rival":
        return f"no {exception.kind} to compare with: {checks} skipped."
    if exception.why == "no_rule":
        groups = "any identity" if exception.groups is None else ", ".join(exception.groups)
        return f"no blocking rule is about {groups}."
    if exception.loss is not None:
        why = {
            "warning": "the policy only warns",
            "no_rule": "the policy has no rule on that",
        }.get(str(exception.allowed_by), f"the policy tolerates {exception.allowed_by}")
        doubt = _SHARED if exception.may_be_shared else ""
        return (
            f"{exception.group}: shown to be worse than with the champion "
            f"({loss_message(exception.loss)}); {why} (`{HARM}`).{doubt}"
        )
    return _small_exception(exception)


def bounds_message(bounds: Bounds) -> str:
    """Return how many bounds were computed, and how many of them may be wrong."""
    if not bounds.alpha:
        return "Values are of these rows alone: nothing is estimated."
    text = f"Looked at: {counted(bounds.separately, 'bound', 'bounds')} of rules"
    if bounds.separately:
        text += f", of which on average at most {bounds.expected_wrong:.2g} are wrong by chance"
    if bounds.jointly:
        share = 100 * bounds.alpha
        text += (
            f"; {bounds.jointly:,} joint bounds of losses, any wrong in at most {share:g} of 100 "
            "sets"
        )
    if bounds.without_threshold:
        has = "has" if len(bounds.without_threshold) == 1 else "have"
        text += (
            ". Losses in fpr_gap and fnr_gap were not looked at: the "
            f"{' and the '.join(bounds.without_threshold)} {has} no `threshold`"
        )
    return f"{text}."


def objective_name(objective: Objective) -> str:
    """Return the number that ranks versions."""
    means = AGGREGATE_METRICS[:-1]
    return f"power mean of {objective.metric}" if objective.metric in means else objective.metric


def objective_message(objective: Objective) -> str:
    """Return how the objective compares with the champion's.

    Examples
    --------
    >>> objective_message(Objective("auc", 0.95, 0.91, 0.90, 0.01, 0.004, 0.016))
    'auc is higher by 0.0100 (one-sided 95 % bounds 0.0040 and 0.0160)'
    """
    name = objective_name(objective)
    if objective.change is None:
        return f"{name} has no difference: {objective.reason or 'it is undefined'}"
    how = f"{'higher' if objective.change > 0 else 'lower'} by {abs(objective.change):.4f}"
    if objective.change == 0:
        how = "the same"
    if objective.low is None or objective.high is None:
        return f"{name} is {how}, without bounds: {objective.reason or 'they are undefined'}"
    ends = f"{objective.low:.4f} and {objective.high:.4f}"
    return f"{name} is {how} ({_bounds(objective.confidence)} {ends})"


# ---- Names of numbers


def _label(result: RuleResult) -> str:
    """Name the number: `bpsn_auc of gay`, `overall auc`, with threshold, slice and rows."""
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
    """Name the number, what it covers, and which rows it is about."""
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
    """Name the bounds of rules; both of 95 % are the ends of a 90 % interval."""
    return f"one-sided {100 * confidence:g} % bounds"


def _interval(result: RuleResult) -> str:
    if result.mode == "estimate" or result.low is None or result.high is None:
        return ""
    of = " of the size:" if _is_gap(result) else ""
    return f" ({_bounds(result.confidence)}{of} {result.low:.4f} and {result.high:.4f})"


def _lack(lack: Lack) -> str:
    """Return how many rows there are, and how many are needed."""
    side = f"{lack.side} " if lack.side else ""
    what = f"{'effective ' if lack.effective else ''}{side}{lack.of}"
    text = f"{counted(lack.n, what)} where {counted(lack.needed, 'is', 'are')} needed"
    text = text if lack.group is None else f"{lack.group} has {text}"
    if lack.categories:
        text += f"; nor in a category: {', '.join(map(_lack, lack.categories))}"
    return text


# ---- Results of rules


def _judged(result: RuleResult) -> str:
    name, value = _full_label(result), result.value
    assert value is not None  # noqa: S101 - it was judged
    if METRICS[result.metric].needs_rival:
        within = {
            "met": "within the margin",
            "not_met": "more than the margin",
            "undecided": "not shown to be within the margin",
        }[result.reason]
        text = f"{name}: {value:.4f} of the comments{_interval(result)}, {within} {result.limit:g}."
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
            f" The margin needs {result.rows_for_margin:,} comments of each compared class; there "
            f"are {result.n_compared:,}."
        )
    return text


def _limit(result: RuleResult) -> str:
    shown = "" if result.mode == "estimate" else "shown to be "
    within, beyond = ("at most", "above") if result.kind == "ceiling" else ("at least", "below")
    if result.reason == "undecided":
        return f"not shown to be either {within} or {beyond} the {result.kind} {result.limit:g}"
    return (
        f"{shown}{within if result.reason == 'met' else beyond} the {result.kind} {result.limit:g}"
    )


def _change(result: RuleResult) -> str:
    is_gap, value, rival = _is_gap(result), result.value or 0.0, result.rival or 0.0
    worse = abs(value) - abs(rival) if is_gap else rival - value
    noun = "the gap is" if is_gap else "it is"
    how = f"{noun} {'wider' if is_gap else 'lower'} by {worse:.4f}"
    if worse <= 0:
        how = f"{noun} {'narrower' if is_gap else 'higher'} by {-worse:.4f}"
    if worse == 0:
        how = "no difference"
    shown = {
        "met": "within the margin",
        "not_met": "worse by more than the margin",
        "undecided": "not shown to be within the margin",
    }[result.reason]
    return f"{how}{_interval(result)}, {shown} {result.limit:g}"


def _few_rows(result: RuleResult) -> str:
    assert result.lack is not None  # noqa: S101
    return f"{_full_label(result)}: not enough evidence: {_lack(result.lack)}."


def _undefined(result: RuleResult) -> str:
    return f"{_full_label(result)} is undefined: {result.why or 'no reason given'}."


def _no_interval(result: RuleResult) -> str:
    why = result.why or "it is not a finite number"
    return f"{_full_label(result)} has no usable interval: {why}."


def _not_finite(result: RuleResult) -> str:
    return f"{_full_label(result)} is not a finite number."


def _no_rival(result: RuleResult) -> str:
    if result.rule == HARM:
        return "Nobody can be shown to be worse: no champion to compare with."
    return f"{_label(result)}: no {result.kind} to compare with."


# ---- Groups with too few rows


def _small_group(result: RuleResult) -> str:
    """Return what is judged in place of a group with too few rows, and what its rows leave open."""
    assert result.lack is not None  # noqa: S101
    side = {"floor": "below", "ceiling": "above"}.get(result.kind, "")
    against = (
        f"{side} the {result.kind} {result.limit:g}" if side else f"worse than the {result.kind}'s"
    )
    parts = [f"{_full_label(result)}: {_lack(result.lack)}, {_judged_in(result)}."]
    if result.outcome == "fail":
        parts.append(f"Alone it is shown to be {against}.")
    if result.value is None or result.not_excluded is None:
        parts.append("Its own rows give no bound.")
    else:
        parts.append(_left_open(result))
        if result.outcome == "insufficient" and result.blind is not None:
            parts.append(
                f"The policy lets no loss of more than {result.blind:g} stay open (`blind`)."
            )
    more = [f"{n:,} more {_CLASSES[name]}" for name, n in result.rows_needed.items()]
    if more:
        rival = result.kind in RIVALS
        what = f"the margin {result.limit:g}" if rival else f"the {result.kind} {result.limit:g}"
        parts.append(
            f"The rule needs about {' and '.join(more)} comments that mention it for {what}."
        )
    return " ".join([*parts, *([result.hint] if result.hint else [])])


def _judged_in(result: RuleResult) -> str:
    unmeasured = f"the policy says that it is not measured here ({result.not_measured})"
    if result.judged_in is not None:
        also = f"; {unmeasured}" if result.not_measured else ""
        return f"so it is judged in {result.judged_in}{also}"
    if result.not_measured is not None:
        return f"and {unmeasured}"
    if result.outcome == "skipped" and result.blind is not None:
        return f"so it is judged by its own rows, with the wider margin {result.blind:g}"
    return "and no category stands for it"


def _left_open(result: RuleResult) -> str:
    """Return what a group's own bound does not exclude, and what would be detected."""
    percent, bound, value = f"{100 * result.confidence:g} %", result.not_excluded, result.value
    assert value is not None  # noqa: S101
    assert bound is not None  # noqa: S101
    if result.kind not in RIVALS:
        own = abs(value) if _is_gap(result) else value
        return (
            f"Alone it is {own:.4f}; {bound:.4f} is not excluded ({percent} bound), and "
            f"{_detected(result)} in 80 of 100 such sets."
        )
    rival = 0.0 if result.rival is None else result.rival
    change = abs(value) - abs(rival) if _is_gap(result) else value - rival
    verb = "grew" if _is_gap(result) else "changed"
    whose = (
        f"{'the size of ' if _is_gap(result) else ''}the {result.kind}'s {_signed(result, rival)}"
    )
    left = f"a loss of {bound:.2g} is not excluded" if bound > 0 else "no loss is left open"
    return (
        f"Alone it {verb} by {change:+.4f} from {whose}; {left} ({percent} bound), and a loss of "
        f"{result.visible:.2g} would be seen in 80 of 100 such sets."
    )


def _detected(result: RuleResult) -> str:
    """Return the value beyond a limit that would be detected; the metric may have no such value."""
    beyond = result.visible
    seen = (
        None if beyond is None else result.limit + (-beyond if result.kind == "floor" else beyond)
    )
    if seen is None or not 0 < seen < METRICS[result.metric].largest:
        return "no value would be seen"
    return f"{seen:.2f} would be seen"


def _small_exception(exception: PassException) -> str:
    """Return what is judged in place of a group, and what its worst check leaves open."""
    check, n = exception.check, exception.n_checks
    assert check is not None  # noqa: S101
    checks = "1 check" if n == 1 else f"{n:,} checks"
    stands = f"judged in the category {check.judged_in}"
    if check.not_measured is not None:
        stands = f"not measured ({check.not_measured})"
    elif check.judged_in is None:
        stands = f"judged by few rows, with the wider margin {check.blind:g}"
    parts = [f"{check.group}: {stands} ({checks})", _own_number(check)]
    if exception.n_unbounded:
        parts.append(f"{exception.n_unbounded:,} of the checks without a bound")
    more = [f"{n:,} more {_CLASSES[name]}" for name, n in check.rows_needed.items()]
    if more:
        parts.append(f"{' and '.join(more)} comments needed")
    return f"{'; '.join(parts)}."


def _own_number(check: RuleResult) -> str:
    """Return a group's own number, and what its rows do not exclude."""
    among = "" if check.slice is None else f" in slice {check.slice}"
    value, open_loss = check.value, check.not_excluded
    if value is None or open_loss is None or check.visible is None:
        return f"no bound of {check.metric}{among}"
    if check.kind not in RIVALS:
        size = abs(value) if check.kind == "ceiling" else value
        own = f"own {check.metric}{among} {size:.3f}"
        return f"{own}; {open_loss:.2f} is not excluded, {_detected(check)}"
    signed = "+" if _is_gap(check) else ""
    rival = value if check.rival is None else check.rival
    own = f"own {check.metric}{among} {value:{signed}.3f}, the {check.kind}'s {rival:{signed}.3f}"
    left = f"a loss of {open_loss:.2g} is not excluded" if open_loss > 0 else "no loss is left open"
    seen = f", one of {check.visible:.2g} would be seen" if check.visible else ""
    return f"{own}; {left}{seen}"


# ---- Losses


_SHARED = " Counts do not tell whether it comes from comments that also mention another who loses."


def _family(result: RuleResult) -> str:
    if result.on_these_rows:
        return f"{result.n_bounds:,} differences on these rows"
    return f"{result.n_bounds:,} bounds that hold together at {100 * result.confidence:g} %"


def _no_loss(result: RuleResult) -> str:
    shown = "worse" if result.on_these_rows else "shown to be worse"
    more = f" by more than {result.limit:g} (gaps: twice)" if result.limit else ""
    return f"Nobody is {shown} than with the {result.kind}{more}: {_family(result)}."


def _loss(result: RuleResult) -> str:
    is_gap, value, rival, bound = _is_gap(result), result.value, result.rival, result.bound
    assert value is not None  # noqa: S101
    assert rival is not None  # noqa: S101
    assert bound is not None  # noqa: S101
    by = abs(value) - abs(rival) if is_gap else rival - value
    at_least = bound if is_gap else -bound
    at = "" if result.threshold is None else f" at {THRESHOLDS[result.threshold]}"
    noun = "the gap is wider by" if is_gap else "it is lower by"
    how = "worse by" if result.on_these_rows else "shown to be worse by at least"
    of = f"{result.metric} of {result.group}{at}{' on these rows' if result.on_these_rows else ''}"
    text = (
        f"{of} is {_signed(result, value)}, the {result.kind}'s {_signed(result, rival)}: {noun} "
        f"{by:.4f}, {how} {at_least:.4f} ({_family(result)})."
    )
    if result.without:
        names = " or ".join(result.without)
        text += f" Without comments that also mention {names} it is not shown."
    return text + (_SHARED if result.may_be_shared else "")


# ---- Models without use, comments without a score


def _no_better_than_chance(result: RuleResult) -> str:
    number = f"{result.value:.3f}"
    if result.low is not None and result.high is not None:
        number = f"{number} [{result.low:.3f}, {result.high:.3f}]"
    text = f"The overall AUC {number} is not shown to be above 0.5"
    if result.bound is None:
        return f"{text}, since it has no interval: {result.why or 'none was measured'}."
    return f"{text}: nothing shows that toxic comments score higher, so no rule passes them."


def _useless_threshold(result: RuleResult) -> str:
    which = "hardly any" if result.reason == "flags_nothing" else "nearly every"
    return (
        f"At its threshold {result.at:g} the model flags {which} comment: "
        f"{result.positives_flagged:.2%} of the toxic and {result.value:.2%} of the harmless ones, "
        "so that error rates say nothing. Is the threshold on the scale of the scores?"
    )


def _missing(result: RuleResult) -> str:
    name = f"{result.metric} of {result.group}" if result.group else f"overall {result.metric}"
    has = "has" if result.n_missing == 1 else "have"
    told = f"{result.n_missing:,} of {result.n_rows:,} comments {has} no score"
    if result.reason == "missing_not_ruled":
        whose = "" if result.role == "candidate" else f" of the {result.role}"
        return f"{told}{whose}, and the policy does not say how many may have none (`{MISSING}`)."
    if result.reason == "missing_undefined":
        return f"{name} is undefined: {result.why}."
    if result.reason == "none_missing":
        return f"{name}: none of {result.n_rows:,} comments is without a score."
    shown = "shown to be " if result.mode == "proven" else ""
    against = {
        "pass": f"{shown}at most the limit {result.limit:g}",
        "fail": f"{shown}above the limit {result.limit:g}",
        "insufficient": f"not shown to be either at most or above the limit {result.limit:g}",
    }[result.outcome]
    ends = ""
    if result.mode == "proven" and result.low is not None and result.high is not None:
        ends = f" ({_bounds(result.confidence)} {result.low:.4f} and {result.high:.4f})"
    return f"{name} is {result.value:.4f}{ends}, {against}: {told}."


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
    "few_missing": _missing,
    "none_missing": _missing,
    "missing_undefined": _missing,
    "missing_not_ruled": _missing,
}
