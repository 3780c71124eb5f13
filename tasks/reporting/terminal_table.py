"""The metrics of every identity on the terminal, in the form that fits its width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bias_metrics import MetricValue
from bias_metrics.gate import RIVALS
from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.common.console import has_width, print_text
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.records.numbers import name_final_score
from biasgate.tasks.reporting.leaderboard import Leaderboard, LeaderboardRow
from biasgate.tasks.reporting.page.grids import (
    DIFFERS,
    LIMITS,
    MARKS,
    GridCell,
    GridRow,
    build_grid,
)
from biasgate.tasks.reporting.tables import Table as TextTable
from biasgate.tasks.reporting.tables import format_estimate

COLOURS = {
    "pass": "green",
    "except": "yellow",
    "warn": "yellow",
    "fail": "red",
    "insufficient": "yellow",
    "error": "red",
    "reported": "cyan",
}
ROWS = 40  # most identities in a table: if there are more, the worst
_NARROW = 76  # width of five numbers with intervals
_LISTED = 56  # width of five numbers without


def print_table(out: Console, report: Report, verdict: Verdict) -> None:
    """Print the metrics of every identity, as a table or, if that does not fit, as a list."""
    grid = build_grid(report, verdict, (*LIMITS, *RIVALS), ROWS)
    overall = report.bias.overall
    mean = GridRow(
        f"power mean (p = {report.bias.power:g})",
        tuple(GridCell(overall[metric]) for metric in SUBGROUP_METRICS if metric in overall),
    )
    intervals = print_rows(out, format_title(report), grid.rows, mean)
    left_out = len(report.bias.subgroups) - len(grid.rows)
    if left_out:
        out.print(f"... and {left_out:,} more identities in bias_metrics.csv")
    legend = [
        "± is half the width of the 95% interval; checks use one-sided bounds, which are narrower."
    ]
    if not intervals:
        legend = ["Intervals are in bias_metrics.csv."]
    final = overall.final_score
    if final.value is None:
        reason = (final.reason or "no reason given").removeprefix("undefined: ")
        legend.append(f"The final score is undefined: {reason}.")
    used = {cell.status for row in grid.rows for cell in row.cells}
    marks = [
        f"{sign} {words}" for status, (sign, words) in MARKS.items() if sign and status in used
    ]
    legend += [f"{', '.join(marks)} (see below)."] if marks else []
    print_text(out, Text(escape_invisible(" ".join(legend)), "dim"), indent=0, in_pipe=True)


def format_half_width(cell: MetricValue, *, signed: bool = False, interval: bool = True) -> str:
    """Return a value with half the width of its interval."""
    if cell.value is None:
        return "undefined"
    text = f"{cell.value:+.3f}" if signed else f"{cell.value:.3f}"
    if cell.low is None or cell.high is None or not interval:
        return text
    return f"{text} ±{(cell.high - cell.low) / 2:.3f}".replace("±0", "±")


def print_leaderboard(out: Console, board: Leaderboard) -> None:
    """Print a line for each row; if it does not fit, two lines, or more for long names."""
    for score, level in (
        (format_estimate, 0),
        (format_half_width, 1),
        (format_half_width, 2),
        (_format_value, 2),
    ):
        lines = (_list_cells(board, row, level, score) for row in board.rows)
        table = [_list_headings(board, score), *lines]
        widths = [max(text.cell_len for text in column) for column in zip(*table, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= out.width:
            for line in table:
                out.print(_pad_line(line, widths), soft_wrap=True)
            return
    n_first = 3 + board.has_sets
    firsts = [_list_headings(board), *(_list_cells(board, row, 1) for row in board.rows)]
    firsts = [line[:n_first] for line in firsts]
    widths = [max(text.cell_len for text in column) for column in zip(*firsts, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) > out.width:
        n_first, widths = 1, [0]
    for at, first in enumerate(firsts):
        print_text(out, _pad_line(first[:n_first], widths), in_pipe=True)
        full, brief = (_format_second_line(board, at, level, n_first) for level in (1, 2))
        rest = full if full.cell_len <= out.width - 2 else brief
        print_text(out, Text("  ") + rest, indent=0, in_pipe=True)


def _format_second_line(board: Leaderboard, at: int, level: int, n_first: int) -> Text:
    """Return the cells of a row, or at 0 of the headings, after the first `n_first` cells."""
    cells = _list_cells(board, board.rows[at - 1], level) if at else _list_headings(board)
    return Text("; ").join(cell for cell in cells[n_first:] if cell.plain not in {"", "-"})


def _pad_line(line: Sequence[Text], widths: Sequence[int]) -> Text:
    padded = (
        text + " " * (width - text.cell_len) for text, width in zip(line, widths, strict=True)
    )
    text = Text("  ").join(padded)
    text.rstrip()
    return text


def _list_headings(
    board: Leaderboard, score: Callable[[MetricValue], str] = format_half_width
) -> list[Text]:
    level = "" if score is _format_value else " (95% CI)"
    titles = {
        "candidate": True,
        "set": board.has_sets,
        "outcome": True,
        f"score{level}": True,
        "worst identity": True,
        "vs champion": board.has_champion,
        board.threshold: board.has_threshold,
    }
    return [Text(title, "bold") for title, is_shown in titles.items() if is_shown]


def _format_value(cell: MetricValue) -> str:
    return format_half_width(cell, interval=False)


def _list_cells(
    board: Leaderboard,
    row: LeaderboardRow,
    level: int,
    score: Callable[[MetricValue], str] = format_half_width,
) -> list[Text]:
    """Return the cells of a row; level 0 has the most words."""
    worst, change, decisions = (
        cell.get_text(level) for cell in (row.worst, row.change, row.decisions)
    )
    cells = [Text(escape_invisible(row.candidate), "bold")]
    cells += [Text(escape_invisible(row.evaluation_set))] if board.has_sets else []
    cells += [
        Text(row.outcome, f"bold {COLOURS[row.badge]}"),
        Text(score(row.final_score)),
        Text(escape_invisible(worst)),
    ]
    cells += [Text(escape_invisible(change))] if board.has_champion else []
    cells += [Text(escape_invisible(decisions))] if board.has_threshold else []
    return cells


def format_title(report: Report) -> str:
    """Return the candidate, the set, the measured rows and the overall numbers."""
    overall, counts = report.bias.overall, report.bias.counts[None]
    names = escape_invisible(f"{report.candidate.name} on {report.evaluation_set.name}")
    rows = report.evaluation_set.choices.left_out or f"{counts.n:,} rows"
    return (
        f"{names}: {rows}, {counts.n_positive:,} positive, AUC {format_half_width(overall.auc)}, "
        f"{name_final_score(report.bias)} {format_half_width(overall.final_score)}"
    )


def print_text_table(out: Console, table: TextTable) -> None:
    """Print a table below its caption; if it is too wide, each row as names and numbers."""
    print_text(out, Text(escape_invisible(table.caption)))
    lines = [Text(line) for line in table.to_text("").splitlines()]
    if not has_width(out) or max(line.cell_len for line in lines) <= out.width:
        for line in lines:
            out.print(line, soft_wrap=True)
        return
    for row in table.rows:
        cells = [(*column, text) for column, text in zip(table.columns.items(), row, strict=True)]
        names = [text for _, kind, text in cells if text and kind != "number"]
        numbers = [f"{title} {text}" for title, kind, text in cells if text and kind == "number"]
        print_text(out, Text(escape_invisible(", ".join(names))))
        print_text(out, Text(escape_invisible(f"  {'; '.join(numbers)}")), indent=0)


def print_rows(
    out: Console, title: str, rows: Sequence[GridRow], last: GridRow | None = None
) -> bool:
    """Print rows in the form that fits the width; return True if with intervals."""
    rows = [*rows, *([] if last is None else [last])]
    table = _build_table(title, rows, last)
    if Measurement.get(out, out.options.update(max_width=10_000), table).maximum <= out.width:
        out.print(table)
        return True
    print_text(out, Text(title, "bold"), in_pipe=True)
    if out.width < _LISTED:
        _print_listed(out, rows)
        return True
    _print_folded(out, rows, intervals=out.width >= _NARROW)
    return out.width >= _NARROW


def _build_table(title: str, rows: Sequence[GridRow], last: GridRow | None) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    table.add_column("identity", no_wrap=True)
    counts = ("n", "positive") if any(row.n for row in rows) else ()
    for heading in (*counts, *_name_metrics()):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if row is last:
            table.add_section()
        numbers = (row.n, row.n_positive) if counts else ()
        table.add_row(Text(escape_invisible(row.name)), *numbers, *map(_format_cell, row.cells))
    return table


def _print_folded(out: Console, rows: Sequence[GridRow], *, intervals: bool) -> None:
    """Print each identity's full name, with its numbers on the line below."""
    headings = [Text(name, "bold") for name in _name_metrics()]
    if not intervals:
        headings = [
            Text(name.replace("itive", ".").replace("ative", ".")) for name in _name_metrics()
        ]
    lines = [
        headings,
        *([_format_cell(cell, interval=intervals) for cell in row.cells] for row in rows),
    ]
    widths = [
        max(text.cell_len for text in column) for column in zip_longest(*lines, fillvalue=Text())
    ]
    for row, line in zip((None, *rows), lines, strict=True):
        if row is not None:
            _print_name(out, row)
        padded = (
            Text(" " * (width - len(text))) + text
            for text, width in zip(line, widths, strict=False)
        )
        out.print(Text(" ") + Text("  ").join(padded))


def _print_listed(out: Console, rows: Sequence[GridRow]) -> None:
    """Print each identity's full name, with each of its numbers on a line of its own."""
    width = max(map(len, _name_metrics()))
    for row in rows:
        _print_name(out, row)
        for heading, cell in zip(_name_metrics(), row.cells, strict=False):
            out.print(Text(f"  {heading:{width}}  ") + _format_cell(cell))


def _print_name(out: Console, row: GridRow) -> None:
    counts = f"  {row.n} rows, {row.n_positive} positive" if row.n else ""
    print_text(out, Text.assemble(escape_invisible(row.name), (counts, "dim")), in_pipe=True)


def _name_metrics() -> list[str]:
    return [name.replace("_", " ") for name in SUBGROUP_METRICS]


def _format_cell(cell: GridCell, *, interval: bool = True) -> Text:
    defined = cell.number.value is not None
    text = format_half_width(cell.number, signed=cell.signed, interval=interval) if defined else "-"
    if cell.mark:
        return Text(f"{text} {cell.mark}", COLOURS.get(cell.status, ""))
    return Text(f"{text} {DIFFERS[0]}", "bold") if cell.differs else Text(text)
