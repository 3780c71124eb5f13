"""What people read first of a candidate, on all sets together: wherever they read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bias_metrics.gate import HARM_RULE as HARM
from bias_metrics.gate import LEAST_ROWS, MISSING, RIVALS, TRUNCATED, USEFULNESS_RULE, RuleResult
from bias_metrics.metrics import METRICS
from bias_metrics.parts import format_count
from biasgate.tasks.common.command_lines import format_store_option
from biasgate.tasks.outcomes import WORDS, Word, get_outcome_words
from biasgate.tasks.records import CandidateDecision
from biasgate.tasks.reporting.story import (
    CHANGED,
    GAINED,
    HOLDS,
    LOWEST,
    NOT_JUDGED,
    TERMS,
    TO_PASS,
    TREATED_WORST,
    UNKNOWN,
    WARNING,
    WORSE,
    Story,
)
from biasgate.tasks.reporting.tables import name_metric
from biasgate.tasks.wording import (
    IN_TITLE,
    MOST_EXCEPTIONS,
    group_names,
    list_exception_lines,
    list_reservation_lines,
    shorten_names,
)

_EXCEPTIONS = 4  # most lines on them where few lines are to be read
_NAMES = 3  # most names of identities whose checks lack evidence
_SETS = 3  # most sets of which one line tells


@dataclass(frozen=True)
class CandidateStory:
    """What is said of a candidate on all sets: what people read first, wherever they read it."""

    name: str
    word: Word
    sentence: str
    """What became of it."""
    stories: tuple[Story, ...]
    """What is said of it on each set."""
    promoted: bool = False
    """Whether it became the champion."""

    @classmethod
    def of(cls, story: Story) -> CandidateStory:
        """Tell of a candidate on one set."""
        return cls(story.about, story.word, "", (story,))

    @classmethod
    def each(
        cls, decisions: Sequence[CandidateDecision], stories: Sequence[Story]
    ) -> list[CandidateStory]:
        """Tell of every candidate of an evaluation."""
        found = []
        for decision in decisions:
            own = tuple(story for story in stories if story.candidate == decision.candidate)
            word, sentence = get_outcome_words(decision), decision.sentence
            found.append(cls(decision.candidate, word, sentence, own, decision.promoted))
        return found

    @property
    def outcome(self) -> str:
        """The outcome in short, without names: the headline has them."""
        word = WORDS["fail"] if self.word.status == "fail" else self.word
        return word.text

    @property
    def badge(self) -> str:
        """The status, for colours; `except` after a pass with a loss that is shown."""
        lost = any(story.losses for story in self.stories)
        return "except" if lost and self.word.status == "pass" else self.word.status

    @property
    def worst(self) -> Story | None:
        """The story of the set on which it ended worst; None if it could not be judged."""
        return min(self.stories, key=rank_outcome, default=None)

    @property
    def headline(self) -> str:
        """The outcome in one sentence, with the set that it is about if there are several."""
        if self.worst is None:
            return self.sentence
        if len(self.stories) == 1:
            return self.worst.headline
        worst = self.worst
        too = [
            story.evaluation_set
            for story in self.stories
            if story is not worst and story.word.status == worst.word.status
        ]
        where = f"on {worst.evaluation_set}"
        if too:
            where += f"; also {self.outcome.lower()} on {shorten_names(too)}"
        return f"{worst.headline.removesuffix('.')} ({where})."

    @property
    def exceptions(self) -> tuple[str, ...]:
        """What a pass does not say, of the sets that decide, if any; then all reservations."""
        return tuple(self._excepted(MOST_EXCEPTIONS))

    @property
    def reservations(self) -> list[str]:
        """What limits the outcomes on all sets."""
        return list_reservation_lines([story.verdict for story in self.stories])

    def _excepted(self, most: int) -> list[str]:
        every = [story.verdict for story in self.stories]
        if self.word.status != "pass":
            return self.reservations
        decisive = [verdict for verdict in every if verdict.evaluation_set.required] or every
        name_sets = len(every) > 1
        excepted = list_exception_lines(decisive, most, name_sets=name_sets)
        reserved = list_reservation_lines(decisive, name_sets=name_sets)
        return [*excepted[: len(excepted) - len(reserved)], *self.reservations]

    def next_command(self, folder: str, place: str = "", store: str = "") -> list[str]:
        """Return what to run next, without the command's own name.

        `folder` has the results; `place` those on the worst set, if they are not in it by name.
        `store`: the store, if it is known.
        """
        worst = self.worst
        if worst is None:
            return ["doctor"]
        place = place or f"{folder}/{worst.evaluation_set}/{worst.candidate}"
        known = {name for _, names in worst.others for name in names}
        groups = [name for name in worst.failing if name in known]  # others are categories
        groups += [change.group for change in worst.losses]
        groups.sort(key=lambda name: name != worst.first)
        if groups:
            return ["show", place, "--identity", groups[0]]
        lacks_rows = any(
            check.status == "insufficient" and check not in worst.without_rival
            for check in worst.unmet
            if check.result.group is not None
        )
        if worst.unsettled and lacks_rows and worst.verdict.counts is None:
            return ["policy", "plan", f"{place}/policy.json", place]
        model = worst.verdict.candidate.model
        if worst.unmet or model is None:
            return ["show", folder, "--all"]
        return ["verify", *model.removeprefix("models:/").split("/"), *format_store_option(store)]

    @property
    def told(self) -> list[str]:
        """What to say below the outcome, sentence by sentence; the first ones matter most."""
        labelled = [f"{label}: {text.removesuffix('.')}." for label, text in self.facts]
        excepted = self._excepted(_EXCEPTIONS)
        basis = [text for story in self.stories for text in story.basis]
        counts = [one.counts for one in self.stories if len(self.stories) == 1]
        lines = [self.headline, *labelled[:2], self.sentence, *excepted, *basis, *labelled[2:]]
        return [text for text in dict.fromkeys([*lines, *counts]) if text]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What to know, each with a label; what there is nothing to say of is left out."""
        worst, stories = self.worst, self.stories
        if worst is None:
            return []
        errors = worst.errors
        told = errors.text if errors else ""
        if told and len(stories) > 1:
            told = f"{told} (on {worst.evaluation_set})"
        at = f"At threshold {errors.threshold}" if errors else ""
        compared = [story for story in stories if story.champion is not None]
        terms = self.of_sets("terms")
        found = {
            TREATED_WORST if any(story.worst_is_shown for story in stories) else LOWEST: (
                self._treated_worst()
            ),
            WORSE: self._changes("losses") or _describe_no_loss(compared),
            TERMS: f"{terms}; all terms are in terms.csv" if terms else "",
            CHANGED: self.of_sets("changed"),
            HOLDS: self.holds_for,
            UNKNOWN: self._unknown(),
            WARNING: self._warnings(),
            NOT_JUDGED: self._not_judged(),
            at: told,
            TO_PASS: self._to_pass(),
            GAINED: self._changes("gains"),
        }
        return [(label, text) for label, text in found.items() if text]

    def of_sets(self, what: str) -> str:
        """Return what the stories say of each set in the field `what`, where that is not empty."""
        known = [(text, story) for story in self.stories if (text := getattr(story, what))]
        texts = [self._on_set(text, story) for text, story in known]
        return "; ".join([*texts[:_SETS], *_count_more_sets(texts)])

    @property
    def warnings(self) -> list[str]:
        """The warnings on the data that the headline does not have already."""
        every = (
            (story.evaluation_set, text.removesuffix(".")) for story, text in self._each("warnings")
        )
        return [
            f"{text}." if len(self.stories) == 1 else f"{shorten_names(names)}: {text}."
            for text, names in group_names(every).items()
            if text.lower() not in self.headline.lower()
        ]

    def _warnings(self) -> str:
        """Return the first warning, and how many more there are."""
        told = self.warnings
        more = f"; and {len(told) - 1:,} more" if told[1:] else ""
        return f"{told[0].removesuffix('.')}{more}" if told else ""

    def _not_judged(self) -> str:
        """Name the metrics that no blocking rule is about, on any of the sets."""
        each = [set(story.not_judged) for story in self.stories]
        names = [name_metric(name) for name in METRICS if name in set.intersection(*each)]
        return ", ".join(names)

    def _each(self, what: str) -> Iterator[tuple[Story, Any]]:
        for story in self.stories:
            yield from ((story, entry) for entry in getattr(story, what))

    def _on_set(self, claim: str, story: Story) -> str:
        """Return a claim with its set, if there are several."""
        if len(self.stories) == 1:
            return claim
        return f"{claim} on {story.evaluation_set}"

    def _treated_worst(self) -> str:
        """Return the worst number on each set, the worst outcome first."""
        ordered = [story for story in sorted(self.stories, key=rank_outcome) if story.worst]
        texts = [self._on_set(story.treated_worst, story) for story in ordered]
        return "; ".join([*texts[:_SETS], *_count_more_sets(texts)])

    def _unknown(self) -> str:
        """Say for whom no number has an interval, on each set with such identities."""
        texts = [
            self._on_set(shorten_names(story.unknown, IN_TITLE), story)
            for story in self.stories
            if story.unknown
        ]
        named = "; ".join([*texts[:_SETS], *_count_more_sets(texts)])
        return f"{named} (no number has an interval)" if texts else ""

    def _cured(self, claim: str) -> str:
        """Add what to do about identities that a set says nothing about."""
        unmet = [check.result for story in self.stories for check in story.unmet]
        lacking = [
            result
            for result in unmet
            if result.outcome == "insufficient" and result.group is not None
        ]
        hints = [result.hint for result in lacking if result.hint is not None]
        if hints:
            hint = " ".join(dict.fromkeys(hints)).removesuffix(".")
            return f"{claim}. {hint}"
        if not any(
            result.lacks_rows and min(result.n_positive, result.n_negative) < LEAST_ROWS
            for result in lacking
        ):
            return claim
        return f"{claim}; or list identities that the set cannot measure (`not_measured`)"

    def _changes(self, what: str) -> str:
        by_group: dict[str, str] = {}
        lost = {loss.group for _, loss in self._each("worsened")} if what == "gains" else ()
        for story, change in self._each(what):
            if change.group in lost:  # of whom both is shown, the loss is told
                continue
            by_group.setdefault(change.group, self._on_set(change.text, story))
        names = list(by_group)
        also = shorten_names(names[1:], IN_TITLE)
        more = [f"also {also}"] if names[1:] else []
        return "; ".join([*list(by_group.values())[:1], *more])

    @property
    def holds_for(self) -> str:
        """How many identities passed on each set, and what happened to the others."""
        texts = []
        for story in self.stories:
            n = story.n_identities
            if not n:
                continue
            holding = story.verdict.holds_for.identities
            passed = (
                f"all {n:,} passed" if len(holding) == n else f"{len(holding):,} of {n:,} passed"
            )
            if self.word.status == "pass" and 0 < len(holding) < n:
                passed = f"{passed} ({shorten_names(holding)})"
            others = (
                f"{len(names):,} {words} ({shorten_names(names, IN_TITLE)})"
                for words, names in story.others
            )
            texts.append(self._on_set(", ".join([passed, *others]), story))
        return "; ".join(texts)

    @property
    def to_pass(self) -> str:
        """What it needs to pass, as a sentence; empty if it passed."""
        needed = self._to_pass().removesuffix(".")
        return f"{TO_PASS}: {needed}." if needed else ""

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
        worst = self.worst
        if worst is not None:
            check = worst.worst_check
            failed.sort(key=lambda result: (result is not check, result.group != worst.first))
        useless = [check for check in unmet if check.result.rule == USEFULNESS_RULE]
        unruled = [check for check in unmet if check.result.reason in _UNRULED]
        no_rival = [check for story in self.stories for check in story.without_rival]
        cures = dict(_NO_RIVAL)
        if any(story.needs_champion for story in self.stories):
            cures["champion"] = _ONLY_CHAMPION
        unmet = [check for check in unmet if check not in [*useless, *unruled, *no_rival]]
        parts = [_USEFUL[check.result.metric == "auc"] for check in useless]
        parts += [_UNRULED[check.result.reason] for check in unruled]
        first = [_describe_requirement(one) for one in failed[:1]]
        n_sets = sum(any(check.has_failed for check in story.unmet) for story in self.stories)
        on_sets = f" on {n_sets:,} sets" if n_sets > 1 else ""
        several = f"fix {len(failed):,} failed checks{on_sets}, first:"
        parts += [f"{several} {one}" for one in first if failed[1:]]
        parts += first if len(failed) == 1 else []
        for kind in RIVALS:
            n = sum(check.result.kind == kind for check in no_rival)
            parts += [f"a {kind} for {format_count(n, 'check')}{cures[kind]}"] if n else []
        parts += _list_lacks([check.result for check in unmet if not check.has_failed])
        return self._cured("; ".join(dict.fromkeys(parts)))


def _describe_no_loss(compared: Sequence[Story]) -> str:
    """Say that no loss is shown, and for how many that says little; nothing without champion."""
    if not compared:
        return ""
    if all(story.is_champion for story in compared):
        return ""
    unknown = max(story.n_without_interval for story in compared)
    if not unknown:
        return "no significant loss"
    identities = format_count(unknown, "identity has", "identities have")
    return f"no significant loss; {identities} numbers without an interval"


# Of a useless model: by whether that is its AUC.
_USEFUL = {
    True: "scores that separate toxic comments from harmless ones",
    False: "a threshold that flags some comments, and not all",
}
# By the reason of a result that no number of comments changes.
_UNRULED = {
    "missing_not_ruled": f"a score for every comment, or `{MISSING}` in the policy",
    "truncated_unknown": f"a model whose truncation is known, or a policy without `{TRUNCATED}`",
}
_NO_RIVAL = {"champion": " (or `allow_first: true` in the policy)", "reference": " (`reference:`)"}
_ONLY_CHAMPION = (
    " (no other rule blocks, so `allow_first` has no effect: judge the first version by a policy "
    "with floors, such as `default`, or set it with `biasgate promote NAME VERSION --reset "
    "--reason TEXT`)"
)
# By the kind of a limit, and whether a bound decides.
_NEEDED = {
    ("floor", True): "significantly above {limit}",
    ("floor", False): "at least {limit}",
    ("ceiling", True): "significantly below {limit}",
    ("ceiling", False): "at most {limit}",
}


def _describe_requirement(result: RuleResult) -> str:
    """Say what a failed check asks for."""
    number, limit = name_metric(result.metric), f"{result.limit:g}"
    if result.group is not None:
        number = f"{number} of {result.group}"
    if result.rule == HARM and result.kind in RIVALS:
        than = f"more than {limit} " if result.limit else ""
        return f"{number} must not be significantly {than}worse than the {result.kind}'s"
    if result.slice:
        number = f"{number} on {result.slice}"
    is_proven = result.mode == "proven"
    if result.kind in RIVALS:
        bound = ", with its whole interval" if is_proven else ""
        return f"{number} must be at most {limit} worse than the {result.kind}'s{bound}"
    is_gap = result.metric in METRICS and METRICS[result.metric].is_gap
    size = " in size" if is_gap else ""
    return f"{number} must be {_NEEDED[result.kind, is_proven].format(limit=limit)}{size}"


def _list_lacks(results: Sequence[RuleResult]) -> Iterator[str]:
    """Say what is known of checks that lack evidence: too few comments, or too close to tell."""
    close = [result for result in results if _is_close(result)]
    others = [result for result in results if result not in close]
    limit, margin = _select_kinds(close, rival=False), _select_kinds(close, rival=True)
    few, together = (
        [other for other in others if other.group],
        [other for other in others if not other.group],
    )
    texts = (
        f"more comments or clusters for {format_count(len(few), 'check', 'checks')}",
        f"more comments for {_count_close(limit)} too close to the limit",
        f"more comments for {_count_close(margin)} too close to the margin",
        f"more evidence for {format_count(len(together), 'check', 'checks')} on all comments",
    )
    for text, found in zip(texts, (few, limit, margin, together), strict=True):
        if found:
            yield _add_names(text, found)


def _count_close(results: Sequence[RuleResult]) -> str:
    return format_count(len(results), "check that is", "checks that are")


def _select_kinds(results: Sequence[RuleResult], *, rival: bool) -> list[RuleResult]:
    return [result for result in results if (result.kind in RIVALS) == rival]


def _add_names(claim: str, results: Sequence[RuleResult]) -> str:
    """Add the identities and categories of some checks, in brackets."""
    names = list(dict.fromkeys(result.group for result in results if result.group is not None))
    if len(names) > _NAMES:
        return claim if len(names) == len(results) else f"{claim} ({len(names):,} groups)"
    return f"{claim} ({', '.join(names)})" if names else claim


def _count_more_sets(texts: Sequence[object]) -> list[str]:
    """Say of how many more sets there is something to tell, if there are too many."""
    more = len(texts) - _SETS
    return [f"and on {format_count(more, 'more set')}"] if more > 0 else []


def _is_close(result: RuleResult) -> bool:
    """Say whether there are enough rows for the rule's bound, but it is on neither side."""
    return result.bound is not None and result.not_excluded is None and result.blind is None


def rank_outcome(story: Story | CandidateStory) -> int:
    """Return the place of a story in an order by outcome, the worst first."""
    return ("error", "fail", "insufficient", "reported", "pass").index(story.word.status)
