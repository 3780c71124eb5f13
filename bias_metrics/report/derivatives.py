"""How far a power mean moves if the AUC of one subgroup does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bias_metrics._core.intervals import logit_interval, quantile
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.report import BiasReport

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

    def derivatives(self) -> dict[str, float]:
        """Return the derivative by each AUC."""
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
