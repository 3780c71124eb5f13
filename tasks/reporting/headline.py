"""What people read first: the verdict, who is treated worst, and by how much.

The terminal, the page and the comment on a pull request start with these lines. They are made from
the checks that decided, so that they cannot contradict the verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bias_metrics import MetricValue, RuleResult
from bias_metrics.gate import LEAST_FOR_A_BOUND, RIVALS, WORST_FIRST
from bias_metrics.gate import RULE as HARM
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, SUBGROUP_METRICS
from biasgate.tasks.measuring.cautions import UPSIDE_DOWN
from biasgate.tasks.outcomes import exceptions_in_words, word_of, word_of_verdict
from biasgate.tasks.records import CandidateDecision, Report, Verdict, metric_cells
from biasgate.tasks.records.numbers import has_enough_rows
from biasgate.tasks.reporting.losses import summary

_WORDS = {
    "error": "with an error",
    "fail": "failed",
    "insufficient": "without enough evidence",
    "pass": "passed",
    "waived": "waived",
    "warned": "with a warning alone",
}
_FAILED = frozenset({"fail", "error"})
_NAMED = 3


@dataclass(frozen=True)
class Headline:
    """The first lines about one candidate on one set."""

    candidate: str
    evaluation_set: str
    """Their names."""
    status: str
    word: str
    """The outcome, for colours and in words."""
    exceptions: tuple[str, ...]
    """What a pass does not say."""
    worst: str
    """Who is treated worst, by how much, and what the checks say of it."""
    counted: str
    """How many checks passed, failed, or lack evidence."""
    has_failed: bool
    """Whether a check that counts has failed."""


def headline(report: Report, verdict: Verdict) -> Headline:
    """Return the first lines about a candidate on a set.

    Parameters
    ----------
    report : Report
        Its numbers, of the rows that the verdict is about.
    """
    policy = verdict.policy
    return Headline(
        candidate=verdict.candidate.name,
        evaluation_set=verdict.evaluation_set.name,
        status="reported" if policy.report_only else verdict.outcome,
        word=word_of_verdict(verdict).text,
        exceptions=tuple(exceptions_in_words([verdict])),
        worst=" ".join([*upside_down(report), _worst(report, verdict)]),
        counted=f"{counted(verdict)} (policy {policy.name}). {verdict.bounds.sentence}",
        has_failed=any(_kind(one) in _FAILED for one in checks_not_passed(verdict)),
    )


def upside_down(report: Report) -> list[str]:
    """Return the warning that scores are upside down: it comes first, as the cause of the rest."""
    found = [one for one in report.warnings if one.startswith(UPSIDE_DOWN)]
    return [one[0].upper() + one[1:] for one in found]


def checks_not_passed(verdict: Verdict) -> list[RuleResult]:
    """Return the checks that did not pass, the worst outcome first; skipped ones are left out."""
    kinds = WORST_FIRST[: WORST_FIRST.index("pass")]
    return [one for kind in kinds for one in verdict.results if one.outcome == kind]


def told(decision: CandidateDecision, verdicts: Sequence[Verdict]) -> str:
    """Return a candidate's outcome in a few words: the first check against it, what was decided."""
    against = [
        check.sentence
        for one in verdicts
        if one.candidate.name == decision.candidate and one.evaluation_set.required
        for check in checks_not_passed(one)
        if _kind(check) == decision.outcome
    ]
    more = f" It is one of {len(against):,} such checks." if len(against) > 1 else ""
    why = [f"{one}{more}" for one in against[:1]]
    excepted = decision.exceptions or []
    return " ".join([f"{word_of(decision).text}.", *why, decision.sentence, *excepted])


def counted(verdict: Verdict) -> str:
    """Return in words how many checks there are, and what came of them."""
    found = Counter(_kind(one) for one in verdict.results if one.outcome != "skipped")
    known = [f"{found[kind]:,} {words}" for kind, words in _WORDS.items() if kind in found]
    n, n_skipped = found.total(), sum(one.outcome == "skipped" for one in verdict.results)
    skipped = f"; {n_skipped:,} skipped" if n_skipped else ""
    checks = "check" if n == 1 else "checks"
    return f"{n:,} {checks}: {', '.join(known) or 'nothing to check'}{skipped}"


def analysis_sentences(report: Report) -> list[str]:
    """Return the findings of further analyses, in words."""
    return [text for one in (report.analyses or {}).values() for text in one.sentences]


def nights_sentences(verdict: Verdict) -> list[str]:
    """Return which nights' rows a verdict pools; nothing if it is about a single set."""
    if verdict.nights is None:
        return []
    nights = verdict.nights
    text = (
        f"Night {nights.number}: judged by the {nights.n_rows:,} rows of all nights. The "
        f"bounds hold at every night together ({nights.bound}, tightest at "
        f"{nights.planned_rows:,} rows)."
    )
    return [text if nights.number > 1 else f"{text} It is the first: {nights.began}."]


def year_sentences(verdict: Verdict) -> list[str]:
    """Return which share of a year's alpha decided; nothing if decisions are not counted."""
    if verdict.online is None:
        return []
    one = verdict.online
    alpha = f"{100 * one.level / one.share:g} %"
    planned = "" if one.planned is None else f" ({one.planned:,} are planned)"
    bounds = f"the chance that any promotion of the year is wrong is at most {alpha}"
    if one.bounds == "share_wrong":
        bounds = f"on average at most {alpha} of the promotions of the year are wrong"
    text = (
        f"Decision {one.number:,} of {one.year}{planned}: a candidate that is not good "
        f"enough passes it with a chance of at most {100 * one.level:.2g} %, so that {bounds}."
    )
    return [text]


def with_interval(cell: MetricValue) -> str:
    """Return a number with its interval, if there is one."""
    low, high = cell.low, cell.high
    ends = "" if low is None or high is None else f" [95 % interval {low:.3f}, {high:.3f}]"
    return f"{cell.value:.3f}{ends}"


def worst_check(report: Report, verdict: Verdict) -> RuleResult | None:
    """Return the failed check of an identity that is furthest beyond its limit; None if none is.

    A loss that is shown against the champion comes first; then a check of the identity to look at
    first, if one failed.
    """
    failed = [one for one in checks_not_passed(verdict) if _kind(one) in _FAILED]
    of_groups = [one for one in failed if one.group is not None]
    shown = next((one for one in of_groups if one.rule == HARM), None)
    if shown is not None:
        return shown
    first = report.look_first.subgroup
    found = [one for one in of_groups if one.group == first] or of_groups
    return max(found, key=_beyond, default=None)


def lowest_auc(report: Report) -> tuple[str, str] | None:
    """Return the identity to look at first, and its lowest AUC with enough rows; or None."""
    name = report.look_first.subgroup
    if name is None:
        return None
    subgroup = report.bias.subgroups[name]
    cells = metric_cells(subgroup)
    enough = [one for one in FINAL_SCORE_PARTS if has_enough_rows(one, subgroup)]
    known = {one: cells[one].value for one in enough}
    defined = {one: value for one, value in known.items() if value is not None}
    return (name, min(defined, key=lambda one: defined[one])) if defined else None


def _kind(one: RuleResult) -> str:
    if one.outcome == "pass":
        return "pass"
    if one.waived_by:
        return "waived"
    return "warned" if one.action == "warn" else one.outcome


def _worst(report: Report, verdict: Verdict) -> str:
    against = checks_not_passed(verdict)
    failed = [one for one in against if _kind(one) in _FAILED]
    worst = worst_check(report, verdict)
    if worst is None:
        return " ".join([*(one.sentence for one in failed[:1]), *_lowest(report, failed, against)])
    if worst.rule == HARM and worst.kind == "champion":
        return f"{summary(verdict.worsened)} Worst: {worst.sentence}"
    others = [one for one in dict.fromkeys(one.group for one in failed) if one is not None]
    others = [one for one in others if one != worst.group]
    text = f"Worst: {worst.sentence}{_own_interval(report, worst)}"
    return f"{text} Checks also failed for {_listed(others)}." if others else text


def _lowest(report: Report, failed: list[RuleResult], against: list[RuleResult]) -> list[str]:
    """Say that no check of an identity failed, and which number is the lowest."""
    lacking = [one.group for one in against if _kind(one) == "insufficient" and one.group]
    names = list(dict.fromkeys(lacking))
    told = [] if failed else ["No check failed."]
    if failed:
        told = ["No check of a single identity failed."]
    if names:
        told += [f"There is not enough evidence about {_listed(names)}{_cure(against)}."]
    elif against and not failed:
        told += [against[0].sentence]
    if report.look_first.subgroup is None:
        return [*told, report.look_first.sentence]
    lowest = lowest_auc(report)
    if lowest is not None:
        name, metric = lowest
        cell = metric_cells(report.bias.subgroups[name])[metric]
        enough = "" if name in names else " with enough evidence"  # said of it above
        told += [f"The lowest AUC{enough} is {metric} {with_interval(cell)} of {name}."]
    return told


def _cure(against: list[RuleResult]) -> str:
    """Return what to do about identities that a set says nothing about."""
    lacking = [one for one in against if one.outcome == "insufficient" and one.group is not None]
    hints = [one.hint for one in lacking if one.hint is not None]
    if hints:
        return f". {' '.join(dict.fromkeys(hints))}".removesuffix(".")
    if not any(min(one.n_positive, one.n_negative) < LEAST_FOR_A_BOUND for one in lacking):
        return ""
    return "; if the set cannot measure them, say so in the policy (`not_measured`)"


def _own_interval(report: Report, one: RuleResult) -> str:
    """Return the interval of a number whose check looked at the value alone."""
    if one.mode != "estimate" or one.slice is not None or one.kind in RIVALS:
        return ""  # its sentence has one, or it is about other rows
    subgroups = report.bias.subgroups
    if one.group not in subgroups or one.metric not in SUBGROUP_METRICS:
        return ""
    cell = metric_cells(subgroups[one.group])[one.metric]
    low, high = cell.low, cell.high
    return "" if low is None or high is None else f" Its 95 % interval is {low:.3f} to {high:.3f}."


def _beyond(one: RuleResult) -> float:
    """Return how far a number is beyond its limit, as far as that is shown."""
    if one.bound is None:
        return math.inf
    if one.kind in RIVALS:
        is_gap = METRICS[one.metric].is_gap
        return one.bound - one.limit if is_gap else -one.limit - one.bound
    is_ceiling = one.kind == "ceiling"
    return one.bound - one.limit if is_ceiling else one.limit - one.bound


def _listed(names: list[str]) -> str:
    """Return up to three names, and how many more there are."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"
