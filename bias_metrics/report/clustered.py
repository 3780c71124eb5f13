"""Standard errors of aggregates from clustered or weighted rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from bias_metrics._core.clusters import ClusterSummary, ClusterSums
from bias_metrics._core.intervals import explain_few_clusters
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.table import BiasTable, Key


class AggregateInfluences:
    """Influences of clusters, or of weighted rows, on the aggregates of a report.

    Weighted rows without clusters are clusters of a single row.

    Attributes
    ----------
    influences : dict of str to ClusterSums
        The influences on the overall AUC (`overall`), the power means and the final score, if they
        are defined.
    """

    def __init__(self, report: BiasTable) -> None:
        self.influences: dict[str, ClusterSums] = {}
        self._means = {metric: find_power_mean(report, metric) for metric in FINAL_SCORE_PARTS}

    def add_cell(self, name: str | None, metric: str, sums: ClusterSums) -> None:
        """Add the influences on a cell, or on the overall AUC if `name` is None."""
        if name is None:
            self.influences["overall"] = sums
            return
        mean = self._means.get(metric)
        if not isinstance(mean, PowerMean) or name not in mean.cells:
            return
        weighted = sums.scale(mean.derivatives[name])
        earlier = self.influences.get(metric)
        self.influences[metric] = weighted if earlier is None else earlier.add(weighted)

    def add_final_score(self) -> dict[str, ClusterSums]:
        """Add the influences on the final score, after every cell, and return all influences."""
        parts = ("overall", *FINAL_SCORE_PARTS)
        if all(name in self.influences for name in parts):
            quarters = [self.influences[name].scale(0.25) for name in parts]
            self.influences["final_score"] = reduce(ClusterSums.add, quarters)
        return self.influences


def replace_std_error(value: MetricValue, sums: ClusterSummary) -> MetricValue:
    """Replace a value's standard error by that for clusters, or explain that they are too few."""
    if sums.is_unclustered:
        return replace(value, std_error=sums.std_error)
    return replace(
        value,
        reason=explain_few_clusters(sums.n_clusters),
        std_error=sums.std_error,
        row_std_error=value.std_error,
        n_clusters=sums.n_clusters,
    )


# ---- Derivatives of a power mean with respect to the AUCs of subgroups


@dataclass(frozen=True)
class PowerMean:
    """A power mean of AUCs above 0."""

    cells: Mapping[str, MetricValue]  # The AUCs, by subgroup
    mean: float  # mean, power: value and exponent
    power: float

    @cached_property
    def derivatives(self) -> dict[str, float]:
        """Derivative with respect to each AUC."""
        n = len(self.cells)
        return {
            name: (float(cell) / self.mean) ** (self.power - 1) / n
            for name, cell in self.cells.items()
        }


def find_power_mean(report: BiasTable, metric: str) -> PowerMean | str:
    """Return a power mean of the report, or the reason why its derivative is undefined."""
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


# With few rows, an estimated error is also too small. The error of undrawn rows is increased by
# this number over the number of rows. By simulation (docs/evidence/coverage/tiny.csv), floors then
# pass no more often than the confidence allows.
FEW_ROWS = 8.0


def compute_unseen_errors(
    report: BiasTable, drawn: Mapping[str, Mapping[str, float]], few_rows: float = 0.0
) -> dict[str, float]:
    """Return standard errors of the aggregates due to rows that were not drawn.

    Near an AUC of 1, few or no rows are out of order, and influences underestimate the error. So a
    row is added to every cell's smaller class, halfway between its place and the middle of the
    scores that it is compared with (see `widen_for_unseen_loss`). The errors of cells are assumed
    to be independent.

    Parameters
    ----------
    drawn : mapping of str to mapping of str to float
        By subgroup and AUC: effective number of rows, or clusters, of the smaller class.
    few_rows : float, default=0
        `FEW_ROWS` for the aggregates of a single model; 0 for a difference of two models.
    """
    errors = {"overall": 0.0}
    for metric in FINAL_SCORE_PARTS:
        mean = find_power_mean(report, metric)
        if isinstance(mean, PowerMean):
            errors[metric] = math.hypot(
                *(
                    derivative
                    * max(float(mean.cells[name]) - 0.5, 0.0)
                    * (1 + few_rows / drawn[name][metric])
                    / 2
                    / (drawn[name][metric] + 1)
                    for name, derivative in mean.derivatives.items()
                )
            )
    errors["final_score"] = math.hypot(*errors.values()) / 4
    return errors
