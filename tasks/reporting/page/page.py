"""The content of a page on a candidate, or on an evaluation."""

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
from biasgate.tasks.reporting.page.parts import CHECKS, PagePart, build_part
from biasgate.tasks.reporting.story import GAINED, TERMS, TO_PASS, UNKNOWN
from biasgate.tasks.reporting.tables import (
    PANELS,
    Table,
    build_night_table,
    format_size,
    number_columns,
    select_rows,
)

_WHOLE = 40  # most rows of all tables with which scores and thresholds are on the page
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
    """The section on a night."""

    number: int
    n_before: int
    """The number of earlier nights in the comparison."""
    news: tuple[str, ...]
    not_compared: tuple[str, ...]
    """Identities that are not compared with earlier nights, with the reason."""
    lines: tuple[tuple[Lines, Table], ...]
    """The numbers by model and set."""
    moved: tuple[tuple[Moved, str], ...]
    """The identities that moved, each with its line as an SVG path."""


@dataclass(frozen=True)
class Page:
    """The content of a page."""

    title: str
    """The evaluation, or the candidate."""
    is_evaluation: bool
    """True on the page of an evaluation, False on that of a candidate."""
    decided_on: str
    policy: str
    word: Word
    """The outcome."""
    candidates: tuple[CandidateStory, ...]
    sets: tuple[SetView, ...]
    parts: tuple[PagePart, ...]
    """The content on each candidate on each set."""
    versions: tuple[tuple[str, str], ...]
    """The versions of the software."""
    output: str = "."
    """The folder of results."""
    verified: str = "."
    """The folder to verify: it has all sets that the verdicts require."""
    store: str = ""
    """The store; empty if it is unknown."""
    evaluate: tuple[str, ...] = ()
    """The command that repeats the evaluation; empty on the page of a candidate."""
    trend: TrendView | None = None
    """The comparison with earlier nights."""

    @cached_property
    def board(self) -> Leaderboard:
        """One row per candidate and set, as on the terminal."""
        return build_leaderboard(self.candidates)

    @property
    def is_whole(self) -> bool:
        """True if scores, thresholds and findings are on this page, not on pages of candidates."""
        return not self.is_evaluation or sum(len(part.grid.rows) for part in self.parts) <= _WHOLE

    @property
    def champion(self) -> str:
        """The champion; empty without."""
        return next((part.story.champion for part in self.parts if part.story.champion), "")

    @property
    def open_part(self) -> PagePart | None:
        """The unfolded part: of the parts with the worst outcome, the last in the order."""
        return min(self.parts[::-1], key=lambda part: rank_outcome(part.story), default=None)

    @property
    def order(self) -> list[int]:
        """The order of the metrics in all tables: the worst number's metric, its kind, others.

        A narrow window shows only the first.
        """
        worst = self.open_part.story.worst if self.open_part is not None else None
        places = list(range(len(SUBGROUP_METRICS)))
        if worst is not None and worst.is_pictured:
            metrics = [METRICS[metric] for metric in SUBGROUP_METRICS]
            first = METRICS[worst.metric]
            places.sort(key=lambda at: (metrics[at].is_gap != first.is_gap, metrics[at] != first))
        return places

    @property
    def anchors(self) -> dict[str, str]:
        """The anchors of identities in the first table, as in `#gay`."""
        anchors: dict[str, str] = {}
        for row in self.open_part.grid.rows if self.open_part is not None else ():
            plain = re.sub(r"\W+", "-", row.name).strip("-") or "identity"
            taken = {*_SECTIONS, *anchors.values(), *self.places.values()}
            numbers = (f"{plain}-{at}" for at in itertools.count(2))
            names = itertools.chain([plain], numbers)
            anchors[row.name] = next(name for name in names if name not in taken)
        return anchors

    @property
    def places(self) -> dict[str, str]:
        """The anchors of the candidates' summaries."""
        names = (candidate.name for candidate in self.board.candidates)
        return {name: f"candidate-{at}" for at, name in enumerate(names)}

    @property
    def shared(self) -> dict[str, str]:
        """The identities without an interval, by their label, if several candidates share them."""
        texts = {dict(candidate.facts).get(UNKNOWN) for candidate in self.candidates}
        text = texts.pop() if len(texts) == 1 else None
        return {UNKNOWN: text} if text and len(self.candidates) > 1 else {}

    def list_facts(self, candidate: CandidateStory) -> list[tuple[str, str, bool]]:
        """Return labels and facts of a candidate, each with True if it is a command.

        The command is for the folder where the evaluation was started.
        """
        elsewhere = {*self.shared, TO_PASS if len(self.candidates) > 1 else TERMS}
        facts = [(label, text, False) for label, text in candidate.facts if label not in elsewhere]
        place = "" if self.is_evaluation else self.output
        command = shlex.join([NAME, *candidate.suggest_command(self.output, place, self.store)])
        last = {TO_PASS, GAINED}
        at = next((at for at, (label, _, _) in enumerate(facts) if label in last), len(facts))
        facts.insert(at, ("Next", command, True))
        return facts

    @property
    def commands(self) -> list[str]:
        """The commands that repeat the evaluation and verify its verdicts."""
        verify = "verify", format_path(self.verified)
        return [shlex.join([NAME, *words]) for words in (self.evaluate, verify) if words]

    @property
    def names(self) -> frozenset[str]:
        """The names chosen by users, which sentences may quote."""
        names = {self.title, self.policy, *(candidate.name for candidate in self.candidates)}
        for lines, _ in self.trend.lines if self.trend else ():
            names |= {lines.candidate, lines.evaluation_set, *(row.group for row in lines.rows)}
        for set_view in self.sets:
            names |= {set_view.name, *(row[0] for row in set_view.counts.rows)}
        names |= {row[1] for part in self.parts if part.terms for row in part.terms.rows}
        return frozenset(names - {""})


Judged = tuple[Report, Verdict, Details]


def build_candidate_page(
    report: Report, verdict: Verdict, details: Details, output: str = ".", store: str = ""
) -> Page:
    """Return the page of a candidate on a set, whose results are in `output`."""
    judged = {(verdict.evaluation_set.name, verdict.candidate.name): (report, verdict, details)}
    page = _build_page(report.candidate.name, judged, {})
    [part] = page.parts
    candidate = replace(CandidateStory.from_story(part.story), name=report.candidate.name)
    output = shorten_path(output)
    is_part = bool({*verdict.required_sets} - {verdict.evaluation_set.name})
    return replace(
        page,
        is_evaluation=False,
        word=candidate.word,
        candidates=(candidate,),
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
    """Return the page of an evaluation; with `trend`, of a night."""
    uses = {set_use.name: set_use for set_use in summary.sets}
    page = _build_page(summary.evaluation, judged, uses)
    stories = [part.story for part in page.parts]
    candidates = CandidateStory.from_decisions(summary.decisions, stories)
    names = [candidate.name for candidate in build_leaderboard(candidates).candidates]
    return replace(
        page,
        word=get_outcome_words(summary),
        candidates=tuple(candidates),
        parts=tuple(sorted(page.parts, key=lambda part: names.index(part.story.candidate))),
        trend=None if trend is None else describe_trend(trend),
        output=shorten_path(output),
        verified=shorten_path(output),
        store=summary.store_path,
        evaluate=tuple(_repeat_command(summary, output, is_night=trend is not None)),
    )


def _repeat_command(summary: Summary, output: str, *, is_night: bool) -> Iterator[str]:
    """Yield the command that repeats the evaluation; for a night, in a new folder."""
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
    axes = choose_axes([(report, verdict) for report, verdict, _ in judged.values()])
    most = max(CHECKS // len(judged), 1)
    parts = tuple(
        replace(build_part(f"p{at}", *entry, axes), most_checks=most)
        for at, entry in enumerate(judged.values())
    )
    reports: dict[str, Report] = {}  # the first of each set
    for (set_name, _), (report, _, _) in judged.items():
        reports.setdefault(set_name, report)
    _, verdict, details = next(iter(judged.values()))
    return Page(
        title=title,
        is_evaluation=True,
        decided_on=verdict.decided_on,
        policy=verdict.policy.name,
        word=parts[0].story.word,
        candidates=(),
        sets=tuple(describe_set(report, uses.get(name)) for name, report in reports.items()),
        parts=parts,
        versions=(("biasgate", verdict.code.version), *details.versions.items()),
    )


def describe_trend(trend: Trend) -> TrendView:
    """Return the section on a night."""
    nights = trend.nights
    return TrendView(
        nights[-1].number,
        sum(bool(night.models) for night in nights[:-1]),
        tuple(nights[-1].news),
        tuple(
            f"{entry.candidate} on {entry.evaluation_set}: {', '.join(entry.identities)} not "
            f"compared with earlier nights ({entry.reason})."
            for entry in trend.not_compared
        ),
        tuple((lines, build_night_table(lines)) for lines in compare_nights(nights)),
        tuple((move, draw_line(move.values)) for move in find_moves(nights)[:PANELS]),
    )


_LICENCES = {
    "civil_comments": "Civil Comments, published by Jigsaw under CC0 1.0",
    "templates": "phrases that biasgate generated",
}
_NO_LICENCE = "not known to biasgate; ask whoever published the data"


@dataclass(frozen=True)
class SetView:
    """An evaluation set, with the choices of its rows."""

    name: str
    n: str
    """The number of measured comments."""
    toxic: str
    """The share of toxic comments."""
    digest: str
    licence: str
    unrated: str
    """The number of rows that were left out, and the reason; empty without."""
    choices: tuple[tuple[str, str], ...]
    """The choices of rows, in words."""
    files: tuple[tuple[str, str], ...]
    """The source files with their digests."""
    counts: Table
    """The numbers of measured rows, of all comments and by identity."""
    left_out: str
    """A note if some identities are not listed."""
    use: str
    """The number of candidates it has judged; empty if it is unknown."""
    is_spent: bool
    """True if it was used too often."""


def describe_set(report: Report, use: SetUse | None = None) -> SetView:
    """Return an evaluation set, and how often it was used."""
    evaluation_set, counts = report.evaluation_set, report.bias.counts
    choices, overall = evaluation_set.choices, counts[None]
    source = choices.source
    shown, left_out = select_rows(report.bias.subgroups)
    sizes = [("all comments", overall), *((name, counts[name]) for name in shown)]
    return SetView(
        name=evaluation_set.name,
        n=format_size(overall.n),
        toxic=f"{overall.n_positive / overall.n:.0%}",
        digest=evaluation_set.digest,
        licence=_LICENCES.get(str(source.get("source")), _NO_LICENCE),
        unrated=choices.left_out or "",
        choices=tuple(choices.describe_choices()),
        files=tuple((str(name), str(digest)) for name, digest in source.get("files", {}).items()),
        counts=Table(
            "Measured comments that mention each identity",
            {"Identity": "name", **number_columns("Comments", "Toxic", "Harmless")},
            [
                (name, *map(format_size, (size.n, size.n_positive, size.n_negative)))
                for name, size in sizes
            ],
        ),
        left_out=left_out,
        use="" if use is None else use.sentence,
        is_spent=use is not None and use.spent_by is not None,
    )
