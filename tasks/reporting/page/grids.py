"""Tables of numbers with intervals: metrics by identity, beside the champion's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from markupsafe import Markup

from bias_metrics import BiasTable, Difference, MetricValue
from bias_metrics.metrics import AUCS, METRICS, SUBGROUP_METRICS
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.reporting.page.drawing import Axis, Shape, draw_interval
from biasgate.tasks.reporting.story import compute_excess, find_worst_number, list_gains
from biasgate.tasks.reporting.tables import format_interval, format_number, format_size, select_rows
from biasgate.tasks.reporting.verdict_story import Check

LIMITS = ("floor", "ceiling")
# From the worst: what the checks of one number came to. A mark and words, not colour alone.
MARKS = {
    "error": ("✕", "check ended in an error"),
    "fail": ("✕", "fails a check"),
    "insufficient": ("?", "undecided"),
    "warn": ("!", "fails a check that only warns"),
    "small": ("~", "too few comments, judged in its category"),
    "pass": ("", ""),
    "plain": ("", ""),
}
DIFFERS = ("●", "significantly different")


@dataclass(frozen=True)
class Column:
    """A column: its name, what to look for, and what the drawings span."""

    title: str
    hint: str
    axis: Axis
    limits: tuple[float, ...]
    """The limits of the policy."""


@dataclass(frozen=True)
class GridCell:
    """A number with its interval, and what the checks of it came to."""

    number: MetricValue
    signed: bool = False
    status: str = "plain"
    """One of `MARKS`."""
    limits: tuple[float, ...] = ()
    """The limits of the policy, for the drawing."""
    differs: bool = False
    """Whether a difference is shown after Holm's adjustment."""
    champion: float | None = None
    """The champion's number."""
    change: str = ""
    """`worse` or `better` if that is shown against the champion."""

    @property
    def text(self) -> str:
        """The number; empty if it is undefined."""
        value = self.number.value
        return "" if value is None else format_number(value, signed=self.signed)

    @property
    def interval(self) -> str:
        """Its interval, or why there is none."""
        ends = format_interval(self.number.low, self.number.high, signed=self.signed)
        return ends or f"no interval: {self.number.reason or ''}"

    @property
    def lack(self) -> str:
        """Why there is no number; empty if there is one."""
        return "" if self.text else self.number.reason or "no reason given"

    @property
    def mark(self) -> str:
        """A sign for the outcome of the checks."""
        return MARKS[self.status][0]

    @property
    def said(self) -> str:
        """The outcome of the checks in words."""
        return MARKS[self.status][1]

    @property
    def rival(self) -> str:
        """The champion's number; empty if there is none."""
        return "" if self.champion is None else format_number(self.champion, signed=self.signed)

    def drawn(self, axis: Axis) -> Markup:
        """Draw it beside the champion's."""
        cell = self.number
        shape: Shape = "dot"
        assert cell.value is not None  # noqa: S101 - nothing else is drawn
        if self.status in {"fail", "error", "warn"}:
            shape = "diamond"
        elif self.status in {"insufficient", "small"} or cell.low is None:
            shape = "square"
        ends = cell.value, cell.low, cell.high
        return draw_interval(axis, ends, limits=self.limits, rival=self.champion, shape=shape)


@dataclass(frozen=True)
class GridRow:
    """An identity and its cells."""

    name: str
    cells: tuple[GridCell, ...]
    n: str = ""
    n_positive: str = ""
    """How many comments mention it, and how many of them are toxic."""
    is_worse: bool = False
    """Whether a number is shown to be worse than the champion's, in a cell or at a threshold."""

    @property
    def lack(self) -> str:
        """Why there is no number in the whole row; empty if there is one."""
        if any(not cell.lack for cell in self.cells):
            return ""
        return "; ".join(dict.fromkeys(cell.lack for cell in self.cells))

    @property
    def no_interval(self) -> str:
        """Why no number of the row has an interval; empty if reasons differ or one has."""
        reasons = {cell.number.reason if cell.number.low is None else None for cell in self.cells}
        return (reasons.pop() or "") if len(reasons) == 1 else ""

    @property
    def kinds(self) -> str:
        """What a filter finds it by: `fails`, `lacks`, `worse`, `better`."""
        of = {cell.status for cell in self.cells} | {cell.change for cell in self.cells}
        found = {
            "fails": of & {"fail", "error", "warn"},
            "lacks": of & {"insufficient", "small"} or self.lack,
            "worse": self.is_worse,
            "better": "better" in of,
        }
        return " ".join(kind for kind, is_so in found.items() if is_so)


@dataclass(frozen=True)
class Grid:
    """A table of identities."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[GridRow, ...]
    left_out: str = ""


def build_grid(
    report: Report,
    verdict: Verdict,
    kinds: Sequence[str] = LIMITS,
    most: int | None = None,
    *,
    differences: BiasTable | None = None,
    axes: Mapping[str, Axis] = MappingProxyType({}),
) -> Grid:
    """Return the five metrics by identity: those with failed checks first, then by lowest AUC.

    `kinds` of checks mark; with `differences` each number stands beside the champion's. Grids that
    are drawn together have the same `axes`, by metric.
    """
    outcomes, subgroups = Outcomes(verdict, kinds), report.bias.subgroups
    known = axes or choose_axes([(report, verdict)])
    worst = find_worst_number(report, verdict)
    first = worst.group if worst is not None and worst.is_pictured else None
    names, note = select_rows(subgroups, most, first)
    failed = _find_failed(verdict)
    lowest = {name: _find_lowest(subgroups[name]) for name in names}
    names.sort(key=lambda x: (x != first, x not in failed, -failed.get(x, 0.0), lowest[x]))
    changes = {(cell.group, cell.metric): "worse" for cell in verdict.worsened if not cell.without}
    changes |= {(gain.group, gain.metric): "better" for gain in list_gains(differences)}

    def cell(name: str, metric: str) -> GridCell:
        beside = differences.subgroups[name][metric] if differences is not None else None
        return GridCell(
            subgroups[name][metric],
            METRICS[metric].is_gap,
            outcomes.of(metric, name),
            outcomes.limits(metric, name),
            champion=None if beside is None else beside.second,
            change=changes.get((name, metric), ""),
        )

    rows = tuple(
        GridRow(
            name,
            tuple(cell(name, metric) for metric in SUBGROUP_METRICS),
            format_size(report.bias.counts[name].n),
            format_size(report.bias.counts[name].n_positive),
            any(group == name and change == "worse" for (group, _), change in changes.items()),
        )
        for name in names
    )
    columns = tuple(
        Column(METRICS[one].title, METRICS[one].hint, known[one], outcomes.limits(one))
        for one in SUBGROUP_METRICS
    )
    return Grid("Metrics by identity", columns, rows, note)


def _find_failed(verdict: Verdict) -> dict[str, float]:
    """Return the identities with a failed floor or ceiling, each with how far it is beyond it."""
    found: dict[str, float] = {}
    for result in verdict.results:
        is_failed = result.outcome == "fail" and result.action == "block"
        if is_failed and result.group is not None and result.kind in LIMITS:
            found[result.group] = max(compute_excess(result), found.get(result.group, 0.0))
    return found


def _find_lowest(cells: Mapping[str, MetricValue]) -> float:
    """Return the lowest AUC of an identity; one without any comes last."""
    values = [cells[metric].value for metric in AUCS]
    return min((value for value in values if value is not None), default=2.0)


def build_difference(cell: Difference, status: str, confidence: float) -> GridCell:
    """Return a difference of a comparison; at what confidence its p-value shows it."""
    found = MetricValue(cell.value, cell.reason, low=cell.low, high=cell.high)
    status, shown = "plain" if cell.value is None else status, cell.is_significant(confidence)
    return GridCell(found, signed=True, status=status, differs=shown)


class Outcomes:
    """What the checks of a verdict say of each number of an identity."""

    def __init__(self, verdict: Verdict, kinds: Sequence[str]) -> None:
        self._statuses: dict[tuple[str, str], set[str]] = {}
        self._limits: dict[tuple[str, str], list[float]] = {}
        for result in verdict.results:
            if result.kind in kinds and result.group is not None and result.slice is None:
                of = result.metric, result.group
                self._statuses.setdefault(of, set()).add(_name_status(Check.from_result(result)))
                if result.kind in LIMITS:
                    self._limits.setdefault(of, []).append(result.limit)

    def of(self, metric: str, group: str) -> str:
        """Return the worst outcome of a number: one of `MARKS`."""
        found = self._statuses.get((metric, group), set())
        return next((status for status in MARKS if status in found), "plain")

    def limits(self, metric: str, group: str | None = None) -> tuple[float, ...]:
        """Return the limits of a number, or all of a metric; for a gap on both sides of 0."""
        distinct = dict.fromkeys(
            limit
            for of, limits in self._limits.items()
            if of[0] == metric and group in {None, of[1]}
            for limit in limits
        )
        is_gap = METRICS[metric].is_gap
        return (*distinct, *(-limit for limit in distinct)) if is_gap else tuple(distinct)


def _name_status(check: Check) -> str:
    if check.status == "skipped":
        return "small" if check.result.judged_in else "plain"
    return check.status


def choose_axes(judged: Sequence[tuple[Report, Verdict]]) -> dict[str, Axis]:
    """Return one axis for all AUCs and one for all gaps, so that all cells can be compared."""
    values: dict[bool, list[float | None]] = {True: [], False: []}
    for report, verdict in judged:
        outcomes = Outcomes(verdict, LIMITS)
        for metric in SUBGROUP_METRICS:
            found = values[METRICS[metric].is_gap]
            beyond = 1.01 if METRICS[metric].is_gap else 0.99  # so that no limit is the edge
            found += [beyond * limit for limit in outcomes.limits(metric)]
            found += [subgroup[metric].value for subgroup in report.bias.subgroups.values()]
    aucs, gaps = Axis.of_aucs(values[False]), Axis.around_zero(values[True], 0.1)
    return {metric: gaps if METRICS[metric].is_gap else aucs for metric in SUBGROUP_METRICS}
