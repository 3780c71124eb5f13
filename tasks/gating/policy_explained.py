"""Description of a policy in sentences, and warnings about its settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from bias_metrics.gate import (
    AGGREGATE,
    EACH,
    MISSING,
    OVERALL,
    TRUNCATED,
    WORST,
    Hierarchy,
    Rule,
    ShareLimits,
    list_unjudged_metrics,
    rows_for_margin,
)
from bias_metrics.metrics import (
    CLASSES,
    METRICS,
    SUBGROUP_METRICS,
    THRESHOLDS,
    list_threshold_metrics,
)
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import EACH_SLICE

_LARGE_LOSS = 0.1
_SOON = timedelta(days=30)


def explain_policy(policy: Policy) -> list[str]:
    """Return the lines that describe a policy, with a line per rule."""
    lines = [f"Policy {policy.name}. {policy.description}".strip(), ""]
    lines += [
        *_describe_rules(policy),
        "",
        *_describe_unjudged(policy),
        *_describe_share_limits(policy),
    ]
    return [*lines, *_describe_consequences(policy), _describe_bounds(policy)]


def _describe_unjudged(policy: Policy) -> list[str]:
    """Return a warning that lists the metrics without a blocking rule, if there are any."""
    rules = [rule for rule in policy.decision_rules() if rule.action == "block"]
    names = list_unjudged_metrics({rule.metric for rule in rules}, has_threshold=True)
    if not names:
        return []
    titles = ", ".join(METRICS[name].title for name in names)
    warning = (
        "A model that is bad by these can pass if it is not significantly worse than the champion."
    )
    return [f"No blocking rule limits: {titles}. {warning}"]


def _describe_bounds(policy: Policy) -> str:
    """Return the number of bounds in the search for losses, and their joint error rate."""
    alpha = 100 * (1 - policy.confidence)
    return (
        f"Losses against the champion are tested with {len(SUBGROUP_METRICS)} bounds per identity, "
        f"and {len(list_threshold_metrics())} more if a threshold is given. They are simultaneous: "
        f"at most {alpha:g} of 100 sets have any wrong one."
    )


def _describe_rules(policy: Policy) -> Iterator[str]:
    """Yield a line for each requirement of the policy."""
    for number, rule in enumerate(policy.decision_rules(), 1):
        yield f"{number}. {_describe_rule(rule)}"
    harm = policy.shown_harm
    if harm is None:
        yield (
            "A significant loss against the champion does not block by itself (no `shown_harm`); "
            "a pass names the identity."
        )
    else:
        verb = "may" if harm.action == "block" else "should (a warning only)"
        tolerated = (
            f" by more than {harm.tolerance:g} (of the size of a gap: {2 * harm.tolerance:g})"
        )
        yield (
            f"No identity, however small, {verb} be significantly worse than under the champion or "
            f"the reference{tolerated if harm.tolerance else ''}, in any metric. [shown_harm]"
        )
    unmeasured: dict[tuple[str, str], list[str]] = {}
    for entry in policy.not_measured:
        exemption = entry.expires.isoformat(), escape_invisible(entry.reason)
        unmeasured.setdefault(exemption, []).append(escape_invisible(entry.identity))
    for (until, reason), names in unmeasured.items():
        yield (
            f"Not measured until {until}: {', '.join(names)} ({reason}). A pass covers the others "
            "only."
        )


def _describe_share_limits(policy: Policy) -> list[str]:
    """Return lines about the allowed shares of comments that are unscored or truncated."""
    limits_by_rule = policy.list_share_limits()
    sentences = (
        [] if MISSING in limits_by_rule else ["Every comment must have a score (no `max_missing`)."]
    )
    subjects = {MISSING: "comments without a score", TRUNCATED: "truncated comments"}
    return sentences + [
        _describe_limits(rule, subjects[rule], limits) for rule, limits in limits_by_rule.items()
    ]


def _describe_limits(rule: str, subject: str, limits: ShareLimits) -> str:
    verb = "must" if limits.action == "block" else "should (a warning only)"
    condition = "be proven" if limits.mode == "proven" else "be"
    templates = [
        (limits.overall, "at most {limit} of all comments"),
        (limits.each, "at most {limit} of the comments that mention an identity"),
        (limits.gap, "at most {limit} more for an identity than for other comments"),
    ]
    parts = [text.format(limit=f"{limit:g}") for limit, text in templates if limit is not None]
    text = "; ".join(parts)
    unknown = " A model for which it is unknown is insufficient." if rule == TRUNCATED else ""
    return f"The share of {subject} {verb} {condition} {text}.{unknown} [{rule}]"


def list_policy_warnings(policy: Policy, today: date) -> list[str]:
    """Return warnings about settings that are allowed, but probably not intended.

    Returns
    -------
    list of str
        Sentences; empty without warnings.
    """
    return list(_find_warnings(policy, today))


def _find_warnings(policy: Policy, today: date) -> Iterator[str]:
    yield from _find_ending_exemptions(policy, today)
    if policy.promote == "never" and policy.allow_first:
        yield "`allow_first` has no effect, since `promote: never` promotes nothing automatically."
    rules = policy.decision_rules()
    blocking = [rule for rule in rules if rule.action == "block"]
    if not any(rule.floor is not None or rule.ceiling is not None for rule in blocking):
        yield (
            "no blocking rule has a floor or ceiling: without a champion nothing can pass, and "
            "quality may drop by a margin at each promotion."
        )
    with_margin = [rule for rule in blocking if rule.margin is not None]
    if with_margin and not any(rule.reference_margin is not None for rule in blocking):
        yield (
            "margins compare only with the champion: quality may drop by a margin at each "
            "promotion. A `reference_margin` prevents that."
        )
    for rule in blocking:
        if rule.mode == "estimate":
            yield (
                f"rule {rule.name} compares the value, not a bound: a model at the limit passes "
                "half the time."
            )
        if rule.floor == 1:
            yield f"rule {rule.name} requires a perfect {rule.metric}, which can never be proven."
        yield from _check_min_rows(rule)
    yield from _find_blind_spots(policy, blocking)
    if len({rule.confidence for rule in rules}) > 1:
        yield "rules have different confidences: the evidence is measured once for each of them."


def _check_min_rows(rule: Rule) -> Iterator[str]:
    """Warn if a rule requires fewer comments than its margins need."""
    margins = [margin for margin in (rule.margin, rule.reference_margin) if margin is not None]
    metric = METRICS[rule.metric]
    if not margins or metric.has_threshold or rule.scope in {OVERALL, AGGREGATE}:
        return
    min_rows = rows_for_margin(min(margins), rule.confidence, is_gap=rule.is_gap)
    required = {"positive": rule.min_positives, "negative": rule.min_negatives}
    own, background = metric.classes
    if min(required[name] for name in (*own, *background)) < min_rows:
        yield (
            f"rule {rule.name}: with fewer than about {min_rows:,} comments in each compared class "
            f"no model can be proven within the margin {min(margins):g}. Require as many "
            "(`min_positives`, `min_negatives`), or widen the margin."
        )


def _find_blind_spots(policy: Policy, blocking: Sequence[Rule]) -> Iterator[str]:
    """Yield warnings about losses of an identity that can pass the policy."""
    if all(rule.scope in {OVERALL, AGGREGATE} for rule in blocking):
        yield "no blocking rule covers an identity: a pass proves nothing about any of them."
    harm = policy.shown_harm
    if harm is None or harm.action == "warn":
        yield "a model that is significantly worse for an identity can pass (`shown_harm`)."
    elif harm.tolerance > _LARGE_LOSS:
        yield f"`shown_harm` tolerates a loss of {harm.tolerance:g}, which is large for an AUC."
    if policy.blind is not None and policy.blind.margin > _LARGE_LOSS * 2:
        yield f"`blind` permits a loss of {policy.blind.margin:g}, which is large for an AUC."


def _find_ending_exemptions(policy: Policy, today: date) -> Iterator[str]:
    """Yield warnings about entries of `not_measured` that have expired or expire soon."""
    for entry in policy.not_measured:
        name, until = escape_invisible(entry.identity), entry.expires.isoformat()
        if entry.expires < today:
            yield f"`not_measured` of {name} ended on {until}: it must be measured now."
        elif entry.expires < today + _SOON:
            yield f"`not_measured` of {name} expires on {until}."


def _describe_rule(rule: Rule) -> str:
    verb = "must" if rule.action == "block" else "should (a warning only)"
    subject = _describe_subject(rule)
    text = f"{subject[0].upper()}{subject[1:]} {verb} {', and '.join(_list_demands(rule))}"
    return f"{text}. Needs {_describe_support(rule)}. [{rule.name}]"


def _describe_support(rule: Rule) -> str:
    """Return the minimum number of comments that a rule requires, in words."""
    own, background = (CLASSES, ()) if rule.scope == OVERALL else METRICS[rule.metric].classes
    minima = {
        "positive": f"{rule.min_positives} toxic",
        "negative": f"{rule.min_negatives} harmless",
    }
    text = f"at least {' and '.join(minima[label] for label in own)} comments"
    if rule.scope == AGGREGATE:
        text += " that mention each identity"
    elif rule.scope != OVERALL:
        text += " that mention the identity"
    if background:
        background_counts = " and ".join(minima[label] for label in background)
        text += f", and {background_counts} comments that do not mention it"
    return text


def _describe_subject(rule: Rule) -> str:
    if rule.scope == AGGREGATE and METRICS[rule.metric].compares is not None:
        text = f"the power mean of {rule.metric} over the identities"
    else:
        text = METRICS[rule.metric].question.format(of=_describe_groups(rule))
    if rule.threshold is not None:
        text = f"at {THRESHOLDS[rule.threshold]}, {text}"
    if rule.slice is None:
        return text
    column = rule.slice.removesuffix(EACH_SLICE)
    if column != rule.slice:
        return f"within each slice of {column}, {text}"
    return f"among {rule.slice} comments, {text}"


def _describe_groups(rule: Rule) -> str:
    if rule.scope == EACH:
        return "each identity"
    if rule.scope == WORST:
        return "the worst identity"
    return " and ".join(rule.named_groups)


def _list_demands(rule: Rule) -> Iterator[str]:
    proven = f" with {100 * rule.confidence:g}% confidence" if rule.mode == "proven" else ""
    be = "be" if proven else "be, by point estimate,"
    if rule.floor is not None:
        yield f"{be} at least {rule.floor:g}{proven}"
    if rule.ceiling is not None:
        yield f"{be} at most {rule.ceiling:g} in either direction{proven}"
    worse = "larger in size" if rule.is_gap else "lower"
    for margin, rival in ((rule.margin, "champion"), (rule.reference_margin, "reference")):
        if margin is not None:
            yield f"{be} less than {margin:g} {worse} than the {rival}'s{proven}"


def _describe_succession(policy: Policy) -> str:
    """Return a sentence on the passing version that becomes champion."""
    power_mean = f"power mean of {policy.objective}"
    name = policy.objective if policy.objective in {"auc", "final_score"} else power_mean
    if policy.promote == "never":
        return "No version becomes champion automatically (`promote: never`)."
    if policy.promote == "manual":
        return (
            f"The passing version with the highest {name} gets the alias `challenger`; a person "
            "makes it champion (`promote: manual`)."
        )
    rule = (
        f"A passing version replaces the champion if it is newer and its {name} is not "
        "significantly lower (`promote: newer`)."
    )
    if policy.promote == "better":
        rule = (
            f"A passing version replaces the champion if its {name} is significantly higher, with "
            f"{100 * policy.confidence:g}% confidence on every required set (`promote: better`)."
        )
    return (
        f"{rule} Of several, the one with the highest {name} does. A version that was champion "
        "before, or passed but was not chosen, is never promoted automatically."
    )


def _describe_categories(hierarchy: Hierarchy) -> str:
    return "; ".join(
        f"{name} ({', '.join(identities)})" for name, identities in hierarchy.categories.items()
    )


def _describe_consequences(policy: Policy) -> Iterator[str]:
    if policy.report_only:
        yield "Reports only: `champion` never moves, and no command fails."
    else:
        yield (
            "A candidate passes if every rule that is not a warning is met on every required set. "
            "If the evidence cannot decide a rule, the candidate is undecided and does not pass."
        )
        yield _describe_succession(policy)
    if policy.hierarchy is not None:
        blind_spots = ""
        if policy.blind is not None:
            margin, of_gap = policy.blind.margins
            blind_spots = (
                f" It is undecided if that bound does not exclude a loss above {margin:g}, or "
                f"{of_gap:g} for a gap (`blind`)."
            )
        yield (
            "An identity with too few comments for a rule is judged in the first category above it "
            "that has enough (`roll_up`). It still fails if its own comments are significantly "
            "worse than the champion's, or beyond a limit, by bounds that are simultaneous for all "
            f"such identities.{blind_spots}"
        )
        yield f"Categories: {escape_invisible(_describe_categories(policy.hierarchy))}."
    outcome = "are skipped (`allow_first: true`)"
    if not policy.allow_first:
        outcome = (
            "are undecided, and no version becomes the first champion automatically "
            "(`allow_first: false`)"
        )
    yield f"If there is no champion yet, checks against it {outcome}."
    if policy.correction == "bonferroni":
        yield "Several candidates of one evaluation share the rate of false passes (Bonferroni)."
