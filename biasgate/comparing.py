"""Output of `biasgate compare`: what got worse, which identities differ, then all differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from bias_metrics import MetricValue
from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.first_screen import print_lines
from biasgate.printing import console, shown
from biasgate.tables import ROWS, Mark, Row, print_rows
from biasgate.tables import shown as shown_number
from biasgate.tasks.common.printable import printable
from biasgate.tasks.reporting.comparing import Compared
from biasgate.tasks.reporting.losses import summary

_WORSE, _DIFFERENT = Mark("!", "red"), Mark("*", "bold")
_TOLD = 5


def print_compared(compared: Sequence[Compared]) -> None:
    """Print each comparison."""
    out = console()
    for at, one in enumerate(compared):
        if at:
            out.print("")
        _print(out, one)


def _print(out: Console, one: Compared) -> None:
    first, second = printable(one.first), printable(one.second)
    out.print(f"[bold]{shown(first)} minus {shown(second)}[/]", soft_wrap=True)
    lines = [_worse(one), _differs(one)] if one.paired else []
    if one.reason is not None:
        lines = [f"No intervals, so nothing is shown to differ: {one.reason}."]
    if one.left_out:
        lines.append(f"Only one of the two has {_listed(one.left_out)}.")
    print_lines(out, lines)
    overall = one.comparison["overall"]
    title = (
        f"Differences on {printable(one.evaluation_set)}: {overall['n']:,} rows, "
        f"AUC {shown_number(_value(overall['auc']), signed=True)}, "
        f"final score {shown_number(_value(one.comparison['final_score']), signed=True)}"
    )
    rows = _rows(one)
    intervals = print_rows(out, title, rows[:ROWS])
    if len(rows) > ROWS:
        out.print(f"... and {len(rows) - ROWS:,} more identities with --json")
    legend = ["AUCs: above 0 the first is better. A difference of AEGs has no good side."]
    if one.paired and not intervals:
        legend.append("Intervals are shown with --json and from 76 columns on.")
    if one.paired:
        legend.append("! shown to be worse, * shown to differ (after Holm's adjustment for all).")
    out.print(f"[dim]{' '.join(legend)}[/]")


def _worse(one: Compared) -> str:
    nothing = f"No number of an identity is shown to be worse than with {one.second}."
    return summary(one.worsened, one.second) or nothing


def _differs(one: Compared) -> str:
    n = len(one.comparison["subgroups"])
    if not one.different:
        return f"None of the {n:,} identities is shown to differ."
    return f"{len(one.different):,} of {n:,} identities differ: {_listed(one.different)}."


def _rows(one: Compared) -> list[Row]:
    """Return a row for each identity, those that differ first."""
    worse = {(cell.group, cell.metric) for cell in one.worsened}

    def mark(name: str, metric: str) -> Mark | None:
        if (name, metric) in worse:
            return _WORSE
        return _DIFFERENT if one.differs(name, metric) else None

    subgroups = one.comparison["subgroups"]
    changed = {group for group, _ in worse} | {*one.different}
    return [
        Row(
            printable(name),
            "",
            "",
            [
                (_value(subgroups[name][metric]), True, mark(name, metric))
                for metric in SUBGROUP_METRICS
            ],
        )
        for name in sorted(subgroups, key=lambda name: name not in changed)
    ]


def _value(cell: Mapping[str, Any]) -> MetricValue:
    """Return a difference as a number with an interval."""
    return MetricValue(cell["value"], cell.get("reason"), low=cell["low"], high=cell["high"])


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _TOLD
    return ", ".join(names[:_TOLD]) + (f" and {more:,} more" if more > 0 else "")
