"""A report whose rows come in clusters: every cell, and what the aggregates need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from bias_metrics._core.clusters import ClusterSums, ClusterTotal
from bias_metrics._core.intervals import few_clusters
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.table import BiasTable, Key


class Moves:
    """How far clusters, or weighted rows, move the aggregates of a report.

    Weighted rows without clusters are clusters of one row each.

    `totals`: the clusters' influences on the overall AUC (`overall`), the power means and the final
    score, as far as they have any.
    """

    def __init__(self, report: BiasTable) -> None:
        self.totals: dict[str, ClusterSums] = {}
        self._means = {metric: power_mean_of_cells(report, metric) for metric in FINAL_SCORE_PARTS}

    def add(self, name: str | None, metric: str, sums: ClusterSums) -> None:
        """Add the influences on a cell, or on the overall AUC if `name` is None."""
        if name is None:
            self.totals["overall"] = sums
            return
        mean = self._means.get(metric)
        if not isinstance(mean, PowerMean) or name not in mean.cells:
            return
        weighted = sums.times(mean.derivatives[name])
        known = self.totals.get(metric)
        self.totals[metric] = weighted if known is None else known.plus(weighted)

    def complete(self) -> dict[str, ClusterSums]:
        """Return the influences, with those on the final score, when every cell has been added."""
        parts = ("overall", *FINAL_SCORE_PARTS)
        if all(name in self.totals for name in parts):
            quarters = [self.totals[name].times(0.25) for name in parts]
            self.totals["final_score"] = reduce(ClusterSums.plus, quarters)
        return self.totals


def with_clustered_error(value: MetricValue, sums: ClusterTotal) -> MetricValue:
    """Return a value with the error that allows for clusters, or the reason if they are few.

    The error of rows that come in no clusters is the value's own.
    """
    if sums.alone:
        return replace(value, std_error=sums.std_error)
    return replace(
        value,
        reason=few_clusters(sums.n_clusters),
        std_error=sums.std_error,
        row_std_error=value.std_error,
        n_clusters=sums.n_clusters,
    )


# ---- How far a power mean moves if the AUC of one subgroup does


@dataclass(frozen=True)
class PowerMean:
    """A power mean of AUCs above 0."""

    cells: Mapping[str, MetricValue]  # The AUCs, by subgroup
    mean: float  # mean, power: its value and its exponent
    power: float

    @cached_property
    def derivatives(self) -> dict[str, float]:
        """The derivative by each AUC."""
        n = len(self.cells)
        return {
            name: (float(cell) / self.mean) ** (self.power - 1) / n
            for name, cell in self.cells.items()
        }


def power_mean_of_cells(report: BiasTable, metric: str) -> PowerMean | str:
    """Return a power mean of the report, or why it has no derivative."""
    mean: MetricValue = report[Key(metric)]
    if mean.value is None:
        return str(mean.reason)
    cells: dict[str, MetricValue] = {name: report[Key(metric, name)] for name in report.covered}
    for name, cell in cells.items():
        if cell.std_error is None:
            return f"{name} has no standard error"
        if cell.value == 0:
            return f"{name} is 0, where a power mean has no derivative"
    return PowerMean(cells, mean.value, report.power)


# With few rows an estimated error is too small, too: so many halves of a fall, over the rows, are
# added. By simulation (docs/evidence/coverage/tiny.csv) floors then pass as seldom as asked for.
FEW_ROWS = 8.0


def unseen_errors(
    report: BiasTable, drawn: Mapping[str, Mapping[str, float]], few_rows: float = 0.0
) -> dict[str, float]:
    """Return how far each aggregate may be off by rows of its cells that were not drawn.

    Near an AUC of 1 few rows are out of order, or none, so that influences say too little. So one
    row is added to the smaller class of each cell, halfway between its place and the middle of the
    scores that it is compared with (see `with_unseen_loss`). Errors of cells are taken as
    independent.

    Parameters
    ----------
    drawn : mapping of str to mapping of str to float
        By subgroup and AUC: how many rows, or clusters, the smaller class is worth.
    few_rows : float, default=0
        `FEW_ROWS` for a model's own aggregates; a difference of two models needs no more than the
        rows that were not drawn.
    """
    found = {"overall": 0.0}
    for metric in FINAL_SCORE_PARTS:
        mean = power_mean_of_cells(report, metric)
        if isinstance(mean, PowerMean):
            found[metric] = math.hypot(
                *(
                    of_cell
                    * max(float(mean.cells[name]) - 0.5, 0.0)
                    * (1 + few_rows / drawn[name][metric])
                    / 2
                    / (drawn[name][metric] + 1)
                    for name, of_cell in mean.derivatives.items()
                )
            )
    found["final_score"] = math.hypot(*found.values()) / 4
    return found
