"""Who is treated worst, drawn: one number of one identity beside the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.reporting.headline import lowest_auc, worst_check
from biasgate.tasks.reporting.page.grids import LIMITS, Grid, GridCell


@dataclass(frozen=True)
class Focus:
    """A number to show first."""

    name: str
    metric: str
    """The identity, and the metric's title."""
    cell: GridCell
    """The number with its drawing."""
    against: str
    """What it is compared with, after the metric; empty without a failed check."""


def focus_of(report: Report, verdict: Verdict, grid: Grid, compared: Grid | None) -> Focus | None:
    """Return the number of the worst failed check, else the lowest AUC of the worst identity.

    Parameters
    ----------
    report, verdict : mapping
        As in `report.json` and `verdict.json`.
    compared : Grid or None
        The differences from the champion, if there was one.

    Returns
    -------
    Focus or None
        None if the number is in neither table, as the error rates at a threshold are.
    """
    one = worst_check(report, verdict)
    if one is None:
        lowest = lowest_auc(report)
        return None if lowest is None else _found(grid, *lowest, "")
    if one.slice is not None or one.metric not in SUBGROUP_METRICS:
        return None
    name, metric = str(one.group), one.metric
    if one.kind in LIMITS:
        return _found(grid, name, metric, f"; {one.kind} {one.limit:g}")
    if one.kind == "champion" and compared is not None:
        return _found(compared, name, metric, f" minus the champion's; margin {one.limit:g}")
    return None


def _found(grid: Grid, name: str, metric: str, against: str) -> Focus | None:
    row = next((row for row in grid.rows if row.name == name), None)
    if row is None:
        return None
    cell = row.cells[SUBGROUP_METRICS.index(metric)]
    title = METRICS[metric].title
    return None if cell.strip is None else Focus(name, title, cell, against)
