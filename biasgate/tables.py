"""The table of metrics by identity, in a form that fits the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bias_metrics import MetricValue
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.report import worst_first
from biasgate.tasks.common.printable import printable
from biasgate.tasks.measuring.cautions import unmeasured
from biasgate.tasks.records import Report, Verdict, metric_cells
from biasgate.tasks.records.numbers import final_score_name

_NARROW = 76  # width of five numbers with intervals
_LISTED = 56  # width of five numbers without
ROWS = 40  # most identities in a table: if there are more, the worst


class Mark(NamedTuple):
    """A sign behind a number, and its colour."""

    sign: str
    colour: str


@dataclass(frozen=True)
class Row:
    """One identity, or an aggregate over all."""

    name: str
    """Name of the identity."""
    n: str
    n_positive: str
    """Numbers of rows and of positive rows; empty for aggregates."""
    cells: Sequence[tuple[MetricValue | None, bool, Mark | None]]
    """For each metric: the value with its interval, whether it has a sign, and what is marked."""

    @property
    def counts(self) -> str:
        """Rows and positives in words; empty for aggregates."""
        return f"  {self.n} rows, {self.n_positive} positive" if self.n else ""


def print_table(
    out: Console,
    report: Report,
    verdict: Verdict,
    colours: Mapping[str, str],
) -> None:
    """Print the metrics of every identity, as a table or, if that does not fit, as a list.

    `colours` are those of outcomes, for values with a check that did not pass.
    """
    title, rows, mean = (
        title_of(report, verdict),
        rows_of(report, verdict, colours),
        mean_of(report),
    )
    intervals = print_rows(out, title, rows, mean)
    left_out = len(report.bias.subgroups) - len(rows)
    if left_out:
        out.print(f"... and {left_out:,} more identities in bias_metrics.csv")
    legend = [
        "± is half the width of the 95 % interval; checks use one-sided bounds, which are narrower."
    ]
    if not intervals:
        legend = ["Intervals are in bias_metrics.csv."]
    final = report.bias.final_score
    if final.value is None:
        reason = printable(final.reason or "no reason given").removeprefix("undefined: ")
        legend.append(f"The final score is undefined: {escape(reason)}.")
    if verdict.nights is not None and verdict.nights.number > 1:
        legend.append("Tonight's numbers alone are in bias_metrics.csv.")
    if any(against is not None for row in rows for *_, against in row.cells):
        legend.append("! marks a value with a check that did not pass (see below).")
    out.print(f"[dim]{' '.join(legend)}[/]")


def print_rows(out: Console, title: str, rows: Sequence[Row], last: Row | None = None) -> bool:
    """Print rows in the form that fits the width; return whether with intervals."""
    every = rows if last is None else [*rows, last]
    table = _table(title, rows, last)
    if Measurement.get(out, out.options.update(max_width=10_000), table).maximum <= out.width:
        out.print(table)
    elif out.width < _LISTED:
        _print_listed(out, title, every)
    else:
        _print_folded(out, title, every, intervals=out.width >= _NARROW)
        return out.width >= _NARROW
    return True


def title_of(report: Report, verdict: Verdict) -> str:
    """Return the candidate, the set, the rows that count and the overall numbers."""
    overall, final = report.bias.overall, report.bias.final_score
    known = "undefined" if final.value is None else shown(final)
    names = printable(f"{report.candidate.name} on {report.evaluation_set.name}")
    return (
        f"{names}: "
        f"{_counted(report, verdict)}, AUC {shown(overall.auc)}, "
        f"{final_score_name(report.bias)} {known}"
    )


def _counted(report: Report, verdict: Verdict) -> str:
    """Return the number of measured rows, and why others are left out."""
    choices, overall = report.evaluation_set.choices, report.bias.overall
    n, positive = f"{overall.n:,} rows", f"{overall.n_positive:,} positive"
    if overall.labelled is not None:
        labelled = overall.labelled
        return (
            f"{n}, {positive}; identities are known of and counted on {sum(labelled.values()):,} "
            f"rows, {labelled['positive']:,} positive"
        )
    if verdict.nights is not None and verdict.nights.number > 1:
        return f"{n} of {verdict.nights.number} nights, {positive}"
    return f"{unmeasured(choices) or n}, {positive}"


def rows_of(report: Report, verdict: Verdict, colours: Mapping[str, str]) -> list[Row]:
    """Return a row for each identity, with the colours of checks that did not pass.

    Only the worst of many identities.
    """
    against = {
        (one.group, one.metric): Mark(
            "!", colours[one.outcome if one.action == "block" else "warn"]
        )
        for one in verdict.results
        if one.outcome not in {"pass", "skipped"}
    }
    subgroups = report.bias.subgroups
    names = list(subgroups) if len(subgroups) <= ROWS else worst_first(subgroups)[:ROWS]
    return [
        Row(
            printable(name),
            f"{subgroups[name].n:,}",
            f"{subgroups[name].n_positive:,}",
            [
                (metric_cells(subgroups[name])[one], METRICS[one].is_gap, against.get((name, one)))
                for one in SUBGROUP_METRICS
            ],
        )
        for name in names
    ]


def mean_of(report: Report) -> Row:
    """Return the row of power means; gaps have none."""
    means = report.bias.power_mean
    name = f"power mean (p = {means.power:g})"
    cells = metric_cells(means)
    return Row(name, "", "", [(cells.get(one), False, None) for one in SUBGROUP_METRICS])


def shown(cell: MetricValue | None, *, signed: bool = False, interval: bool = True) -> str:
    """Return a value with half the width of its interval; "-" if it is undefined."""
    if not cell:
        return ""
    value, low, high = cell.value, cell.low, cell.high
    if value is None:
        return "-"
    text = f"{value:+.3f}" if signed else f"{value:.3f}"
    if low is None or high is None or not interval:
        return text
    return f"{text} ±{(high - low) / 2:.3f}".replace("±0", "±")


def _table(title: str, rows: Sequence[Row], last: Row | None) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    table.add_column("identity", no_wrap=True)
    counts = ("n", "positive") if any(row.n for row in rows) else ()
    for heading in (*counts, *_headings()):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows if last is None else (*rows, last):
        if row is last:
            table.add_section()
        numbers = (row.n, row.n_positive) if counts else ()
        table.add_row(Text(row.name), *numbers, *(_cell(*one) for one in row.cells))
    return table


def _print_folded(out: Console, title: str, rows: Sequence[Row], *, intervals: bool) -> None:
    """Print each identity's full name, with its numbers on the line below."""
    cells = [[_cell(*one, interval=intervals) for one in row.cells] for row in rows]
    headings = [Text(one, "bold") for one in _headings()]
    if not intervals:
        headings = [Text(one.plain.replace("itive", ".").replace("ative", ".")) for one in headings]
    lines = [headings, *cells]
    widths = [max(line[at].cell_len for line in lines) for at in range(len(headings))]
    out.print(Text(title, "bold"), overflow="fold")
    out.print(_line(headings, widths))
    for row, numbers in zip(rows, cells, strict=True):
        out.print(Text.assemble(row.name, (row.counts, "dim")), overflow="fold")
        out.print(_line(numbers, widths))


def _print_listed(out: Console, title: str, rows: Sequence[Row]) -> None:
    """Print each identity's full name, with each of its numbers on a line of its own."""
    headings = _headings()
    width = max(map(len, headings))
    out.print(Text(title, "bold"), overflow="fold")
    for row in rows:
        out.print(Text.assemble(row.name, (row.counts, "dim")), overflow="fold")
        for heading, one in zip(headings, row.cells, strict=True):
            number = _cell(*one)
            if number.plain:
                out.print(Text(f"  {heading:{width}}  ") + number)


def _line(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    padded = [
        Text(" " * (width - cell.cell_len)) + cell
        for cell, width in zip(cells, widths, strict=True)
    ]
    return Text(" ") + Text("  ").join(padded)


def _headings() -> list[str]:
    return [name.replace("_", " ") for name in SUBGROUP_METRICS]


def _cell(
    cell: MetricValue | None,
    signed: bool,  # noqa: FBT001
    mark: Mark | None,
    *,
    interval: bool = True,
) -> Text:
    text = shown(cell, signed=signed, interval=interval)
    return Text(text) if mark is None else Text(f"{text} {mark.sign}", mark.colour)
