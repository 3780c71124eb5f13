"""Differences of two models from counts of the same rows, with conservative bounds.

Separate counts contain no information about the correlation of the models' errors. Without
counts of pairs, the standard error of a difference is the largest possible: the sum of the models'
standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bias_metrics._core.covariance import JointMoments
from bias_metrics._core.differences import (
    Difference,
    bound_size_change,
    compute_paired_difference,
    make_undefined_difference,
    negate_value,
    subtract_values,
    widen_for_unseen_loss,
)
from bias_metrics._core.intervals import has_few_errors
from bias_metrics._core.values import MetricValue
from bias_metrics.binned.bin_counts import BinCounts
from bias_metrics.binned.pairs import WideBins
from bias_metrics.binned.report import get_cells, iterate_compared_rows
from bias_metrics.metrics import METRICS, PAIRS, Metric
from bias_metrics.rows import Background
from bias_metrics.table import BiasTable, Key


def compare_counts(
    models: tuple[BinCounts, BinCounts],
    pairs: BinCounts | None,
    tables: Sequence[BiasTable],
    confidence: float,
) -> BiasTable:
    """Return the differences of two models' tables; see `ScoreCounts.compare`."""
    (first, second), (a, b) = models, tables
    inputs, sizes = (second, pairs, a.background), get_cells(first, a.background)
    related = first.measure_once(inputs, lambda: dict(_relate_models(first, *inputs)))
    numbers: dict[Key, Difference] = {}
    for key in a:
        if key not in related:  # the key of an aggregate
            numbers[key] = _subtract_intervals(a[key], b[key])
            continue
        together, metric = related[key], METRICS[key.metric]
        numbers[key] = (
            bound_difference(a[key], b[key], metric, confidence, sizes[key].auc.n_drawn)
            if together is None
            else together.compute_difference(a[key], b[key], confidence, is_gap=metric.is_gap)
        )
    return replace(a, numbers=numbers)


@dataclass(frozen=True)
class ModelRelation:
    """Joint error of two models' numbers, and the possible effect of binning."""

    joint_moments: JointMoments
    covariance_slack: float
    errors: tuple[float, float]
    binning_error: float
    slack: float
    is_small: bool
    n_drawn: float

    def compute_difference(
        self, a: MetricValue, b: MetricValue, confidence: float, *, is_gap: bool
    ) -> Difference:
        """Return the difference, with bounds that hold for any correlation within bins."""
        difference = self._subtract_pair(a, b, self.joint_moments, confidence, is_gap=is_gap)
        if not is_gap:
            return difference
        total = self._subtract_pair(
            a, negate_value(b), self.joint_moments.negate_second(), confidence, is_gap=True
        )
        return bound_size_change(difference, total, b, confidence)

    def _subtract_pair(
        self,
        a: MetricValue,
        b: MetricValue,
        together: JointMoments,
        confidence: float,
        *,
        is_gap: bool,
    ) -> Difference:
        assert a.std_error is not None  # noqa: S101
        assert b.std_error is not None  # noqa: S101
        covariance = together.covariance - self.covariance_slack
        variance = self.errors[0] ** 2 + self.errors[1] ** 2 - 2 * covariance
        error = min(math.sqrt(max(variance, 0.0)), sum(self.errors)) + self.binning_error
        least = replace(together, covariance=(a.std_error**2 + b.std_error**2 - error**2) / 2)
        difference = compute_paired_difference(a, b, least, confidence, small=self.is_small)
        difference = widen_for_unseen_loss(difference, self.n_drawn, confidence, is_auc=not is_gap)
        assert difference.ends is not None  # noqa: S101
        low, high = difference.ends[0] - self.slack, difference.ends[1] + self.slack
        return replace(difference, low=low, high=high, p_value=None)


def _relate_models(
    first: BinCounts, second: BinCounts, pairs: BinCounts | None, background: Background
) -> Iterator[tuple[Key, ModelRelation | None]]:
    """Yield the relation of the two models' numbers; None if it, or an error, is undefined."""
    if pairs is None:
        yield from ((key, None) for key, _, _ in iterate_compared_rows(first, background))
        return
    wide_bins, models = WideBins.from_counts(first, second, pairs), (first, second)
    rows = (iterate_compared_rows(counts, background) for counts in (*models, pairs))
    for (key, *first_rows), (_, *second_rows), (_, *pair_rows) in zip(*rows, strict=True):
        a, b = (get_cells(counts, background)[key] for counts in models)
        y, x = zip(first_rows, second_rows, pair_rows, strict=True)
        if a.auc.std_error is None or b.auc.std_error is None:
            yield key, None
            continue
        yield (
            key,
            ModelRelation(
                *wide_bins.measure_joint(
                    y, x, flip=key.group is not None and PAIRS[key.metric].flip
                ),
                (a.auc.std_error - a.binning_error, b.auc.std_error - b.binning_error),
                a.binning_error + b.binning_error,
                a.slack + b.slack,
                any(has_few_errors(cell.auc.value or 0.0, *cell.auc.sizes) for cell in (a, b)),
                a.auc.n_drawn,
            ),
        )


def bound_difference(
    a: MetricValue, b: MetricValue, metric: Metric, confidence: float, n_drawn: float = math.inf
) -> Difference:
    """Return the difference of two numbers, with bounds for any correlation of their errors."""
    difference, total = (
        widen_for_unseen_loss(
            _subtract_intervals(a, other), n_drawn, confidence, is_auc=not metric.is_gap
        )
        for other in (b, negate_value(b))
    )
    return bound_size_change(difference, total, b, confidence) if metric.is_gap else difference


def _subtract_intervals(a: MetricValue, b: MetricValue) -> Difference:
    value = subtract_values(a, b)
    if value is None or a.low is None or a.high is None or b.low is None or b.high is None:
        return make_undefined_difference(a, b)
    low, high = a.low - b.high, a.high - b.low
    error = None
    if a.std_error is not None and b.std_error is not None:
        error = a.std_error + b.std_error
    return Difference(a.value, b.value, value, error, low, high)


def refuse_other_rows(first: BinCounts, *others: BinCounts) -> None:
    """Refuse counts of models that are not of the same rows, as far as counts can show."""
    properties: Mapping[str, Callable[[BinCounts], Any]] = {
        "shards": lambda counts: counts.shards,
        "names": lambda counts: counts.names,
        "numbers of rows": lambda counts: [
            np.sum(getattr(counts, rows), axis=-1).tolist()
            for rows in ("everyone", "anyone", "subgroups")
        ],
    }
    for name, read in properties.items():
        if any(read(first) != read(other) for other in others):
            msg = f"counts that are compared must be of the same rows; their {name} differ."
            raise ValueError(msg)
