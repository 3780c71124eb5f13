"""Tables and numbers as people read them, on pages and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bias_metrics import MetricValue
from bias_metrics.metrics import METRICS
from bias_metrics.parts import Table as TextTable
from bias_metrics.report import sort_worst_first
from biasgate.tasks.common.markdown import format_table_row
from biasgate.tasks.remembering.rows import Lines

UNDEFINED = "\N{EN DASH}"
# Most identities in a table or a picture, and most panels: if there are more, the worst.
ROWS, PANELS = 60, 30
Kind = Literal["name", "number", "words"]


@dataclass(frozen=True)
class Table:
    """A table of texts; the first column says what a row is about."""

    caption: str
    columns: Mapping[str, Kind]
    """The titles, each with what stands below: names of others, numbers, or words."""
    rows: Sequence[Sequence[str]]
    faint: frozenset[int] = frozenset()
    """Rows that say little."""

    def text(self, title: str) -> str:
        """Return aligned lines of text without control characters."""
        return TextTable(list(self.columns), self.rows, title).to_text()

    def markdown(self, name: Callable[[str], str], words: Callable[[str], str]) -> Iterator[str]:
        """Yield the lines of a Markdown table, with names and words escaped in this way."""
        yield format_table_row(self.columns)
        kinds = self.columns.values()
        yield f"|{'|'.join('--:' if kind == 'number' else '---' for kind in kinds)}|"
        escape: dict[Kind, Callable[[str], str]] = {"name": name, "words": words, "number": str}
        for row in self.rows:
            cells = zip(self.columns.values(), row, strict=True)
            yield format_table_row(escape[kind](text) for kind, text in cells)


def number_columns(*titles: str) -> dict[str, Kind]:
    """Return columns of numbers."""
    return dict.fromkeys(titles, "number")


def build_night_table(lines: Lines, metric: str | None = None) -> Table:
    """Return the numbers of a model on a set beside those of the nights before."""
    titles = number_columns("Earlier nights", "Lowest", "Highest", "Tonight", "95% interval")
    columns: dict[str, Kind] = {"Metric": "words", "Identity": "name", **titles}
    rows = [
        (
            *(row.metric, row.group, " ".join(row.earlier)),
            *(row.lowest, row.highest, row.tonight, row.interval),
        )
        for row in lines.rows
        if metric in {None, row.metric}
    ]
    return Table("Numbers by night", columns, rows)


def name_metric(metric: str) -> str:
    """Return the name of a metric in a sentence."""
    if metric not in METRICS:  # a share of comments without a score, or truncated
        return metric.replace("_", " ")
    return METRICS[metric].title


def format_minus(text: str) -> str:
    """Return a number with a minus sign that is as wide as a plus."""
    return text.replace("-", "\N{MINUS SIGN}")


def format_number(value: float, *, signed: bool = False) -> str:
    """Return a number with three decimals."""
    return format_minus(f"{value:+.3f}" if signed else f"{value:.3f}")


def format_score(value: float) -> str:
    """Return a score with three digits."""
    return format_minus(f"{value:.3g}")


def format_interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Return an interval; nothing if there is none."""
    if low is None or high is None:
        return ""
    return format_bounds(format_number(low, signed=signed), format_number(high, signed=signed))


def format_bounds(low: str, high: str) -> str:
    """Return an interval of two numbers."""
    return f"[{low}, {high}]"


def format_estimate(cell: MetricValue, *, signed: bool = False) -> str:
    """Return a number with its interval, if there is one."""
    if cell.value is None:
        return "undefined"
    ends = format_interval(cell.low, cell.high, signed=signed)
    return f"{format_number(cell.value, signed=signed)} {ends}".strip()


def format_percent(share: float | None) -> str:
    """Return a share in percent with one decimal."""
    return UNDEFINED if share is None else f"{round_thousandths(share) / 10:.1f}%"


def format_points(gap: float | None) -> str:
    """Return a difference of shares in percentage points, signed."""
    return UNDEFINED if gap is None else format_minus(f"{round_thousandths(gap) / 10:+.1f}")


def round_thousandths(share: float) -> int:
    """Return a share as the page's data hold it."""
    return round(1000 * share)


def format_size(n: float) -> str:
    """Return a number of rows, or their weight."""
    return f"{n:,.0f}"


def describe_left_out(n_shown: int, n: int) -> str:
    """Return a note if only the worst identities are shown."""
    if n_shown == n:
        return ""
    return f"These are the worst {n_shown:,} of {n:,} identities; all are in bias_metrics.csv."


def select_rows(
    subgroups: Mapping[str, Mapping[str, MetricValue]],
    most: int | None = None,
    first: str | None = None,
) -> tuple[list[str], str]:
    """Return the identities of a table, the worst first, and a note if some are left out.

    `first` is the one that the text beside it names.
    """
    every = sort_worst_first(subgroups)
    every.sort(key=lambda name: name != first)
    shown = every[: most or ROWS]
    return shown, describe_left_out(len(shown), len(subgroups))
