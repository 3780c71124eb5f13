"""How a power mean moves with each subgroup's AUC."""

from __future__ import annotations

from collections.abc import Mapping

from bias_metrics._core.values import MetricValue
from bias_metrics.report.report import BiasReport


def derivatives(report: BiasReport, metric: str) -> Mapping[str, float] | str:
    """Return the derivative of a power mean by each subgroup's AUC, or why it has none."""
    mean: MetricValue = getattr(report.power_mean, metric)
    if mean.value is None:
        return str(mean.reason)
    power, groups = report.power_mean.power, report.power_mean.groups
    cells: dict[str, MetricValue] = {
        name: getattr(report.subgroups[name], metric) for name in groups
    }
    for name, cell in cells.items():
        if cell.std_error is None:
            return f"{name} has no standard error"
        if cell.value == 0:
            return f"{name} is 0, where a power mean has no derivative"
    return {
        name: (float(cell) / mean.value) ** (power - 1) / len(groups)
        for name, cell in cells.items()
    }
