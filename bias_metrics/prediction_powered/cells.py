"""One cell from human labels and terms: its value, standard error and interval."""

from __future__ import annotations

import math
from dataclasses import replace

from bias_metrics._core.clusters import ClusterSums
from bias_metrics._core.intervals import auc_interval, few_errors, newcombe_interval, quantile
from bias_metrics._core.placements import squares_of
from bias_metrics._core.values import MetricValue
from bias_metrics.prediction_powered.model import Pieces
from bias_metrics.prediction_powered.tuning import Tuning, error_of, tune
from bias_metrics.report.assistance import Assistance

NO_GAIN = "terms do not make it more precise"
OUTSIDE = "with terms the estimate would be outside its range"
Cell = tuple[MetricValue, ClusterSums | None]


def estimate(pieces: Pieces, confidence: float) -> tuple[Cell, Assistance]:
    """Return a cell with the weight that makes it most precise; without terms if they do not."""
    ordinary = pieces.ordinary, pieces.sums
    if pieces.sums is None or pieces.on_shift is None:
        return ordinary, Assistance(reason=pieces.reason)
    tuning = tune(pieces.sums.each, pieces.on_shift)
    if tuning is None:
        return ordinary, Assistance(reason=NO_GAIN)
    cell = powered(pieces, tuning, confidence)
    if cell is None:
        return ordinary, Assistance(reason=OUTSIDE)
    gain = gained(pieces.sums.std_error, cell[1].std_error)
    if gain <= 1:
        return ordinary, Assistance(reason=NO_GAIN)
    return cell, Assistance(tuning.weight, sure_gain(gain, pieces.sizes))


def gained(without: float, error: float) -> float:
    """Return how many times as many rows would make the error as small without terms."""
    return (without / error) ** 2 if error > 0 else math.inf


def powered(
    pieces: Pieces, tuning: Tuning, confidence: float
) -> tuple[MetricValue, ClusterSums] | None:
    """Return a cell with a given weight; None if its value would be at or outside its range.

    Where a class has few errors, or rows are clustered, the interval is the union with Newcombe's
    for as many rows as the labelled ones are worth with the terms' help. With few rows, this is
    itself uncertain, so less is counted.
    """
    sums, on_shift = pieces.sums, pieces.on_shift
    assert sums is not None  # noqa: S101
    assert on_shift is not None  # noqa: S101
    centre = pieces.centre
    auc = tuning.value(float(pieces.ordinary) + centre, pieces.shift, on_shift)
    if not 0 < auc < 1:
        return None
    each = tuning.influences(sums.each, pieces.shift, on_shift)
    found, error = replace(sums, each=each), error_of(each)
    gain = sure_gain(gained(sums.std_error, error), pieces.sizes)
    sizes = pieces.sizes[0] * gain, pieces.sizes[1] * gain
    if sums.alone:
        z = quantile(confidence)
        freedom = min(squares_of([each])[1], min(pieces.sizes) - 2)
        ends = auc_interval(auc, error, *sizes, z, freedom=freedom)
        if few_errors(auc, *pieces.sizes):
            low, high = newcombe_interval(auc, *sizes, z)
            ends = min(ends[0], low), max(ends[1], high)
    else:
        z = quantile(confidence, sums.freedom)
        ends = auc_interval(auc, error, *sizes, z, clustered=True)
    value = MetricValue(auc - centre, None, error, ends[0] - centre, ends[1] - centre)
    return (value if sums.alone else replace(value, n_clusters=sums.n_clusters)), found


def sure_gain(gain: float, sizes: tuple[float, float]) -> float:
    """Return a gain less about one standard error of a ratio of variances from so many rows."""
    return min(gain, max(gain / (1 + math.sqrt(2 / min(sizes))), 1.0))
