"""Errors at thresholds, counted in sorted scores; a score at or above a threshold is flagged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.cuts import to_printed_float
from bias_metrics._core.ranks import SortedClasses, SortedScores, sort_classes
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue, make_undefined

CountArray = npt.NDArray[np.int64] | npt.NDArray[np.float64]
MaskedFloats = np.ma.MaskedArray[Any, np.dtype[np.float64]]

TP, FP, TN, FN = "n_true_positive", "n_false_positive", "n_true_negative", "n_false_negative"
# By rate: the counts of its numerator and its denominator, and the reason if the latter is 0.
RATES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]] = MappingProxyType(
    {
        "false_positive_rate": ((FP,), (FP, TN), "no negatives"),
        "false_negative_rate": ((FN,), (FN, TP), "no positives"),
        "precision": ((TP,), (TP, FP), "no flagged rows"),
        "recall": ((TP,), (TP, FN), "no positives"),
        "accuracy": ((TP, TN), (TP, FP, TN, FN), "no rows"),
    }
)


@dataclass(frozen=True)
class ErrorRates(Tabular):
    """Counts of errors at a threshold, with the rates computed from these counts."""

    threshold: float
    """Decision threshold; scores at or above it are flagged."""
    n_true_positive: float
    n_false_positive: float
    n_true_negative: float
    n_false_negative: float
    """n_true_positive, n_false_positive, n_true_negative, n_false_negative: rows, or their weight:
    flagged positives and negatives, unflagged negatives and positives."""

    @property
    def false_positive_rate(self) -> MetricValue:
        """Share of the negatives that is flagged; ideal 0; undefined without negatives."""
        return self.rate("false_positive_rate")

    @property
    def false_negative_rate(self) -> MetricValue:
        """Share of the positives that is not flagged; ideal 0; undefined without positives."""
        return self.rate("false_negative_rate")

    @property
    def precision(self) -> MetricValue:
        """Share of the flagged rows that is positive; ideal 1; undefined without flagged rows."""
        return self.rate("precision")

    @property
    def recall(self) -> MetricValue:
        """Share of the positives that is flagged; ideal 1; undefined without positives."""
        return self.rate("recall")

    @property
    def accuracy(self) -> MetricValue:
        """Share of the rows that is classified correctly; ideal 1; undefined without rows."""
        return self.rate("accuracy")

    def rate(self, name: str) -> MetricValue:
        """Return a rate by its name, a key of `RATES`."""
        parts, wholes, reason = RATES[name]
        # `sum` of Python 3.12 and later rounds differently.
        part, whole = (
            float(np.sum([getattr(self, count) for count in counts], dtype=np.float64))
            for counts in (parts, wholes)
        )
        return MetricValue(part / whole) if whole else make_undefined(reason)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return dict(vars(self)) | {name: self.rate(name).to_dict() for name in RATES}


@dataclass(frozen=True, eq=False)
class ErrorCurve(Tabular):
    """Counts of errors of the same rows at k thresholds."""

    thresholds: FloatArray
    """(k,): thresholds in the order given."""
    n_false_negative: CountArray
    n_true_negative: CountArray
    """n_false_negative, n_true_negative, (k,): positives and negatives below each threshold, or
    their weight."""
    n_positive: float
    n_negative: float
    """n_positive, n_negative: positives and negatives in total, or their weight."""

    @property
    def n_true_positive(self) -> CountArray:
        """Positives at or above each threshold, or their weight."""
        return np.asarray(self.n_positive - self.n_false_negative)

    @property
    def n_false_positive(self) -> CountArray:
        """Negatives at or above each threshold, or their weight."""
        return np.asarray(self.n_negative - self.n_true_negative)

    def rate(self, name: str) -> MaskedFloats:
        """Return a rate at each threshold, masked if it is undefined.

        The masked value is 0, never NaN; `.tolist()` replaces it by None.
        """
        parts, wholes, _ = RATES[name]
        part = np.sum([getattr(self, count) for count in parts], axis=0, dtype=np.float64)
        whole = np.sum([getattr(self, count) for count in wholes], axis=0, dtype=np.float64)
        is_undefined = whole == 0
        share = np.divide(part, whole, out=np.zeros(whole.size), where=~is_undefined)
        return np.ma.MaskedArray(share, mask=is_undefined)

    def get_rates(self, position: int) -> ErrorRates:
        """Return the errors at the threshold with this index."""
        return ErrorRates(
            to_printed_float(self.thresholds[position]),
            self.n_true_positive[position].item(),
            self.n_false_positive[position].item(),
            self.n_true_negative[position].item(),
            self.n_false_negative[position].item(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: lists of k numbers, with None for undefined rates."""
        totals = {"n_positive": self.n_positive, "n_negative": self.n_negative}
        return totals | {name: self.rate(name).tolist() for name in RATES}

    def rows(self) -> list[Row]:
        """Return a record per threshold."""
        columns = {"threshold": self.thresholds.tolist()}
        columns |= {name: self.rate(name).tolist() for name in RATES}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def count_below(ranked: SortedScores, thresholds: FloatArray) -> CountArray:
    """Return the number of rows below each threshold, or their weight."""
    rows = np.searchsorted(ranked.scores, thresholds)
    if ranked.cumulative_weight is None:
        return rows
    return np.asarray(ranked.cumulative_weight[rows], dtype=np.float64)


def build_error_curve(
    classes: SortedClasses, thresholds: FloatArray, cuts: FloatArray | None = None
) -> ErrorCurve:
    """Count the errors of some rows at each threshold.

    `cuts` are the thresholds rounded to the precision of the scores, if that is lower.
    """
    cuts = thresholds if cuts is None else cuts
    return ErrorCurve(
        thresholds=thresholds,
        n_false_negative=count_below(classes.positive, cuts),
        n_true_negative=count_below(classes.negative, cuts),
        n_positive=classes.positive.total,
        n_negative=classes.negative.total,
    )


def list_distinct_scores(classes: SortedClasses) -> FloatArray:
    """Return the distinct scores of both classes in ascending order, without rows of weight 0."""
    return np.unique(np.concatenate([classes.positive.scores, classes.negative.scores]))


def sort_subgroup(
    y_true: BoolArray,
    y_score: FloatArray,
    in_subgroup: BoolArray,
    sample_weight: FloatArray | None = None,
) -> SortedClasses:
    """Sort the rows of a subgroup by class."""
    rows = np.flatnonzero(in_subgroup)
    weight = None if sample_weight is None else sample_weight[rows]
    return sort_classes(y_true[rows], y_score[rows], weight)
