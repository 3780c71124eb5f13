"""What is said of a candidate on a set, from its verdict and its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bias_metrics import BiasTable, MetricValue
from bias_metrics.families import widen_selected
from bias_metrics.gate import HARM_RULE as HARM
from bias_metrics.gate import LEAST_ROWS, RIVALS, USEFULNESS_RULE, RuleResult, list_unjudged_metrics
from bias_metrics.metrics import (
    AEGS,
    EQUAL_ERRORS,
    FINAL_SCORE_PARTS,
    GIVEN,
    METRICS,
    SUBGROUP_METRICS,
)
from bias_metrics.thresholds import CountedShare
from biasgate.tasks.check_messages import describe_check
from biasgate.tasks.measuring.cautions import (
    BY_CHANCE,
    UPSIDE_DOWN,
)
from biasgate.tasks.records import (
    RATE_OF_GAP,
    Report,
    Verdict,
    list_error_rates,
)
from biasgate.tasks.records.numbers import (
    CONFIDENCE,
    has_enough_rows,
    name_final_score,
    widen_number,
)
from biasgate.tasks.reporting.tables import (
    format_bounds,
    format_estimate,
    format_percent,
    format_points,
    format_score,
    name_metric,
)
from biasgate.tasks.reporting.verdict_story import Change, Check, VerdictStory
from biasgate.tasks.wording import (
    describe_changed_decisions,
    describe_worse_terms,
    name_worse_terms,
    shorten_names,
)

WORSE, GAINED = "Worse than the champion", "Better than the champion"
CHANGED, TERMS = "Changed decisions", "Worst terms"
HOLDS, UNKNOWN, NOT_JUDGED = "Identities", "No interval for", "No limit in the policy"
WARNING, TO_PASS = "Warning", "To pass"
TREATED_WORST, LOWEST = "Worst identity", "Lowest AUC"
# The words for identities for which a verdict does not hold.
_FAILED = "failed"
_UNSETTLED = "undecided"
_EXCEPTED = "excepted"
_ESTIMATED = "passed by point estimate"
_UNCHECKED = "without a check of their own"
_WORSE = "significantly worse"
# The same of an identity that a pass leaves out, by the reason.
_WHY = {"not_measured": "not measured", "shown_worse": _WORSE}
_ERRORS = {
    "false_positive_rate": (
        '{share} of harmless comments that mention "{group}" are flagged (gap to others '
        "{interval} points)"
    ),
    "false_negative_rate": (
        '{share} of toxic comments that mention "{group}" are missed (gap to others {interval} '
        "points)"
    ),
}
_NO_ERRORS = "No identity has a significantly higher error rate than other comments"
_OVERALL = "{} of harmless comments are flagged, {} of toxic comments missed"
_CLOSEST = "; the two rates are about equal at threshold {} ({} and {})"


@dataclass(frozen=True)
class WorstNumber:
    """The number of the worst failed check of an identity, else the lowest AUC."""

    group: str
    metric: str
    number: MetricValue
    """With bounds that hold for all numbers it was selected from, if it is one of a whole set."""
    check: RuleResult | None = None
    """The failed check; None for the lowest AUC."""

    @property
    def is_pictured(self) -> bool:
        """Whether the picture of every number has it: five metrics of a whole set."""
        return self.metric in SUBGROUP_METRICS and (self.check is None or not self.check.slice)

    @property
    def text(self) -> str:
        """The identity, the metric, and the number with its interval."""
        if self.number.low is None and self.check is not None:
            return describe_check(self.check)
        is_gap = METRICS[self.metric].is_gap
        shown = format_estimate(self.number, signed=is_gap)
        return f"{self.group}: {name_metric(self.metric)} {shown}"

    @property
    def limit(self) -> str:
        """The limit that it failed, or from which numbers it was selected."""
        if self.check is None:
            return f"the lowest AUC with at least {LEAST_ROWS} comments in each class"
        if self.number.low is None:
            return ""
        limit = f"{self.check.kind} {self.check.limit:g}"
        if self.check.mode != "proven":
            return limit
        ends, bound = (abs(self.number.low), abs(self.number.high or 0.0)), self.check.bound
        if bound is None or not min(ends) <= self.check.limit <= max(ends):
            return f"fails the {limit}"
        # The interval allows for the choice of the worst number; the check has a bound of its own.
        return f"fails the {limit} (bound of this check: {bound:.3f})"


@dataclass(frozen=True)
class ErrorHarm:
    """An identity whose comments are decided wrongly significantly more often than others."""

    rate: str
    """`false_positive_rate` or `false_negative_rate`."""
    group: str
    value: float
    overall: float
    """The rate of all comments."""
    gap: MetricValue
    """To the comments that do not mention it, with bounds over all identities and rates."""
    others: tuple[str, ...]
    """The other identities whose gap is significant."""

    @property
    def text(self) -> str:
        """The rate, and the interval of the gap."""
        text = _ERRORS[self.rate].format(
            share=format_percent(self.value),
            group=self.group,
            interval=format_bounds(format_points(self.gap.low), format_points(self.gap.high)),
        )
        return f"{text}; also higher for {shorten_names(self.others)}" if self.others else text


class OverallErrors(NamedTuple):
    """The error rates of all comments at a threshold."""

    threshold: float
    flagged: float | None
    missed: float | None


@dataclass(frozen=True)
class Errors:
    """The error rates at the given threshold."""

    threshold: str
    overall: OverallErrors
    closest: OverallErrors | None
    """At the threshold where the two rates are closest, if it is known."""
    harms: tuple[ErrorHarm, ...]
    """At most one for each rate."""

    @property
    def text(self) -> str:
        """The rates of all comments; for each rate the identity whose gap is largest."""
        overall = _OVERALL.format(*map(format_percent, self.overall[1:]))
        if self.closest is not None:
            threshold, *rates = self.closest
            overall += _CLOSEST.format(format_score(threshold), *map(format_percent, rates))
        return ". ".join([overall, *([harm.text for harm in self.harms] or [_NO_ERRORS])])


@dataclass(frozen=True, kw_only=True)
class Story(VerdictStory):
    """What is said of a candidate on a set."""

    warnings: tuple[str, ...]
    """What to be careful about."""
    remarks: tuple[str, ...]
    """Calibration, and truncated comments that are not a reservation."""
    look_first: str
    """The identity to look at first; the cause where scores are upside down."""
    analyses: tuple[str, ...]
    """The findings of further analyses."""
    numbers: tuple[tuple[str, MetricValue], ...]
    """The numbers of all comments together."""
    headline: str
    """The outcome in one sentence, by its meaning."""
    worst: WorstNumber | None
    """The worst number of an identity; None if none is defined."""
    worst_check: RuleResult | None
    """The failed check of an identity that is furthest beyond its limit."""
    first: str | None
    """The identity with which every list begins: of the failed check that is furthest beyond its
    limit, else of the number to show first."""
    worst_is_shown: bool
    """Whether that is a failed check, or significantly low; else it is only the lowest number."""
    changes: Mapping[str, Mapping[str, CountedShare]]
    """Counts of comments that are newly flagged or missed, by identity."""
    changed: str
    """Whose comments are newly flagged or missed most, beside the champion; empty if unknown."""
    terms: str
    """The terms whose comments are shown to be decided wrongly most often; empty without."""
    worse_terms: str
    """Their names alone."""
    not_judged: tuple[str, ...]
    """The metrics that no blocking rule is about."""
    gains: tuple[Change, ...]
    """What is shown to be better than the champion's, most first: see `gains_of`."""
    final_score: MetricValue
    n_comments: int
    """How many comments are measured."""
    n_identities: int
    """How many identities there are."""
    others: tuple[tuple[str, tuple[str, ...]], ...]
    """Those for which it does not hold, each once: the message on them, and their names."""
    errors: Errors | None
    """The worst error rates, if a threshold is given."""
    n_without_interval: int
    """Of how many identities a metric has no interval."""
    unknown: tuple[str, ...]
    """The identities of which no metric has one."""

    @classmethod
    def of(cls, report: Report, verdict: Verdict, differences: BiasTable | None = None) -> Story:
        """Say what is said of a candidate.

        Without `differences` from the champion nothing is said to be better.
        """
        said = VerdictStory.from_verdict(verdict)
        worst = _find_worst_check(report, said.unmet)
        number = _select_worst_number(report, worst)
        no_use = _find_warnings(report, UPSIDE_DOWN, BY_CHANCE) or [
            describe_check(result) for result in verdict.results if result.rule == USEFULNESS_RULE
        ]
        analyses = [
            text for analysis in (report.analyses or {}).values() for text in analysis.sentences
        ]
        bias = report.bias
        changes = {
            name: shares
            for name, shares in (verdict.changed or {}).items()
            if name in bias.subgroups  # others are categories
        }
        means = bias.overall
        lacking = {
            name: sum(cells[metric].low is None for metric in SUBGROUP_METRICS)
            for name, cells in ((name, subgroup) for name, subgroup in bias.subgroups.items())
        }
        numbers = {
            "Overall AUC": bias.overall.auc,
            name_final_score(bias).capitalize(): bias.overall.final_score,
            **{f"Power mean of {METRICS[one].title}": means[one] for one in FINAL_SCORE_PARTS},
            **{
                f"Highest minus lowest {METRICS[one].title}": (report.spread or {})[one].value
                for one in FINAL_SCORE_PARTS
                if one in (report.spread or {})
            },
        }
        return cls(
            **vars(said),
            warnings=tuple(report.warnings),
            remarks=tuple(_remarks(report)),
            look_first=" ".join(no_use or [report.look_first.sentence]),
            analyses=tuple(analyses),
            numbers=tuple(numbers.items()),
            headline=_write_headline(said, worst, no_use),
            worst=number,
            worst_check=worst,
            first=getattr(worst or number, "group", None),
            worst_is_shown=number is not None
            and (number.check is not None or number.group in report.harms),
            changes=changes,
            changed="" if verdict.changed is None else describe_changed_decisions(changes),
            terms=describe_terms(report),
            worse_terms="" if report.terms is None else name_worse_terms(report.terms),
            not_judged=list_unjudged_metrics(
                {result.metric for result in verdict.results if _is_ruled(result)},
                has_threshold=GIVEN in report.thresholds,
            ),
            gains=list_gains(differences),
            final_score=bias.overall.final_score,
            n_comments=bias.counts[None].n,
            n_identities=verdict.holds_for.of,
            others=tuple(_group_others(report, said)),
            errors=_find_errors(report),
            n_without_interval=sum(map(bool, lacking.values())),
            unknown=tuple(name for name, n in lacking.items() if n == len(SUBGROUP_METRICS)),
        )

    @property
    def treated_worst(self) -> str:
        """The worst number and its limit, in one line; empty without."""
        return "" if self.worst is None else add_limit(self.worst.text, self.worst.limit)

    @property
    def has_failed(self) -> bool:
        """Whether a check that counts has failed."""
        return any(check.has_failed for check in self.unmet)

    @property
    def is_champion(self) -> bool:
        """Whether it is compared with itself."""
        champion = self.verdict.champion
        return champion is not None and champion.digest == self.verdict.candidate.digest


def _group_others(report: Report, said: VerdictStory) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield why a verdict does not hold for an identity, with all it is so of."""
    why: dict[str | None, str] = dict.fromkeys(said.unsettled, _UNSETTLED)
    why |= dict.fromkeys((change.group for change in said.losses), _WORSE)
    why |= dict.fromkeys(said.failing, _FAILED)
    for entry in said.verdict.exceptions:
        why.setdefault(entry.group, _WHY.get(entry.why, _EXCEPTED))
    left = set(report.bias.subgroups).difference(said.verdict.holds_for.identities)
    by_estimate = [check for check in said.verdict.results if check.mode == "estimate"]
    estimated = {check.group for check in by_estimate}
    if any(check.scope == "worst" for check in by_estimate):
        estimated.update(report.bias.subgroups)
    # Their own checks passed: what is not met is a rule on the worst, which is about everyone.
    alone = {check.group for check in said.verdict.results if check.outcome == "pass"} - estimated
    for name in report.bias.subgroups:
        rest = _UNSETTLED if name in alone else _UNCHECKED
        why.setdefault(name, _ESTIMATED if name in estimated else rest)
    for words in (_FAILED, _UNSETTLED, *_WHY.values(), _EXCEPTED, _ESTIMATED, _UNCHECKED):
        names = tuple(str(name) for name in why if why[name] == words and name in left)
        if names:
            yield words, names


def _find_errors(report: Report) -> Errors | None:
    """Return whose error rates are shown to be higher, the most times that of all first.

    None where no threshold is given, or nothing can be shown: no gap has an interval.
    """
    at, known = report.thresholds.get(GIVEN), report.bias.select_threshold(GIVEN)
    if at is None or all(gap.low is None for of in known.values() for gap in of.values()):
        return None
    overall = {rate: one.value for rate, one in list_error_rates(at.overall).items()}
    n_looked_at = sum(len(of) for of in known.values())
    harms = []
    for metric, rate in RATE_OF_GAP.items():
        gaps = {
            name: widen_selected(of[metric], n_looked_at)
            for name, of in known.items()
            if metric in of
        }
        names = [name for name, gap in gaps.items() if gap.low is not None and gap.low > 0]
        every = overall[rate]
        if not names or not every:
            continue
        names.sort(key=lambda name: -(gaps[name].low or 0.0))
        first, *others = names
        own = list_error_rates(at.subgroups[first])[rate].value
        assert own is not None  # noqa: S101 - its gap is defined
        harms.append(ErrorHarm(rate, first, own, every, gaps[first], tuple(others)))
    closest = _read_errors(report, EQUAL_ERRORS) if EQUAL_ERRORS in report.thresholds else None
    return Errors(f"{at.threshold:g}", _read_errors(report, GIVEN), closest, tuple(harms))


def _read_errors(report: Report, kind: str) -> OverallErrors:
    at = report.thresholds[kind]
    flagged, missed = list_error_rates(at.overall).values()
    return OverallErrors(at.threshold, flagged.value, missed.value)


def _remarks(report: Report) -> Iterator[str]:
    yield from (one.sentence for one in report.marked.values() if not one.is_reservation)
    if report.calibration is not None:
        yield report.calibration.sentence


def describe_terms(report: Report, identity: str | None = None) -> str:
    """Name the terms of an identity, or of all, that are shown to be worse than all comments.

    Empty without terms; if none is worse, only of an identity it says so.
    """
    if report.terms is None:
        return ""
    at = "" if GIVEN in report.thresholds else " at equal errors"
    found = describe_worse_terms(report.terms, at, identity)
    n_terms = sum(one.subgroup == identity for one in report.terms.terms)
    bounded = any(one.low is not None for one in report.terms.overall.values())
    if not found and n_terms > 1 and bounded:
        return "none is significantly worse than all comments (simultaneous 95% intervals)"
    return found


def add_limit(number: str, limit: str) -> str:
    """Return a number and where it lies, if there is something to say of that."""
    return f"{number}, {limit}" if limit else number


def list_gains(differences: BiasTable | None) -> tuple[Change, ...]:
    """Return what is shown to be better than the champion's, the largest change first.

    The difference must be shown after Holm's adjustment; that a gap is smaller, by bounds on its
    size that hold for all gaps together.
    """
    found = []
    n_gaps = 0 if differences is None else len(AEGS) * len(differences.subgroups)
    for group, cells in ({} if differences is None else differences.subgroups).items():
        for metric in SUBGROUP_METRICS:
            cell = cells[metric]
            if cell.first is None or cell.second is None:
                continue
            is_gap = METRICS[metric].is_gap
            change = abs(cell.second) - abs(cell.first) if is_gap else cell.first - cell.second
            shrunk = widen_selected(
                MetricValue(-change, low=cell.size_low, high=cell.size_high), n_gaps
            )
            surely = shrunk.high is not None and shrunk.high < 0 if is_gap else change > 0
            if cell.is_significant(CONFIDENCE) and surely and change > 0:
                found.append((change, Change(group, metric, cell.second, cell.first)))
    return tuple(change for _, change in sorted(found, key=lambda pair: -pair[0]))


def _find_warnings(report: Report, *beginnings: str) -> list[str]:
    """Return the warnings that begin so, as sentences."""
    found = (text for text in report.warnings if text.startswith(beginnings))
    return [text[0].upper() + text[1:] for text in found]


def _write_headline(said: VerdictStory, worst: RuleResult | None, no_use: Sequence[str]) -> str:
    """Return the outcome in one sentence, by what it means for people."""
    if no_use:
        return no_use[0]
    failed = [check for check in said.unmet if check.has_failed]
    worse = dict.fromkeys(change.group for change in said.losses)
    if worse and (worst is None or worst.kind in RIVALS):
        return _worse(list(worse), passed=said.word.status == "pass")
    if worst is not None and METRICS[worst.metric].harm and worst.kind not in RIVALS:
        known = METRICS[worst.metric]
        side = known.sides[(worst.value or 0) > 0]
        text = known.harm.format(side=side, group=worst.group)
        text = text[:1].upper() + text[1:]
        return f"{text} (slice {worst.slice})." if worst.slice else f"{text}."
    if failed:
        return failed[0].sentence
    return _explain_undecided(said)


def _explain_undecided(said: VerdictStory) -> str:
    """Return why a verdict without a failed check is undecided, in one sentence."""
    lacking = [check for check in said.unmet if check.status == "insufficient"]
    missing = said.without_rival
    if missing and all(check in missing for check in lacking):
        return f"No {missing[0].result.kind} to compare with."
    if said.unsettled:
        names = shorten_names([_name_slices(name, said.unmet) for name in said.unsettled])
        return f"No check failed, but the evidence is insufficient for {names}."
    return lacking[0].sentence if lacking else "No check failed."


def _name_slices(group: str, unmet: Sequence[Check]) -> str:
    """Return an identity with its slices, if it is undecided only in these."""
    of_group = [
        check.result.slice for check in unmet if check.result.group == group and not check.excuse
    ]
    slices = list(dict.fromkeys(name for name in of_group if name is not None))
    if None in of_group:
        return group
    return f"{group} (slice {shorten_names(slices)})"


def _worse(groups: list[str], *, passed: bool) -> str:
    """Name the identities that are worse off than under the champion."""
    claim = f"orse than the champion for {shorten_names(groups, 2)}"
    return (
        f"Passed with exceptions: w{claim}, which the policy permits." if passed else f"W{claim}."
    )


def _select_worst_number(report: Report, worst: RuleResult | None) -> WorstNumber | None:
    """Return the number of the worst failed check, else the lowest AUC.

    A loss against a rival shows which identity got worse, not which is worst.
    """
    if worst is None or worst.kind in RIVALS:
        lowest = _find_lowest_auc(report)
        if lowest is None:
            return None
        return WorstNumber(*lowest, widen_number(report.bias, *lowest))
    name, metric = str(worst.group), worst.metric
    known = {
        **report.bias.subgroups.get(name, {}),
        **report.bias.select_threshold(GIVEN).get(name, {}),
    }
    if worst.slice is not None or metric not in known:  # a category, or a share of all comments
        return WorstNumber(name, metric, MetricValue(worst.value), worst)
    return WorstNumber(name, metric, widen_number(report.bias, name, metric), worst)


def _is_ruled(result: RuleResult) -> bool:
    return result.action == "block" and result.rule not in {HARM, USEFULNESS_RULE}


def _find_worst_check(report: Report, unmet: Sequence[Check]) -> RuleResult | None:
    """Return the failed check of an identity that is furthest beyond its limit; None if none is.

    A floor or ceiling comes before a loss against a rival, which has a place of its own; then the
    identity to look at first, if a check of it failed.
    """
    failed = [check.result for check in unmet if check.has_failed]
    # A limit of comments without a score is about none of the metrics.
    of_groups = [one for one in failed if one.group is not None and one.metric in METRICS]
    limits = [one for one in of_groups if one.kind not in RIVALS]
    losses = [one for one in of_groups if one.rule == HARM]
    if losses and not limits:
        return losses[0]
    found = limits or of_groups
    first = [one for one in found if one.group == report.look_first.subgroup]
    return max(first or found, key=compute_excess, default=None)


def compute_excess(result: RuleResult) -> float:
    """Return the distance of a check's deciding bound from its limit; infinite without a bound."""
    if result.bound is None:
        return math.inf
    metric = METRICS.get(result.metric)  # None for shares of comments without a score
    if metric and result.kind in RIVALS and not metric.is_gap and not metric.needs_rival:
        return -result.limit - result.bound
    distance = result.bound - result.limit
    return -distance if result.kind == "floor" else distance


def _find_lowest_auc(report: Report) -> tuple[str, str] | None:
    """Return the identity and the metric of the lowest AUC with enough rows; None if none has."""
    known = {
        (name, metric): value
        for name, subgroup in report.bias.subgroups.items()
        for metric in FINAL_SCORE_PARTS
        if has_enough_rows(metric, report.bias.counts[name])
        and (value := subgroup[metric].value) is not None
    }
    return min(known, key=lambda cell: known[cell], default=None)


def find_worst_number(report: Report, verdict: Verdict) -> WorstNumber | None:
    """Return the number that is named first, without the rest of a story."""
    return _select_worst_number(
        report, _find_worst_check(report, VerdictStory.from_verdict(verdict).unmet)
    )
