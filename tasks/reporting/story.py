"""What is said about a candidate, as data: terminal, pages, comments and messages lay it out.

It is made from the checks that decided, so that nothing said can contradict the verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bias_metrics import MetricValue, RuleResult
from bias_metrics.gate import LEAST_FOR_A_BOUND, RIVALS, WORST_FIRST, Loss
from bias_metrics.gate import RULE as HARM
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, SUBGROUP_METRICS
from bias_metrics.parts import counted
from biasgate.tasks.common.printable import printable
from biasgate.tasks.measuring.cautions import UPSIDE_DOWN
from biasgate.tasks.outcomes import EXCEPT, REPORTED, WORDS, Word, word_of
from biasgate.tasks.records import (
    CandidateDecision,
    Differences,
    HoldsFor,
    Report,
    Verdict,
    metric_cells,
)
from biasgate.tasks.records.numbers import CONFIDENCE, final_score_name, has_enough_rows
from biasgate.tasks.reporting.tables import number, with_interval

WORSE, GAINED = "Worse than the champion", "Better than the champion"
DECISION = "Decision"
NO_CHAMPION = "There was no champion to compare with."
MOST_EXCEPTIONS = 12
_EXCEPTIONS = 4  # most lines on them where few lines are to be read
_NAMED = 3  # most names in a list
_IN_TITLE = 2  # most names in the words for an outcome
_CHECKS = {"pass": "passed", "fail": "failed", "insufficient": "not enough evidence"}
_COUNTED = {
    "error": "with an error",
    "fail": "failed",
    "insufficient": "without enough evidence",
    "pass": "passed",
    "waived": "waived",
    "warn": "with a warning alone",
}


@dataclass(frozen=True)
class Check:
    """What came of one check of the policy."""

    status: str
    """Its outcome; `waived` or `warn` if it did not pass and does not count."""
    excuse: str
    """Why it does not count; else empty."""
    word: str
    """The outcome in words, with the excuse."""
    sentence: str
    """What was measured, and what it was compared with."""
    result: RuleResult
    """The result behind it."""

    @classmethod
    def of(cls, result: RuleResult) -> Check:
        """Say what came of a check."""
        status, excuse = str(result.outcome), ""
        if status not in {"pass", "skipped"}:
            if result.waived_by:
                status, excuse = "waived", f"waived by {result.waived_by}"
            elif result.action == "warn":
                status, excuse = "warn", "only warns"
        word = _CHECKS.get(result.outcome, result.outcome)
        word = f"{word} ({excuse})" if excuse else word
        return cls(status, excuse, word, result.sentence, result)

    @property
    def has_failed(self) -> bool:
        """Whether it counts against the candidate."""
        return self.status in {"fail", "error"}


@dataclass(frozen=True)
class Change:
    """A number of an identity beside the champion's."""

    group: str
    metric: str
    champion: float
    candidate: float

    @property
    def text(self) -> str:
        """The identity, the metric, and both values."""
        metric = METRICS[self.metric]
        values = (number(one, signed=metric.is_gap) for one in (self.champion, self.candidate))
        return f"{self.group} {metric.title} {' → '.join(values)}"


@dataclass(frozen=True)
class Focus:
    """The number to show first."""

    group: str
    metric: str
    against: str
    """What it is compared with, after the metric; empty without a failed check."""
    is_difference: bool
    """Whether it is the difference from the champion."""

    @property
    def title(self) -> str:
        """The metric's name."""
        return METRICS[self.metric].title


@dataclass(frozen=True, kw_only=True)
class VerdictStory:
    """What is said of a verdict."""

    candidate: str
    evaluation_set: str
    word: Word
    """The outcome; a pass says for how many it is proven, a block who is shown to be worse off."""
    exceptions: tuple[str, ...]
    """What a pass does not say; each line is a sentence."""
    policy: str
    counted: str
    """How many checks there are, and what came of them."""
    bounds: str
    """How many bounds were looked at, and how many may be wrong."""
    basis: tuple[str, ...]
    """Which nights' rows and which share of a year's alpha decided, if they did."""
    checks: tuple[Check, ...]
    """In the order of the policy."""
    unmet: tuple[Check, ...]
    """Those that did not pass, the worst first; skipped ones are left out."""
    worse: str
    """Who is shown to be worse than the champion, and by how much."""
    worsened: tuple[Loss, ...]
    """The numbers behind that, the largest loss first."""
    champion: str | None
    """The champion that it is compared with."""
    objective: str
    """The number that ranks versions which pass, beside the champion's."""
    verdict: Verdict
    """What all this is said of."""

    @classmethod
    def of_verdict(cls, verdict: Verdict) -> VerdictStory:
        """Say what a verdict says."""
        checks = tuple(map(Check.of, verdict.results))
        kinds = WORST_FIRST[: WORST_FIRST.index("pass")]
        champion, objective = verdict.champion, verdict.objective
        value = "undefined" if objective.value is None else f"{objective.value:.4f}"
        ranked = f"{objective.name} is {value}; there was no champion to compare with"
        return VerdictStory(
            candidate=verdict.candidate.name,
            evaluation_set=verdict.evaluation_set.name,
            word=word_of_verdict(verdict),
            exceptions=tuple(exceptions_in_words([verdict])),
            policy=verdict.policy.name,
            counted=_counted(checks),
            bounds=verdict.bounds.sentence,
            basis=(*_nights(verdict), *_year(verdict)),
            checks=checks,
            unmet=tuple(one for kind in kinds for one in checks if one.result.outcome == kind),
            worse=NO_CHAMPION if champion is None else shown_worse(verdict.worsened),
            worsened=tuple(verdict.worsened),
            champion=None if champion is None else champion.model or champion.name,
            objective=ranked if champion is None else objective.comparison,
            verdict=verdict,
        )

    @property
    def failing(self) -> tuple[str, ...]:
        """The identities of which a check failed, the worst first."""
        return _groups(check for check in self.unmet if check.has_failed)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """The others of which a check lacks evidence."""
        lacking = _groups(check for check in self.unmet if check.status == "insufficient")
        return tuple(name for name in lacking if name not in self.failing)

    @property
    def losses(self) -> tuple[Change, ...]:
        """What is shown to be worse than the champion's by its own comments, the worst first."""
        return tuple(
            Change(cell.group, cell.metric, cell.second, cell.first)
            for cell in self.worsened
            if not cell.without
        )

    @property
    def about(self) -> str:
        """The candidate and the set."""
        return f"{self.candidate} on {self.evaluation_set}"

    @property
    def met(self) -> tuple[Check, ...]:
        """The checks that passed or were skipped."""
        return tuple(check for check in self.checks if check.status in {"pass", "skipped"})


@dataclass(frozen=True, kw_only=True)
class Story(VerdictStory):
    """What is said of a candidate on a set."""

    warnings: tuple[str, ...]
    """What to be careful about."""
    look_first: str
    """The identity to look at first; the cause where scores are upside down."""
    focus: Focus | None
    """The number behind that, if it is one of an identity."""
    analyses: tuple[str, ...]
    """The findings of further analyses."""
    numbers: tuple[tuple[str, MetricValue], ...]
    """The numbers of all comments together."""
    headline: str
    """The outcome in one sentence, by its meaning."""
    treated_worst: str
    """Who is treated worst: identity, number, 95 % interval, limit."""
    gains: tuple[Change, ...]
    """What is shown to be better than the champion's, most first: see `gains_of`."""
    n_identities: int
    n_holding: int
    """How many identities there are, and of how many each check passed."""

    @classmethod
    def of(cls, report: Report, verdict: Verdict, differences: Differences | None = None) -> Story:
        """Say what is said of a candidate; the report is of the rows that the verdict is about.

        Without `differences` from the champion nothing is said to be better.
        """
        said = VerdictStory.of_verdict(verdict)
        worst = _worst_check(report, said.unmet)
        upside_down = [
            text[0].upper() + text[1:] for text in report.warnings if text.startswith(UPSIDE_DOWN)
        ]
        analyses = [text for one in (report.analyses or {}).values() for text in one.sentences]
        bias = report.bias
        means = metric_cells(bias.power_mean)
        numbers = {
            "Overall AUC": bias.overall.auc,
            final_score_name(bias).capitalize(): bias.final_score,
            **{f"Power mean of {METRICS[one].title}": means[one] for one in FINAL_SCORE_PARTS},
        }
        return cls(
            **vars(said),
            warnings=tuple(report.warnings),
            look_first=" ".join(upside_down or [report.look_first.sentence]),
            focus=_focus(report, worst),
            analyses=tuple(analyses),
            numbers=tuple(numbers.items()),
            headline=_headline(said, worst, upside_down),
            treated_worst=_treated_worst(report, worst),
            gains=gains_of(differences),
            n_identities=verdict.holds_for.of,
            n_holding=len(verdict.holds_for.identities),
        )

    @property
    def has_failed(self) -> bool:
        """Whether a check that counts has failed."""
        return any(check.has_failed for check in self.unmet)

    @property
    def line(self) -> CandidateStory:
        """The same as what people read first."""
        return CandidateStory(self.about, self.word, "", (self,))


@dataclass(frozen=True)
class CandidateStory:
    """What is said of a candidate on all sets: what people read first, wherever they read it."""

    name: str
    word: Word
    sentence: str
    """What became of it."""
    stories: tuple[Story, ...]
    """What is said of it on each set."""

    @classmethod
    def each(
        cls, decisions: Sequence[CandidateDecision], stories: Sequence[Story]
    ) -> list[CandidateStory]:
        """Tell of every candidate of an evaluation."""
        return [
            cls(
                one.candidate,
                word_of(one),
                one.sentence,
                tuple(story for story in stories if story.candidate == one.candidate),
            )
            for one in decisions
        ]

    @property
    def outcome(self) -> str:
        """The outcome in short; the headline says for whom it is a block."""
        return WORDS["fail"].text if self.word.status == "fail" else self.word.text

    @property
    def badge(self) -> str:
        """The status, for colours; `except` after a pass with a loss that is shown."""
        lost = any(story.losses for story in self.stories)
        return "except" if lost and self.word.status == "pass" else self.word.status

    @property
    def worst(self) -> Story | None:
        """The story of the set on which it ended worst; None if it could not be judged."""
        return min(self.stories, key=by_outcome, default=None)

    @property
    def headline(self) -> str:
        """The outcome in one sentence."""
        return self.sentence if self.worst is None else self.worst.headline

    @property
    def exceptions(self) -> tuple[str, ...]:
        """What a pass does not say: of the sets that decide, if there are any."""
        return tuple(self._excepted(MOST_EXCEPTIONS))

    def _excepted(self, most: int) -> list[str]:
        if self.word.status != "pass":
            return []
        every = [story.verdict for story in self.stories]
        decisive = [one for one in every if one.evaluation_set.required] or every
        return exceptions_in_words(decisive, most, name_sets=len(every) > 1)

    @property
    def told(self) -> list[str]:
        """What to say below the outcome, sentence by sentence; the first ones matter most."""
        labelled = [_ended(f"{label}: {text}") for label, text in self.facts if label != DECISION]
        excepted = self._excepted(_EXCEPTIONS)
        basis = [text for story in self.stories for text in story.basis]
        counts = [f"{one.counted}. {one.bounds}" for one in self.stories if len(self.stories) == 1]
        lines = [self.headline, *labelled[:2], *excepted, *basis, *labelled[2:], self.sentence]
        return [text for text in dict.fromkeys([*lines, *counts]) if text]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What to know, each with a label; what there is nothing to say of is left out."""
        worst, stories = self.worst, self.stories
        if worst is None:
            return []
        on_set = f" (on {worst.evaluation_set})" if len(stories) > 1 else ""
        compared = [story for story in stories if story.champion is not None]
        found = {
            "Treated worst": worst.treated_worst and worst.treated_worst + on_set,
            WORSE: self._changes("losses") or ("nobody is shown to be" if compared else ""),
            GAINED: self._changes("gains"),
            "Fails for": self._names("failing"),
            "Not settled for": self._unsettled(),
            "Holds for": self._holds(),
            "To pass": self._to_pass(),
            DECISION: self.sentence,
        }
        return [(label, text) for label, text in found.items() if text]

    def _each(self, what: str) -> Iterator[tuple[str, Any]]:
        for story in self.stories:
            on_set = f" on {story.evaluation_set}" if len(self.stories) > 1 else ""
            yield from ((on_set, entry) for entry in getattr(story, what))

    def _names(self, what: str) -> str:
        sets: dict[str, list[str]] = {}
        for on_set, name in self._each(what):
            sets.setdefault(name, []).append(on_set)
        everywhere = len(self.stories)
        names = [
            f"{name}{'' if len(on_sets) == everywhere else on_sets[0]}"
            for name, on_sets in sets.items()
        ]
        return first_names(names)

    def _unsettled(self) -> str:
        names = self._names("unsettled")
        return names and f"{names}{_cure(check for story in self.stories for check in story.unmet)}"

    def _changes(self, what: str) -> str:
        by_group: dict[str, list[str]] = {}
        for on_set, change in self._each(what):
            by_group.setdefault(change.group, []).append(f"{change.text}{on_set}")
        texts = [
            f"{texts[0]} (and {counted(len(texts) - 1, 'more number')})" if texts[1:] else texts[0]
            for texts in by_group.values()
        ]
        more = len(texts) - _IN_TITLE
        rest = [f"and {more:,} more {'identities' if more > 1 else 'identity'}"]
        return "; ".join([*texts[:_IN_TITLE], *(rest if more > 0 else [])])

    def _holds(self) -> str:
        fewest = min(self.stories, key=lambda one: one.n_holding)
        if not fewest.n_identities or self.word.status == "pass":  # whose word says so
            return ""
        return f"{fewest.n_holding:,} of {fewest.n_identities:,} identities"

    def _to_pass(self) -> str:
        """Say what stands between it and a pass."""
        if self.word.status == "pass":
            return ""
        unmet = [
            check
            for story in self.stories
            for check in story.unmet
            if check.status in {"fail", "insufficient", "error"}
        ]
        failed = [check.result for check in unmet if check.has_failed]
        parts = [_needed(failed[0])] if failed else []
        parts += [f"{counted(len(failed) - 1, 'more failed check')}"] if failed[1:] else []
        lacking = [check.result for check in unmet if not check.has_failed]
        return "; ".join([*parts, *_lacking(lacking)])


def _needed(result: RuleResult) -> str:
    """Say what a failed check asks for."""
    of = f" of {result.group}" if result.group is not None else ""
    on_slice = f" on {result.slice}" if result.slice else ""
    limit = {
        "floor": f"at least {result.limit:g}",
        "ceiling": f"at most {result.limit:g} in size",
    }.get(result.kind, f"not worse than the {result.kind}'s by more than {result.limit:g}")
    return f"{METRICS[result.metric].title}{of}{on_slice} {limit}"


def _lacking(results: Sequence[RuleResult]) -> Iterator[str]:
    """Say what is known of checks that lack evidence: too few comments, or too close to tell."""
    few = [one for one in results if any(n > 0 for n in one.rows_needed.values())]
    close = [one for one in results if one not in few and _is_close(one)]
    if few:
        verb = "has" if len(few) == 1 else "have"
        yield f"{counted(len(few), 'check')} {verb} too few comments{_more_rows(few)}"
    for kind, found in {
        "limit": [one for one in close if one.kind not in RIVALS],
        "margin": [one for one in close if one.kind in RIVALS],
    }.items():
        if found:
            verb = "is" if len(found) == 1 else "are"
            yield f"{counted(len(found), 'check')} {verb} too close to the {kind} to tell"
    n_others = len(results) - len(few) - len(close)
    if n_others:
        verb = "lacks" if n_others == 1 else "lack"
        yield f"{counted(n_others, 'check')} {verb} evidence"


def _is_close(result: RuleResult) -> bool:
    """Say whether there are enough rows for an interval, but the limit is in it."""
    has_ends = result.low is not None and result.high is not None
    return has_ends and result.not_excluded is None and result.blind is None


def _more_rows(results: Iterable[RuleResult]) -> str:
    """Say how many more comments would do, of the identity that lacks most."""
    needed = {
        str(result.group): {kind: n for kind, n in result.rows_needed.items() if n > 0}
        for result in results
        if result.group is not None and result.outcome == "insufficient"
    }
    name = max(needed, key=lambda group: sum(needed[group].values()), default=None)
    if name is None or not needed[name]:
        return ""
    classes = {"positive": "toxic", "negative": "harmless"}
    rows = " and ".join(f"{n:,} {classes[kind]}" for kind, n in needed[name].items())
    return f", {rows} more that mention {name}"


def _groups(checks: Iterable[Check]) -> tuple[str, ...]:
    names = (check.result.group for check in checks)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def gains_of(differences: Differences | None) -> tuple[Change, ...]:
    """Return what is shown to be better than the champion's, the largest change first.

    The difference must be shown after Holm's adjustment; that a gap is smaller, by the bounds on
    its size, which are not adjusted.
    """
    found = []
    for group, cells in ({} if differences is None else differences.subgroups).items():
        for metric in SUBGROUP_METRICS:
            cell = cells[metric]
            if cell.first is None or cell.second is None:
                continue
            is_gap = METRICS[metric].is_gap
            change = abs(cell.second) - abs(cell.first) if is_gap else cell.first - cell.second
            surely = cell.size_high is not None and cell.size_high < 0 if is_gap else change > 0
            if cell.shown(CONFIDENCE) and surely and change > 0:
                found.append((change, Change(group, metric, cell.second, cell.first)))
    return tuple(change for _, change in sorted(found, key=lambda pair: -pair[0]))


def _headline(said: VerdictStory, worst: RuleResult | None, upside_down: Sequence[str]) -> str:
    """Return the outcome in one sentence, by what it means for people."""
    if upside_down:
        return upside_down[0]
    failed = [check for check in said.unmet if check.has_failed]
    worse = dict.fromkeys(change.group for change in said.losses)
    if worse and (worst is None or worst.kind in RIVALS):
        verb = "is" if len(worse) == 1 else "are"
        text = f"{first_names(list(worse), 2)} {verb} treated worse than by the champion"
        passed = said.word.status == "pass"
        return f"{EXCEPT}: {text}; the policy lets that pass." if passed else f"{text}."
    if worst is not None and METRICS[worst.metric].harm and worst.kind not in RIVALS:
        known = METRICS[worst.metric]
        text = known.harm.format(group=worst.group, side=known.sides[(worst.value or 0) > 0])
        on_slice = f" (slice {worst.slice})" if worst.slice else ""
        return f"{text[:1].upper()}{text[1:]}{on_slice}."
    if failed:
        return failed[0].sentence
    if said.unsettled:
        return f"Nothing is shown to fail, but it is not settled for {first_names(said.unsettled)}."
    lacking = [check.sentence for check in said.unmet if check.status == "insufficient"]
    return lacking[0] if lacking else "No check failed."


def _treated_worst(report: Report, worst: RuleResult | None) -> str:
    """Return who is treated worst with number, interval and limit; empty without a number."""
    limit = ""
    if worst is None:
        lowest = _lowest_auc(report)
        if lowest is None:
            return ""
        name, metric = lowest
    else:
        name, metric = str(worst.group), worst.metric
        if worst.slice is not None or metric not in SUBGROUP_METRICS:
            return worst.sentence
        if worst.kind not in RIVALS:
            limit = f", {worst.kind} {worst.limit:g}"
    if name not in report.bias.subgroups:  # a category
        return "" if worst is None else worst.sentence
    cell, known = metric_cells(report.bias.subgroups[name])[metric], METRICS[metric]
    return f"{name}: {known.title} {with_interval(cell, signed=known.is_gap)}{limit}"


# ---- The outcome


def by_outcome(story: Story) -> int:
    """Return the place of a story in an order by outcome."""
    return ("error", "fail", "insufficient", "reported", "pass").index(story.word.status)


def word_of_verdict(*verdicts: Verdict) -> Word:
    """Return the words for the verdicts on a candidate on one set, or on several.

    A pass says for how many identities it is proven, and whether it has exceptions; a block by
    harm that is shown, for whom. Names of identities are in it: escape it where it is shown.
    """
    outcomes = {verdict.outcome for verdict in verdicts}
    outcome = next(name for name in ("error", "fail", "insufficient", "pass") if name in outcomes)
    if any(verdict.policy.report_only for verdict in verdicts):
        return REPORTED
    if outcome == "fail":
        return replace(WORDS[outcome], text=_blocked(verdicts))
    if outcome != "pass":
        return WORDS[outcome]
    fewest = min((verdict.holds_for for verdict in verdicts), key=_share)
    n, of = len(fewest.identities), fewest.of
    text = WORDS[outcome].text
    if n < of:
        text = f"Passed for {n:,} of {of:,} identities"
    elif any(verdict.exceptions for verdict in verdicts):
        text = EXCEPT
    return replace(WORDS[outcome], text=text)


def _blocked(verdicts: Sequence[Verdict]) -> str:
    """Return the words for a block, with those who are shown to be worse off, the worst first."""
    shown = (
        str(result.group)
        for verdict in verdicts
        for result in verdict.results
        if result.rule == HARM and result.outcome == "fail" and result.action == "block"
    )
    # An identity is left out if its loss is not shown without the comments of a worse one.
    own = {cell.group for verdict in verdicts for cell in verdict.worsened if not cell.without}
    every = list(dict.fromkeys(shown))
    names = [name for name in every if name in own] or every
    text = WORDS["fail"].text
    return f"{text}, worse for {first_names(names, _IN_TITLE)}" if names else text


def _share(holds_for: HoldsFor) -> float:
    return len(holds_for.identities) / holds_for.of if holds_for.of else 1.0


def exceptions_in_words(
    verdicts: Sequence[Verdict], most: int = MOST_EXCEPTIONS, *, name_sets: bool = False
) -> list[str]:
    """Return for whom a pass of a candidate is proven, and what it does not say, line by line.

    Nothing if it did not pass, or if nothing is to be said. Identities that are not measured for
    one reason share a line. With several verdicts, or with `name_sets`, each line names the set.
    After `most` lines a last one says how many more there are.
    """
    if any(verdict.outcome != "pass" or verdict.policy.report_only for verdict in verdicts):
        return []
    lines = [
        printable(line)
        for verdict in verdicts
        for line in _exceptions(verdict, alone=len(verdicts) == 1 and not name_sets)
    ]
    more = len(lines) - most
    return [*lines[:most], f"And {more:,} more in verdict.json."] if more > 0 else lines


def _exceptions(verdict: Verdict, *, alone: bool) -> Iterator[str]:
    on_set = "" if alone else f" on {verdict.evaluation_set.name}"
    names, of = verdict.holds_for.identities, verdict.holds_for.of
    if len(names) < of:
        yield f"Proven{on_set} for {', '.join(names) or 'no identity'}."
    start = f"Except{on_set}{'' if alone else ','}"
    unmeasured: dict[str, list[str]] = {}
    for entry in verdict.exceptions:
        if entry.reason is None:
            colon = "" if entry.group else ":"
            yield f"{start}{colon} {entry.sentence}"
        else:
            unmeasured.setdefault(entry.reason, []).append(str(entry.group))
    for reason, unnamed in unmeasured.items():
        yield f"{start} not measured ({reason}): {', '.join(unnamed)}."


def in_short(decision: CandidateDecision, verdicts: Sequence[Verdict]) -> str:
    """Return a candidate's outcome in a few words: the first check against it, what was decided."""
    against = [
        check.sentence
        for verdict in verdicts
        if verdict.candidate.name == decision.candidate and verdict.evaluation_set.required
        for check in map(Check.of, verdict.results)
        if check.status == decision.outcome != "pass"
    ]
    more = f" It is one of {len(against):,} such checks." if len(against) > 1 else ""
    why = [f"{sentence}{more}" for sentence in against[:1]]
    excepted = decision.exceptions or []
    return " ".join([f"{word_of(decision).text}.", *why, decision.sentence, *excepted])


def _counted(checks: Sequence[Check]) -> str:
    found = Counter(check.status for check in checks)
    n_skipped = found.pop("skipped", 0)
    known = [f"{found[status]:,} {words}" for status, words in _COUNTED.items() if status in found]
    skipped = f"; {n_skipped:,} skipped" if n_skipped else ""
    known_of = ", ".join(known) or "nothing to check"
    return f"{counted(found.total(), 'check')}: {known_of}{skipped}"


def _nights(verdict: Verdict) -> Iterator[str]:
    """Say which nights' rows a verdict pools; nothing if it is about a single set."""
    nights = verdict.nights
    if nights is not None:
        first = "" if nights.number > 1 else f" It is the first: {nights.began}."
        yield (
            f"Night {nights.number}: judged by the {nights.n_rows:,} rows of all nights. The "
            f"bounds hold at every night together ({nights.bound}, tightest at "
            f"{nights.planned_rows:,} rows).{first}"
        )


def _year(verdict: Verdict) -> Iterator[str]:
    """Say which share of a year's alpha decided; nothing if decisions are not counted."""
    online = verdict.online
    if online is None:
        return
    alpha = f"{100 * online.level / online.share:g} %"
    planned = "" if online.planned is None else f" ({online.planned:,} are planned)"
    bounds = f"the chance that any promotion of the year is wrong is at most {alpha}"
    if online.bounds == "share_wrong":
        bounds = f"on average at most {alpha} of the promotions of the year are wrong"
    yield (
        f"Decision {online.number:,} of {online.year}{planned}: a candidate that is not good "
        f"enough passes it with a chance of at most {100 * online.level:.2g} %, so that {bounds}."
    )


# ---- Who is shown to be worse than a rival


def shown_worse(worsened: Sequence[Loss], rival: str = "the champion") -> str:
    """Say who is shown to be worse, and whose numbers only share their comments.

    `worsened` has the largest loss first.

    Examples
    --------
    >>> known = {"first": 0.7, "second": 0.8, "worse_by": 0.1, "low": -0.12, "high": -0.08}
    >>> known |= {"metric": "bpsn_auc", "worse_by_at_least": 0.08}
    >>> own, shared = {"group": "muslim"}, {"group": "jewish", "without": ("muslim",)}
    >>> print(shown_worse([Loss(**known, **own), Loss(**known, **shared)]))
    Shown to be worse than the champion: muslim (bpsn_auc by at least 0.080). Also jewish, but not \
without comments that mention muslim.
    """
    own = [cell for cell in worsened if not cell.without]
    if not own:
        return f"Nobody is shown to be worse than with {printable(rival)}."
    causes = list(dict.fromkeys(cell.group for cell in own))
    each = [_largest([cell for cell in own if cell.group == name]) for name in causes]
    more = f"; and {len(each) - _NAMED:,} more" if len(each) > _NAMED else ""
    others: dict[str, tuple[str, ...]] = {}
    for cell in worsened:
        if cell.group not in causes:
            others[cell.group] = max(others.get(cell.group, ()), cell.without, key=len)
    sentences = [f"Shown to be worse than {printable(rival)}: {'; '.join(each[:_NAMED])}{more}."]
    for without in dict.fromkeys(others.values()):
        names = [name for name, left_out in others.items() if left_out == without]
        sentences.append(f"Also {_joined(names, 'and')}, but {_not_without(without)}.")
    return " ".join(sentences)


def shared_with(cell: Loss) -> str:
    """Return without whose comments a number is no longer shown to be worse; "" if it is so."""
    return _not_without(cell.without) if cell.without else ""


def _not_without(names: Sequence[str]) -> str:
    return f"not without comments that mention {_joined(names, 'or')}"


def _largest(cells: Sequence[Loss]) -> str:
    first, n = cells[0], len(cells) - 1
    more = f", {counted(n, 'more number')}" if n else ""
    return f"{printable(first.group)} ({first.bound}{more})"


# ---- Who is treated worst


def _worst_check(report: Report, unmet: Sequence[Check]) -> RuleResult | None:
    """Return the failed check of an identity that is furthest beyond its limit; None if none is.

    A loss that is shown against the champion comes first; then a check of the identity to look at
    first, if one failed.
    """
    of_groups = [one.result for one in unmet if one.has_failed and one.result.group is not None]
    shown = next((result for result in of_groups if result.rule == HARM), None)
    if shown is not None:
        return shown
    first = report.look_first.subgroup
    found = [result for result in of_groups if result.group == first] or of_groups
    return max(found, key=_beyond, default=None)


def _beyond(result: RuleResult) -> float:
    """Return how far a number is beyond its limit, as far as that is shown."""
    if result.bound is None:
        return math.inf
    if result.kind in RIVALS and not METRICS[result.metric].is_gap:
        return -result.limit - result.bound
    distance = result.bound - result.limit
    return -distance if result.kind == "floor" else distance


def _lowest_auc(report: Report) -> tuple[str, str] | None:
    """Return the identity to look at first, and its lowest AUC with enough rows; or None."""
    name = report.look_first.subgroup
    if name is None:
        return None
    subgroup = report.bias.subgroups[name]
    cells = metric_cells(subgroup)
    enough = [metric for metric in FINAL_SCORE_PARTS if has_enough_rows(metric, subgroup)]
    known = {metric: cells[metric].value for metric in enough}
    defined = {metric: value for metric, value in known.items() if value is not None}
    return (name, min(defined, key=lambda metric: defined[metric])) if defined else None


def _cure(unmet: Iterable[Check]) -> str:
    """Return what to do about identities that a set says nothing about."""
    results = [check.result for check in unmet]
    lacking = [one for one in results if one.outcome == "insufficient" and one.group is not None]
    hints = [one.hint for one in lacking if one.hint is not None]
    if hints:
        return f". {' '.join(dict.fromkeys(hints))}".removesuffix(".")
    if not any(min(one.n_positive, one.n_negative) < LEAST_FOR_A_BOUND for one in lacking):
        return ""
    return "; if the set cannot measure them, say so in the policy (`not_measured`)"


def _focus(report: Report, worst: RuleResult | None) -> Focus | None:
    """Return the number of the worst failed check, else the lowest AUC of the worst identity."""
    if worst is None:
        lowest = _lowest_auc(report)
        return None if lowest is None else Focus(*lowest, "", is_difference=False)
    if worst.slice is not None or worst.metric not in SUBGROUP_METRICS:
        return None
    against, is_difference = f"; {worst.kind} {worst.limit:g}", worst.kind == "champion"
    if is_difference:
        against = f" minus the champion's; margin {worst.limit:g}"
    elif worst.kind in RIVALS:
        return None
    return Focus(str(worst.group), worst.metric, against, is_difference)


# ---- Lists of names


def _ended(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def first_names(names: Sequence[str], most: int = _NAMED) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _joined(names: Iterable[str], word: str) -> str:
    """Return the first names as an enumeration, with a word before the last one."""
    every = list(map(printable, names))
    shown = every[:_NAMED]
    shown += [f"{len(every) - _NAMED:,} more"] if len(every) > _NAMED else []
    *first, last = shown
    return f"{', '.join(first)} {word} {last}" if first else last
