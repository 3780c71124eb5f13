"""The numbers that may drift: each as a value, and as the influence of every row on it.

The influence of a row is how far it moves the number, times the sum of all weights. Its sum is 0.
The number of one part of the rows minus that of another is, for large parts, the mean influence of
the one minus that of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray
from bias_metrics.drift.rows import Rows
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS, Pair

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
OVERALL = "overall"
SHARE, TOXIC_SHARE, LENGTH = "share", "toxic_share", "length"


@dataclass(frozen=True, eq=False)
class Number:
    """A number of some rows.

    Attributes
    ----------
    metric, group : str
        What it is, and of which subgroup, or `overall`.
    value : float or None
        None if a class of rows is empty.
    n_least : int
        Rows in the smallest class that it is computed from.
    influence : float array of shape (n,)
        Of each row, with its weight; all 0 if the value is None.
    """

    metric: str
    group: str
    value: float | None
    n_least: int
    influence: Floats


def numbers_of(rows: Rows, background: str) -> Iterator[Number]:
    """Yield the metrics if the rows have scores, and else the numbers of the data."""
    return _metrics(rows, background) if rows.y_score is not None else _data(rows)


def _data(rows: Rows) -> Iterator[Number]:
    everyone = np.ones(rows.y_true.size, dtype=np.bool_)
    yield _mean(rows, TOXIC_SHARE, OVERALL, rows.y_true, everyone)
    if rows.length is not None:
        yield _mean(rows, LENGTH, OVERALL, rows.length, everyone)
    for name, mask in rows.subgroups.items():
        yield _mean(rows, SHARE, name, mask, everyone)
        yield _mean(rows, TOXIC_SHARE, name, rows.y_true, mask)


def _mean(
    rows: Rows, metric: str, group: str, values: npt.NDArray[np.generic], within: BoolArray
) -> Number:
    """Return a mean over some rows."""
    weight = np.where(within, rows.weights, 0.0)
    total = float(weight.sum())
    floats = values.astype(np.float64)
    least = int(within.sum())
    if values.dtype == np.bool_:
        positive = int(values[within].sum())
        least = min(positive, least - positive)
    if total == 0:
        return Number(metric, group, None, 0, np.zeros(floats.size))
    value = float(weight @ floats) / total
    influence = weight * (floats - value) * (float(rows.weights.sum()) / total)
    return Number(metric, group, value, least, influence)


def _metrics(rows: Rows, background: str) -> Iterator[Number]:
    assert rows.y_score is not None  # noqa: S101 - the caller knows
    order = np.argsort(rows.y_score)
    place = np.argsort(order)
    ordered = rows.taken(order)
    for one in _of_ordered(ordered, background):
        yield replace(one, influence=one.influence[place])


def _of_ordered(rows: Rows, background: str) -> Iterator[Number]:
    """Yield the metrics of rows that are ordered by their scores."""
    everyone = np.ones(rows.y_true.size, dtype=np.bool_)
    yield _pair(rows, "auc", OVERALL, Pair("positive", "negative"), everyone, everyone)
    mentioned = np.zeros(rows.y_true.size, dtype=np.bool_)
    for mask in rows.subgroups.values():
        mentioned |= mask
    for name, mask in rows.subgroups.items():
        outside = ~mask if background == "outside_subgroup" else ~mentioned
        for metric in SUBGROUP_METRICS:
            pair = METRICS[metric].compares
            assert isinstance(pair, Pair)  # noqa: S101 - all of these metrics compare pairs
            yield _pair(rows, metric, name, pair, mask, mask if pair.inside else outside)


def _pair(
    rows: Rows, metric: str, group: str, pair: Pair, of_x: BoolArray, of_y: BoolArray
) -> Number:
    """Return P(x > y), or P(y > x), a tie counted as one half, minus the metric's centre."""
    x = np.flatnonzero(of_x & (rows.y_true == (pair.x == "positive")))
    y = np.flatnonzero(of_y & (rows.y_true == (pair.y == "positive")))
    influence = np.zeros(rows.y_true.size)
    least = min(x.size, y.size)
    if least == 0:
        return Number(metric, group, None, 0, influence)
    weights = rows.weights
    below, above = _share_below(rows, x, y), 1 - _share_below(rows, y, x)
    if pair.flip:
        below, above = 1 - below, 1 - above
    total = float(weights.sum())
    for of_class, placed in ((x, below), (y, above)):
        weight = weights[of_class]
        value = float(weight @ placed) / float(weight.sum())
        influence[of_class] += weight * (placed - value) * (total / float(weight.sum()))
    return Number(metric, group, value - METRICS[metric].centre, least, influence)


def _share_below(rows: Rows, of: Indices, others: Indices) -> Floats:
    """Return the share of others that each row is above; a tie counts one half."""
    assert rows.y_score is not None  # noqa: S101 - the caller knows
    scores, base = rows.y_score[of], rows.y_score[others]
    cumulative = np.concatenate([[0.0], np.cumsum(rows.weights[others])])
    left = np.searchsorted(base, scores, side="left")
    right = np.searchsorted(base, scores, side="right")
    return np.asarray((cumulative[left] + cumulative[right]) / (2 * cumulative[-1]))
