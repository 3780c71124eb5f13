"""Summary of a candidate on a set, from its verdict and its numbers."""

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
from biasgate.tasks.measuring.cautions import BY_CHANCE, UPSIDE_DOWN
from biasgate.tasks.records import RATE_OF_GAP, Report, Verdict, list_error_rates
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
from biasgate.tasks.reporting.verdict_story import Change, CheckStory, VerdictStory
from biasgate.tasks.wording import (
    describe_changed_decisions,
    describe_worse_terms,
    name_worse_terms,
    shorten_names,
)

WORSE, GAINED = "Worse than the champion", "Better than the champion"
CHANGED, TERMS = "Changed decisions", "Worst terms"
IDENTITIES, UNKNOWN, NOT_JUDGED = "Identities", "No interval for", "No limit in the policy"
WARNING, TO_PASS = "Warning", "To pass"
WORST, LOWEST = "Worst identity", "Lowest AUC"
# Groups of identities for which a verdict does not hold.
_FAILED = "failed"
_UNSETTLED = "undecided"
_EXCEPTED = "excepted"
_ESTIMATED = "passed by point estimate"
_UNCHECKED = "without a check of their own"
_WORSE = "significantly worse"
# Groups of identities that a pass excepts, by the reason.
_EXCEPTIONS = {"not_measured": "not measured", "shown_worse": _WORSE}
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
    """With bounds that allow for the selection, unless the number is of a slice."""
    check: RuleResult | None = None
    """The failed check; None for the lowest AUC."""

    @property
    def is_pictured(self) -> bool:
        """True if the table of metrics has the number: five metrics of a whole set."""
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
        """The failed limit, or the numbers from which the lowest was selected."""
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
    """An identity with a significantly higher error rate than other comments."""

    rate: str
    """`false_positive_rate` or `false_negative_rate`."""
    group: str
    value: float
    overall: float
    """The rate of all comments."""
    gap: MetricValue
    """The gap to other comments, with joint bounds over all identities and rates."""
    others: tuple[str, ...]
    """The other identities with a significant gap."""

    @property
    def text(self) -> str:
        """The rate, and the interval of the gap."""
        text = _ERRORS[self.rate].format(
            share=format_percent(self.value),
            group=self.group,
            interval=format_bounds(self.gap.low, self.gap.high, format_points),
        )
        return f"{text}; also higher for {shorten_names(self.others)}" if self.others else text


class OverallErrors(NamedTuple):
    """The error rates of all comments at a threshold."""

    threshold: float
    flagged: float | None
    missed: float | None


@dataclass(frozen=True)
class ErrorSummary:
    """The error rates at the given threshold."""

    threshold: str
    overall: OverallErrors
    closest: OverallErrors | None
    """The rates at the threshold where they are closest, if it is known."""
    harms: tuple[ErrorHarm, ...]
    """The identity with the largest gap, for each rate."""

    @property
    def text(self) -> str:
        """The rates of all comments, and the largest gaps."""
        overall = _OVERALL.format(*map(format_percent, self.overall[1:]))
        if self.closest is not None:
            threshold, *rates = self.closest
            overall += _CLOSEST.format(format_score(threshold), *map(format_percent, rates))
        return ". ".join([overall, *([harm.text for harm in self.harms] or [_NO_ERRORS])])


@dataclass(frozen=True, kw_only=True)
class Story(VerdictStory):
    """Summary of a candidate on a set."""

    warnings: tuple[str, ...]
    remarks: tuple[str, ...]
    """Calibration, and truncated comments that are not a reservation."""
    look_first: str
    """The identity to look at first; for a useless model, the reason."""
    analyses: tuple[str, ...]
    """Sentences of further analyses."""
    numbers: tuple[tuple[str, MetricValue], ...]
    """The numbers of all comments."""
    headline: str
    """The outcome in one sentence."""
    worst: WorstNumber | None
    """The worst number of an identity; None if all are undefined."""
    worst_check: RuleResult | None
    """The failed check of an identity that is furthest beyond its limit."""
    first_group: str | None
    """The first identity of every list: that of the worst check, else of the worst number."""
    is_worst_significant: bool
    """True if the worst number failed a check or is significantly low."""
    changes: Mapping[str, Mapping[str, CountedShare]]
    """Counts of comments that are newly flagged or missed, by identity."""
    changes_text: str
    """The identities with most changed decisions; empty if unknown."""
    terms_text: str
    """The terms with the highest error rates; empty without terms."""
    worse_terms: str
    """The names of the terms in `terms_text`."""
    unjudged_metrics: tuple[str, ...]
    """The metrics without a blocking rule."""
    gains: tuple[Change, ...]
    """The significant gains against the champion, the largest first: see `list_gains`."""
    final_score: MetricValue
    n_comments: int
    """The number of measured comments."""
    n_identities: int
    other_groups: tuple[tuple[str, tuple[str, ...]], ...]
    """The identities that did not pass, by what happened to them."""
    errors: ErrorSummary | None
    """The worst error rates, if a threshold is given."""
    n_without_interval: int
    """The number of identities with a metric without an interval."""
    groups_without_interval: tuple[str, ...]
    """The identities without an interval for any metric."""

    @classmethod
    def from_report(
        cls, report: Report, verdict: Verdict, differences: BiasTable | None = None
    ) -> Story:
        """Summarize a candidate; gains need the `differences` from the champion."""
        base = VerdictStory.from_verdict(verdict)
        worst = _find_worst_check(report, base.unmet)
        number = _select_worst_number(report, worst)
        useless = [
            warning[0].upper() + warning[1:]
            for warning in report.warnings
            if warning.startswith((UPSIDE_DOWN, BY_CHANCE))
        ] or [
            describe_check(result) for result in verdict.results if result.rule == USEFULNESS_RULE
        ]
        bias, overall, spread = report.bias, report.bias.overall, report.spread or {}
        changes = {
            name: counts
            for name, counts in (verdict.changed or {}).items()
            if name in bias.subgroups  # others are categories
        }
        n_lacking = {
            name: sum(cells[metric].low is None for metric in SUBGROUP_METRICS)
            for name, cells in bias.subgroups.items()
        }
        numbers = {
            "Overall AUC": overall.auc,
            name_final_score(bias).capitalize(): overall.final_score,
            **{f"Power mean of {METRICS[key].title}": overall[key] for key in FINAL_SCORE_PARTS},
            **{
                f"Highest minus lowest {METRICS[key].title}": spread[key].value
                for key in FINAL_SCORE_PARTS
                if key in spread
            },
        }
        shares = report.marked.values()
        remarks = [share.sentence for share in shares if not share.is_reservation]
        if report.calibration is not None:
            remarks.append(report.calibration.sentence)
        return cls(
            **vars(base),
            warnings=tuple(report.warnings),
            remarks=tuple(remarks),
            look_first=" ".join(useless or [report.look_first.sentence]),
            analyses=tuple(
                text for analysis in (report.analyses or {}).values() for text in analysis.sentences
            ),
            numbers=tuple(numbers.items()),
            headline=_write_headline(base, worst, useless),
            worst=number,
            worst_check=worst,
            first_group=getattr(worst or number, "group", None),
            is_worst_significant=number is not None
            and (number.check is not None or number.group in report.harms),
            changes=changes,
            changes_text="" if verdict.changed is None else describe_changed_decisions(changes),
            terms_text=describe_terms(report),
            worse_terms="" if report.terms is None else name_worse_terms(report.terms),
            unjudged_metrics=list_unjudged_metrics(
                {
                    result.metric
                    for result in verdict.results
                    if result.action == "block" and result.rule not in {HARM, USEFULNESS_RULE}
                },
                has_threshold=GIVEN in report.thresholds,
            ),
            gains=list_gains(differences),
            final_score=overall.final_score,
            n_comments=bias.counts[None].n,
            n_identities=verdict.holds_for.of,
            other_groups=tuple(_group_others(report, base)),
            errors=_find_errors(report),
            n_without_interval=sum(map(bool, n_lacking.values())),
            groups_without_interval=tuple(
                name for name, n in n_lacking.items() if n == len(SUBGROUP_METRICS)
            ),
        )

    @property
    def worst_text(self) -> str:
        """The worst number and its limit; empty without."""
        if self.worst is None:
            return ""
        text, limit = self.worst.text, self.worst.limit
        return f"{text}, {limit}" if limit else text

    @property
    def has_failed(self) -> bool:
        """True if a check that counts has failed."""
        return any(check.has_failed for check in self.unmet)

    @property
    def is_champion(self) -> bool:
        """True if the candidate is the champion."""
        champion = self.verdict.champion
        return champion is not None and champion.digest == self.verdict.candidate.digest


def _group_others(report: Report, story: VerdictStory) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the identities that did not pass, by what happened to them."""
    verdict = story.verdict
    reasons: dict[str | None, str] = dict.fromkeys(story.undecided_groups, _UNSETTLED)
    reasons |= dict.fromkeys((change.group for change in story.losses), _WORSE)
    reasons |= dict.fromkeys(story.failed_groups, _FAILED)
    for entry in verdict.exceptions:
        reasons.setdefault(entry.group, _EXCEPTIONS.get(entry.why, _EXCEPTED))
    by_estimate = [check for check in verdict.results if check.mode == "estimate"]
    estimated = {check.group for check in by_estimate}
    if any(check.scope == "worst" for check in by_estimate):
        estimated.update(report.bias.subgroups)
    # If its own checks passed, the unmet rule is about the worst identity, and so about all.
    passed = {check.group for check in verdict.results if check.outcome == "pass"} - estimated
    for name in report.bias.subgroups:
        rest = _UNSETTLED if name in passed else _UNCHECKED
        reasons.setdefault(name, _ESTIMATED if name in estimated else rest)
    others = set(report.bias.subgroups).difference(verdict.holds_for.identities)
    for words in (_FAILED, _UNSETTLED, *_EXCEPTIONS.values(), _EXCEPTED, _ESTIMATED, _UNCHECKED):
        names = tuple(str(name) for name in reasons if reasons[name] == words and name in others)
        if names:
            yield words, names


def _find_errors(report: Report) -> ErrorSummary | None:
    """Return the error rates at the given threshold, with the largest significant gaps.

    None without a given threshold, or if no gap has an interval.
    """
    at, gaps = report.thresholds.get(GIVEN), report.bias.select_threshold(GIVEN)
    if at is None or all(gap.low is None for cells in gaps.values() for gap in cells.values()):
        return None
    overall = {rate: cell.value for rate, cell in list_error_rates(at.overall).items()}
    n_gaps = sum(map(len, gaps.values()))
    harms = []
    for metric, rate in RATE_OF_GAP.items():
        wide = {
            name: widen_selected(cells[metric], n_gaps)
            for name, cells in gaps.items()
            if metric in cells
        }
        names = [name for name, gap in wide.items() if gap.low is not None and gap.low > 0]
        every = overall[rate]
        if not names or not every:
            continue
        names.sort(key=lambda name: -(wide[name].low or 0.0))
        first, *others = names
        own = list_error_rates(at.subgroups[first])[rate].value
        assert own is not None  # noqa: S101 - its gap is defined
        harms.append(ErrorHarm(rate, first, own, every, wide[first], tuple(others)))
    closest = _read_errors(report, EQUAL_ERRORS) if EQUAL_ERRORS in report.thresholds else None
    return ErrorSummary(f"{at.threshold:g}", _read_errors(report, GIVEN), closest, tuple(harms))


def _read_errors(report: Report, kind: str) -> OverallErrors:
    at = report.thresholds[kind]
    flagged, missed = list_error_rates(at.overall).values()
    return OverallErrors(at.threshold, flagged.value, missed.value)


def describe_terms(report: Report, identity: str | None = None) -> str:
    """Name the terms, of an identity or of all, with significantly higher error rates.

    Empty without terms. That no term is worse is reported only for an identity.
    """
    if report.terms is None:
        return ""
    at = "" if GIVEN in report.thresholds else " at equal errors"
    text = describe_worse_terms(report.terms, at, identity)
    n_terms = sum(term.subgroup == identity for term in report.terms.terms)
    has_bounds = any(rate.low is not None for rate in report.terms.overall.values())
    if not text and n_terms > 1 and has_bounds:
        return "none is significantly worse than all comments (simultaneous 95% intervals)"
    return text


def list_gains(differences: BiasTable | None) -> tuple[Change, ...]:
    """Return the significant gains against the champion, the largest first.

    The difference must be significant after Holm's adjustment. A gap must also be smaller by joint
    bounds on its size.
    """
    gains = []
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
            is_smaller = not is_gap or (shrunk.high is not None and shrunk.high < 0)
            if cell.is_significant(CONFIDENCE) and is_smaller and change > 0:
                gains.append((change, Change(group, metric, cell.second, cell.first)))
    return tuple(gain for _, gain in sorted(gains, key=lambda pair: -pair[0]))


def _write_headline(story: VerdictStory, worst: RuleResult | None, useless: Sequence[str]) -> str:
    """Return the outcome in one sentence, by its meaning for people."""
    if useless:
        return useless[0]
    failed = [check for check in story.unmet if check.has_failed]
    worse = list(dict.fromkeys(change.group for change in story.losses))
    if worse and (worst is None or worst.kind in RIVALS):
        claim = f"orse than the champion for {shorten_names(worse, 2)}"
        if story.word.status == "pass":
            return f"Passed with exceptions: w{claim}, which the policy permits."
        return f"W{claim}."
    if worst is not None and METRICS[worst.metric].harm and worst.kind not in RIVALS:
        metric = METRICS[worst.metric]
        side = metric.sides[(worst.value or 0) > 0]
        text = metric.harm.format(side=side, group=worst.group)
        text = text[:1].upper() + text[1:]
        return f"{text} (slice {worst.slice})." if worst.slice else f"{text}."
    if failed:
        return failed[0].sentence
    return _explain_undecided(story)


def _explain_undecided(story: VerdictStory) -> str:
    """Return why a verdict without a failed check is undecided, in one sentence."""
    lacking = [check for check in story.unmet if check.status == "insufficient"]
    missing = story.without_rival
    if missing and all(check in missing for check in lacking):
        return f"No {missing[0].result.kind} to compare with."
    if groups := story.undecided_groups:
        names = shorten_names([_name_slices(group, story.unmet) for group in groups])
        return f"No check failed, but the evidence is insufficient for {names}."
    return lacking[0].sentence if lacking else "No check failed."


def _name_slices(group: str, unmet: Sequence[CheckStory]) -> str:
    """Return an identity, with its slices if it is undecided only in slices."""
    slices = dict.fromkeys(
        check.result.slice for check in unmet if check.result.group == group and not check.excuse
    )
    if None in slices:
        return group
    return f"{group} (slice {shorten_names([name for name in slices if name is not None])})"


def _select_worst_number(report: Report, worst: RuleResult | None) -> WorstNumber | None:
    """Return the number of the worst failed check, else the lowest AUC.

    A loss against a rival does not count: the identity that got worse is not always the worst.
    """
    if worst is None or worst.kind in RIVALS:
        lowest = _find_lowest_auc(report)
        if lowest is None:
            return None
        return WorstNumber(*lowest, widen_number(report.bias, *lowest))
    name, metric = str(worst.group), worst.metric
    metrics = {
        *report.bias.subgroups.get(name, {}),
        *report.bias.select_threshold(GIVEN).get(name, {}),
    }
    if worst.slice is not None or metric not in metrics:  # a category, or a share of all comments
        return WorstNumber(name, metric, MetricValue(worst.value), worst)
    return WorstNumber(name, metric, widen_number(report.bias, name, metric), worst)


def _find_worst_check(report: Report, unmet: Sequence[CheckStory]) -> RuleResult | None:
    """Return the failed check of an identity that is furthest beyond its limit.

    A floor or ceiling comes before a loss against a rival, then the identity to look at first.
    """
    failed = [check.result for check in unmet if check.has_failed]
    # Limits of comments without a score are not about a metric.
    failed = [result for result in failed if result.group is not None and result.metric in METRICS]
    limits = [result for result in failed if result.kind not in RIVALS]
    losses = [result for result in failed if result.rule == HARM]
    if losses and not limits:
        return losses[0]
    candidates = limits or failed
    first = [result for result in candidates if result.group == report.look_first.subgroup]
    return max(first or candidates, key=compute_excess, default=None)


def compute_excess(result: RuleResult) -> float:
    """Return how far a check's bound is beyond its limit; infinite without a bound."""
    if result.bound is None:
        return math.inf
    metric = METRICS.get(result.metric)  # None for shares of comments without a score
    if metric and result.kind in RIVALS and not metric.is_gap and not metric.needs_rival:
        return -result.limit - result.bound
    distance = result.bound - result.limit
    return -distance if result.kind == "floor" else distance


def _find_lowest_auc(report: Report) -> tuple[str, str] | None:
    """Return the identity and the metric of the lowest AUC with enough rows, if there is any."""
    aucs = {
        (name, metric): value
        for name, subgroup in report.bias.subgroups.items()
        for metric in FINAL_SCORE_PARTS
        if has_enough_rows(metric, report.bias.counts[name])
        and (value := subgroup[metric].value) is not None
    }
    return min(aucs, key=lambda cell: aucs[cell], default=None)


def find_worst_number(report: Report, verdict: Verdict) -> WorstNumber | None:
    """Return the worst number without the rest of a story."""
    return _select_worst_number(
        report, _find_worst_check(report, VerdictStory.from_verdict(verdict).unmet)
    )
