"""Summary of a candidate on all sets, the same wherever people read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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
    IDENTITIES,
    LOWEST,
    NOT_JUDGED,
    TERMS,
    TO_PASS,
    UNKNOWN,
    WARNING,
    WORSE,
    WORST,
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

_EXCEPTIONS = 4  # most exceptions in a short message
_NAMES = 3  # most names of identities whose checks lack evidence
_SETS = 3  # most sets in a line


@dataclass(frozen=True)
class CandidateStory:
    """Summary of a candidate on all sets, which people read first."""

    name: str
    word: Word
    sentence: str
    """The decision on the candidate."""
    stories: tuple[Story, ...]
    """Its summaries by set."""
    promoted: bool = False
    """True if it became the champion."""

    @classmethod
    def from_story(cls, story: Story) -> CandidateStory:
        """Return the summary of a candidate on a single set."""
        return cls(story.title, story.word, "", (story,))

    @classmethod
    def from_decisions(
        cls, decisions: Sequence[CandidateDecision], stories: Sequence[Story]
    ) -> list[CandidateStory]:
        """Return the summaries of all candidates of an evaluation."""
        return [
            cls(
                decision.candidate,
                get_outcome_words(decision),
                decision.sentence,
                tuple(story for story in stories if story.candidate == decision.candidate),
                decision.promoted,
            )
            for decision in decisions
        ]

    @property
    def outcome(self) -> str:
        """The outcome in short, without the names that the headline has."""
        word = WORDS["fail"] if self.word.status == "fail" else self.word
        return word.text

    @property
    def badge(self) -> str:
        """The status, for colours; `except` for a pass with a significant loss."""
        has_losses = any(story.losses for story in self.stories)
        return "except" if has_losses and self.word.status == "pass" else self.word.status

    @property
    def worst(self) -> Story | None:
        """The story of the set with the worst outcome; None if the candidate was not judged."""
        return min(self.stories, key=rank_outcome, default=None)

    @property
    def headline(self) -> str:
        """The outcome in a sentence, with its set if there are several sets."""
        worst = self.worst
        if worst is None:
            return self.sentence
        if len(self.stories) == 1:
            return worst.headline
        others = [
            story.evaluation_set
            for story in self.stories
            if story is not worst and story.word.status == worst.word.status
        ]
        also = f"; also {self.outcome.lower()} on {shorten_names(others)}" if others else ""
        return f"{worst.headline.removesuffix('.')} (on {worst.evaluation_set}{also})."

    @property
    def exceptions(self) -> tuple[str, ...]:
        """The exceptions of a pass on the sets that decide, then all reservations."""
        return tuple(self._list_exceptions(MOST_EXCEPTIONS))

    def _list_exceptions(self, most: int) -> list[str]:
        verdicts = [story.verdict for story in self.stories]
        reservations = list_reservation_lines(verdicts)
        if self.word.status != "pass":
            return reservations
        decisive = [verdict for verdict in verdicts if verdict.evaluation_set.required] or verdicts
        name_sets = len(verdicts) > 1
        exceptions = list_exception_lines(decisive, most, name_sets=name_sets)
        reserved = list_reservation_lines(decisive, name_sets=name_sets)
        return [*exceptions[: len(exceptions) - len(reserved)], *reservations]

    def suggest_command(self, folder: str, place: str = "", store: str = "") -> list[str]:
        """Return the arguments of the next command.

        `folder` has the results; `place` has those on the worst set, if they are not in a subfolder
        of its name. `store` is empty if the store is unknown.
        """
        worst = self.worst
        if worst is None:
            return ["doctor"]
        place = place or f"{folder}/{worst.evaluation_set}/{worst.candidate}"
        identities = {name for _, names in worst.other_groups for name in names}
        # Failed checks may also be of categories.
        groups = [name for name in worst.failed_groups if name in identities]
        groups += [change.group for change in worst.losses]
        groups.sort(key=lambda name: name != worst.first_group)
        if groups:
            return ["show", place, "--identity", groups[0]]
        lacks_rows = any(
            check.status == "insufficient" and check not in worst.without_rival
            for check in worst.unmet
            if check.result.group is not None
        )
        if worst.undecided_groups and lacks_rows and worst.verdict.counts is None:
            return ["policy", "plan", f"{place}/policy.json", place]
        model = worst.verdict.candidate.model
        if worst.unmet or model is None:
            return ["show", folder, "--all"]
        return ["verify", *model.removeprefix("models:/").split("/"), *format_store_option(store)]

    @property
    def sentences(self) -> list[str]:
        """The sentences below the outcome, the most important first."""
        facts = [f"{label}: {text.removesuffix('.')}." for label, text in self.facts]
        exceptions = self._list_exceptions(_EXCEPTIONS)
        basis = [text for story in self.stories for text in story.basis]
        summary = [self.stories[0].summary] if len(self.stories) == 1 else []
        texts = [self.headline, *facts[:2], self.sentence, *exceptions, *basis, *facts[2:]]
        return [text for text in dict.fromkeys([*texts, *summary]) if text]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The facts on the candidate with their labels, without empty ones."""
        worst, stories = self.worst, self.stories
        if worst is None:
            return []
        errors = worst.errors
        errors_text = errors.text if errors else ""
        if errors_text and len(stories) > 1:
            errors_text = f"{errors_text} (on {worst.evaluation_set})"
        threshold = f"At threshold {errors.threshold}" if errors else ""
        compared = [story for story in stories if story.champion is not None]
        terms = self.join_sets("terms_text")
        ordered = sorted(stories, key=rank_outcome)
        is_worst_significant = any(story.is_worst_significant for story in stories)
        unjudged = set.intersection(*(set(story.unjudged_metrics) for story in stories))
        facts = {
            WORST if is_worst_significant else LOWEST: (
                self._join_texts((story.worst_text, story) for story in ordered)
            ),
            WORSE: self._describe_changes("losses") or _describe_no_loss(compared),
            TERMS: f"{terms}; all terms are in terms.csv" if terms else "",
            CHANGED: self.join_sets("changes_text"),
            IDENTITIES: self.identity_counts,
            UNKNOWN: self._describe_unknown(),
            WARNING: self._describe_warnings(),
            NOT_JUDGED: ", ".join(name_metric(key) for key in METRICS if key in unjudged),
            threshold: errors_text,
            TO_PASS: self._describe_requirements(),
            GAINED: self._describe_changes("gains"),
        }
        return [(label, text) for label, text in facts.items() if text]

    def join_sets(self, field: str) -> str:
        """Return a text field of the stories, for each set on which it is not empty."""
        return self._join_texts([(getattr(story, field), story) for story in self.stories])

    def _join_texts(self, pairs: Iterable[tuple[str, Story]]) -> str:
        """Join the texts that are not empty, with their sets if there are several."""
        texts = [self._add_set(text, story) for text, story in pairs if text]
        n_more = len(texts) - _SETS
        more = [f"and on {format_count(n_more, 'more set')}"] if n_more > 0 else []
        return "; ".join([*texts[:_SETS], *more])

    def _add_set(self, text: str, story: Story) -> str:
        return text if len(self.stories) == 1 else f"{text} on {story.evaluation_set}"

    @property
    def warnings(self) -> list[str]:
        """The warnings on the data that are not in the headline."""
        pairs = (
            (story.evaluation_set, text.removesuffix("."))
            for story in self.stories
            for text in story.warnings
        )
        return [
            f"{text}." if len(self.stories) == 1 else f"{shorten_names(names)}: {text}."
            for text, names in group_names(pairs).items()
            if text.lower() not in self.headline.lower()
        ]

    def _describe_warnings(self) -> str:
        """Return the first warning, and the number of others."""
        warnings = self.warnings
        more = f"; and {len(warnings) - 1:,} more" if warnings[1:] else ""
        return f"{warnings[0].removesuffix('.')}{more}" if warnings else ""

    def _describe_unknown(self) -> str:
        """Name the identities without any interval, by set."""
        text = self._join_texts(
            (shorten_names(story.groups_without_interval, IN_TITLE), story)
            for story in self.stories
            if story.groups_without_interval
        )
        return f"{text} (no number has an interval)" if text else ""

    def _add_hint(self, text: str) -> str:
        """Add what to do about identities that a set cannot measure."""
        lacking = [
            check.result
            for story in self.stories
            for check in story.unmet
            if check.result.outcome == "insufficient" and check.result.group is not None
        ]
        hints = [result.hint for result in lacking if result.hint is not None]
        if hints:
            hint = " ".join(dict.fromkeys(hints)).removesuffix(".")
            return f"{text}. {hint}"
        if not any(
            result.lacks_rows and min(result.n_positive, result.n_negative) < LEAST_ROWS
            for result in lacking
        ):
            return text
        return f"{text}; or list identities that the set cannot measure (`not_measured`)"

    def _describe_changes(self, field: str) -> str:
        """Return the first of the `losses` or `gains`, and name the other identities."""
        texts: dict[str, str] = {}
        # The loss of an identity hides its gains.
        lost = {loss.group for story in self.stories for loss in story.worsened}
        for story in self.stories:
            for change in getattr(story, field):
                if field == "losses" or change.group not in lost:
                    texts.setdefault(change.group, self._add_set(change.text, story))
        groups = list(texts)
        also = f"; also {shorten_names(groups[1:], IN_TITLE)}" if groups[1:] else ""
        return f"{texts[groups[0]]}{also}" if groups else ""

    @property
    def identity_counts(self) -> str:
        """The number of identities that passed on each set, and the outcomes of the others."""
        texts = []
        for story in self.stories:
            n = story.n_identities
            if not n:
                continue
            passing = story.verdict.holds_for.identities
            n_passing = len(passing)
            text = f"all {n:,} passed" if n_passing == n else f"{n_passing:,} of {n:,} passed"
            if self.word.status == "pass" and 0 < n_passing < n:
                text = f"{text} ({shorten_names(passing)})"
            others = (
                f"{len(names):,} {words} ({shorten_names(names, IN_TITLE)})"
                for words, names in story.other_groups
            )
            texts.append(self._add_set(", ".join([text, *others]), story))
        return "; ".join(texts)

    @property
    def requirements(self) -> str:
        """The requirements of a pass, as a sentence; empty for a pass."""
        text = self._describe_requirements().removesuffix(".")
        return f"{TO_PASS}: {text}." if text else ""

    def _describe_requirements(self) -> str:
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
            failed.sort(
                key=lambda result: (
                    result is not worst.worst_check,
                    result.group != worst.first_group,
                )
            )
        useless = [check for check in unmet if check.result.rule == USEFULNESS_RULE]
        unruled = [check for check in unmet if check.result.reason in _UNRULED]
        no_rival = [check for story in self.stories for check in story.without_rival]
        remedies = dict(_NO_RIVAL)
        if any(story.needs_champion for story in self.stories):
            remedies["champion"] = _ONLY_CHAMPION
        parts = [_USEFUL[check.result.metric == "auc"] for check in useless]
        parts += [_UNRULED[check.result.reason] for check in unruled]
        if failed:
            first = _describe_requirement(failed[0])
            n_sets = sum(any(check.has_failed for check in story.unmet) for story in self.stories)
            on_sets = f" on {n_sets:,} sets" if n_sets > 1 else ""
            several = f"fix {len(failed):,} failed checks{on_sets}, first: "
            parts.append(f"{several if failed[1:] else ''}{first}")
        for kind in RIVALS:
            n = sum(check.result.kind == kind for check in no_rival)
            parts += [f"a {kind} for {format_count(n, 'check')}{remedies[kind]}"] if n else []
        others = [check for check in unmet if check not in [*useless, *unruled, *no_rival]]
        parts += _list_lacks([check.result for check in others if not check.has_failed])
        return self._add_hint("; ".join(dict.fromkeys(parts)))


def _describe_no_loss(compared: Sequence[Story]) -> str:
    """Return that no loss is significant, with the number of identities without an interval."""
    if all(story.is_champion for story in compared):
        return ""
    n_unknown = max(story.n_without_interval for story in compared)
    if not n_unknown:
        return "no significant loss"
    identities = format_count(n_unknown, "identity has", "identities have")
    return f"no significant loss; {identities} numbers without an interval"


# Requirements of a useless model, by whether its AUC is the reason.
_USEFUL = {
    True: "scores that separate toxic comments from harmless ones",
    False: "a threshold that flags some comments, and not all",
}
# Requirements by the reason of a result that more comments would not change.
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
# Requirements by the kind of the limit, and whether a bound decides.
_NEEDED = {
    ("floor", True): "significantly above {limit}",
    ("floor", False): "at least {limit}",
    ("ceiling", True): "significantly below {limit}",
    ("ceiling", False): "at most {limit}",
}


def _describe_requirement(result: RuleResult) -> str:
    """Return the requirement of a failed check."""
    number, limit = name_metric(result.metric), f"{result.limit:g}"
    if result.group is not None:
        number = f"{number} of {result.group}"
    if result.rule == HARM and result.kind in RIVALS:
        margin = f"more than {limit} " if result.limit else ""
        return f"{number} must not be significantly {margin}worse than the {result.kind}'s"
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
    """Yield what undecided checks lack: comments, or a number further from its limit."""
    # There are enough rows for a bound, but it is on neither side of the limit.
    close = [
        result
        for result in results
        if result.bound is not None and result.not_excluded is None and result.blind is None
    ]
    others = [result for result in results if result not in close]
    limit = [result for result in close if result.kind not in RIVALS]
    margin = [result for result in close if result.kind in RIVALS]
    few = [result for result in others if result.group]
    overall = [result for result in others if not result.group]
    n_limit, n_margin = (
        format_count(len(results), "check that is", "checks that are")
        for results in (limit, margin)
    )
    texts = (
        f"more comments or clusters for {format_count(len(few), 'check', 'checks')}",
        f"more comments for {n_limit} too close to the limit",
        f"more comments for {n_margin} too close to the margin",
        f"more evidence for {format_count(len(overall), 'check', 'checks')} on all comments",
    )
    for text, lacking in zip(texts, (few, limit, margin, overall), strict=True):
        if lacking:
            yield _add_names(text, lacking)


def _add_names(text: str, results: Sequence[RuleResult]) -> str:
    """Add the identities and categories of some checks, in brackets."""
    names = list(dict.fromkeys(result.group for result in results if result.group is not None))
    if len(names) > _NAMES:
        return text if len(names) == len(results) else f"{text} ({len(names):,} groups)"
    return f"{text} ({', '.join(names)})" if names else text


def rank_outcome(story: Story | CandidateStory) -> int:
    """Return the rank of an outcome, the worst first."""
    return ("error", "fail", "insufficient", "reported", "pass").index(story.word.status)
