"""Pair counts from sorted scores: the one place where scores are ranked.

Each class is sorted once. A subgroup's few scores are then searched in the sorted classes,
and the subgroup's own members are subtracted, which leaves the pairs with the background:
no metric sorts a large array again. Counts of pairs are kept doubled, so that a tie, which
counts one half, is an integer and the unweighted result is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class SortedScores:
    """The scores of one class in ascending order, with their weights in the same order.

    Attributes
    ----------
    scores : float array of shape (n,)
        Ascending; weighted rows of the same score are in order of weight.
    cumulative_weight : float array of shape (n + 1,), or None
        `cumulative_weight[i]` is the weight of the first `i` scores; None when every row
        counts once.
    weight : float array of shape (n,), or None
        The weights themselves: their sums have lost digits.
    """

    scores: FloatArray
    cumulative_weight: FloatArray | None = None
    weight: FloatArray | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.scores.size)

    @property
    def total(self) -> float:
        """Total weight; the number of rows when there are no weights."""
        if self.cumulative_weight is None:
            return self.n
        return float(self.cumulative_weight[-1])

    def taken(self, places: npt.NDArray[np.integer]) -> SortedScores:
        """Return the scores at some ascending places."""
        scores = self.scores[places]
        return (
            SortedScores(scores)
            if self.weight is None
            else weighted_scores(scores, self.weight[places])
        )

    def without(self, others: SortedScores) -> SortedScores:
        """Return the weighted rows that are left if `others`, which are among them, are removed.

        Rows of the same score and weight are interchangeable, so no row numbers are needed.
        """
        rows, removed = self.pairs, others.pairs
        repeated = np.arange(removed.size) - np.searchsorted(removed, removed)
        left = np.delete(rows, np.searchsorted(rows, removed) + repeated)
        return weighted_scores(left.real.astype(self.scores.dtype), left.imag)

    @property
    def pairs(self) -> npt.NDArray[np.complex128]:
        """Score and weight of each row, in ascending order."""
        assert self.weight is not None  # noqa: S101
        return np.asarray(self.scores + 1j * self.weight)


@dataclass(frozen=True, eq=False)
class SortedClasses:
    """Positives and negatives of one set of rows, each sorted by score."""

    positive: SortedScores
    negative: SortedScores


def sort_scores(y_score: FloatArray, sample_weight: FloatArray | None = None) -> SortedScores:
    """Sort one class. Rows of weight 0 have no effect and are left out."""
    if sample_weight is None:
        return SortedScores(np.sort(y_score))
    present = sample_weight > 0
    y_score, sample_weight = y_score[present], sample_weight[present]
    order = np.lexsort((sample_weight, y_score))
    return weighted_scores(y_score[order], sample_weight[order])


def weighted_scores(scores: FloatArray, weight: FloatArray) -> SortedScores:
    """Return scores that are in order of score and, if tied, of weight."""
    return SortedScores(scores, np.concatenate(([0.0], np.cumsum(weight))), weight)


def sort_classes(
    y_true: BoolArray, y_score: FloatArray, sample_weight: FloatArray | None = None
) -> SortedClasses:
    """Sort positives and negatives separately."""
    masks = (y_true, ~y_true)
    if sample_weight is None:
        return SortedClasses(*(_sort_in_place(y_score[of_class]) for of_class in masks))
    return SortedClasses(*(sort_scores(y_score[one], sample_weight[one]) for one in masks))


def _sort_in_place(scores: FloatArray) -> SortedScores:
    """Sort in place scores that nobody else uses: a copy would double the memory."""
    scores.sort()
    return SortedScores(scores)


def doubled_wins(lower: SortedScores, upper: SortedScores) -> float:
    """Twice the (weighted) number of pairs in which `upper` scores above `lower`.

    A tie counts one half, and so 1 here. Without weights the result is an exact integer.
    """
    left = np.searchsorted(lower.scores, upper.scores, side="left")
    right = np.searchsorted(lower.scores, upper.scores, side="right")
    if lower.cumulative_weight is None or upper.cumulative_weight is None:
        return int(left.sum()) + int(right.sum())
    assert upper.weight is not None  # noqa: S101
    below = lower.cumulative_weight[left] + lower.cumulative_weight[right]
    return float(upper.weight @ below)


def check_ranked(everyone: SortedClasses, own: SortedClasses) -> None:
    """Refuse rows that cannot be among the ranked ones."""
    _check_class("positives", everyone.positive, own.positive)
    _check_class("negatives", everyone.negative, own.negative)


def _check_class(name: str, everyone: SortedScores, own: SortedScores) -> None:
    if own.n > everyone.n:
        msg = f"`y_true` must hold at most the {everyone.n} ranked {name}; got {own.n}."
        raise ValueError(msg)
    # The float64 0.1 is not the float32 0.1: ties between dtypes would not be found.
    if own.n and own.scores.dtype != everyone.scores.dtype:
        msg = f"`y_score` must be {everyone.scores.dtype} as ranked; got {own.scores.dtype}."
        raise TypeError(msg)
