"""A report whose rows come in clusters: every cell, and what the aggregates need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from bias_metrics._core.clusters import ClusterSums
from bias_metrics._core.intervals import few_clusters, logit_interval, quantile
from bias_metrics._core.ranks import Floats
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.report import BiasReport


@dataclass
class _Moved:
    """How far the clusters move an aggregate within the intervals of its cells."""

    each: Any = 0.0
    alone: float = 0.0

    def add(self, each: Floats, std_error: float | None, reach: float) -> None:
        """Add a cell."""
        if std_error:
            self.each += reach / std_error * each
        else:
            self.alone += reach**2

    @classmethod
    def mean(cls, parts: Sequence[_Moved]) -> _Moved:
        """Return the movement of the mean."""
        n = len(parts)
        return cls(sum(part.each for part in parts) / n, sum(part.alone for part in parts) / n**2)

    @property
    def reach(self) -> float:
        """How far it moves."""
        return math.sqrt(float(np.sum(np.square(self.each))) + self.alone)


class Moves:
    """How far clusters, or weighted rows, move the aggregates of a report.

    Weighted rows without clusters are clusters of one row each.

    `totals`: the clusters' influences on the overall AUC (`overall`), the power means and the final
    score, as far as they have any. They are the same at each of `n_confidences`.
    """

    def __init__(self, report: BiasReport, n_confidences: int = 1) -> None:
        self.totals: dict[str, ClusterSums] = {}
        self._means = {metric: power_mean_of_cells(report, metric) for metric in FINAL_SCORE_PARTS}
        self._moved: list[dict[str, tuple[_Moved, _Moved]]] = [{} for _ in range(n_confidences)]

    def add(self, name: str | None, metric: str, sums: ClusterSums, *cells: MetricValue) -> None:
        """Add a cell at each confidence, or the overall AUC if `name` is None.

        `sums` are the influences on it.
        """
        if name is None:
            self.totals["overall"] = sums
            self._move("overall", sums, cells, own_reaches)
            return
        mean = self._means.get(metric)
        if not isinstance(mean, PowerMean) or name not in mean.cells:
            return
        weighted = sums.times(mean.derivatives[name])
        known = self.totals.get(metric)
        self.totals[metric] = weighted if known is None else known.plus(weighted)
        self._move(metric, sums, cells, partial(mean.reaches, name))

    def _move(
        self,
        name: str,
        sums: ClusterSums,
        cells: Sequence[MetricValue],
        reaches: Callable[[MetricValue], Ends],
    ) -> None:
        for cell, moved in zip(cells, self._moved, strict=True):
            if cell.low is not None:
                both = moved.setdefault(name, (_Moved(), _Moved()))
                for side, reach in zip(both, reaches(cell), strict=True):
                    side.add(sums.each, cell.std_error, reach)

    def complete(self) -> list[dict[str, Ends]]:
        """Add the final score; return how far intervals of aggregates reach down and up at least.

        Call it when every cell has been added. There is one answer for each confidence.
        """
        parts = ("overall", *FINAL_SCORE_PARTS)
        if all(name in self.totals for name in parts):
            quarters = [self.totals[name].times(0.25) for name in parts]
            self.totals["final_score"] = reduce(ClusterSums.plus, quarters)
        for moved in self._moved:
            if all(name in moved for name in parts):
                downs, ups = zip(*(moved[name] for name in parts), strict=True)
                moved["final_score"] = _Moved.mean(downs), _Moved.mean(ups)
        return [
            {name: (down.reach, up.reach) for name, (down, up) in moved.items()}
            for moved in self._moved
        ]


def with_clustered_error(value: MetricValue, sums: ClusterSums) -> MetricValue:
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


Ends = tuple[float, float]
# Subgroup (None for all rows), AUC, and how far the aggregate falls and rises with it.
Part = tuple[str | None, MetricValue, Ends]
# Up to this many times as long, an interval is that of the standard error: with Student's
# quantile for 25 degrees of freedom or more.
_CLEARLY = 1.05
_LARGEST, _SMALLEST = 700.0, 1e-300  # their exponential and logarithm are still numbers


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

    def reaches(self, name: str, cell: MetricValue) -> tuple[float, float]:
        """Return how far the mean falls and rises if one AUC is at an end of its interval."""
        assert cell.low is not None  # noqa: S101
        assert cell.high is not None  # noqa: S101
        return self.mean - self._with(name, cell.low), self._with(name, cell.high) - self.mean

    def _with(self, name: str, value: float) -> float:
        new, old = (self._term(one) for one in (value, float(self.cells[name])))
        rest = max(1 + (new - old) / len(self.cells), 0.0)
        return self.mean * float(rest ** (1 / self.power))

    def _term(self, value: float) -> float:
        exponent = self.power * math.log(max(value, _SMALLEST) / self.mean)
        return math.exp(min(exponent, _LARGEST))


def power_mean_of_cells(report: BiasReport, metric: str) -> PowerMean | str:
    """Return a power mean of the report, or why it has no derivative."""
    mean: MetricValue = getattr(report.power_mean, metric)
    if mean.value is None:
        return str(mean.reason)
    cells: dict[str, MetricValue] = {
        name: getattr(report.subgroups[name], metric) for name in report.power_mean.groups
    }
    for name, cell in cells.items():
        if cell.std_error is None:
            return f"{name} has no standard error"
        if cell.value == 0:
            return f"{name} is 0, where a power mean has no derivative"
    return PowerMean(cells, mean.value, report.power_mean.power)


def parts_of(report: BiasReport) -> dict[str, list[Part]]:
    """Return the cells of the overall AUC and of each power mean, and how far each moves it.

    Those without a derivative are left out.
    """
    overall = report.overall.auc
    parts: dict[str, list[Part]] = {}
    if overall.std_error is not None:
        parts["overall"] = [(None, overall, own_reaches(overall))]
    for metric in FINAL_SCORE_PARTS:
        mean = power_mean_of_cells(report, metric)
        if isinstance(mean, PowerMean):
            cells = mean.cells.items()
            parts[metric] = [(name, cell, mean.reaches(name, cell)) for name, cell in cells]
    return parts


def own_reaches(cell: MetricValue) -> Ends:
    """Return how far a number's interval reaches down and up."""
    assert cell.low is not None  # noqa: S101
    assert cell.high is not None  # noqa: S101
    return float(cell) - cell.low, cell.high - float(cell)


def rests_on_few_errors(cell: MetricValue, confidence: float) -> bool:
    """Say whether a cell's interval is clearly wider than its standard error says."""
    assert cell.value is not None  # noqa: S101
    assert cell.std_error is not None  # noqa: S101
    assert cell.low is not None  # noqa: S101
    if cell.std_error == 0:
        return True
    low, high = logit_interval(cell.value, _CLEARLY * cell.std_error, quantile(confidence))
    assert cell.high is not None  # noqa: S101
    return cell.low < low or cell.high > high
