"""The leaderboard: one row per candidate and set, the same on the terminal and on pages.

Names of candidates, sets and identities are in it: escape them where they are shown.
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
from biasgate.tasks.reporting.story import TERMS, ErrorHarm, Errors, Story
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

_NONE = "-"
_NAME = 24  # most characters of an identity on a narrow screen
_EVENTS = {
    "newly_flagged": ("harmless", "flagged"),
    "newly_missed": ("toxic", "missed"),
    "false_positive_rate": ("harmless", "flagged"),
    "false_negative_rate": ("toxic", "missed"),
}


Number = tuple[str | None, str]
"""An identity, or None for all comments, and a metric."""
_BRIEFLY = {
    "flags_nothing": "flags hardly any comment",
    "flags_everything": "flags every comment",
    "truncated_unknown": "truncation unknown",
}


class Cell(NamedTuple):
    """A text, the same for a narrow screen, and for a very narrow one."""

    text: str
    short: str
    shortest: str = ""

    def at(self, level: int) -> str:
        """Return the text of a level: 0 has most words."""
        return (self.text, self.short, self.shortest or self.short)[level]


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
    """The worst failed check of an identity, what a verdict lacks, or the lowest AUC."""
    change: Cell
    """The largest significant loss against the champion."""
    decisions: Cell
    """Changed decisions at the threshold, or the highest error rate without a champion."""


@dataclass(frozen=True)
class Leaderboard:
    """All candidates on all sets, the best first."""

    headline: str
    """How many candidates passed, on which sets."""
    rows: tuple[LeaderboardRow, ...]
    lines: tuple[CandidateStory, ...]
    """The candidates, in the order of the rows."""
    threshold: str
    """What the column of decisions is about."""
    notices: tuple[str, ...]
    """What limits the outcomes, and what became of the candidates."""
    threshold_note: str
    """The error rates of all comments at the threshold; empty without."""

    @property
    def has_sets(self) -> bool:
        """Whether there are several sets."""
        return len({row.evaluation_set for row in self.rows if row.evaluation_set}) > 1

    @property
    def has_champion(self) -> bool:
        """Whether a row is compared with a champion."""
        return any(row.change.text != _NONE for row in self.rows)

    @property
    def has_threshold(self) -> bool:
        """Whether a row has error rates at a threshold."""
        return any(row.decisions.text != _NONE for row in self.rows)


def build_leaderboard(lines: Sequence[CandidateStory]) -> Leaderboard:
    """Return the rows of all candidates: by outcome, then by final score, the best first."""
    ordered = tuple(sorted(lines, key=_rank_candidate))
    thresholds = {
        story.errors.threshold for line in lines for story in line.stories if story.errors
    }
    return Leaderboard(
        " ".join([_write_headline(lines), *_list_decisions(lines)]),
        tuple(row for line in ordered for row in _build_rows(line)),
        ordered,
        f"at threshold {thresholds.pop()}" if len(thresholds) == 1 else "at its threshold",
        tuple(_list_notices(ordered)),
        _describe_threshold(
            [story.errors for line in lines for story in line.stories if story.errors]
        ),
    )


def _describe_threshold(errors: Sequence[Errors]) -> str:
    """Return the rates of all comments, and where they are closest, over candidates and sets."""
    if not errors:
        return ""
    flagged = _format_range((one.overall.flagged for one in errors), format_percent)
    missed = _format_range((one.overall.missed for one in errors), format_percent)
    text = f"{flagged} of harmless comments flagged, {missed} of toxic comments missed"
    thresholds = list(dict.fromkeys(one.threshold for one in errors))
    if len(thresholds) == 1:
        text = f"At threshold {thresholds[0]}: {text}"
    closest = [one.closest.threshold for one in errors if one.closest is not None]
    if not closest:
        return f"{text}."
    each = ", by candidate and set" if len(errors) > 1 else ""
    return f"{text}. The two rates are about equal at threshold {_format_range(closest, format_score)}{each}."


def _format_range(values: Iterable[float | None], form: Callable[[float], str]) -> str:
    """Return the lowest and the highest value; one if they look the same."""
    known = [value for value in values if value is not None]
    ends = dict.fromkeys(map(form, (min(known), max(known)))) if known else ["an unknown share"]
    return " to ".join(ends)


def _list_decisions(lines: Sequence[CandidateStory]) -> list[str]:
    """Return the decisions for the headline: that of all candidates, or of who is promoted."""
    every = {line.sentence for line in lines if line.stories} - {"", NOT_REGISTERED}
    if len(every) == 1:
        return [*every]
    return list(dict.fromkeys(line.sentence for line in lines if line.promoted))


def _list_notices(lines: Sequence[CandidateStory]) -> Iterator[str]:
    """Yield errors, copies, terms, exceptions and warnings, then decisions; shared ones once."""
    yield from (f"{line.name}: {line.sentence}" for line in lines if not line.stories)
    stories = [story for line in lines for story in line.stories]
    sets = {story.evaluation_set: story.verdict.evaluation_set.digest for story in stories}
    models = {story.candidate: story.verdict.candidate.digest for story in stories}
    for digests, content in ((models, "model or score file"), (sets, "rows")):
        for names in group_names(digests.items()).values():
            if len(names) > 1:
                yield f"{shorten_names(names)} have the same {content} (identical digests)."
    if len(lines) == 1 and (terms := lines[0].of_sets("terms")):
        yield f"{TERMS}: {terms}."
    elif each := [(line.name, terms) for line in lines if (terms := line.of_sets("worse_terms"))]:
        named = [f"{shorten_names(names)}: {terms}" for terms, names in group_names(each).items()]
        yield f"{TERMS} of {'; of '.join(named)}."
    limits = {line.name: [*line.exceptions, *line.warnings] for line in lines}
    decided = _list_decisions(lines)
    decisions = {line.name: [line.sentence] for line in lines if line.stories}
    for told in (limits, decisions):
        every = [(name, text) for name, texts in told.items() for text in dict.fromkeys(texts)]
        for text, names in group_names(every).items():
            if text in {"", NOT_REGISTERED, *decided}:
                continue
            is_named = len(names) < len(lines) and not any(name in text for name in names)
            yield f"{shorten_names(names)}: {text}" if is_named else text


def _rank_candidate(line: CandidateStory) -> tuple[int, float]:
    scores = [story.final_score.value for story in line.stories]
    known = [value for value in scores if value is not None]
    return -rank_outcome(line), -min(known, default=0.0)


def _write_headline(lines: Sequence[CandidateStory]) -> str:
    """Say how many candidates passed, and on how many comments of which sets."""
    n_comments: dict[str, int] = {}
    for story in (story for line in lines for story in line.stories):
        most = n_comments.get(story.evaluation_set, 0)  # some candidates may lack scores
        n_comments[story.evaluation_set] = max(most, story.n_comments)
    sets = [
        f"{name} ({n:,}{'' if at else ' comments'})"
        for at, (name, n) in enumerate(n_comments.items())
    ]
    where = f" on {shorten_names(sets)}" if sets else ""
    if all(line.word.status == "reported" for line in lines):
        return f"{format_count(len(lines), 'candidate')} measured{where}; the policy only reports."
    n_passed = sum(line.word.status == "pass" for line in lines)
    return f"{n_passed:,} of {format_count(len(lines), 'candidate')} passed{where}."


def _build_rows(line: CandidateStory) -> list[LeaderboardRow]:
    if not line.stories:
        nothing = Cell(_NONE, _NONE)
        why = Cell(line.sentence, "could not be scored")
        score = MetricValue(None, "it could not be scored")
        return [
            LeaderboardRow(
                line.name, "", line.outcome.upper(), "error", score, why, nothing, nothing
            )
        ]
    return [
        LeaderboardRow(
            story.candidate,
            story.evaluation_set,
            _name_outcome(story),
            CandidateStory.from_story(story).badge,
            story.final_score,
            worst,
            _describe_change(story, named),
            _describe_decisions(story, named[0]),
        )
        for story in line.stories
        for named, worst in [_describe_worst(story)]
    ]


def _name_outcome(story: Story) -> str:
    """Return the outcome without names, and whether a pass says less than it seems."""
    text = {**WORDS, "reported": REPORTED}[story.word.status].text.upper()
    if story.word.status != "pass":
        return text
    if story.word.text == COPY:
        return f"{text} (copy)"
    is_whole = len(story.verdict.holds_for.identities) >= story.n_identities
    return text if is_whole and story.word.text != EXCEPT else f"{text} (exceptions)"


def _describe_worst(story: Story) -> tuple[Number, Cell]:
    """Return the worst number of an identity, or what the verdict lacks; after its name."""
    useless = [check.result for check in story.unmet if check.result.rule == USEFULNESS_RULE]
    if useless:
        return _describe_unmet(useless[0])
    worst, failed = story.worst, [check.result for check in story.unmet if check.has_failed]
    if failed and (worst is None or worst.check is None):
        lost = [(change.group, change.metric) for change in story.losses[:1]]
        first = story.worst_check
        return _describe_unmet(
            max(failed, key=lambda one: ((one.group, one.metric) in lost, one is first))
        )
    lacking = [check.result for check in story.unmet if check.status == "insufficient"]
    if story.word.status == "insufficient" and lacking:
        return _describe_unmet(lacking[0])
    if worst is None:
        return (None, ""), Cell(_NONE, _NONE)
    limit, sign = "", ""
    if worst.check is not None:
        limit = f"  {worst.check.kind} {worst.check.limit:g}"
        sign = f" {'<' if worst.check.kind == 'floor' else '>'} {worst.check.limit:g}"
    is_gap = METRICS[worst.metric].is_gap
    name = worst.group
    if worst.check is not None and worst.check.slice is not None:
        name = f"{name} (slice {worst.check.slice})"
    value = worst.number.value
    text = "" if value is None else format_number(value, signed=is_gap)
    shown = format_estimate(worst.number, signed=is_gap)
    return (worst.group, worst.metric), Cell(
        f"{name}  {name_metric(worst.metric)} {shown}{limit}",
        f"{name} {_shorten_title(worst.metric)} {text}{sign}",
        f"{_shorten_name(name)} {_shorten_title(worst.metric)} {text}{sign}",
    )


def _shorten_title(metric: str) -> str:
    return name_metric(metric).removesuffix(" AUC")


def _shorten_name(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _describe_unmet(result: RuleResult) -> tuple[Number, Cell]:
    """Return why a check is not met, in a few words; after its number."""
    name = result.group or "all comments"
    text = f"{name}: {_explain_unmet(result)}"
    brief = f"{_shorten_name(name)}: {_explain_unmet(result, is_brief=True)}"
    return (result.group, result.metric), Cell(text, text, brief)


def _explain_unmet(result: RuleResult, *, is_brief: bool = False) -> str:
    """Return the number and limit of a check that is not met, or what it lacks."""
    if result.reason in _BRIEFLY:
        return _BRIEFLY[result.reason]
    if result.rule in {MISSING, TRUNCATED} and result.value is not None:
        return _describe_share(result.rule, result.metric, result.value)
    if result.rule == USEFULNESS_RULE:
        return f"AUC {format_number(result.value or 0.0)}, not above 0.5"
    if result.lack is not None or result.reason == "no_rival":
        no_rival = f"no {result.kind} to compare with"
        return no_rival if result.lack is None else describe_lack(result.lack)
    if result.value is None or METRICS.get(result.metric) is None:
        return f"{_shorten_title(result.metric)} undefined"
    return _compare_with_limit(result, is_brief=is_brief)


def _describe_share(rule: str, metric: str, value: float) -> str:
    """Return a share of comments, or the difference from the share of others."""
    text = f"comments {MARKED[rule.removeprefix('max_')]}"
    is_gap = metric.endswith("_gap")
    return f"{text} {format_points(value)} points" if is_gap else f"{100 * value:.1f}% of {text}"


def _compare_with_limit(result: RuleResult, *, is_brief: bool) -> str:
    title, is_gap = _shorten_title(result.metric), METRICS[result.metric].is_gap
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
    if not is_close or loss < result.limit or not loss:  # what lacks may be something else
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
        return Cell(_NONE, _NONE)
    if story.is_champion:
        return Cell("is the champion", "champion")
    for word, changes in (("worse", story.losses), ("better", story.gains)):
        if changes:
            first, groups = changes[0], {change.group for change in changes}
            more = f" and {len(groups) - 1:,} more" if groups - {first.group} else ""
            size = f"{_format_change(first)}{more.replace(' and ', ', ')}"
            title = _shorten_title(first.metric)
            return Cell(
                f"{word}: {first.group} {title} {_format_change(first)}{more}",
                f"{word}: {first.group} {title} {size}",
                f"{word} {size}"
                if (first.group, first.metric) == named
                else f"{word}: {_shorten_name(first.group)} {title} {size}",
            )
    return Cell("no significant loss", "no signif. loss")


def _format_change(change: Change) -> str:
    """Return the change of an AUC, or of the size of a gap."""
    if METRICS[change.metric].is_gap:
        return format_minus(f"{abs(change.candidate) - abs(change.champion):+.3f}")
    return format_minus(f"{change.candidate - change.champion:+.3f}")


def _describe_decisions(story: Story, named: str | None) -> Cell:
    """Return the largest share of changed decisions, else the highest error rate.

    If a check failed, the identity in the column before, `named`, comes first, and the class of its
    comments that is harmed.
    """
    named = named if story.has_failed else None
    harmed = None if story.worst is None else METRICS[story.worst.metric].classes[0]
    found = [
        (
            1 + (METRICS[metric].classes[0] == harmed) if name == named else 0,
            one.low or 0.0,
            one.value or 0.0,
            name,
            metric,
            one,
        )
        for name, of_group in story.changes.items()
        for metric, one in of_group.items()
        if one.count and metric in _EVENTS
    ]
    if found and not story.is_champion:
        *_, name, metric, one = max(found, key=lambda entry: entry[:3])
        label, event = _EVENTS[metric]
        return Cell(
            f"{one.count:,} of {one.n:,} {label} comments about {name} newly {event}",
            f"{one.count:,} of {one.n:,} newly {event} ({name})",
            f"{one.count:,} newly {event}" + ("" if name == named else f" ({_shorten_name(name)})"),
        )
    if story.changes and not story.is_champion:
        return Cell("no changed decision", "none changed")
    if story.errors is None:
        return Cell(_NONE, _NONE)
    if not story.errors.harms:
        return Cell("no significant gap", "no signif. gap")
    worst = max(story.errors.harms, key=_read_lower_bound)
    label, event = _EVENTS[worst.rate]
    return Cell(
        f"{worst.value:.0%} of {label} comments about {worst.group} {event}, "
        f"{worst.overall:.0%} of all",
        f"{worst.value:.0%} {event} ({worst.group}; all {worst.overall:.0%})",
        f"{worst.value:.0%} {event} (all {worst.overall:.0%})" if worst.group == named else "",
    )


def _read_lower_bound(harm: ErrorHarm) -> float:
    return harm.gap.low or 0.0
