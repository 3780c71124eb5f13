"""What a page says of one candidate on one set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    Rates,
    Report,
    Verdict,
)
from biasgate.tasks.reporting.decisions import build_change_table, build_term_table
from biasgate.tasks.reporting.harm import HarmPanel, build_harm_panels
from biasgate.tasks.reporting.page.drawing import (
    Axis,
    Histogram,
    draw_histogram,
    draw_interval,
    is_empty,
)
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
from biasgate.tasks.reporting.verdict_story import Check

# Most checks in the tables of a page: if there are more, the first.
CHECKS = 100


@dataclass(frozen=True)
class Part:
    """Everything of one candidate on one set; `anchor` starts the names of its places."""

    anchor: str
    story: Story
    keys: tuple[tuple[str, str], ...]
    """The numbers of all comments together, with intervals."""
    lacks: tuple[tuple[str, str], ...]
    """Why some of them are undefined."""
    harm: tuple[HarmPanel, ...]
    """The picture of harm at the threshold."""
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
    """Whether the verdict is about more nights than the numbers of the page."""
    digests: tuple[tuple[str, str], ...]
    slices: Table | None
    terms: Table | None
    """Errors by term, the worst first."""
    changed: Table | None
    """Decisions that differ from the champion's, by identity."""
    most_checks: int = CHECKS

    @property
    def unmet(self) -> tuple[Check, ...]:
        """The first checks that did not pass."""
        return self.story.unmet[: self.most_checks]

    @property
    def met(self) -> tuple[Check, ...]:
        """The first others."""
        return self.story.met[: self.most_checks]


def build_part(
    anchor: str, report: Report, verdict: Verdict, details: Details, axes: Mapping[str, Axis]
) -> Part:
    """Return what a page says of one candidate on one set, drawn on the axes of the page."""
    scores = details.scores
    story = Story.from_report(report, verdict, details.champion)
    grid = build_grid(report, verdict, (*LIMITS, *RIVALS), differences=details.champion, axes=axes)
    return Part(
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
        panels=tuple(build_panel(name, one, details) for name, one in scores.subgroups.items()),
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
            (kind.replace("_", " "), tuple(one.sentences))
            for kind, one in (report.analyses or {}).items()
        ),
        remarks=(*story.warnings, *story.remarks),
        digests=tuple(_list_digests(report, verdict)),
        slices=_build_slices(report),
        terms=None if report.terms is None else build_term_table(report.terms),
        changed=None if verdict.changed is None else build_change_table(verdict.changed),
    )


def _build_slices(report: Report) -> Table | None:
    """Return each identity's numbers within each slice, side by side; None without the analysis."""
    found = (report.analyses or {}).get("slices")
    if found is None:
        return None
    shown, _ = select_rows(report.bias.subgroups)
    rows = [
        (
            name,
            of_slice,
            format_size(one["subgroups"][name]["n"]),
            *(_format_cell(one["subgroups"][name][metric], metric) for metric in SUBGROUP_METRICS),
        )
        for name in shown
        for of_slice, one in found.result["slices"].items()
    ]
    titles = ["Comments", *(METRICS[metric].title for metric in SUBGROUP_METRICS)]
    columns: dict[str, Kind] = {"Identity": "name", "Slice": "name", **number_columns(*titles)}
    caption = "Each identity within each slice, compared with the other comments of the slice"
    if len(rows) > CHECKS:
        caption += f": the first {CHECKS} of {len(rows)} rows; all are in analyses/slices.csv"
    return Table(caption, columns, rows[:CHECKS])


def _format_cell(found: Mapping[str, Any], metric: str) -> str:
    cell = MetricValue(
        found["value"], found.get("reason"), low=found.get("low"), high=found.get("high")
    )
    return format_estimate(cell, signed=METRICS[metric].is_gap)


def _list_digests(report: Report, verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "evaluation set", report.evaluation_set.digest
    yield "candidate (everything that decides its scores)", report.candidate.digest
    yield "policy", verdict.policy.digest
    yield "report.json", verdict.report_digest
    yield EVIDENCE if verdict.counts is None else COUNTS, verdict.evidence_digest
    yield "code that decided", verdict.code.bias_metrics


GAPS, RATES = tuple(RATE_OF_GAP), tuple(RATE_OF_GAP.values())


@dataclass(frozen=True)
class Panel:
    """The scores of an identity: a drawing, and the same in numbers."""

    name: str
    n: str
    drawing: Histogram | None
    harmless: tuple[str, ...]
    toxic: tuple[str, ...]


def build_panel(name: str, scores: GroupScores, details: Details) -> Panel:
    """Return the panel of one identity, or of all comments."""
    harmless, toxic = (
        (format_size(one.n), *map(format_score, one.quartiles or ()))
        for one in (scores.negative, scores.positive)
    )
    n = scores.negative.n + scores.positive.n
    drawing = None
    if not is_empty(scores):
        curves = details.curves
        threshold = None if curves is None else curves.thresholds[find_start(curves)]
        drawing = draw_histogram(scores, details.scores.edges, threshold)
    return Panel(name, format_size(n), drawing, harmless, toxic)


@dataclass(frozen=True)
class Gap:
    """A rate of an identity, and its distance from the rate of others in percentage points."""

    rate: str
    rate_interval: str
    gap: str
    interval: str
    strip: Markup | None


@dataclass(frozen=True)
class ExplorerRow:
    """The errors on the comments that mention an identity."""

    name: str
    gaps: tuple[Gap, Gap]


@dataclass(frozen=True)
class Explorer:
    """The errors at one threshold, and data for others."""

    thresholds: tuple[str, ...]
    """All of them, as text."""
    position: int
    """The one that the table is about."""
    named: tuple[tuple[int, str], ...]
    """Positions of the report's thresholds, with their names."""
    overall: tuple[str, str]
    """Share of harmless comments flagged, and of toxic ones missed."""
    rows: tuple[ExplorerRow, ...]
    """By identity."""
    ends: str
    """What the drawings span, in percentage points."""
    data: dict[str, Any]
    """For the script: shares in thousandths; null where undefined."""

    @property
    def threshold(self) -> str:
        """The threshold that the table is about."""
        return self.thresholds[self.position]


def build_explorer(curves: Curves) -> Explorer:
    """Return the table at the given threshold, else at that of equal errors."""
    named, position = curves.named, find_start(curves)
    subgroups = curves.subgroups
    axis = _choose_axis(list(subgroups.values()), position)
    overall = curves.overall
    texts = tuple(format_minus(f"{threshold:.4g}") for threshold in curves.thresholds)
    return Explorer(
        thresholds=texts,
        position=position,
        named=tuple((at, THRESHOLDS[kind]) for kind, at in named.items()),
        overall=(
            format_percent(_read_rates(overall, RATES[0])[position]),
            format_percent(_read_rates(overall, RATES[1])[position]),
        ),
        rows=tuple(
            ExplorerRow(
                name, (_build_gap(one, 0, position, axis), _build_gap(one, 1, position, axis))
            )
            for name, one in subgroups.items()
        ),
        ends=format_minus(f"{100 * axis.low:+g} to {100 * axis.high:+g} points"),
        data={
            "thresholds": texts,
            "end": round_thousandths(axis.high),
            "overall": [_round_all(_read_rates(overall, rate)) for rate in RATES],
            "rows": [
                [
                    [
                        _round_all(_read_rates(subgroup, rate)),
                        *_split_columns(_read_rates(subgroup, f"{rate}_ends")),
                        *_split_columns(_read_rates(subgroup, gap)),
                    ]
                    for rate, gap in zip(RATES, GAPS, strict=True)
                ]
                for subgroup in subgroups.values()
            ],
        },
    )


def find_start(curves: Curves) -> int:
    """Return which threshold a page starts with: the given one, else that of equal errors."""
    return curves.named.get(GIVEN, curves.named[EQUAL_ERRORS])


def _choose_axis(subgroups: Sequence[GroupRates], position: int) -> Axis:
    """Return the axis of the gaps at one threshold; what is beyond is drawn at its end."""
    ends = [
        end
        for subgroup in subgroups
        for gap in GAPS
        for end in _read_rates(subgroup, gap)[position]
    ]
    return Axis.around_zero(ends, 0.02)


def _read_rates(rates: Rates | GroupRates, name: str) -> Any:
    return getattr(rates, name)


def _build_gap(rates: GroupRates, side: int, position: int, axis: Axis) -> Gap:
    value, low, high = _read_rates(rates, GAPS[side])[position]
    strip = None if value is None else draw_interval(axis, (value, low, high))
    shown = (
        ""
        if low is None or high is None
        else format_bounds(format_points(low), format_points(high))
    )
    rate, ends = (
        _read_rates(rates, name)[position] for name in (RATES[side], f"{RATES[side]}_ends")
    )
    return Gap(format_percent(rate), _format_ends(*ends), format_points(value), shown, strip)


def _format_ends(low: float | None, high: float | None) -> str:
    return (
        ""
        if low is None or high is None
        else format_bounds(format_percent(low), format_percent(high))
    )


def _split_columns(gaps: Sequence[Sequence[float | None]]) -> list[list[int | None]]:
    """Return values and ends at all thresholds by column."""
    return [_round_all(column) for column in zip(*gaps, strict=True)]


def _round_all(found: Sequence[float | None]) -> list[int | None]:
    return [None if one is None else round_thousandths(one) for one in found]
