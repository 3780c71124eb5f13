"""The numbers of a report: values, cells with intervals, metrics by identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict  # Pydantic needs this one before Python 3.12

from bias_metrics import BiasReport
from bias_metrics.gate.rules import LEAST_ROWS
from bias_metrics.metrics import METRICS

CONFIDENCE = 0.95
"""Confidence of the intervals in a report."""


class Value(TypedDict):
    """A number; None with the reason why it is undefined."""

    value: float | None
    reason: NotRequired[str]


class Cell(Value):
    """A number with its uncertainty, as `MetricValue.to_dict(interval=True)` gives it."""

    std_error: float | None
    low: float | None
    high: float | None
    row_std_error: NotRequired[float]
    n_clusters: NotRequired[int]


class Assisted(TypedDict):
    """What terms added to the human labels of a number, as `Assistance.to_dict()` gives it."""

    weight: float
    gain: float
    reason: NotRequired[str]


class Subgroup(TypedDict):
    """Counts and the five metrics of one identity."""

    n: int
    n_positive: int
    n_negative: int
    effective: NotRequired[dict[str, float]]
    assisted: NotRequired[dict[str, Assisted]]
    subgroup_auc: Cell
    bpsn_auc: Cell
    bnsp_auc: Cell
    positive_aeg: Cell
    negative_aeg: Cell


class Overall(TypedDict):
    """Numbers over all rows."""

    n: int
    n_positive: int
    effective: NotRequired[dict[str, float]]
    labelled: NotRequired[dict[str, int]]
    auc: Cell


class PowerMean(TypedDict):
    """The power means over the identities in `groups`."""

    power: float
    groups: list[str]
    subgroup_auc: Cell
    bpsn_auc: Cell
    bnsp_auc: Cell


class Worst(Cell):
    """The identity that is worst by one metric; one that is chosen by size has bounds of it."""

    metric: str
    subgroup: str | None
    n_positive: int | None
    n_negative: int | None
    tied: list[str]
    undefined: dict[str, str]
    size_low: NotRequired[float]
    size_high: NotRequired[float]


class Bias(TypedDict):
    """`BiasReport.to_dict()`."""

    background: str
    overall: Overall
    subgroups: dict[str, Subgroup]
    power_mean: PowerMean
    final_score: Cell
    worst: dict[str, Worst]


def bias_record(bias: BiasReport) -> Bias:
    """Return a report of the library as a record."""
    return cast("Bias", bias.to_dict())


def metric_cells(measured: Mapping[str, Any]) -> Mapping[str, Cell]:
    """Return the numbers of an identity or of its calibration, or the power means, by metric.

    Other keys hold counts; do not read those from the result.
    """
    return cast("Mapping[str, Cell]", measured)


def final_score_name(bias: Bias) -> str:
    """Name the final score apart from that of a rule, which may be over categories."""
    n = len(bias["power_mean"]["groups"])
    return f"final score over {n:,} {'identity' if n == 1 else 'identities'}"


def has_enough_rows(metric: str, counts: Subgroup) -> bool:
    """Say whether an identity has enough rows, of each class that a metric compares, for evidence.

    With fewer, a single comment may make its AUC the lowest.
    """
    own, _ = METRICS[metric].classes
    have = {"positive": counts["n_positive"], "negative": counts["n_negative"]}
    return all(have[one] >= LEAST_ROWS for one in own)
