"""The parts of a page on a candidate on a set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from bias_metrics import MetricValue
from bias_metrics.gate import RIVALS
from bias_metrics.metrics import EQUAL_ERRORS, GIVEN, METRICS, SUBGROUP_METRICS, THRESHOLDS
from biasgate.tasks.evidence.counted import FILE as COUNTS
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.measuring.explaining import describe_harm
from biasgate.tasks.records import (
    RATE_OF_GAP,
    Curves,
    Details,
    GroupRates,
    GroupScores,
    Report,
    Verdict,
)
from biasgate.tasks.reporting.decisions import build_change_table, build_term_table
from biasgate.tasks.reporting.harm import HarmPanel, build_harm_panels
from biasgate.tasks.reporting.page.drawing import Axis, Histogram, draw_histogram, draw_interval
from biasgate.tasks.reporting.page.grids import LIMITS, Grid, build_grid
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.reporting.tables import (
    Kind,
    Table,
    format_bounds,
    format_estimate,
    format_minus,
    format_percent,
    format_points,
    format_score,
    format_size,
    number_columns,
    round_thousandths,
    select_rows,
)
from biasgate.tasks.reporting.verdict_story import CheckStory

# Most checks in the tables of a page: if there are more, the first.
CHECKS = 100


@dataclass(frozen=True)
class PagePart:
    """The content of a page on a candidate on a set."""

    anchor: str
    """The prefix of anchors in the page."""
    story: Story
    keys: tuple[tuple[str, str], ...]
    """The numbers of all comments, with intervals."""
    lacks: tuple[tuple[str, str], ...]
    """The undefined numbers, with reasons."""
    harm: tuple[HarmPanel, ...]
    """The panels of harm at the threshold."""
    grid: Grid
    panels: tuple[Panel, ...]
    everyone: Panel
    scores_from: str
    scores_to: str
    scores_scale: str
    explorer: Explorer | None
    harms: tuple[str, ...]
    """A sentence for each identity with a significantly low AUC, in the order of the grid."""
    analyses: tuple[tuple[str, tuple[str, ...]], ...]
    remarks: tuple[str, ...]
    """Warnings on the data, then remarks."""
    digests: tuple[tuple[str, str], ...]
    slices: Table | None
    terms: Table | None
    """Errors by term, the worst first."""
    changed: Table | None
    """Decisions that differ from the champion's, by identity."""
    most_checks: int = CHECKS

    @property
    def unmet(self) -> tuple[CheckStory, ...]:
        """The first checks that did not pass."""
        return self.story.unmet[: self.most_checks]

    @property
    def met(self) -> tuple[CheckStory, ...]:
        """The first checks that passed or were skipped."""
        return self.story.met[: self.most_checks]


def build_part(
    anchor: str, report: Report, verdict: Verdict, details: Details, axes: Mapping[str, Axis]
) -> PagePart:
    """Return the content on a candidate on a set, drawn on the axes of the page."""
    scores = details.scores
    story = Story.from_report(report, verdict, details.champion)
    grid = build_grid(report, verdict, (*LIMITS, *RIVALS), differences=details.champion, axes=axes)
    return PagePart(
        anchor=anchor,
        story=story,
        keys=tuple((name, format_estimate(cell)) for name, cell in story.numbers),
        lacks=tuple(
            (name, cell.reason or "no reason given")
            for name, cell in story.numbers
            if cell.value is None
        ),
        harm=build_harm_panels(report, verdict, details),
        grid=grid,
        panels=tuple(build_panel(name, group, details) for name, group in scores.subgroups.items()),
        everyone=build_panel("all comments", scores.overall, details),
        scores_from=format_score(scores.edges[0]),
        scores_to=format_score(scores.edges[-1]),
        scores_scale=scores.scale,
        explorer=build_explorer(details.curves) if details.curves is not None else None,
        harms=tuple(
            describe_harm(report.bias, report.harms, row.name)
            for row in grid.rows
            if row.name in report.harms
        ),
        analyses=tuple(
            (kind.replace("_", " "), tuple(analysis.sentences))
            for kind, analysis in (report.analyses or {}).items()
        ),
        remarks=(*story.warnings, *story.remarks),
        digests=(
            ("evaluation set", report.evaluation_set.digest),
            ("candidate (everything that decides its scores)", report.candidate.digest),
            ("policy", verdict.policy.digest),
            ("report.json", verdict.report_digest),
            (EVIDENCE if verdict.counts is None else COUNTS, verdict.evidence_digest),
            ("code that decided", verdict.code.bias_metrics),
        ),
        slices=_build_slices(report),
        terms=None if report.terms is None else build_term_table(report.terms),
        changed=None if verdict.changed is None else build_change_table(verdict.changed),
    )


def _build_slices(report: Report) -> Table | None:
    """Return the numbers by identity and slice; None without the analysis."""
    analysis = (report.analyses or {}).get("slices")
    if analysis is None:
        return None
    shown, _ = select_rows(report.bias.subgroups)
    rows = [
        (
            name,
            slice_name,
            format_size(cells["n"]),
            *(_format_cell(cells[metric], metric) for metric in SUBGROUP_METRICS),
        )
        for name in shown
        for slice_name, numbers in analysis.result["slices"].items()
        for cells in [numbers["subgroups"][name]]
    ]
    titles = ["Comments", *(METRICS[metric].title for metric in SUBGROUP_METRICS)]
    columns: dict[str, Kind] = {"Identity": "name", "Slice": "name", **number_columns(*titles)}
    caption = "Each identity within each slice, compared with the other comments of the slice"
    if len(rows) > CHECKS:
        caption += f": the first {CHECKS} of {len(rows)} rows; all are in analyses/slices.csv"
    return Table(caption, columns, rows[:CHECKS])


def _format_cell(cell: Mapping[str, Any], metric: str) -> str:
    number = MetricValue(
        cell["value"], cell.get("reason"), low=cell.get("low"), high=cell.get("high")
    )
    return format_estimate(number, signed=METRICS[metric].is_gap)


@dataclass(frozen=True)
class Panel:
    """The scores of an identity, as a drawing and as numbers."""

    name: str
    n: str
    drawing: Histogram | None
    harmless: tuple[str, ...]
    toxic: tuple[str, ...]


def build_panel(name: str, scores: GroupScores, details: Details) -> Panel:
    """Return the panel of an identity, or of all comments."""
    harmless, toxic = (
        (format_size(side.n), *map(format_score, side.quartiles or ()))
        for side in (scores.negative, scores.positive)
    )
    n = scores.negative.n + scores.positive.n
    drawing = None
    if n:
        curves = details.curves
        threshold = None if curves is None else curves.thresholds[find_start(curves)]
        drawing = draw_histogram(scores, details.scores.edges, threshold)
    return Panel(name, format_size(n), drawing, harmless, toxic)


@dataclass(frozen=True)
class Gap:
    """A rate of an identity, and its gap to the rate of other comments in percentage points."""

    rate: str
    rate_interval: str
    gap: str
    interval: str
    strip: Markup | None


@dataclass(frozen=True)
class ExplorerRow:
    """The errors on the comments that mention an identity."""

    name: str
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class Explorer:
    """The errors at a threshold, and data for others."""

    thresholds: tuple[str, ...]
    position: int
    """The position of the table's threshold."""
    named: tuple[tuple[int, str], ...]
    """The positions of the report's thresholds, with names."""
    overall: tuple[str, str]
    """The shares of harmless comments flagged, and of toxic comments missed."""
    rows: tuple[ExplorerRow, ...]
    ends: str
    """The ends of the drawings, in percentage points."""
    data: dict[str, Any]
    """Shares in thousandths for the script; null if undefined."""

    @property
    def threshold(self) -> str:
        """The threshold of the table."""
        return self.thresholds[self.position]


def build_explorer(curves: Curves) -> Explorer:
    """Return the table at the given threshold, else at that of equal errors."""
    position, overall, subgroups = find_start(curves), curves.overall, curves.subgroups
    ends = [
        end
        for rates in subgroups.values()
        for gap in RATE_OF_GAP
        for end in getattr(rates, gap)[position]
    ]
    axis = Axis.from_gaps(ends, 0.02)  # values of other thresholds may be beyond an end
    flagged, missed = (
        format_percent(getattr(overall, rate)[position]) for rate in RATE_OF_GAP.values()
    )
    texts = tuple(format_minus(f"{threshold:.4g}") for threshold in curves.thresholds)
    return Explorer(
        thresholds=texts,
        position=position,
        named=tuple((at, THRESHOLDS[kind]) for kind, at in curves.named.items()),
        overall=(flagged, missed),
        rows=tuple(
            ExplorerRow(name, tuple(_build_gap(rates, gap, position, axis) for gap in RATE_OF_GAP))
            for name, rates in subgroups.items()
        ),
        ends=format_minus(f"{100 * axis.low:+g} to {100 * axis.high:+g} points"),
        data={
            "thresholds": texts,
            "end": round_thousandths(axis.high),
            "overall": [_round_all(getattr(overall, rate)) for rate in RATE_OF_GAP.values()],
            "rows": [
                [
                    [
                        _round_all(getattr(rates, rate)),
                        *_split_columns(getattr(rates, f"{rate}_ends")),
                        *_split_columns(getattr(rates, gap)),
                    ]
                    for gap, rate in RATE_OF_GAP.items()
                ]
                for rates in subgroups.values()
            ],
        },
    )


def find_start(curves: Curves) -> int:
    """Return the position of the given threshold, else of that of equal errors."""
    return curves.named.get(GIVEN, curves.named[EQUAL_ERRORS])


def _build_gap(rates: GroupRates, gap: str, position: int, axis: Axis) -> Gap:
    value, low, high = getattr(rates, gap)[position]
    rate = RATE_OF_GAP[gap]
    rate_low, rate_high = getattr(rates, f"{rate}_ends")[position]
    return Gap(
        format_percent(getattr(rates, rate)[position]),
        format_bounds(rate_low, rate_high, format_percent),
        format_points(value),
        format_bounds(low, high, format_points),
        None if value is None else draw_interval(axis, (value, low, high)),
    )


def _split_columns(intervals: Sequence[Sequence[float | None]]) -> list[list[int | None]]:
    """Return the values and ends at all thresholds by column."""
    return [_round_all(column) for column in zip(*intervals, strict=True)]


def _round_all(shares: Sequence[float | None]) -> list[int | None]:
    return [None if share is None else round_thousandths(share) for share in shares]
