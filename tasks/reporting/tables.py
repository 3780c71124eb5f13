"""Tables and numbers as people read them, on pages and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bias_metrics import MetricValue
from bias_metrics.metrics import METRICS
from bias_metrics.parts import Table as TextTable
from bias_metrics.report import sort_worst_first
from biasgate.tasks.common.markdown import format_table_row
from biasgate.tasks.remembering.rows import Lines

UNDEFINED = "\N{EN DASH}"
# The most identities of a table or figure, and the most panels: the worst are shown.
ROWS, PANELS = 60, 30
Kind = Literal["name", "number", "words"]


@dataclass(frozen=True)
class Table:
    """A table of texts, whose first column names the rows."""

    caption: str
    columns: Mapping[str, Kind]
    """The titles, with the kind of each column: names that users chose, numbers, or words."""
    rows: Sequence[Sequence[str]]

    def to_text(self, title: str) -> str:
        """Return aligned lines of text without control characters."""
        return TextTable(list(self.columns), self.rows, title).to_text()

    def to_markdown(self, name: Callable[[str], str], words: Callable[[str], str]) -> Iterator[str]:
        """Yield the lines of a Markdown table, escaping names and words by the given functions."""
        yield format_table_row(self.columns)
        kinds = self.columns.values()
        yield f"|{'|'.join('--:' if kind == 'number' else '---' for kind in kinds)}|"
        escape: dict[Kind, Callable[[str], str]] = {"name": name, "words": words, "number": str}
        for row in self.rows:
            yield format_table_row(
                escape[kind](text) for kind, text in zip(kinds, row, strict=True)
            )


def number_columns(*titles: str) -> dict[str, Kind]:
    """Return columns of numbers."""
    return dict.fromkeys(titles, "number")


def build_night_table(lines: Lines, metric: str | None = None) -> Table:
    """Return the numbers of a model on a set, next to those of earlier nights."""
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
    """Return the name of a metric, or of a share of comments, in a sentence."""
    return METRICS[metric].title if metric in METRICS else metric.replace("_", " ")


def format_minus(text: str) -> str:
    """Replace hyphens by minus signs, which are as wide as plus signs."""
    return text.replace("-", "\N{MINUS SIGN}")


def format_number(value: float, *, signed: bool = False) -> str:
    """Return a number with three decimals."""
    return format_minus(f"{value:+.3f}" if signed else f"{value:.3f}")


def format_score(value: float) -> str:
    """Return a score with three significant digits."""
    return format_minus(f"{value:.3g}")


def format_bounds(
    low: float | None, high: float | None, form: Callable[[float], str] = format_number
) -> str:
    """Return an interval; empty if it is undefined."""
    return "" if low is None or high is None else f"[{form(low)}, {form(high)}]"


def format_estimate(cell: MetricValue, *, signed: bool = False) -> str:
    """Return a number with its interval, if it has an interval."""
    if cell.value is None:
        return "undefined"
    form = partial(format_number, signed=signed)
    return f"{form(cell.value)} {format_bounds(cell.low, cell.high, form)}".strip()


def format_percent(share: float | None) -> str:
    """Return a share in percent with one decimal."""
    return UNDEFINED if share is None else f"{round_thousandths(share) / 10:.1f}%"


def format_points(gap: float | None) -> str:
    """Return a difference of shares in percentage points, signed."""
    return UNDEFINED if gap is None else format_minus(f"{round_thousandths(gap) / 10:+.1f}")


def round_thousandths(share: float) -> int:
    """Return a share in thousandths, as in the data of the page."""
    return round(1000 * share)


def format_size(n: float) -> str:
    """Return a number of rows, or their weight."""
    return f"{n:,.0f}"


def select_rows(
    subgroups: Mapping[str, Mapping[str, MetricValue]],
    most: int | None = None,
    first: str | None = None,
) -> tuple[list[str], str]:
    """Return the identities of a table, the worst first, and a note if some are left out.

    `first` is the identity that the text next to the table names.
    """
    names = sort_worst_first(subgroups)
    names.sort(key=lambda name: name != first)
    shown = names[: most or ROWS]
    if len(shown) == len(names):
        return shown, ""
    n_shown, n = f"{len(shown):,}", f"{len(names):,}"
    return shown, f"These are the worst {n_shown} of {n} identities; all are in bias_metrics.csv."
