"""Pair counts from sorted scores: the one place where scores are ranked.

Each class is sorted once. A subgroup's few scores are then searched in the sorted classes,
and the subgroup's own members are subtracted, which leaves the pairs with the background:
no metric sorts a large array again. Counts of pairs are kept doubled, so that a tie, which
counts one half, is an integer and the unweighted result is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class SortedScores:
    """The scores of one class in ascending order, with their weights in the same order."""

    scores: FloatArray
    """Ascending; weighted rows of the same score are in order of weight."""
    cumulative_weight: FloatArray | None = None
    """(n + 1,): `cumulative_weight[i]` is the weight of the first `i` scores; None when every row
    counts once."""
    weight: FloatArray | None = None
    """The weights themselves: their sums have lost digits."""

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
    return SortedClasses(*(sort_scores(y_score[mask], sample_weight[mask]) for mask in masks))


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


# ---- How a few scores rank among many: wins, and DeLong's variance, from insertion points.
#
# The distinct scores x of a small set are searched once in a large sorted class y. The insertion
# points give, exactly and without touching y again,
#
# - the placement of each x, the share of y below it (a tie counts one half), and
# - the placement of every y among the x, which is a step function of y with one step at each
#   distinct x: few values, each shared by many y.
#
# DeLong's variance needs only the variance of these two (Sun and Xu 2014)


# Rows processed at once: they fit into the processor's cache.
BLOCK = 1 << 14
_ONE_THREAD = 10_000  # values that BLAS adds up in one thread
Indices = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Runs:
    """Sorted scores as distinct values and how often each occurs."""

    values: npt.NDArray[np.floating]  # (d,): Ascending, distinct
    # (d + 1,): Position in the sorted scores at which each value begins; the last is the number of
    # scores.
    starts: Indices

    @property
    def n(self) -> int:
        """Number of scores."""
        return int(self.starts[-1])

    @property
    def counts(self) -> Indices:
        """How often each value occurs."""
        return self.starts[1:] - self.starts[:-1]

    def among_themselves(self) -> Placed:
        """Place the scores in their own class, which needs no search."""
        return Placed(self.starts[:-1], self.starts[1:], self.n)


@dataclass(frozen=True, eq=False)
class Placed:
    """Distinct scores x, searched in a sorted class y."""

    left: Indices  # left, right, (d,): number of y below each x, and at or below it
    right: Indices
    n: int  # Number of y

    def without(self, own: Placed) -> Placed:
        """Return the placement among the y that remain when `own`'s y are removed."""
        return Placed(self.left - own.left, self.right - own.right, self.n - own.n)

    def doubled_wins(self, runs: Runs) -> int:
        """Twice the number of pairs in which x scores above y; a tie counts one half."""
        return int(runs.counts @ (self.left + self.right))


@dataclass(frozen=True, eq=False)
class Steps:
    """The placement of every y among the x, as a step function over the sorted y."""

    # (s + 1,): Positions in the sorted y at which the steps begin; the last is the number of y.
    bounds: Indices
    shares: Floats  # (s,): Share of x below the y of each step

    @property
    def counts(self) -> Floats:
        """Number of y on each step, as floats, which numpy multiplies far faster than ints."""
        return (self.bounds[1:] - self.bounds[:-1]).astype(np.float64)

    def deviations(self) -> Floats:
        """Return the shares minus their mean over all y, shape (s,)."""
        return self.shares - inner(self.counts, self.shares) / float(self.bounds[-1])


def runs_of(scores: npt.NDArray[np.floating]) -> Runs:
    """Find the distinct values of sorted scores."""
    new = np.flatnonzero(scores[1:] != scores[:-1]) + 1
    starts = np.concatenate(([0] * bool(scores.size), new, [scores.size])).astype(np.intp)
    return Runs(scores[starts[:-1]], starts)


def place(base: npt.NDArray[np.floating], runs: Runs) -> Placed:
    """Search distinct scores in a sorted class."""
    return Placed(
        np.searchsorted(base, runs.values, side="left"),
        np.searchsorted(base, runs.values, side="right"),
        int(base.size),
    )


def steps_of(placed: Placed, runs: Runs) -> Steps:
    """Return the placement of every y among the x."""
    bounds = np.zeros(2 * runs.values.size + 2, dtype=np.intp)
    bounds[1:-1:2], bounds[2:-1:2] = placed.left, placed.right
    bounds[-1] = placed.n
    shares = np.zeros(2 * runs.values.size + 1)
    shares[1::2], shares[2::2] = (runs.starts[:-1] + runs.starts[1:]) / 2.0, runs.starts[1:]
    return Steps(bounds, shares / runs.n)


def deviations_of(placed: Placed, runs: Runs) -> Floats:
    """Return the placement of each distinct x minus the mean over all x, shape (d,)."""
    shares = (placed.left + placed.right) / (2.0 * placed.n)
    return np.asarray(shares - inner(runs.counts.astype(np.float64), shares) / runs.n)


def delong_variance(placed: Placed, runs: Runs) -> tuple[float, float]:
    """Return DeLong's variance of P(x > y), and its degrees of freedom.

    There must be at least two x and two y. The variance is a sum of two estimated ones, and its
    own variance follows from the fourth moments of the placements (Satterthwaite 1946).
    """
    of_x = deviations_of(placed, runs)
    steps = steps_of(placed, runs)
    spread_x, error_x = _variance_of_mean(of_x, runs.counts.astype(np.float64), runs.n)
    spread_y, error_y = _variance_of_mean(steps.deviations(), steps.counts, placed.n)
    variance, error = spread_x + spread_y, error_x + error_y
    return variance, 2 * variance**2 / error if error > 0 else math.inf


def _variance_of_mean(deviations: Floats, counts: Floats, n: int) -> tuple[float, float]:
    """Return the variance of a mean of `n` rows, and the variance of this estimate."""
    squares = deviations**2
    weighted = counts * squares
    second, fourth = float(weighted.sum()) / n, inner(weighted, squares) / n
    error = (fourth - second**2 * (n - 3) / (n - 1)) / n**3
    return second / (n - 1), max(error, 0.0)


def squares_of(parts: Iterable[Floats | Iterable[Floats]]) -> tuple[float, float]:
    """Return the sum of squares of several samples and its degrees of freedom.

    They are few if a few terms dominate, and at most n - 1 of each sample's n terms, which may come
    in blocks. A variance with nu degrees of freedom has the relative variance 2 / nu; that of a sum
    of n squares is the sum of fourth powers minus the square of the sum over n.
    """
    squares = error = 0.0
    for part in parts:
        own, fourths, n = 0.0, 0.0, 0
        for block in _blocks(part) if isinstance(part, np.ndarray) else part:
            of_block = block**2
            own, n = own + float(of_block.sum()), n + block.size
            fourths += inner(of_block, of_block)
        if own > 0:
            squares += own
            error += spread_of_squares(own, fourths, n)
    return squares, 2 * squares**2 / error if error > 0 else math.inf


def spread_of_squares(squares: float, fourths: float, n: int) -> float:
    """Return the variance of a sum of n squares, given that of fourth powers."""
    return max(fourths - squares**2 / n, 2 * squares**2 / max(n - 1, 1))


def _blocks(part: Floats) -> Iterable[Floats]:
    return (part[start : start + BLOCK] for start in range(0, part.size, BLOCK))


def inner(a: Floats, b: Floats) -> float:
    """Return the sum of a * b in one thread: for these arrays, waking more takes too long."""
    if a.size <= _ONE_THREAD:  # einsum takes three times as long to begin
        return float(a.dot(b))
    return float(np.einsum("i,i->", a, b))
