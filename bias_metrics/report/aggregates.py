"""Standard errors and intervals of aggregates: overall AUC, power means and final score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from bias_metrics._core.cells import compare_all_rows
from bias_metrics._core.clusters import ClusterSummary, ClusterSums
from bias_metrics._core.influence import Influence, Members, RankedRows
from bias_metrics._core.intervals import explain_few_clusters, logit_interval, student_quantile
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.table import BiasTable, Key


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


def make_aggregate_key(name: str) -> Key:
    """Return the key of an aggregate; `overall` is the overall AUC."""
    return Key("auc" if name == "overall" else name)


def describe_aggregate(
    value: MetricValue,
    error: tuple[float, float] | str,
    total: ClusterSummary | None,
    unseen: float,
    confidence: float,
) -> MetricValue:
    """Return an aggregate with its standard error and an interval on the logit scale.

    `error` has the standard error for independent rows and its degrees of freedom, or the reason
    why it is undefined; `unseen` is from `compute_unseen_errors`.
    """
    if value.value is None:
        return value
    if isinstance(error, str):
        return replace(value, reason=error)
    std_error, freedom = error
    described = replace(value, reason=None, std_error=std_error, low=None, high=None)
    if total is not None:
        std_error, freedom = total.std_error, total.freedom
        described = replace(described, std_error=std_error)
        if not total.is_unclustered:
            described = replace(
                described,
                reason=explain_few_clusters(total.n_clusters),
                row_std_error=error[0],
                n_clusters=total.n_clusters,
            )
    if described.reason is not None:
        return described
    low = high = value.value
    z = student_quantile(confidence, freedom)
    if 0 < value.value < 1:
        low, high = logit_interval(value.value, std_error, z)
    down, up = (math.hypot(end - value.value, z * unseen) for end in (low, high))
    return replace(described, low=max(value.value - down, 0.0), high=min(value.value + up, 1.0))


# ---- Influences on the aggregates


def iterate_influences(
    report: BiasTable, members: Mapping[str, Members], ranked: RankedRows
) -> Iterator[tuple[str, Influence | str]]:
    """Yield the influences of rows on the overall AUC, each power mean and the final score.

    If the influences are undefined, yield the reason instead. They are valid only until the next
    iteration, since they share memory: each has a number per row.
    """
    final, scratch = Influence.make_empty(ranked), Influence.make_empty(ranked)
    lacking: str | None = None
    for name in ("overall", *FINAL_SCORE_PARTS):
        scratch.clear()
        mean = None if name == "overall" else find_power_mean(report, name)
        lack = mean if isinstance(mean, str) else None
        if mean is None:
            lack = _explain_overall(report)
            if lack is None:
                scratch.add_auc("auc", compare_all_rows(ranked.everyone), None, 1.0)
        elif not isinstance(mean, str):
            for group, weight in mean.derivatives.items():
                group_members = members[group]
                scratch.add_auc(name, group_members.comparisons[name], group_members, weight)
        lacking = lacking or lack
        if lack is not None:
            yield name, lack
            continue
        scratch.sum_differences(final, 0.25)
        yield name, scratch
    yield "final_score", lacking or final


def iterate_weighted_influences(
    report: BiasTable, totals: Mapping[str, ClusterSums]
) -> Iterator[tuple[str, ClusterSums | str]]:
    """Yield the measured influences of weighted rows, or reasons, like `iterate_influences`."""
    lacks = {"overall": _explain_overall(report)}
    for name in FINAL_SCORE_PARTS:
        mean = find_power_mean(report, name)
        lacks[name] = mean if isinstance(mean, str) else None
    lacks["final_score"] = next(filter(None, lacks.values()), None)
    for name, lack in lacks.items():
        yield name, lack or totals[name]


def _explain_overall(report: BiasTable) -> str | None:
    overall: MetricValue = report[Key("auc")]
    return None if overall.std_error is not None else overall.reason


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
    to be independent. `drawn` has the effective number of rows, or clusters, of the smaller class,
    by subgroup and AUC. `few_rows` is `FEW_ROWS` for a single model, and 0 for a difference.
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
