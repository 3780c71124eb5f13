"""What a whole page says: of one candidate on one set, or of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from biasgate.tasks.outcomes import word_of
from biasgate.tasks.records import Details, Report, SetUse, Summary, Verdict
from biasgate.tasks.records.trend import Trend
from biasgate.tasks.reporting.page.parts import Part, describe
from biasgate.tasks.reporting.page.sets import SetView, describe_set
from biasgate.tasks.reporting.page.texts import Quoted
from biasgate.tasks.reporting.page.trend import TrendView, describe_trend


@dataclass(frozen=True)
class Line:
    """The verdict on a candidate, and what became of it."""

    name: str
    status: str
    word: str
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
    status: str
    word: str
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
        return sum(one.status == "pass" for one in self.lines)

    @property
    def has_quotes(self) -> bool:
        """Whether it quotes comments."""
        return any(one.quotes for one in self.parts)

    @property
    def names(self) -> frozenset[str]:
        """Names that others chose, which sentences may quote."""
        found = {self.title, self.policy, *(one.name for one in self.lines)}
        for line in self.trend.lines if self.trend else ():
            found |= {line.candidate, line.evaluation_set, *(row.group for row in line.rows)}
        found.discard("")
        for one in self.sets:
            found |= {one.name, *(row.name for row in one.counts)}
        return frozenset(found)


Judged = tuple[Report, Verdict, Details]


def candidate_page(report: Report, verdict: Verdict, details: Details) -> Page:
    """Return the page of one candidate on one set."""
    part = describe("a", report, verdict, details)
    name = report.candidate.name
    judged = part.judged
    line = Line(name, judged.status, judged.word, judged.counted, (part,))
    return _page(name, [line], [(report, verdict, details)], {}, of_evaluation=False)


def evaluation_page(
    summary: Summary,
    judged: Mapping[tuple[str, str], Judged],
    quotes: Mapping[tuple[str, str], tuple[Quoted, ...]] = MappingProxyType({}),
    trend: Trend | None = None,
) -> Page:
    """Return the page of an evaluation.

    Parameters
    ----------
    summary : mapping
        As in `summary.json`.
    quotes : mapping of (str, str) to tuple of Quoted
        Comments to quote, also by set and candidate; none unless a user asked for them.
    trend : Trend, optional
        As in `trend.json`, of a night.
    """
    parts = [
        replace(describe(f"p{at}", *one), quotes=quotes.get(place, ()))
        for at, (place, one) in enumerate(judged.items())
    ]
    lines = [
        Line(
            decision.candidate,
            "reported" if decision.report_only else decision.outcome,
            word_of(decision).text,
            decision.sentence,
            tuple(one for one in parts if one.candidate == decision.candidate),
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
    statuses = [one.status for one in lines]
    order = ("error", "fail", "insufficient", "reported", "pass")
    worst = next(one for one in order if one in statuses)
    _, verdict, details = judged[0]
    uris = {(one.candidate.model or "") for one, _, _ in judged}
    models = {one.removeprefix("models:/").partition("/")[0] for one in uris if one}
    return Page(
        title=title,
        of_evaluation=of_evaluation,
        decided_on=verdict.decided_on,
        policy=verdict.policy.name,
        status=worst,
        word=next(one.word for one in lines if one.status == worst),
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
