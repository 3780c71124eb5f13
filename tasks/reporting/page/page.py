"""What a whole page says: of one candidate on one set, or of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from biasgate.tasks.outcomes import Word, word_of
from biasgate.tasks.records import Details, Report, SetUse, Summary, Verdict
from biasgate.tasks.records.trend import Drifted, Trend
from biasgate.tasks.remembering.rows import Lines, lines_of
from biasgate.tasks.reporting.page.parts import Part, describe
from biasgate.tasks.reporting.page.sets import SetView, describe_set
from biasgate.tasks.reporting.page.texts import Quoted
from biasgate.tasks.reporting.tables import Table, numbers_by_night


@dataclass(frozen=True)
class TrendView:
    """What the section says."""

    number: int
    n_before: int
    """Of tonight, and how many nights before are compared."""
    news: tuple[str, ...]
    """What changed."""
    tests: tuple[str, ...]
    """What was tested for drift, and what was not, with the reason."""
    lines: tuple[tuple[Lines, Table], ...]
    """Every model on every set, with its numbers."""


@dataclass(frozen=True)
class Line:
    """The verdict on a candidate, and what became of it."""

    name: str
    word: Word
    sentence: str
    parts: tuple[Part, ...]


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
    lines: tuple[Line, ...]
    """One for each candidate."""
    sets: tuple[SetView, ...]
    """The evaluation sets."""
    parts: tuple[Part, ...]
    """Each candidate on each set."""
    models: tuple[str, ...]
    """Registered models that the verdicts are about."""
    versions: tuple[tuple[str, str], ...]
    """Of the software."""
    trend: TrendView | None = None
    """Tonight beside the nights before."""

    @property
    def n_passed(self) -> int:
        """How many candidates passed."""
        return sum(one.word.status == "pass" for one in self.lines)

    @property
    def has_quotes(self) -> bool:
        """Whether it quotes comments."""
        return any(one.quotes for one in self.parts)

    @property
    def names(self) -> frozenset[str]:
        """Names that others chose, which sentences may quote."""
        found = {self.title, self.policy, *(one.name for one in self.lines)}
        for line, _ in self.trend.lines if self.trend else ():
            found |= {line.candidate, line.evaluation_set, *(row.group for row in line.rows)}
        found.discard("")
        for one in self.sets:
            found |= {one.name, *(row[0] for row in one.counts.rows)}
        return frozenset(found)


Judged = tuple[Report, Verdict, Details]


def candidate_page(report: Report, verdict: Verdict, details: Details) -> Page:
    """Return the page of one candidate on one set."""
    part = describe("a", report, verdict, details)
    name = report.candidate.name
    line = Line(name, part.story.word, part.story.counted, (part,))
    return _page(name, [line], [(report, verdict, details)], {}, of_evaluation=False)


def evaluation_page(
    summary: Summary,
    judged: Mapping[tuple[str, str], Judged],
    quotes: Mapping[tuple[str, str], tuple[Quoted, ...]] = MappingProxyType({}),
    trend: Trend | None = None,
) -> Page:
    """Return the page of an evaluation; with `trend` that of a night.

    `quotes` are comments by set and candidate; none unless a user asked for them.
    """
    parts = [
        replace(describe(f"p{at}", *one), quotes=quotes.get(place, ()))
        for at, (place, one) in enumerate(judged.items())
    ]
    lines = [
        Line(
            decision.candidate,
            word_of(decision),
            decision.sentence,
            tuple(one for one in parts if one.story.candidate == decision.candidate),
        )
        for decision in summary.decisions
    ]
    uses = {one.name: one for one in summary.sets}
    page = _page(summary.evaluation, lines, list(judged.values()), uses, of_evaluation=True)
    return replace(page, trend=None if trend is None else describe_trend(trend))


def _page(
    title: str,
    lines: Sequence[Line],
    judged: Sequence[Judged],
    uses: Mapping[str, SetUse],
    *,
    of_evaluation: bool,
) -> Page:
    by_set: dict[str, list[Judged]] = {}
    for one in judged:
        by_set.setdefault(one[0].evaluation_set.name, []).append(one)
    order = ("error", "fail", "insufficient", "reported", "pass")
    worst = min((line.word for line in lines), key=lambda word: order.index(word.status))
    _, verdict, details = judged[0]
    uris = {(one.candidate.model or "") for one, _, _ in judged}
    models = {one.removeprefix("models:/").partition("/")[0] for one in uris if one}
    return Page(
        title=title,
        of_evaluation=of_evaluation,
        decided_on=verdict.decided_on,
        policy=verdict.policy.name,
        word=worst,
        lines=tuple(lines),
        sets=tuple(
            describe_set([one[:2] for one in ones], uses.get(name)) for name, ones in by_set.items()
        ),
        parts=tuple(part for line in lines for part in line.parts),
        models=tuple(sorted(models)),
        versions=(
            ("biasgate", verdict.code.version),
            *details.versions.items(),
        ),
    )


def describe_trend(trend: Trend) -> TrendView:
    """Return what the page says of a night."""
    nights = trend.nights
    return TrendView(
        nights[-1].number,
        sum(bool(one.models) for one in nights[:-1]),
        tuple(nights[-1].news),
        tuple(result_in_words(one) for one in trend.drift),
        tuple((lines, numbers_by_night(lines)) for lines in lines_of(nights)),
    )


def result_in_words(one: Drifted) -> str:
    """Say what was tested, and how it ended."""
    of = f"{one.candidate or 'the data'} on {one.evaluation_set}"
    if one.why_not is not None:
        return f"{of}: not tested for drift ({one.why_not})."
    shared = f", {one.n_shared:,} of them in both" if one.n_shared else ""
    rows = f"{one.n_now:,} comments against {one.n_before:,}{shared}"
    number = len(one.alarms)
    found = "no number changed by more than chance" if number == 0 else f"{number} changed"
    return f"{of}: {rows}; {found}."
