"""Tables of numbers with intervals: metrics by identity, candidates side by side, differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bias_metrics import MetricValue, RuleResult
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.report import worst_first
from biasgate.tasks.records import Report, Verdict, metric_cells
from biasgate.tasks.reporting.figures import ROWS
from biasgate.tasks.reporting.page.drawing import Axis, Strip, draw_strip
from biasgate.tasks.reporting.page.numbers import count, interval, number

LIMITS, RIVALS = ("floor", "ceiling"), ("champion", "reference")
# From the worst: what the checks of one number came to. A mark and words, not colour alone.
MARKS = {
    "error": ("✕", "check ended in an error"),
    "fail": ("✕", "fails a check"),
    "insufficient": ("?", "not enough evidence for a check"),
    "waived": ("○", "check waived"),
    "warn": ("!", "fails a check that only warns"),
    "small": ("~", "too few comments, judged in its category"),
    "pass": ("", ""),
    "plain": ("", ""),
}


@dataclass(frozen=True)
class Column:
    """A column: its name, what to look for, and what the drawing spans."""

    title: str
    hint: str
    ends: str
    is_name: bool = False


@dataclass(frozen=True)
class GridCell:
    """A number: its text and interval, its mark, and its drawing; or why there is none.

    `shown` says that a difference is shown after Holm's adjustment.
    """

    text: str
    interval: str = ""
    status: str = "plain"
    lack: str = ""
    strip: Strip | None = None
    shown: bool = False

    @property
    def mark(self) -> str:
        """A sign for the outcome of the checks."""
        return MARKS[self.status][0]

    @property
    def said(self) -> str:
        """The outcome of the checks in words."""
        return MARKS[self.status][1]


@dataclass(frozen=True)
class GridRow:
    """An identity and its cells; `lack` says why it has no number at all."""

    name: str
    n: str
    cells: tuple[GridCell, ...]

    @property
    def lack(self) -> str:
        """Why there is no number in the whole row; empty if there is one."""
        if any(not one.lack for one in self.cells):
            return ""
        return "; ".join(dict.fromkeys(one.lack for one in self.cells))


@dataclass(frozen=True)
class Grid:
    """A table of identities."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[GridRow, ...]
    left_out: str = ""

    @property
    def fails(self) -> bool:
        """Whether a number in it fails a check."""
        return any(one.status in {"fail", "error"} for row in self.rows for one in row.cells)


def metric_grid(report: Report, verdict: Verdict) -> Grid:
    """Return the five metrics by identity, the worst identity first."""
    subgroups = report.bias.subgroups
    shown, left_out = shown_rows(subgroups)
    outcomes = Outcomes(verdict, LIMITS)
    axes = {metric: _axis(metric, [report], outcomes) for metric in SUBGROUP_METRICS}
    rows = tuple(
        GridRow(
            name,
            count(subgroups[name].n),
            tuple(
                _cell(metric, metric_cells(subgroups[name])[metric], axis, outcomes, name)
                for metric, axis in axes.items()
            ),
        )
        for name in shown
    )
    columns = tuple(
        Column(METRICS[metric].title, METRICS[metric].hint, axis.ends)
        for metric, axis in axes.items()
    )
    return Grid("Metrics by identity", columns, rows, left_out)


def side_by_side(judged: Sequence[tuple[Report, Verdict]], metric: str) -> Grid:
    """Return one metric by identity, with a column for each candidate on the same set."""
    reports = [report for report, _ in judged]
    outcomes = [Outcomes(verdict, LIMITS) for _, verdict in judged]
    first = reports[0].bias.subgroups
    shown, left_out = shown_rows(first)
    axis = _axis(metric, reports, *outcomes)
    rows = tuple(
        GridRow(
            name,
            count(first[name].n),
            tuple(
                _cell(metric, _of(report, name)[metric], axis, of_candidate, name)
                for report, of_candidate in zip(reports, outcomes, strict=True)
            ),
        )
        for name in shown
    )
    columns = tuple(Column(one.candidate.name, "", axis.ends, is_name=True) for one in reports)
    return Grid(f"{METRICS[metric].title}: {METRICS[metric].hint}", columns, rows, left_out)


def difference_grid(compared: Mapping[str, Any], verdict: Verdict, shown: Sequence[str]) -> Grid:
    """Return the differences of some identities: candidate minus champion, paired."""
    subgroups = compared["subgroups"]
    outcomes, alone = Outcomes(verdict, RIVALS), Outcomes(verdict, LIMITS)

    def status(metric: str, name: str) -> str:
        found = outcomes.of(metric, name)
        return "small" if found == "plain" and alone.of(metric, name) == "small" else found

    ends = [
        subgroups[name][metric].get(key)
        for name in shown
        for metric in SUBGROUP_METRICS
        for key in _ENDS
        if alone.of(metric, name) not in {"small", "insufficient"}  # whose intervals are wide
    ]
    axis = Axis.around_zero(ends, 0.05)
    level = 1 - compared["confidence"]
    rows = tuple(
        GridRow(
            name,
            "",
            tuple(
                _difference(subgroups[name][metric], axis, status(metric, name), level)
                for metric in SUBGROUP_METRICS
            ),
        )
        for name in shown
    )
    titles = [METRICS[metric].title for metric in SUBGROUP_METRICS]
    columns = tuple(Column(title, "", axis.ends) for title in titles)
    left_out = _left_out(len(shown), len(subgroups))
    return Grid("Candidate minus champion, on the same comments", columns, rows, left_out)


_ENDS = ("value", "low", "high")


class Outcomes:
    """What the checks of a verdict say of each number of an identity."""

    def __init__(self, verdict: Verdict, kinds: Sequence[str]) -> None:
        self._results: dict[tuple[str, str], list[RuleResult]] = {}
        self._limits: dict[str, list[float]] = {}
        for one in verdict.results:
            if one.kind in kinds and one.group is not None and one.slice is None:
                self._results.setdefault((one.metric, one.group), []).append(one)
                self._limits.setdefault(one.metric, []).append(one.limit)

    def of(self, metric: str, group: str) -> str:
        """Return the worst outcome of a number: one of `MARKS`."""
        found = {_status(one) for one in self._results.get((metric, group), [])}
        return next((one for one in MARKS if one in found), "plain")

    def limits(self, metric: str, group: str | None = None) -> list[float]:
        """Return the limits of a number, or all of a metric; for a gap on both sides of 0."""
        if group is None:
            found = self._limits.get(metric, [])
        else:
            found = [one.limit for one in self._results.get((metric, group), [])]
        distinct = list(dict.fromkeys(found))
        return [*distinct, *(-one for one in distinct)] if METRICS[metric].is_gap else distinct


def shown_rows(subgroups: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the identities of a table, the worst first, and a note if some are left out."""
    shown = worst_first(subgroups)[:ROWS]
    return shown, _left_out(len(shown), len(subgroups))


def _left_out(n_shown: int, n: int) -> str:
    if n_shown == n:
        return ""
    return f"These are the worst {n_shown} of {n:,} identities; all are in bias_metrics.csv."


def _status(one: RuleResult) -> str:
    if one.outcome == "skipped":
        return "small" if one.judged_in else "plain"
    if one.outcome in {"pass", "error"}:
        return one.outcome
    if one.waived_by:
        return "waived"
    return "warn" if one.action == "warn" else one.outcome


def _of(report: Report, name: str) -> Mapping[str, MetricValue]:
    return metric_cells(report.bias.subgroups[name])


def _axis(metric: str, reports: Iterable[Report], *outcomes: Outcomes) -> Axis:
    """Return an axis for all metrics of a kind, so that columns can be compared."""
    is_gap = METRICS[metric].is_gap
    kind = [one for one in SUBGROUP_METRICS if METRICS[one].is_gap == is_gap]
    found = list(_ends(reports, kind, _ENDS if is_gap else ("value",)))
    found += [limit for one in outcomes for name in kind for limit in one.limits(name)]
    return Axis.around_zero(found, 0.1) if is_gap else Axis.of_aucs(found)


def _ends(
    reports: Iterable[Report], metrics: Sequence[str], keys: Sequence[str]
) -> Iterator[float | None]:
    for report in reports:
        for name in report.bias.subgroups:
            cells = _of(report, name)
            yield from (getattr(cells[metric], key) for metric in metrics for key in keys)


def _cell(metric: str, cell: MetricValue, axis: Axis, outcomes: Outcomes, group: str) -> GridCell:
    value, low, high = cell.value, cell.low, cell.high
    status = outcomes.of(metric, group)
    if value is None:
        return GridCell("", lack=(cell.reason or "no reason given"), status=status)
    signed = METRICS[metric].is_gap
    strip = draw_strip(
        axis,
        (value, low, high),
        outcomes.limits(metric, group),
        diamond=status in {"fail", "error", "warn"},
    )
    shown = interval(low, high, signed=signed) or f"no interval: {(cell.reason or '')}"
    return GridCell(number(value, signed=signed), shown, status, strip=strip)


def _difference(cell: Mapping[str, Any], axis: Axis, status: str, level: float) -> GridCell:
    value, low, high, p_holm = (cell.get(key) for key in (*_ENDS, "p_holm"))
    if value is None:
        return GridCell("", lack=cell.get("reason") or "no reason given")
    is_shown = False
    if p_holm is not None and low is not None and high is not None:
        is_shown = p_holm <= level and not low <= 0 <= high
    shown = interval(low, high, signed=True) or f"no interval: {cell.get('reason', '')}"
    strip = draw_strip(axis, (value, low, high), diamond=status == "fail")
    return GridCell(number(value, signed=True), shown, status, strip=strip, shown=is_shown)
