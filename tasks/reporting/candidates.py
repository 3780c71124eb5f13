"""What people read first of a candidate, on all sets together: wherever they read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bias_metrics import RuleResult
from bias_metrics.gate import LEAST_FOR_A_BOUND, RIVALS
from bias_metrics.gate import RULE as HARM
from bias_metrics.metrics import METRICS
from bias_metrics.parts import counted
from biasgate.tasks.outcomes import WORDS, Word, word_of
from biasgate.tasks.records import CandidateDecision
from biasgate.tasks.reporting.story import DECISION, GAINED, HOLDS, TO_PASS, UNKNOWN, WORSE, Story
from biasgate.tasks.wording import IN_TITLE, MOST_EXCEPTIONS, exceptions_in_words, first_names

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

    @classmethod
    def of(cls, story: Story) -> CandidateStory:
        """Tell of a candidate on one set."""
        return cls(story.about, story.word, "", (story,))

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
        """The outcome in short, without names: the headline has them."""
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
        word = "; ".join(["", f"{self.outcome.lower()} on {first_names(too)}, too"] if too else [])
        return f"{worst.headline.removesuffix('.')} (on {worst.evaluation_set}{word})."

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

    def next_command(self, folder: str, place: str = "") -> list[str]:
        """Return what to run next, without the command's own name.

        `folder` has the results; `place` those on the worst set, if they are not in it by name.
        """
        worst = self.worst
        if worst is None:
            return ["doctor"]
        place = place or f"{folder}/{worst.evaluation_set}/{worst.candidate}"
        known = {name for _, names in worst.others for name in names}
        groups = [name for name in worst.failing if name in known]  # others are categories
        groups += [change.group for change in worst.losses]
        if groups:
            return ["show", place, "--identity", groups[0]]
        if worst.unsettled and worst.verdict.counts is None:
            return ["policy", "plan", f"{place}/policy.json", place]
        model = worst.verdict.candidate.model
        if worst.unmet or model is None:
            return ["show", folder, "--all"]
        return ["verify", *model.removeprefix("models:/").split("/")]

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
        errors = worst.errors
        on_set = f" (on {worst.evaluation_set})" if len(stories) > 1 else ""
        compared = [story for story in stories if story.champion is not None]
        found = {
            "Treated worst": self._treated_worst(),
            WORSE: self._changes("losses") or _nobody(compared),
            HOLDS: self._holds(),
            UNKNOWN: self._unknown(),
            **({f"At threshold {errors.threshold}": f"{errors.text}{on_set}"} if errors else {}),
            TO_PASS: self._to_pass(),
            GAINED: self._changes("gains"),
            DECISION: self.sentence,
        }
        return [(label, text) for label, text in found.items() if text]

    def _on_sets(self) -> Iterator[tuple[str, Story]]:
        for story in self.stories:
            yield (f" on {story.evaluation_set}" if len(self.stories) > 1 else ""), story

    def _each(self, what: str) -> Iterator[tuple[str, Any]]:
        for on_set, story in self._on_sets():
            yield from ((on_set, entry) for entry in getattr(story, what))

    def _treated_worst(self) -> str:
        """Say of each set who is treated worst on it, the worst outcome first; a limit once."""
        ordered = [story for story in sorted(self.stories, key=by_outcome) if story.worst[0]]
        if len(self.stories) == 1:
            return ordered[0].treated_worst if ordered else ""
        shown = ordered[:_SETS]
        limits = [story.worst[1] for story in shown]
        once = len(set(limits)) == 1
        texts = [
            f"{story.worst[0].removesuffix('.')}{'' if once else limit} (on {story.evaluation_set})"
            for story, limit in zip(shown, limits, strict=True)
        ]
        if once:
            texts[-1] += limits[0].replace(", ", ", each ", 1) if texts[1:] else limits[0]
        return "; ".join([*texts, *_more_sets(ordered)])

    def _unknown(self) -> str:
        """Say for whom no number has an interval, on each set with such identities."""
        texts = [
            f"{first_names(story.unknown, IN_TITLE)}{on_set}"
            for on_set, story in self._on_sets()
            if story.unknown
        ]
        if texts:
            named = "; ".join([*texts[:_SETS], *_more_sets(texts)])
            return f"{named} (no number has an interval)"
        measured = any(story.n_identities for story in self.stories)
        return "nobody (each identity has a number with an interval)" if measured else ""

    def _cure(self) -> str:
        """Return what to do about identities that a set says nothing about."""
        unmet = [check.result for story in self.stories for check in story.unmet]
        lacking = [one for one in unmet if one.outcome == "insufficient" and one.group is not None]
        hints = [one.hint for one in lacking if one.hint is not None]
        if hints:
            return f". {' '.join(dict.fromkeys(hints))}".removesuffix(".")
        if not any(min(one.n_positive, one.n_negative) < LEAST_FOR_A_BOUND for one in lacking):
            return ""
        return "; or name in the policy whom the set cannot measure (`not_measured`)"

    def _changes(self, what: str) -> str:
        by_group: dict[str, str] = {}
        lost = {loss.group for _, loss in self._each("worsened")} if what == "gains" else ()
        for on_set, change in self._each(what):
            if change.group in lost:  # of whom both is shown, the loss is told
                continue
            by_group.setdefault(change.group, f"{change.text}{on_set}")
        names = list(by_group)
        more = [f"also {first_names(names[1:], IN_TITLE)}"] if names[1:] else []
        return "; ".join([*list(by_group.values())[:1], *more])

    def _holds(self) -> str:
        """Say on each set for how many it holds and what is said of the others: they add up."""
        texts = []
        for on_set, story in self._on_sets():
            if not story.n_identities:
                continue
            holding = story.verdict.holds_for.identities
            every = len(holding) == story.n_identities
            identities = counted(story.n_identities, "identity", "identities")
            named = f" ({first_names(holding)})" if self.word.status == "pass" and holding else ""
            held = f"all {identities}{on_set}" if every else ""
            parts = [held or f"{len(holding):,} of {identities}{on_set}{named}"]
            parts += [
                f"{len(names):,} {words} ({first_names(names, IN_TITLE)})"
                for words, names in story.others
            ]
            texts.append(", ".join(parts))
        return "; ".join(texts)

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
        return f"{'; '.join([*parts, *_lacking(lacking)])}{self._cure()}"


def _nobody(compared: Sequence[Story]) -> str:
    """Say that no loss is shown, and for how many that says little; nothing without champion."""
    if not compared:
        return ""
    if all(story.is_champion for story in compared):
        return "it is the champion"
    unknown = max(story.n_without_interval for story in compared)
    unless = f"; of {counted(unknown, 'identity', 'identities')} a number has no interval"
    return f"nobody is shown to be{unless if unknown else ''}"


def _needed(result: RuleResult) -> str:
    """Say what a failed check asks for."""
    of = f" of {result.group}" if result.group is not None else ""
    if result.rule == HARM:
        size = f" more than {result.limit:g}" if result.limit else ""
        worse = f"no longer shown to be{size} worse than the {result.kind}'s"
        return f"{METRICS[result.metric].title}{of} {worse}"
    on_slice = f" on {result.slice}" if result.slice else ""
    limit = {
        "floor": f"at least {result.limit:g}",
        "ceiling": f"at most {result.limit:g} in size",
    }.get(result.kind, f"at most {result.limit:g} worse than the {result.kind}'s")
    shown = "shown to be " if result.mode == "proven" else ""
    return f"{METRICS[result.metric].title}{of}{on_slice} {shown}{limit}"


def _lacking(results: Sequence[RuleResult]) -> Iterator[str]:
    """Say what is known of checks that lack evidence: too few comments, or too close to tell."""
    close = [one for one in results if _is_close(one)]
    others = [one for one in results if one not in close]
    for one_is, several_are, found in (
        (
            "has too few comments or clusters",
            "have too few comments or clusters",
            [one for one in others if one.group],
        ),
        ("is too close to the limit", "are too close to the limit", _against(close, rival=False)),
        ("is too close to the margin", "are too close to the margin", _against(close, rival=True)),
        (
            "of all together lacks evidence",
            "of all together lack evidence",
            [one for one in others if not one.group],
        ),
    ):
        if found:
            is_what = one_is if len(found) == 1 else several_are
            yield f"{counted(len(found), 'check')} {is_what}{_whose(found)}"


def _against(results: Sequence[RuleResult], *, rival: bool) -> list[RuleResult]:
    return [one for one in results if (one.kind in RIVALS) == rival]


def _whose(results: Iterable[RuleResult]) -> str:
    """Return the identities and categories of some checks, in brackets; empty if none."""
    names = list(dict.fromkeys(one.group for one in results if one.group is not None))
    if len(names) > _NAMES:
        return f" (of {len(names):,} groups)"
    return f" ({', '.join(names)})" if names else ""


def _more_sets(texts: Sequence[object]) -> list[str]:
    """Say of how many more sets there is something to tell, if there are too many."""
    more = len(texts) - _SETS
    return [f"and on {counted(more, 'more set')}"] if more > 0 else []


def _is_close(result: RuleResult) -> bool:
    """Say whether there are enough rows for the rule's bound, but it is on neither side."""
    return result.bound is not None and result.not_excluded is None and result.blind is None


def _ended(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def by_outcome(story: Story) -> int:
    """Return the place of a story in an order by outcome."""
    return ("error", "fail", "insufficient", "reported", "pass").index(story.word.status)
