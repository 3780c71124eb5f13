"""What a page says of one candidate on one set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bias_metrics import BiasReport
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.measuring.diagnosis import NO_PATTERN
from biasgate.tasks.records import Details, Report, Verdict, metric_cells
from biasgate.tasks.reporting.figures import ROWS
from biasgate.tasks.reporting.headline import headline, upside_down, year_sentences
from biasgate.tasks.reporting.losses import shared_with, summary
from biasgate.tasks.reporting.page.checks import Judged, judge
from biasgate.tasks.reporting.page.explorer import Explorer, explore
from biasgate.tasks.reporting.page.focus import Focus, focus_of
from biasgate.tasks.reporting.page.gains import Gained, gains_of
from biasgate.tasks.reporting.page.grids import Grid, difference_grid, metric_grid
from biasgate.tasks.reporting.page.numbers import interval, number
from biasgate.tasks.reporting.page.panels import Panel, describe_scores, short
from biasgate.tasks.reporting.page.texts import Quoted

# Most numbers that got worse: if there are more, the first.
_WORSENED = 60


@dataclass(frozen=True)
class WorstRow:
    """Who is treated worst by one metric, and by how much."""

    metric: str
    name: str
    value: str
    interval: str
    meaning: str


@dataclass(frozen=True)
class Worsened:
    """A number that is shown to be worse than the champion's."""

    name: str
    metric: str
    champion: str
    candidate: str
    worse_by: str
    at_least: str
    shared_with: str


@dataclass(frozen=True)
class Compared:
    """The candidate beside the champion."""

    champion: str
    worsened: tuple[Worsened, ...]
    left_out: str
    summary: str
    objective: str
    grid: Grid


@dataclass(frozen=True)
class Diagnosed:
    """The pattern of bias of an identity."""

    name: str
    pattern: str
    sentence: str
    is_clear: bool


@dataclass(frozen=True)
class Part:
    """Everything of one candidate on one set; `anchor` starts the names of its places."""

    anchor: str
    candidate: str
    evaluation_set: str
    judged: Judged
    focus: Focus | None
    look_first: str
    worst: tuple[WorstRow, ...]
    grid: Grid
    compared: Compared | None
    panels: tuple[Panel, ...]
    everyone: Panel
    scores_from: str
    scores_to: str
    scores_scale: str
    explorer: Explorer | None
    diagnosed: tuple[Diagnosed, ...]
    analyses: tuple[tuple[str, tuple[str, ...]], ...]
    remarks: tuple[str, ...]
    pooled: str
    digests: tuple[tuple[str, str], ...]
    gains: tuple[Gained, ...]
    quotes: tuple[Quoted, ...] = ()


def describe(anchor: str, report: Report, verdict: Verdict, details: Details) -> Part:
    """Return what a page says of one candidate on one set."""
    scores, analyses = details.scores, (report.analyses or {})
    calibrated = report.calibration
    grid = metric_grid(report, verdict)
    compared = _compared(verdict, details, grid)
    return Part(
        anchor=anchor,
        candidate=report.candidate.name,
        evaluation_set=report.evaluation_set.name,
        judged=judge(report, verdict),
        focus=focus_of(report, verdict, grid, compared.grid if compared else None),
        look_first=_look_first(report, verdict),
        worst=tuple(_worst(report.bias)),
        grid=grid,
        compared=compared,
        panels=tuple(describe_scores(name, one, details) for name, one in scores.subgroups.items()),
        everyone=describe_scores("all comments", scores.overall, details),
        scores_from=short(scores.edges[0]),
        scores_to=short(scores.edges[-1]),
        scores_scale=scores.scale,
        explorer=explore(details.curves) if details.curves is not None else None,
        diagnosed=tuple(_diagnosed(report, row.name) for row in grid.rows),
        analyses=tuple(
            (kind.replace("_", " "), tuple(one.sentences)) for kind, one in analyses.items()
        ),
        remarks=(*report.warnings, *([calibrated.sentence] if calibrated else [])),
        pooled=" ".join([*_pooled(verdict), *year_sentences(verdict)]),
        digests=tuple(_digests(report, verdict)),
        gains=gains_of(report),
    )


def _look_first(report: Report, verdict: Verdict) -> str:
    """Return who is treated worst, beginning with a check that failed."""
    told = report.look_first.sentence
    first = headline(report, verdict)
    if upside_down(report):
        return first.worst
    return f"{first.worst} {told}" if first.has_failed else told


def _worst(bias: BiasReport) -> Iterator[WorstRow]:
    for metric in SUBGROUP_METRICS:
        one, known = bias.worst[metric], METRICS[metric]
        name, value = one.subgroup, one.value.value
        if name is None or value is None:
            continue
        meaning = known.harm.format(group=name, side=known.sides[value > 0])
        ends = bias.subgroups[name]
        cell = metric_cells(ends)[metric]
        shown = interval(cell.low, cell.high, signed=known.is_gap)
        yield WorstRow(known.title, name, number(value, signed=known.is_gap), shown, meaning)


def _compared(verdict: Verdict, details: Details, grid: Grid) -> Compared | None:
    champion = verdict.champion
    if champion is None or details.champion is None:
        return None
    worsened, shown = [], verdict.worsened
    for one in shown[:_WORSENED]:
        signed = METRICS[one.metric].is_gap
        before, now = (number(value, signed=signed) for value in (one.second, one.first))
        by, at_least = number(one.worse_by), number(one.worse_by_at_least)
        title = METRICS[one.metric].title
        of = one.group, title, before, now, by, at_least, shared_with(one)
        worsened.append(Worsened(*of))
    more = len(shown) - len(worsened)
    # What got worse comes first; the others in the order of the other tables.
    names = dict.fromkeys([*(one.group for one in shown), *(row.name for row in grid.rows)])
    objective = verdict.objective
    undefined = f"{objective.name} has no difference, because it is undefined"
    return Compared(
        champion=champion.model or champion.name,
        worsened=tuple(worsened),
        left_out=f"and {more:,} more, all in verdict.json" if more > 0 else "",
        summary=summary(shown),
        objective=objective.comparison if objective.change is not None else undefined,
        grid=difference_grid(details.champion, verdict, list(names)[:ROWS]),
    )


def _diagnosed(report: Report, name: str) -> Diagnosed:
    one = report.diagnosis.subgroups[name]
    return Diagnosed(name, one.name, one.sentence, one.pattern not in NO_PATTERN)


def _pooled(verdict: Verdict) -> list[str]:
    """Return which comments the verdict is about, if they are more than those of the set."""
    nights = verdict.nights
    if nights is None or nights.number == 1:
        return []
    text = (
        f"The verdict is about all {nights.n_rows:,} comments of {nights.number} nights. "
        "Numbers and drawings of this page are about those of the last night alone."
    )
    return [text]


def _digests(report: Report, verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "evaluation set", report.evaluation_set.digest
    yield "candidate (everything that decides its scores)", report.candidate.digest
    yield "policy", verdict.policy.digest
    yield "report.json", verdict.report_digest
    yield "evidence.parquet", verdict.evidence_digest
    yield "code that decided", verdict.code.bias_metrics
