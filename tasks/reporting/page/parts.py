"""What a page says of one candidate on one set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bias_metrics import SubgroupBias
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.measuring.diagnosis import NO_PATTERN
from biasgate.tasks.records import Details, Report, Verdict, metric_cells
from biasgate.tasks.reporting.page.drawing import Axis
from biasgate.tasks.reporting.page.grids import (
    Grid,
    GridCell,
    difference_grid,
    metric_grid,
)
from biasgate.tasks.reporting.page.scores import Explorer, Panel, describe_scores, explore
from biasgate.tasks.reporting.page.texts import Quoted
from biasgate.tasks.reporting.story import Check, Story, shared_with
from biasgate.tasks.reporting.tables import (
    NOTHING,
    ROWS,
    Table,
    number,
    numeric,
    percent,
    short,
    shown_rows,
    with_interval,
)

# Most checks in a table, and most numbers that got worse: if there are more, the first.
_CHECKS, _WORSENED = 300, 60
# Checks that did not pass and are quoted at the top of a page: the worst.
_QUOTED = 5


@dataclass(frozen=True)
class Compared:
    """The candidate beside the champion."""

    worsened: Table | None
    """What is shown to be worse."""
    left_out: str
    """A note if there is more."""
    grid: Grid
    """Every difference."""


@dataclass(frozen=True)
class Part:
    """Everything of one candidate on one set; `anchor` starts the names of its places."""

    anchor: str
    story: Story
    focus: tuple[GridCell, Axis] | None
    """The number to show first, and the axis that it is drawn on."""
    keys: tuple[tuple[str, str], ...]
    """The numbers of all comments together, with intervals."""
    lacks: tuple[tuple[str, str], ...]
    """Why some of them are undefined."""
    worst: Table
    grid: Grid
    compared: Compared | None
    panels: tuple[Panel, ...]
    everyone: Panel
    scores_from: str
    scores_to: str
    scores_scale: str
    explorer: Explorer | None
    diagnosed: Table
    analyses: tuple[tuple[str, tuple[str, ...]], ...]
    remarks: tuple[str, ...]
    is_pooled: bool
    """Whether the verdict is about more nights than the numbers of the page."""
    digests: tuple[tuple[str, str], ...]
    gains: Table | None
    quotes: tuple[Quoted, ...] = ()

    @property
    def quoted(self) -> tuple[str, ...]:
        """The worst checks that did not pass, in words, and how many others there are."""
        unmet = self.story.unmet
        more = len(unmet) - _QUOTED
        rest = [f"And {more:,} more, listed below."] if more > 0 else []
        return (*(check.sentence for check in unmet[:_QUOTED]), *rest)

    @property
    def unmet(self) -> tuple[Check, ...]:
        """The first checks that did not pass."""
        return self.story.unmet[:_CHECKS]

    @property
    def met(self) -> tuple[Check, ...]:
        """The first others."""
        return self.story.met[:_CHECKS]

    @property
    def left_out(self) -> str:
        """A note if there are more."""
        if max(len(self.story.unmet), len(self.story.met)) <= _CHECKS:
            return ""
        return f"Tables list the first {_CHECKS}; all are in verdict.json."


def describe(anchor: str, report: Report, verdict: Verdict, details: Details) -> Part:
    """Return what a page says of one candidate on one set."""
    scores, calibrated = details.scores, report.calibration
    story, grid = Story.of(report, verdict), metric_grid(report, verdict)
    compared = _compared(story, verdict, details, grid)
    return Part(
        anchor=anchor,
        story=story,
        focus=_focus(story, grid, compared),
        keys=tuple((name, with_interval(cell)) for name, cell in story.numbers),
        lacks=tuple(
            (name, cell.reason or "no reason given")
            for name, cell in story.numbers
            if cell.value is None
        ),
        worst=_worst(report),
        grid=grid,
        compared=compared,
        panels=tuple(describe_scores(name, one, details) for name, one in scores.subgroups.items()),
        everyone=describe_scores("all comments", scores.overall, details),
        scores_from=short(scores.edges[0]),
        scores_to=short(scores.edges[-1]),
        scores_scale=scores.scale,
        explorer=explore(details.curves) if details.curves is not None else None,
        diagnosed=_diagnosed(report, [row.name for row in grid.rows]),
        analyses=tuple(
            (kind.replace("_", " "), tuple(one.sentences))
            for kind, one in (report.analyses or {}).items()
        ),
        remarks=(*story.warnings, *([calibrated.sentence] if calibrated else [])),
        is_pooled=verdict.nights is not None and verdict.nights.number > 1,
        digests=tuple(_digests(report, verdict)),
        gains=_gains(report),
    )


def _focus(story: Story, grid: Grid, compared: Compared | None) -> tuple[GridCell, Axis] | None:
    """Return the cell of the story's number, if a table has it."""
    focus = story.focus
    if focus is None or (focus.is_difference and compared is None):
        return None
    found = compared.grid if focus.is_difference and compared is not None else grid
    row = next((row for row in found.rows if row.name == focus.group), None)
    at = SUBGROUP_METRICS.index(focus.metric)
    if row is None or row.cells[at].lack:
        return None
    return row.cells[at], found.columns[at].axis


def _worst(report: Report) -> Table:
    rows = []
    for metric in SUBGROUP_METRICS:
        worst, known = report.bias.worst[metric], METRICS[metric]
        name, value = worst.subgroup, worst.value.value
        if name is not None and value is not None:
            cell = metric_cells(report.bias.subgroups[name])[metric]
            meaning = known.harm.format(group=name, side=known.sides[value > 0])
            rows.append((known.title, name, with_interval(cell, signed=known.is_gap), meaning))
    return Table(
        "The worst identity by metric",
        {
            "Metric": "words",
            "Worst for": "name",
            "Value and 95 % interval": "number",
            "What it means, if it is bad": "words",
        },
        rows,
    )


def _compared(story: Story, verdict: Verdict, details: Details, grid: Grid) -> Compared | None:
    differences = details.differences
    if story.champion is None or differences is None:
        return None
    rows = []
    for loss in story.worsened[:_WORSENED]:
        metric = METRICS[loss.metric]
        numbers = (number(value, signed=metric.is_gap) for value in (loss.second, loss.first))
        by = number(loss.worse_by), number(loss.worse_by_at_least)
        rows.append((loss.group, metric.title, *numbers, *by, shared_with(loss) or "its own"))
    more = len(story.worsened) - len(rows)
    # What got worse comes first; the others in the order of the other tables.
    losses = (loss.group for loss in story.worsened)
    names = dict.fromkeys([*losses, *(row.name for row in grid.rows)])
    columns = numeric("Champion", "Candidate", "Worse by", "At least by")
    table = Table(
        "Shown to be worse than the champion's, with all bounds at 95 % together",
        {"Identity": "name", "Metric": "words", **columns, "Whose comments": "words"},
        rows,
    )
    return Compared(
        worsened=table if rows else None,
        left_out=f"and {more:,} more, all in verdict.json" if more > 0 else "",
        grid=difference_grid(differences, verdict, list(names)[:ROWS]),
    )


def _diagnosed(report: Report, names: list[str]) -> Table:
    found = [report.diagnosis.subgroups[name] for name in names]
    return Table(
        "Pattern of bias by identity",
        {"Identity": "name", "Pattern": "words", "In words": "words"},
        [(name, one.name, one.sentence) for name, one in zip(names, found, strict=True)],
        frozenset(at for at, one in enumerate(found) if one.pattern in NO_PATTERN),
    )


def _gains(report: Report) -> Table | None:
    """Return what terms add to human labels; None for a set without terms to help."""
    agreement: dict[str, Any] = (report.label_agreement or {}).get("identities", {})
    subgroups = report.bias.subgroups
    shown, _ = shown_rows(subgroups)
    rows = [
        (
            name,
            *(_times(subgroups[name], metric) for metric in SUBGROUP_METRICS),
            *(percent(agreement[name][of]["value"]) for of in ("recall", "precision")),
        )
        for name in shown
        if name in agreement
    ]
    titles = [METRICS[metric].title for metric in SUBGROUP_METRICS]
    titles += ["Mentions that terms find", "Found comments that are mentions"]
    caption = (
        "What terms add to human labels: how many times as many labelled comments would tell as "
        "much"
    )
    return Table(caption, {"Identity": "name", **numeric(*titles)}, rows) if rows else None


def _times(subgroup: SubgroupBias, metric: str) -> str:
    """Return how many times as many labelled rows would give the same precision."""
    return NOTHING if subgroup.assisted is None else f"{subgroup.assisted[metric].gain:.1f}"


def _digests(report: Report, verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "evaluation set", report.evaluation_set.digest
    yield "candidate (everything that decides its scores)", report.candidate.digest
    yield "policy", verdict.policy.digest
    yield "report.json", verdict.report_digest
    yield "evidence.parquet", verdict.evidence_digest
    yield "code that decided", verdict.code.bias_metrics
