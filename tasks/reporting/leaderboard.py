"""The leaderboard: one row per candidate and set, the same on the terminal and on pages.

It contains names of candidates, sets and identities: escape them when rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bias_metrics import MetricValue
from bias_metrics.gate import MISSING, RIVALS, TRUNCATED, USEFULNESS_RULE, RuleResult
from bias_metrics.metrics import METRICS
from bias_metrics.parts import format_count
from biasgate.tasks.check_messages import describe_lack
from biasgate.tasks.outcomes import COPY, EXCEPT, NOT_REGISTERED, REPORTED, WORDS
from biasgate.tasks.reporting.candidates import CandidateStory, rank_outcome
from biasgate.tasks.reporting.story import TERMS, ErrorSummary, Story
from biasgate.tasks.reporting.tables import (
    format_estimate,
    format_minus,
    format_number,
    format_percent,
    format_points,
    format_score,
    name_metric,
)
from biasgate.tasks.reporting.verdict_story import Change
from biasgate.tasks.wording import MARKED, group_names, shorten_names

_NAME = 24  # most characters of an identity on a narrow screen
_EVENTS = {
    "newly_flagged": ("harmless", "flagged"),
    "newly_missed": ("toxic", "missed"),
    "false_positive_rate": ("harmless", "flagged"),
    "false_negative_rate": ("toxic", "missed"),
}
_REASONS = {
    "flags_nothing": "flags hardly any comment",
    "flags_everything": "flags every comment",
    "truncated_unknown": "truncation unknown",
}
Number = tuple[str | None, str]
"""An identity, or None for all comments, and a metric."""


class Cell(NamedTuple):
    """A text in three lengths, for wide, narrow and very narrow screens."""

    text: str
    short: str
    shortest: str = ""

    def get_text(self, level: int) -> str:
        """Return the text of a level; level 0 has the most words."""
        return (self.text, self.short, self.shortest or self.short)[level]


_EMPTY = Cell("-", "-")


@dataclass(frozen=True)
class LeaderboardRow:
    """A candidate on one set."""

    candidate: str
    evaluation_set: str
    """Empty if the candidate could not be scored."""
    outcome: str
    badge: str
    """The status, for colours, or `except`."""
    final_score: MetricValue
    worst: Cell
    """The worst failed check of an identity, a lack of evidence, or the lowest AUC."""
    change: Cell
    """The largest significant loss against the champion."""
    decisions: Cell
    """Changed decisions at the threshold, or the highest error rate without a champion."""


@dataclass(frozen=True)
class Leaderboard:
    """All candidates on all sets, the best first."""

    headline: str
    """The number of candidates that passed, with the sets."""
    rows: tuple[LeaderboardRow, ...]
    candidates: tuple[CandidateStory, ...]
    """The candidates, in the order of the rows."""
    threshold: str
    """The heading of the column of decisions."""
    notices: tuple[str, ...]
    """Limits of the outcomes, and decisions on the candidates."""
    threshold_note: str
    """The error rates of all comments at the threshold; empty without."""

    @property
    def has_sets(self) -> bool:
        """True if there are several sets."""
        return len({row.evaluation_set for row in self.rows if row.evaluation_set}) > 1

    @property
    def has_champion(self) -> bool:
        """True if a row is compared with a champion."""
        return any(row.change != _EMPTY for row in self.rows)

    @property
    def has_threshold(self) -> bool:
        """True if a row has error rates at a threshold."""
        return any(row.decisions != _EMPTY for row in self.rows)


def build_leaderboard(candidates: Sequence[CandidateStory]) -> Leaderboard:
    """Return the rows of all candidates: by outcome, then by final score, the best first."""
    ordered = tuple(sorted(candidates, key=_rank_candidate))
    stories = [story for candidate in candidates for story in candidate.stories]
    errors = [story.errors for story in stories if story.errors]
    thresholds = {entry.threshold for entry in errors}
    return Leaderboard(
        " ".join([_write_headline(candidates), *_list_decisions(candidates)]),
        tuple(row for candidate in ordered for row in _build_rows(candidate)),
        ordered,
        f"at threshold {thresholds.pop()}" if len(thresholds) == 1 else "at its threshold",
        tuple(_list_notices(ordered)),
        _describe_threshold(errors),
    )


def _describe_threshold(errors: Sequence[ErrorSummary]) -> str:
    """Return the ranges of all comments' rates, and of the threshold where they are closest."""
    if not errors:
        return ""
    flagged = _format_range((entry.overall.flagged for entry in errors), format_percent)
    missed = _format_range((entry.overall.missed for entry in errors), format_percent)
    text = f"{flagged} of harmless comments flagged, {missed} of toxic comments missed"
    thresholds = list(dict.fromkeys(entry.threshold for entry in errors))
    if len(thresholds) == 1:
        text = f"At threshold {thresholds[0]}: {text}"
    closest = [entry.closest.threshold for entry in errors if entry.closest is not None]
    if not closest:
        return f"{text}."
    at = _format_range(closest, format_score)
    each = ", by candidate and set" if len(errors) > 1 else ""
    return f"{text}. The two rates are about equal at threshold {at}{each}."


def _format_range(values: Iterable[float | None], form: Callable[[float], str]) -> str:
    """Return the lowest and the highest value, or a single text if both look the same."""
    known = [value for value in values if value is not None]
    ends = dict.fromkeys(map(form, (min(known), max(known)))) if known else ["an unknown share"]
    return " to ".join(ends)


def _list_decisions(candidates: Sequence[CandidateStory]) -> list[str]:
    """Return the decisions for the headline: the same for all candidates, or the promotions."""
    sentences = {candidate.sentence for candidate in candidates if candidate.stories}
    sentences -= {"", NOT_REGISTERED}
    if len(sentences) == 1:
        return [*sentences]
    promotions = (candidate.sentence for candidate in candidates if candidate.promoted)
    return list(dict.fromkeys(promotions))


def _list_notices(candidates: Sequence[CandidateStory]) -> Iterator[str]:
    """Yield errors, copies, terms, exceptions and warnings, then decisions; shared notices once."""
    judged = [candidate for candidate in candidates if candidate.stories]
    yield from (f"{entry.name}: {entry.sentence}" for entry in candidates if not entry.stories)
    stories = [story for candidate in judged for story in candidate.stories]
    sets = {story.evaluation_set: story.verdict.evaluation_set.digest for story in stories}
    models = {story.candidate: story.verdict.candidate.digest for story in stories}
    for digests, content in ((models, "model or score file"), (sets, "rows")):
        for names in group_names(digests.items()).values():
            if len(names) > 1:
                yield f"{shorten_names(names)} have the same {content} (identical digests)."
    worse = [(entry.name, terms) for entry in judged if (terms := entry.join_sets("worse_terms"))]
    if len(candidates) == 1 and (terms := candidates[0].join_sets("terms_text")):
        yield f"{TERMS}: {terms}."
    elif worse:
        named = [f"{shorten_names(names)}: {terms}" for terms, names in group_names(worse).items()]
        yield f"{TERMS} of {'; of '.join(named)}."
    limits = {entry.name: [*entry.exceptions, *entry.warnings] for entry in candidates}
    in_headline = {"", NOT_REGISTERED, *_list_decisions(candidates)}
    decisions = {entry.name: [entry.sentence] for entry in judged}
    for texts_by_name in (limits, decisions):
        pairs = [
            (name, text) for name in texts_by_name for text in dict.fromkeys(texts_by_name[name])
        ]
        for text, names in group_names(pairs).items():
            if text not in in_headline:
                is_named = len(names) < len(candidates) and not any(name in text for name in names)
                yield f"{shorten_names(names)}: {text}" if is_named else text


def _rank_candidate(candidate: CandidateStory) -> tuple[int, float]:
    scores = [story.final_score.value for story in candidate.stories]
    known = [value for value in scores if value is not None]
    return -rank_outcome(candidate), -min(known, default=0.0)


def _write_headline(candidates: Sequence[CandidateStory]) -> str:
    """Return how many candidates passed, with the numbers of comments by set."""
    n_comments: dict[str, int] = {}
    for candidate in candidates:
        for story in candidate.stories:
            most = n_comments.get(story.evaluation_set, 0)  # some candidates may lack scores
            n_comments[story.evaluation_set] = max(most, story.n_comments)
    sets = [
        f"{name} ({n:,}{'' if at else ' comments'})"
        for at, (name, n) in enumerate(n_comments.items())
    ]
    on_sets = f" on {shorten_names(sets)}" if sets else ""
    total = format_count(len(candidates), "candidate")
    if all(candidate.word.status == "reported" for candidate in candidates):
        return f"{total} measured{on_sets}; the policy only reports."
    n_passed = sum(candidate.word.status == "pass" for candidate in candidates)
    return f"{n_passed:,} of {total} passed{on_sets}."


def _build_rows(candidate: CandidateStory) -> Iterator[LeaderboardRow]:
    if not candidate.stories:
        reason = Cell(candidate.sentence, "could not be scored")
        score = MetricValue(None, "it could not be scored")
        outcome = candidate.outcome.upper()
        yield LeaderboardRow(candidate.name, "", outcome, "error", score, reason, _EMPTY, _EMPTY)
    # Without a champion to compare with, a candidate may be undecided although its verdicts passed.
    is_withheld = candidate.word.status != "pass" and all(
        story.word.status == "pass" for story in candidate.stories
    )
    for story in candidate.stories:
        number, worst = _describe_worst(story)
        yield LeaderboardRow(
            story.candidate,
            story.evaluation_set,
            candidate.outcome.upper() if is_withheld else _name_outcome(story),
            candidate.badge if is_withheld else CandidateStory.from_story(story).badge,
            story.final_score,
            worst,
            _describe_change(story, number),
            _describe_decisions(story, number[0]),
        )


def _name_outcome(story: Story) -> str:
    """Return the outcome without names, and if a pass has exceptions."""
    text = {**WORDS, "reported": REPORTED}[story.word.status].text.upper()
    if story.word.status != "pass":
        return text
    if story.word.text == COPY:
        return f"{text} (copy)"
    is_whole = len(story.verdict.holds_for.identities) >= story.n_identities
    return text if is_whole and story.word.text != EXCEPT else f"{text} (exceptions)"


def _describe_worst(story: Story) -> tuple[Number, Cell]:
    """Return the worst number of an identity, or what the verdict lacks."""
    worst, failed = story.worst, [check.result for check in story.unmet if check.has_failed]
    lacking = [check.result for check in story.unmet if check.status == "insufficient"]
    useless = [check.result for check in story.unmet if check.result.rule == USEFULNESS_RULE]
    if useless:
        return _describe_unmet(useless[0])
    if failed and (worst is None or worst.check is None):
        lost = [(change.group, change.metric) for change in story.losses[:1]]
        worst_check = story.worst_check
        return _describe_unmet(
            max(
                failed,
                key=lambda result: ((result.group, result.metric) in lost, result is worst_check),
            )
        )
    if story.word.status == "insufficient" and lacking:
        return _describe_unmet(lacking[0])
    if worst is None:
        return (None, ""), _EMPTY
    name, limit, sign = worst.group, "", ""
    if worst.check is not None:
        limit = f"  {worst.check.kind} {worst.check.limit:g}"
        sign = f" {'<' if worst.check.kind == 'floor' else '>'} {worst.check.limit:g}"
        if worst.check.slice is not None:
            name = f"{name} (slice {worst.check.slice})"
    is_gap = METRICS[worst.metric].is_gap
    value = worst.number.value
    text = "" if value is None else format_number(value, signed=is_gap)
    estimate = format_estimate(worst.number, signed=is_gap)
    brief = f"{_shorten_title(worst.metric)} {text}{sign}"
    return (worst.group, worst.metric), Cell(
        f"{name}  {name_metric(worst.metric)} {estimate}{limit}",
        f"{name} {brief}",
        f"{_shorten_name(name)} {brief}",
    )


def _shorten_title(metric: str) -> str:
    return name_metric(metric).removesuffix(" AUC")


def _shorten_name(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _describe_unmet(result: RuleResult) -> tuple[Number, Cell]:
    """Return the reason why a check is not met, in a few words."""
    name = result.group or "all comments"
    text = f"{name}: {_explain_unmet(result)}"
    brief = f"{_shorten_name(name)}: {_explain_unmet(result, is_brief=True)}"
    return (result.group, result.metric), Cell(text, text, brief)


def _explain_unmet(result: RuleResult, *, is_brief: bool = False) -> str:
    """Return the number and limit of an unmet check, or what it lacks."""
    title = _shorten_title(result.metric)
    if result.reason in _REASONS:
        return _REASONS[result.reason]
    if result.rule in {MISSING, TRUNCATED} and result.value is not None:
        text = f"comments {MARKED[result.rule.removeprefix('max_')]}"
        gap, share = format_points(result.value), f"{100 * result.value:.1f}%"
        return f"{text} {gap} points" if result.metric.endswith("_gap") else f"{share} of {text}"
    if result.rule == USEFULNESS_RULE:
        return f"AUC {format_number(result.value or 0.0)}, not above 0.5"
    if result.lack is not None or result.reason == "no_rival":
        no_rival = f"no {result.kind} to compare with"
        return no_rival if result.lack is None else describe_lack(result.lack)
    if result.value is None or result.metric not in METRICS:
        return f"{title} undefined"
    return _compare_with_limit(result, title, is_brief=is_brief)


def _compare_with_limit(result: RuleResult, title: str, *, is_brief: bool) -> str:
    is_gap = METRICS[result.metric].is_gap
    if METRICS[result.metric].needs_rival:
        return f"{title} {format_percent(result.value)}, margin {format_percent(result.limit)}"
    is_close = result.outcome == "insufficient"
    value = f"{title} {format_number(result.value or 0.0, signed=is_gap)}"
    if result.kind not in RIVALS:
        limit = f"too close to the {result.kind}" if is_close else result.kind
        return f"{value}, {limit} {result.limit:g}"
    rival = "undefined" if result.rival is None else format_number(result.rival, signed=is_gap)
    bound = result.bound or 0.0
    loss = bound if is_gap else -bound
    if not is_close or loss < result.limit or not loss:  # the margin may not be what is undecided
        return f"{value}, {result.kind} {rival}"
    margin = f"not excluded (margin {result.limit:g})"
    if is_brief:
        return f"{title} loss of {loss:.3f} {margin}"
    return f"{value}, {result.kind} {rival}: a loss of {loss:.3f} is {margin}"


def _describe_change(story: Story, named: Number) -> Cell:
    """Return the largest significant loss against the champion, else the largest gain.

    `named` is the number in the column before.
    """
    if story.champion is None:
        return _EMPTY
    if story.is_champion:
        return Cell("is the champion", "champion")
    for word, changes in (("worse", story.losses), ("better", story.gains)):
        if changes:
            first, title = changes[0], _shorten_title(changes[0].metric)
            n_more = len({change.group for change in changes}) - 1
            size = _format_change(first)
            brief = f"{size}, {n_more:,} more" if n_more else size
            return Cell(
                f"{word}: {first.group} {title} {size}{f' and {n_more:,} more' if n_more else ''}",
                f"{word}: {first.group} {title} {brief}",
                f"{word} {brief}"
                if (first.group, first.metric) == named
                else f"{word}: {_shorten_name(first.group)} {title} {brief}",
            )
    return Cell("no significant loss", "no signif. loss")


def _format_change(change: Change) -> str:
    """Return the change of an AUC, or of the size of a gap."""
    new, old = change.candidate, change.champion
    if METRICS[change.metric].is_gap:
        new, old = abs(new), abs(old)
    return format_minus(f"{new - old:+.3f}")


def _describe_decisions(story: Story, named: str | None) -> Cell:
    """Return the largest share of changed decisions, else the highest error rate.

    If a check failed, `named`, the identity in the column before, comes first, and of its comments
    the harmed class.
    """
    named = named if story.has_failed else None
    harmed = None if story.worst is None else METRICS[story.worst.metric].classes[0]
    changes = [
        (
            1 + (METRICS[metric].classes[0] == harmed) if name == named else 0,
            share.low or 0.0,
            share.value or 0.0,
            name,
            metric,
            share,
        )
        for name, shares in story.changes.items()
        for metric, share in shares.items()
        if share.count and metric in _EVENTS
    ]
    if changes and not story.is_champion:
        *_, name, metric, share = max(changes, key=lambda entry: entry[:3])
        label, event = _EVENTS[metric]
        return Cell(
            f"{share.count:,} of {share.n:,} {label} comments about {name} newly {event}",
            f"{share.count:,} of {share.n:,} newly {event} ({name})",
            f"{share.count:,} newly {event}"
            + ("" if name == named else f" ({_shorten_name(name)})"),
        )
    if story.changes and not story.is_champion:
        return Cell("no changed decision", "none changed")
    if story.errors is None:
        return _EMPTY
    if not story.errors.harms:
        return Cell("no significant gap", "no signif. gap")
    worst = max(story.errors.harms, key=lambda harm: harm.gap.low or 0.0)
    label, event = _EVENTS[worst.rate]
    return Cell(
        f"{worst.value:.0%} of {label} comments about {worst.group} {event}, "
        f"{worst.overall:.0%} of all",
        f"{worst.value:.0%} {event} ({worst.group}; all {worst.overall:.0%})",
        f"{worst.value:.0%} {event} (all {worst.overall:.0%})" if worst.group == named else "",
    )
