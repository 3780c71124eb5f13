"""What a whole page says: of one candidate on one set, or of an evaluation."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.common.command_lines import NAME, format_path, format_store_option, shorten_path
from biasgate.tasks.included import shorten_argument
from biasgate.tasks.outcomes import Word, get_outcome_words
from biasgate.tasks.records import Details, Report, SetUse, Summary, Verdict
from biasgate.tasks.records.trend import Trend
from biasgate.tasks.remembering.moved import Moved, find_moves
from biasgate.tasks.remembering.rows import Lines, compare_nights
from biasgate.tasks.reporting.candidates import CandidateStory, rank_outcome
from biasgate.tasks.reporting.leaderboard import Leaderboard, build_leaderboard
from biasgate.tasks.reporting.page.drawing import draw_line
from biasgate.tasks.reporting.page.grids import choose_axes
from biasgate.tasks.reporting.page.parts import CHECKS, Part, build_part
from biasgate.tasks.reporting.story import GAINED, TERMS, TO_PASS, UNKNOWN
from biasgate.tasks.reporting.tables import (
    PANELS,
    Table,
    build_night_table,
    format_size,
    number_columns,
    select_rows,
)

# Most rows of all pictures together with which scores and thresholds are on the page, too.
_WHOLE = 40
_SECTIONS = (
    "verdict",
    "harm",
    "nights",
    "metrics",
    "checks",
    "scores",
    "thresholds",
    "findings",
    "data",
    "reproduce",
)


@dataclass(frozen=True)
class TrendView:
    """What the section says."""

    number: int
    n_before: int
    """Of tonight, and how many nights before are compared."""
    news: tuple[str, ...]
    """What changed."""
    not_compared: tuple[str, ...]
    """Whose numbers are not compared with earlier nights, with the reason."""
    lines: tuple[tuple[Lines, Table], ...]
    """Every model on every set, with its numbers."""
    moved: tuple[tuple[Moved, str], ...]
    """Who moved, with the line of the number: an SVG path."""


@dataclass(frozen=True)
class Page:
    """A page."""

    title: str
    """Name of the evaluation, or of the candidate."""
    of_evaluation: bool
    """Whether it is about a whole evaluation."""
    decided_on: str
    policy: str
    """The day of the verdicts, and the policy's name."""
    word: Word
    """The outcome."""
    lines: tuple[CandidateStory, ...]
    """What is said of each candidate."""
    sets: tuple[SetView, ...]
    """The evaluation sets."""
    parts: tuple[Part, ...]
    """Each candidate on each set."""
    versions: tuple[tuple[str, str], ...]
    """Of the software."""
    output: str = "."
    """The folder of results."""
    verified: str = "."
    """The folder whose verdicts are recomputed: of a candidate, with all sets that are required."""
    store: str = ""
    """The store; empty if it is unknown."""
    evaluate: tuple[str, ...] = ()
    """The command that makes the page again; empty on the page of a candidate."""
    trend: TrendView | None = None
    """Tonight beside the nights before."""

    @cached_property
    def board(self) -> Leaderboard:
        """One row per candidate and set, as on the terminal."""
        return build_leaderboard(self.lines)

    @property
    def is_whole(self) -> bool:
        """Whether scores, thresholds and findings are on it, not on the pages of candidates."""
        return not self.of_evaluation or sum(len(part.grid.rows) for part in self.parts) <= _WHOLE

    @property
    def champion(self) -> str:
        """The champion; empty if there is none."""
        return next((part.story.champion for part in self.parts if part.story.champion), "")

    @property
    def first(self) -> Part | None:
        """The part whose picture is open: that of the worst outcome, the last in the order."""
        return min(self.parts[::-1], key=lambda part: rank_outcome(part.story), default=None)

    @property
    def order(self) -> list[int]:
        """The places of the metrics in all pictures: of the deciding one, of its kind, of others.

        In a narrow window only the first is seen.
        """
        worst = self.first.story.worst if self.first is not None else None
        places = list(range(len(SUBGROUP_METRICS)))
        if worst is not None and worst.is_pictured:
            metrics = [METRICS[metric] for metric in SUBGROUP_METRICS]
            first = METRICS[worst.metric]
            places.sort(key=lambda at: (metrics[at].is_gap != first.is_gap, metrics[at] != first))
        return places

    @property
    def anchors(self) -> dict[str, str]:
        """A name for the place of each identity in the first picture, as in `#gay`."""
        found: dict[str, str] = {}
        for row in self.first.grid.rows if self.first is not None else ():
            plain = re.sub(r"\W+", "-", row.name).strip("-") or "identity"
            taken = {*_SECTIONS, *found.values(), *self.places.values()}
            numbers = (f"{plain}-{at}" for at in itertools.count(2))
            names = itertools.chain([plain], numbers)
            found[row.name] = next(name for name in names if name not in taken)
        return found

    @property
    def places(self) -> dict[str, str]:
        """A name for the place of each candidate's story."""
        return {line.name: f"candidate-{at}" for at, line in enumerate(self.board.lines)}

    @property
    def shared(self) -> dict[str, str]:
        """The identities without an interval, by their label, if several candidates share them."""
        texts = {dict(line.facts).get(UNKNOWN) for line in self.lines}
        text = texts.pop() if len(texts) == 1 else None
        return {UNKNOWN: text} if text and len(self.lines) > 1 else {}

    def facts(self, line: CandidateStory) -> list[tuple[str, str, bool]]:
        """Return what to know of a candidate, each with a label and whether it is a command.

        The command is for the folder where the evaluation was started.
        """
        elsewhere = {*self.shared, TO_PASS if len(self.lines) > 1 else TERMS}
        found = [(label, text, False) for label, text in line.facts if label not in elsewhere]
        place = "" if self.of_evaluation else self.output
        command = shlex.join([NAME, *line.suggest_command(self.output, place, self.store)])
        last = {TO_PASS, GAINED}
        at = next((at for at, (label, _, _) in enumerate(found) if label in last), len(found))
        found.insert(at, ("Next", command, True))
        return found

    @property
    def commands(self) -> list[str]:
        """What makes the page again, and recomputes its verdicts."""
        verify = "verify", format_path(self.verified)
        return [shlex.join([NAME, *line]) for line in (self.evaluate, verify) if line]

    @property
    def names(self) -> frozenset[str]:
        """Names that others chose, which sentences may quote."""
        found = {self.title, self.policy, *(story.name for story in self.lines)}
        for line, _ in self.trend.lines if self.trend else ():
            found |= {line.candidate, line.evaluation_set, *(row.group for row in line.rows)}
        for set_view in self.sets:
            found |= {set_view.name, *(row[0] for row in set_view.counts.rows)}
        found |= {row[1] for part in self.parts if part.terms for row in part.terms.rows}
        return frozenset(found - {""})


Judged = tuple[Report, Verdict, Details]


def build_candidate_page(
    report: Report, verdict: Verdict, details: Details, output: str = ".", store: str = ""
) -> Page:
    """Return the page of one candidate on one set, whose results are in `output`."""
    judged = {(verdict.evaluation_set.name, verdict.candidate.name): (report, verdict, details)}
    page = _build_page(report.candidate.name, judged, {})
    [part] = page.parts
    line = replace(CandidateStory.from_story(part.story), name=report.candidate.name)
    output = shorten_path(output)
    is_part = bool({*verdict.required_sets} - {verdict.evaluation_set.name})
    return replace(
        page,
        of_evaluation=False,
        word=line.word,
        lines=(line,),
        output=output,
        verified=str(Path(output).parent.parent) if is_part else output,
        store=store,
    )


def build_evaluation_page(
    summary: Summary,
    judged: Mapping[tuple[str, str], Judged],
    trend: Trend | None = None,
    output: str = "out",
) -> Page:
    """Return the page of an evaluation; with `trend` that of a night."""
    uses = {set_use.name: set_use for set_use in summary.sets}
    page = _build_page(summary.evaluation, judged, uses)
    lines = CandidateStory.from_decisions(summary.decisions, [part.story for part in page.parts])
    names = [line.name for line in build_leaderboard(lines).lines]
    return replace(
        page,
        word=get_outcome_words(summary),
        lines=tuple(lines),
        parts=tuple(sorted(page.parts, key=lambda part: names.index(part.story.candidate))),
        trend=None if trend is None else describe_trend(trend),
        output=shorten_path(output),
        verified=shorten_path(output),
        store=summary.store_path,
        evaluate=tuple(_repeat_command(summary, output, is_night=trend is not None)),
    )


def _repeat_command(summary: Summary, output: str, *, is_night: bool) -> Iterator[str]:
    """Yield the command that makes the page again; that of a night makes a new folder beside it."""
    command, place = ("nightly", Path(output).parent) if is_night else ("evaluate", Path(output))
    yield from (command, shorten_argument(summary.config), "--output", shorten_path(place))
    yield from format_store_option(summary.store_path)
    yield from () if summary.sample is None else ("--sample", str(summary.sample))
    if {*summary.outcome_of} != {decision.candidate for decision in summary.decisions}:
        for name in summary.outcome_of:
            yield from ("--candidate", name)


def _build_page(
    title: str, judged: Mapping[tuple[str, str], Judged], uses: Mapping[str, SetUse]
) -> Page:
    axes = choose_axes([one[:2] for one in judged.values()])
    most = max(CHECKS // len(judged), 1)
    parts = tuple(
        replace(build_part(f"p{at}", *one, axes), most_checks=most)
        for at, one in enumerate(judged.values())
    )
    reports = {of_set: report for (of_set, _), (report, _, _) in reversed([*judged.items()])}
    _, verdict, details = next(iter(judged.values()))
    return Page(
        title=title,
        of_evaluation=True,
        decided_on=verdict.decided_on,
        policy=verdict.policy.name,
        word=parts[0].story.word,
        lines=(),
        sets=tuple(
            describe_set(reports[name], uses.get(name))
            for name in dict.fromkeys(map(_first, judged))
        ),
        parts=parts,
        versions=(("biasgate", verdict.code.version), *details.versions.items()),
    )


def _first(place: tuple[str, str]) -> str:
    return place[0]


def describe_trend(trend: Trend) -> TrendView:
    """Return what the page says of a night."""
    nights = trend.nights
    return TrendView(
        nights[-1].number,
        sum(bool(night.models) for night in nights[:-1]),
        tuple(nights[-1].news),
        tuple(
            f"{one.candidate} on {one.evaluation_set}: {', '.join(one.identities)} not compared "
            f"with earlier nights ({one.reason})."
            for one in trend.not_compared
        ),
        tuple((lines, build_night_table(lines)) for lines in compare_nights(nights)),
        tuple((one, draw_line(one.values)) for one in find_moves(nights)[:PANELS]),
    )


_LICENCES = {
    "civil_comments": "Civil Comments, published by Jigsaw under CC0 1.0",
    "templates": "phrases that biasgate generated",
}
_NO_LICENCE = "not known to biasgate; ask whoever published the data"


@dataclass(frozen=True)
class SetView:
    """An evaluation set: its rows, and how they were chosen."""

    name: str
    n: str
    """Measured comments."""
    toxic: str
    """The share of them that is toxic."""
    digest: str
    licence: str
    """What it is."""
    unrated: str
    """How many rows were left out, and why; empty if none were."""
    choices: tuple[tuple[str, str], ...]
    """In words."""
    files: tuple[tuple[str, str], ...]
    """The files that it was read from, with their digests."""
    counts: Table
    """The measured rows that mention each identity, after all rows."""
    left_out: str
    """A note if some identities are not listed."""
    use: str
    """How many candidates it has judged; empty if it is unknown."""
    is_spent: bool
    """Whether that is too many."""


def describe_set(report: Report, use: SetUse | None = None) -> SetView:
    """Return an evaluation set, and how often it was used."""
    evaluation_set, bias = report.evaluation_set, report.bias
    choices, subgroups = evaluation_set.choices, bias.subgroups
    source = choices.source
    shown, left_out = select_rows(subgroups)
    counted = {"all comments": bias.counts[None]} | {name: bias.counts[name] for name in shown}
    numbers = [(name, of.n, of.n_positive, of.n_negative) for name, of in counted.items()]
    return SetView(
        name=evaluation_set.name,
        n=format_size(bias.counts[None].n),
        toxic=f"{bias.counts[None].n_positive / bias.counts[None].n:.0%}",
        digest=evaluation_set.digest,
        licence=_LICENCES.get(str(source.get("source")), _NO_LICENCE),
        unrated=choices.left_out or "",
        choices=tuple(choices.describe_choices()),
        files=tuple((str(name), str(one)) for name, one in source.get("files", {}).items()),
        counts=Table(
            "Measured comments that mention each identity",
            {"Identity": "name", **number_columns("Comments", "Toxic", "Harmless")},
            [(name, *map(format_size, found)) for name, *found in numbers],
        ),
        left_out=left_out,
        use="" if use is None else use.sentence,
        is_spent=use is not None and use.spent_by is not None,
    )
