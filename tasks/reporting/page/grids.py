"""Tables of metrics by identity with intervals, compared with the champion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from markupsafe import Markup

from bias_metrics import BiasTable, Difference, MetricValue
from bias_metrics.metrics import AUCS, METRICS, SUBGROUP_METRICS
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.reporting.page.drawing import Axis, Shape, draw_interval
from biasgate.tasks.reporting.story import compute_excess, find_worst_number, list_gains
from biasgate.tasks.reporting.tables import format_bounds, format_number, format_size, select_rows
from biasgate.tasks.reporting.verdict_story import CheckStory

LIMITS = ("floor", "ceiling")
# The outcomes of a number's checks, the worst first, each with a sign and words.
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
    """A metric, with the axis of its drawings."""

    title: str
    hint: str
    axis: Axis
    limits: tuple[float, ...]
    """The limits of the policy."""


@dataclass(frozen=True)
class GridCell:
    """A number with its interval, and the outcome of its checks."""

    number: MetricValue
    signed: bool = False
    status: str = "plain"
    """One of `MARKS`."""
    limits: tuple[float, ...] = ()
    """The limits of the policy, for the drawing."""
    differs: bool = False
    """True if a difference is significant after Holm's adjustment."""
    champion: float | None = None
    """The champion's number."""
    change: str = ""
    """`worse` or `better` if the change from the champion is significant."""

    @property
    def text(self) -> str:
        """The number; empty if it is undefined."""
        value = self.number.value
        return "" if value is None else format_number(value, signed=self.signed)

    @property
    def interval(self) -> str:
        """Its interval, or why the interval is undefined."""
        form = partial(format_number, signed=self.signed)
        bounds = format_bounds(self.number.low, self.number.high, form)
        return bounds or f"no interval: {self.number.reason or ''}"

    @property
    def lack(self) -> str:
        """The reason why the number is undefined; else empty."""
        return "" if self.text else self.number.reason or "no reason given"

    @property
    def mark(self) -> str:
        """The sign for the outcome of the checks."""
        return MARKS[self.status][0]

    @property
    def mark_words(self) -> str:
        """The outcome of the checks in words."""
        return MARKS[self.status][1]

    @property
    def rival(self) -> str:
        """The champion's number; empty without."""
        return "" if self.champion is None else format_number(self.champion, signed=self.signed)

    def draw(self, axis: Axis) -> Markup:
        """Draw the number and the champion's."""
        cell = self.number
        shape: Shape = "dot"
        assert cell.value is not None  # noqa: S101 - the template checks `lack`
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
    """The numbers of comments and of toxic comments that mention it."""
    is_worse: bool = False
    """True if a number, in a cell or at a threshold, is significantly worse than the champion's."""

    @property
    def lack(self) -> str:
        """The reasons if all numbers of the row are undefined; else empty."""
        lacks = dict.fromkeys(cell.lack for cell in self.cells)
        return "" if "" in lacks else "; ".join(lacks)

    @property
    def no_interval(self) -> str:
        """The common reason if the whole row lacks intervals; else empty."""
        reasons = {cell.number.reason if cell.number.low is None else None for cell in self.cells}
        return (reasons.pop() or "") if len(reasons) == 1 else ""

    @property
    def kinds(self) -> str:
        """The filters that find the row: `fails`, `lacks`, `worse`, `better`."""
        outcomes = {cell.status for cell in self.cells} | {cell.change for cell in self.cells}
        kinds = {
            "fails": outcomes & {"fail", "error", "warn"},
            "lacks": outcomes & {"insufficient", "small"} or self.lack,
            "worse": self.is_worse,
            "better": "better" in outcomes,
        }
        return " ".join(kind for kind, matches in kinds.items() if matches)


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
    """Return the five metrics by identity, those with failed checks first, then by lowest AUC.

    `kinds` are the checks that set marks. `differences` add the champion's numbers. Grids that are
    drawn together have the same `axes`, by metric.
    """
    outcomes, subgroups = Outcomes(verdict, kinds), report.bias.subgroups
    axes = axes or choose_axes([(report, verdict)])
    worst = find_worst_number(report, verdict)
    first = worst.group if worst is not None and worst.is_pictured else None
    names, note = select_rows(subgroups, most, first)
    excesses = _find_excesses(verdict)

    def rank_row(name: str) -> tuple[bool, bool, float, float]:
        aucs = [value for key in AUCS if (value := subgroups[name][key].value) is not None]
        return (
            name != first,
            name not in excesses,
            -excesses.get(name, 0.0),
            min(aucs, default=2.0),  # identities without an AUC come last
        )

    names.sort(key=rank_row)
    changes = {(cell.group, cell.metric): "worse" for cell in verdict.worsened if not cell.without}
    changes |= {(gain.group, gain.metric): "better" for gain in list_gains(differences)}
    worse = {group for (group, _), change in changes.items() if change == "worse"}

    def build_cell(name: str, metric: str) -> GridCell:
        return GridCell(
            subgroups[name][metric],
            METRICS[metric].is_gap,
            outcomes.get_status(metric, name),
            outcomes.get_limits(metric, name),
            champion=None if differences is None else differences.subgroups[name][metric].second,
            change=changes.get((name, metric), ""),
        )

    rows = tuple(
        GridRow(
            name,
            tuple(build_cell(name, metric) for metric in SUBGROUP_METRICS),
            format_size(report.bias.counts[name].n),
            format_size(report.bias.counts[name].n_positive),
            name in worse,
        )
        for name in names
    )
    columns = tuple(
        Column(METRICS[key].title, METRICS[key].hint, axes[key], outcomes.get_limits(key))
        for key in SUBGROUP_METRICS
    )
    return Grid("Metrics by identity", columns, rows, note)


def _find_excesses(verdict: Verdict) -> dict[str, float]:
    """Return how far the identities with a failed floor or ceiling are beyond it."""
    excesses: dict[str, float] = {}
    for result in verdict.results:
        has_failed = result.outcome == "fail" and result.action == "block"
        if has_failed and result.group is not None and result.kind in LIMITS:
            excesses[result.group] = max(compute_excess(result), excesses.get(result.group, 0.0))
    return excesses


def build_difference(cell: Difference, status: str, confidence: float) -> GridCell:
    """Return the cell of a difference, which differs if significant at this confidence."""
    return GridCell(
        MetricValue(cell.value, cell.reason, low=cell.low, high=cell.high),
        signed=True,
        status="plain" if cell.value is None else status,
        differs=cell.is_significant(confidence),
    )


class Outcomes:
    """The outcomes and limits of a verdict's checks by metric and identity."""

    def __init__(self, verdict: Verdict, kinds: Sequence[str]) -> None:
        self._statuses: dict[tuple[str, str], set[str]] = {}
        self._limits: dict[tuple[str, str], list[float]] = {}
        for result in verdict.results:
            if result.kind in kinds and result.group is not None and result.slice is None:
                key = result.metric, result.group
                status = CheckStory.from_result(result).status
                if status == "skipped":
                    status = "small" if result.judged_in else "plain"
                self._statuses.setdefault(key, set()).add(status)
                if result.kind in LIMITS:
                    self._limits.setdefault(key, []).append(result.limit)

    def get_status(self, metric: str, group: str) -> str:
        """Return the worst outcome of a number, a key of `MARKS`."""
        statuses = self._statuses.get((metric, group), set())
        return next((status for status in MARKS if status in statuses), "plain")

    def get_limits(self, metric: str, group: str | None = None) -> tuple[float, ...]:
        """Return the limits of a number, or of a metric; for gaps on both sides of 0."""
        distinct = dict.fromkeys(
            limit
            for key, limits in self._limits.items()
            if key[0] == metric and group in {None, key[1]}
            for limit in limits
        )
        is_gap = METRICS[metric].is_gap
        return (*distinct, *(-limit for limit in distinct)) if is_gap else tuple(distinct)


def choose_axes(judged: Sequence[tuple[Report, Verdict]]) -> dict[str, Axis]:
    """Return an axis for all AUCs and an axis for all gaps, so that cells are comparable."""
    values: dict[bool, list[float | None]] = {True: [], False: []}
    for report, verdict in judged:
        outcomes = Outcomes(verdict, LIMITS)
        for metric in SUBGROUP_METRICS:
            is_gap = METRICS[metric].is_gap
            factor = 1.01 if is_gap else 0.99  # so that no limit is at the edge
            values[is_gap] += [factor * limit for limit in outcomes.get_limits(metric)]
            values[is_gap] += [cells[metric].value for cells in report.bias.subgroups.values()]
    aucs, gaps = Axis.from_aucs(values[False]), Axis.from_gaps(values[True], 0.1)
    return {metric: gaps if METRICS[metric].is_gap else aucs for metric in SUBGROUP_METRICS}
