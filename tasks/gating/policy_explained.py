"""A policy in words, and warnings about it."""

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
from biasgate.tasks.common.printable import printable
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import EACH_SLICE

_LARGE_LOSS = 0.1
_SOON = timedelta(days=30)


def explain_policy(policy: Policy) -> list[str]:
    """Return the policy in sentences, one line per rule."""
    lines = [f"Policy {policy.name}. {policy.description}".strip(), ""]
    lines += [*_rules_in_words(policy), "", *_not_judged(policy), *_unscored(policy)]
    return [*lines, *_consequences(policy), _bounds_in_words(policy)]


def _not_judged(policy: Policy) -> list[str]:
    """Name the metrics that no blocking rule is about."""
    rules = [rule for rule in policy.decision_rules() if rule.action == "block"]
    names = list_unjudged_metrics({rule.metric for rule in rules}, has_threshold=True)
    if not names:
        return []
    titles = ", ".join(METRICS[name].title for name in names)
    bad = (
        "A model that is bad by these can pass if it is not significantly worse than the champion."
    )
    return [f"No blocking rule limits: {titles}. {bad}"]


def _bounds_in_words(policy: Policy) -> str:
    """Report in how many bounds a harm is looked for, and how often a false one is found."""
    alpha = 100 * (1 - policy.confidence)
    return (
        f"Losses against the champion are tested with {len(SUBGROUP_METRICS)} bounds per identity, "
        f"and {len(list_threshold_metrics())} more if a threshold is given. They are simultaneous: "
        f"at most {alpha:g} of 100 sets have any wrong one."
    )


def _rules_in_words(policy: Policy) -> Iterator[str]:
    """Say what must be met, line by line."""
    for at, rule in enumerate(policy.decision_rules(), 1):
        yield f"{at}. {_rule(rule)}"
    harm = policy.shown_harm
    if harm is None:
        yield (
            "A significant loss against the champion does not block by itself (no `shown_harm`); "
            "a pass names the identity."
        )
    else:
        verb = "may" if harm.action == "block" else "should (a warning only)"
        by = f" by more than {harm.tolerance:g} (of the size of a gap: {2 * harm.tolerance:g})"
        yield (
            f"No identity, however small, {verb} be significantly worse than under the champion or "
            f"the reference{by if harm.tolerance else ''}, in any metric. [shown_harm]"
        )
    unmeasured: dict[tuple[str, str], list[str]] = {}
    for entry in policy.not_measured:
        known = entry.expires.isoformat(), printable(entry.reason)
        unmeasured.setdefault(known, []).append(printable(entry.identity))
    for (until, reason), names in unmeasured.items():
        yield (
            f"Not measured until {until}: {', '.join(names)} ({reason}). A pass covers the others "
            "only."
        )


def _unscored(policy: Policy) -> list[str]:
    """Say how many comments may have no score, and how many may be truncated."""
    found = policy.share_limits()
    told = [] if MISSING in found else ["Every comment must have a score (no `max_missing`)."]
    of = {MISSING: "comments without a score", TRUNCATED: "truncated comments"}
    return told + [_limited(rule, of[rule], limits) for rule, limits in found.items()]


def _limited(rule: str, what: str, limits: ShareLimits) -> str:
    verb = "must" if limits.action == "block" else "should (a warning only)"
    how = "be proven" if limits.mode == "proven" else "be"
    told = [
        (limits.overall, "at most {limit} of all comments"),
        (limits.each, "at most {limit} of the comments that mention an identity"),
        (limits.gap, "at most {limit} more for an identity than for other comments"),
    ]
    parts = [text.format(limit=f"{limit:g}") for limit, text in told if limit is not None]
    text = "; ".join(parts)
    unknown = " A model for which it is unknown is insufficient." if rule == TRUNCATED else ""
    return f"The share of {what} {verb} {how} {text}.{unknown} [{rule}]"


def warn_of_policy(policy: Policy, today: date) -> list[str]:
    """Return warnings about settings that are allowed, but probably not intended.

    Returns
    -------
    list of str
        Sentences; empty if there is nothing to warn of.
    """
    return list(_warnings(policy, today))


def _warnings(policy: Policy, today: date) -> Iterator[str]:
    yield from _ending_exemptions(policy, today)
    if policy.promote == "never" and policy.allow_first:
        yield "`allow_first` has no effect, since `promote: never` promotes nothing automatically."
    rules = policy.decision_rules()
    blocking = [rule for rule in rules if rule.action == "block"]
    if not any(rule.floor is not None or rule.ceiling is not None for rule in blocking):
        yield (
            "no blocking rule has a floor or ceiling: without a champion nothing can pass, and "
            "quality may drop by a margin at each promotion."
        )
    against = [rule for rule in blocking if rule.margin is not None]
    if against and not any(rule.reference_margin is not None for rule in blocking):
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
        yield from _few_rows(rule)
    yield from _blind_spots(policy, blocking)
    if len({rule.confidence for rule in rules}) > 1:
        yield "rules have different confidences: the evidence is measured once for each of them."


def _few_rows(rule: Rule) -> Iterator[str]:
    """Say how many comments the margins of a rule need, if it asks for fewer."""
    margins = [one for one in (rule.margin, rule.reference_margin) if one is not None]
    known = METRICS[rule.metric]
    if not margins or known.has_threshold or rule.scope in {OVERALL, AGGREGATE}:
        return
    least = rows_for_margin(min(margins), rule.confidence, is_gap=rule.is_gap)
    asked = {"positive": rule.min_positives, "negative": rule.min_negatives}
    own, background = known.classes
    if min(asked[name] for name in (*own, *background)) < least:
        yield (
            f"rule {rule.name}: with fewer than about {least:,} comments in each compared class no "
            f"model can be proven within the margin {min(margins):g}. Require as many "
            "(`min_positives`, `min_negatives`), or widen the margin."
        )


def _blind_spots(policy: Policy, blocking: Sequence[Rule]) -> Iterator[str]:
    """Yield what the policy lets pass though it is shown, or leaves open."""
    if all(rule.scope in {OVERALL, AGGREGATE} for rule in blocking):
        yield "no blocking rule covers an identity: a pass proves nothing about any of them."
    harm = policy.shown_harm
    if harm is None or harm.action == "warn":
        yield "a model that is significantly worse for an identity can pass (`shown_harm`)."
    elif harm.tolerance > _LARGE_LOSS:
        yield f"`shown_harm` tolerates a loss of {harm.tolerance:g}, which is large for an AUC."
    if policy.blind is not None and policy.blind.margin > _LARGE_LOSS * 2:
        yield f"`blind` permits a loss of {policy.blind.margin:g}, which is large for an AUC."


def _ending_exemptions(policy: Policy, today: date) -> Iterator[str]:
    """Yield the entries of `not_measured` that have expired or expire soon."""
    for entry in policy.not_measured:
        name, until = printable(entry.identity), entry.expires.isoformat()
        if entry.expires < today:
            yield f"`not_measured` of {name} ended on {until}: it must be measured now."
        elif entry.expires < today + _SOON:
            yield f"`not_measured` of {name} expires on {until}."


def _rule(rule: Rule) -> str:
    verb = "must" if rule.action == "block" else "should (a warning only)"
    subject = _subject(rule)
    text = f"{subject[0].upper()}{subject[1:]} {verb} {', and '.join(_demands(rule))}"
    return f"{text}. Needs {_support(rule)}. [{rule.name}]"


def _support(rule: Rule) -> str:
    """Return how many comments the gate needs to judge by the rule at all."""
    own, background = (CLASSES, ()) if rule.scope == OVERALL else METRICS[rule.metric].classes
    least = {
        "positive": f"{rule.min_positives} toxic",
        "negative": f"{rule.min_negatives} harmless",
    }
    text = f"at least {' and '.join(least[one] for one in own)} comments"
    if rule.scope == AGGREGATE:
        text += " that mention each identity"
    elif rule.scope != OVERALL:
        text += " that mention the identity"
    if background:
        of = " and ".join(least[one] for one in background)
        text += f", and {of} comments that do not mention it"
    return text


def _subject(rule: Rule) -> str:
    if rule.scope == AGGREGATE and METRICS[rule.metric].compares is not None:
        text = f"the power mean of {rule.metric} over the identities"
    else:
        text = METRICS[rule.metric].question.format(of=_groups(rule))
    if rule.threshold is not None:
        text = f"at {THRESHOLDS[rule.threshold]}, {text}"
    if rule.slice is None:
        return text
    column = rule.slice.removesuffix(EACH_SLICE)
    if column != rule.slice:
        return f"within each slice of {column}, {text}"
    return f"among {rule.slice} comments, {text}"


def _groups(rule: Rule) -> str:
    if rule.scope == EACH:
        return "each identity"
    if rule.scope == WORST:
        return "the worst identity"
    return " and ".join(rule.named_groups)


def _demands(rule: Rule) -> Iterator[str]:
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


def _succession(policy: Policy) -> str:
    """Return which of several passing versions becomes champion."""
    of = f"power mean of {policy.objective}"
    name = policy.objective if policy.objective in {"auc", "final_score"} else of
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


def _categories(hierarchy: Hierarchy) -> str:
    return "; ".join(f"{name} ({', '.join(of)})" for name, of in hierarchy.categories.items())


def _consequences(policy: Policy) -> Iterator[str]:
    if policy.report_only:
        yield "Reports only: `champion` never moves, and no command fails."
    else:
        yield (
            "A candidate passes if every rule that is not a warning is met on every required set. "
            "If the evidence cannot decide a rule, the candidate is undecided and does not pass."
        )
        yield _succession(policy)
    if policy.hierarchy is not None:
        lacks = ""
        if policy.blind is not None:
            margin, of_gap = policy.blind.margins
            lacks = (
                f" It is undecided if that bound does not exclude a loss above {margin:g}, or "
                f"{of_gap:g} for a gap (`blind`)."
            )
        yield (
            "An identity with too few comments for a rule is judged in the first category above it "
            "that has enough (`roll_up`). It still fails if its own comments are significantly "
            "worse than the champion's, or beyond a limit, by bounds that are simultaneous for all "
            f"such identities.{lacks}"
        )
        yield f"Categories: {printable(_categories(policy.hierarchy))}."
    then = "are skipped (`allow_first: true`)"
    if not policy.allow_first:
        then = (
            "are undecided, and no version becomes the first champion automatically "
            "(`allow_first: false`)"
        )
    yield f"If there is no champion yet, checks against it {then}."
    if policy.correction == "bonferroni":
        yield "Several candidates of one evaluation share the rate of false passes (Bonferroni)."
