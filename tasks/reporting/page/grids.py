"""Tables of numbers with intervals: metrics by identity, candidates side by side, differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bias_metrics import Difference, MetricValue
from bias_metrics.gate import RIVALS
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.records import Differences, Report, Verdict, metric_cells
from biasgate.tasks.reporting.page.drawing import Axis, Strip, draw_strip
from biasgate.tasks.reporting.story import Check
from biasgate.tasks.reporting.tables import count, interval, left_out, number, shown_rows

LIMITS = ("floor", "ceiling")
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
DIFFERS = ("●", "shown to differ")
_ENDS = ("value", "low", "high")


@dataclass(frozen=True)
class Column:
    """A column: its name, what to look for, and what the drawings span."""

    title: str
    hint: str
    axis: Axis
    is_name: bool = False


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

    @property
    def text(self) -> str:
        """The number; empty if it is undefined."""
        value = self.number.value
        return "" if value is None else number(value, signed=self.signed)

    @property
    def interval(self) -> str:
        """Its interval, or why there is none."""
        ends = interval(self.number.low, self.number.high, signed=self.signed)
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

    def strip(self, axis: Axis) -> Strip:
        """Draw it; a diamond marks a number that fails a check."""
        cell, diamond = self.number, self.status in {"fail", "error", "warn"}
        assert cell.value is not None  # noqa: S101 - nothing else is drawn
        ends = cell.value, cell.low, cell.high
        return draw_strip(axis, ends, self.limits, diamond=diamond)


@dataclass(frozen=True)
class GridRow:
    """An identity and its cells."""

    name: str
    cells: tuple[GridCell, ...]
    n: str = ""
    n_positive: str = ""
    """How many comments mention it, and how many of them are toxic."""

    @property
    def lack(self) -> str:
        """Why there is no number in the whole row; empty if there is one."""
        if any(not cell.lack for cell in self.cells):
            return ""
        return "; ".join(dict.fromkeys(cell.lack for cell in self.cells))


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
        return any(cell.status in {"fail", "error"} for row in self.rows for cell in row.cells)


def metric_grid(
    report: Report, verdict: Verdict, kinds: Sequence[str] = LIMITS, most: int | None = None
) -> Grid:
    """Return the five metrics by identity, the worst identity first; `kinds` of checks mark."""
    outcomes = Outcomes(verdict, kinds)
    columns = tuple(
        Column(METRICS[one].title, METRICS[one].hint, _axis(one, [report], outcomes))
        for one in SUBGROUP_METRICS
    )
    shown = [(report, metric, outcomes) for metric in SUBGROUP_METRICS]
    return _grid("Metrics by identity", columns, shown, most)


def side_by_side(judged: Sequence[tuple[Report, Verdict]], metric: str) -> Grid:
    """Return one metric by identity, with a column for each candidate on the same set."""
    outcomes = [Outcomes(verdict, LIMITS) for _, verdict in judged]
    axis = _axis(metric, [report for report, _ in judged], *outcomes)
    columns = tuple(Column(one.candidate.name, "", axis, is_name=True) for one, _ in judged)
    shown = [(one, metric, of) for (one, _), of in zip(judged, outcomes, strict=True)]
    return _grid(f"{METRICS[metric].title}: {METRICS[metric].hint}", columns, shown)


def difference_grid(compared: Differences, verdict: Verdict, shown: Sequence[str]) -> Grid:
    """Return the differences of some identities: candidate minus champion, paired."""
    subgroups = compared.subgroups
    outcomes, alone = Outcomes(verdict, RIVALS), Outcomes(verdict, LIMITS)

    def status(metric: str, name: str) -> str:
        found = outcomes.of(metric, name)
        return "small" if found == "plain" and alone.of(metric, name) == "small" else found

    ends = [
        getattr(subgroups[name][metric], key)
        for name in shown
        for metric in SUBGROUP_METRICS
        for key in _ENDS
        if alone.of(metric, name) not in {"small", "insufficient"}  # whose intervals are wide
    ]
    axis = Axis.around_zero(ends, 0.05)
    rows = tuple(
        GridRow(
            name,
            tuple(
                difference(subgroups[name][metric], status(metric, name), compared.confidence)
                for metric in SUBGROUP_METRICS
            ),
        )
        for name in shown
    )
    columns = tuple(Column(METRICS[metric].title, "", axis) for metric in SUBGROUP_METRICS)
    note = left_out(len(shown), len(subgroups))
    return Grid("Candidate minus champion, on the same comments", columns, rows, note)


def difference(cell: Difference, status: str, confidence: float) -> GridCell:
    """Return a difference of a comparison; at what confidence its p-value shows it."""
    found = MetricValue(cell.value, cell.reason, low=cell.low, high=cell.high)
    status, shown = "plain" if cell.value is None else status, cell.shown(confidence)
    return GridCell(found, signed=True, status=status, differs=shown)


class Outcomes:
    """What the checks of a verdict say of each number of an identity."""

    def __init__(self, verdict: Verdict, kinds: Sequence[str]) -> None:
        self._statuses: dict[tuple[str, str], set[str]] = {}
        self._limits: dict[tuple[str, str], list[float]] = {}
        for result in verdict.results:
            if result.kind in kinds and result.group is not None and result.slice is None:
                of = result.metric, result.group
                self._statuses.setdefault(of, set()).add(_status(Check.of(result)))
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


def _status(check: Check) -> str:
    if check.status == "skipped":
        return "small" if check.result.judged_in else "plain"
    return check.status


def _grid(
    caption: str,
    columns: tuple[Column, ...],
    shown: Sequence[tuple[Report, str, Outcomes]],
    most: int | None = None,
) -> Grid:
    subgroups = shown[0][0].bias.subgroups
    names, note = shown_rows(subgroups, most)
    rows = tuple(
        GridRow(
            name,
            tuple(
                GridCell(
                    metric_cells(report.bias.subgroups[name])[metric],
                    METRICS[metric].is_gap,
                    outcomes.of(metric, name),
                    outcomes.limits(metric, name),
                )
                for report, metric, outcomes in shown
            ),
            count(subgroups[name].n),
            count(subgroups[name].n_positive),
        )
        for name in names
    )
    return Grid(caption, columns, rows, note)


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
        for subgroup in report.bias.subgroups.values():
            cells = metric_cells(subgroup)
            yield from (getattr(cells[metric], key) for metric in metrics for key in keys)
