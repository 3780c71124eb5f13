"""Pair counts from sorted scores; all ranking happens in this module.

Each class is sorted once. A subgroup's few scores are then searched in the sorted classes, and the
subgroup's own members are subtracted, which leaves the pairs with the background. No metric sorts a
large array again. Pair counts are doubled: a tie, which counts one half, is then an integer, and
the unweighted result is exact.
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
    """The scores of a class in ascending order, with their weights in the same order."""

    scores: FloatArray
    """In ascending order; weighted rows with equal scores are in order of weight."""
    cumulative_weight: FloatArray | None = None
    """(n + 1,): `cumulative_weight[i]` is the weight of the first `i` scores; None without
    weights."""
    weight: FloatArray | None = None
    """The weights themselves, since differences of their sums would lose digits."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.scores.size)

    @property
    def total(self) -> float:
        """Total weight; the number of rows without weights."""
        if self.cumulative_weight is None:
            return self.n
        return float(self.cumulative_weight[-1])

    def remove_rows(self, others: SortedScores) -> SortedScores:
        """Return the weighted rows without `others`, which must be among them.

        Row numbers are not needed, since rows with equal score and weight are interchangeable.
        """
        assert self.weight is not None  # noqa: S101
        assert others.weight is not None  # noqa: S101
        rows = np.asarray(self.scores + 1j * self.weight)
        removed = np.asarray(others.scores + 1j * others.weight)
        repeated = np.arange(removed.size) - np.searchsorted(removed, removed)
        rest = np.delete(rows, np.searchsorted(rows, removed) + repeated)
        return make_sorted_scores(rest.real.astype(self.scores.dtype), rest.imag)


@dataclass(frozen=True, eq=False)
class SortedClasses:
    """Positives and negatives of a set of rows, each sorted by score."""

    positive: SortedScores
    negative: SortedScores

    def select_class(self, *, positive: bool) -> SortedScores:
        """Return the scores of a class."""
        return self.positive if positive else self.negative


def sort_scores(y_score: FloatArray, sample_weight: FloatArray | None = None) -> SortedScores:
    """Sort the scores of a class; rows of weight 0 are left out."""
    if sample_weight is None:
        return SortedScores(np.sort(y_score))
    present = sample_weight > 0
    y_score, sample_weight = y_score[present], sample_weight[present]
    order = np.lexsort((sample_weight, y_score))
    return make_sorted_scores(y_score[order], sample_weight[order])


def make_sorted_scores(scores: FloatArray, weight: FloatArray | None = None) -> SortedScores:
    """Return sorted scores; the arrays must be in order of score and, for ties, of weight."""
    if weight is None:
        return SortedScores(scores)
    return SortedScores(scores, np.concatenate(([0.0], np.cumsum(weight))), weight)


def sort_classes(
    y_true: BoolArray, y_score: FloatArray, sample_weight: FloatArray | None = None
) -> SortedClasses:
    """Sort positives and negatives separately."""
    masks = (y_true, ~y_true)
    if sample_weight is not None:
        return SortedClasses(*(sort_scores(y_score[mask], sample_weight[mask]) for mask in masks))
    classes = [y_score[mask] for mask in masks]
    for scores in classes:
        scores.sort()  # in place: a copy would double the memory
    return SortedClasses(*map(SortedScores, classes))


def count_doubled_wins(lower: SortedScores, upper: SortedScores) -> float:
    """Return twice the (weighted) number of pairs in which `upper` scores above `lower`.

    A tie counts one half, doubled to 1. Without weights the result is an exact integer.
    """
    left = np.searchsorted(lower.scores, upper.scores, side="left")
    right = np.searchsorted(lower.scores, upper.scores, side="right")
    if lower.cumulative_weight is None or upper.cumulative_weight is None:
        return int(left.sum()) + int(right.sum())
    assert upper.weight is not None  # noqa: S101
    below = lower.cumulative_weight[left] + lower.cumulative_weight[right]
    return float(upper.weight @ below)


def check_ranked(everyone: SortedClasses, own: SortedClasses) -> None:
    """Refuse rows that cannot be among the ranked rows."""
    for name, ranked, rows in (
        ("positives", everyone.positive, own.positive),
        ("negatives", everyone.negative, own.negative),
    ):
        if rows.n > ranked.n:
            msg = f"`y_true` must hold at most the {ranked.n} ranked {name}; got {rows.n}."
            raise ValueError(msg)
        # 0.1 differs between float64 and float32, so ties between dtypes would be missed.
        if rows.n and rows.scores.dtype != ranked.scores.dtype:
            msg = f"`y_score` must be {ranked.scores.dtype} as ranked; got {rows.scores.dtype}."
            raise TypeError(msg)


# ---- Ranks of a few scores among many: wins, and DeLong's variance, from insertion points.
#
# The distinct scores x of a small set are searched once in a large sorted class y. The insertion
# points give exactly, without another pass over y,
#
# - the placement of each x: the share of y below it (a tie counts one half), and
# - the placement of every y among x: a step function of y with a step at each distinct x, so that
#   many y share a value.
#
# DeLong's variance needs only the variances of these two (Sun and Xu 2014)


# Rows per block, which fits into the processor's cache.
BLOCK = 1 << 14
_ONE_THREAD = 10_000  # up to this many values, BLAS uses a single thread
Indices = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Runs:
    """Sorted scores as distinct values and their counts."""

    values: npt.NDArray[np.floating]  # (d,): Ascending, distinct
    # (d + 1,): First position of each value in the sorted scores, then the number of scores.
    starts: Indices

    @property
    def n(self) -> int:
        """Number of scores."""
        return int(self.starts[-1])

    @property
    def counts(self) -> Indices:
        """Numbers of occurrences of the values."""
        return self.starts[1:] - self.starts[:-1]


@dataclass(frozen=True, eq=False)
class Placements:
    """Distinct scores x, searched in a sorted class y."""

    left: Indices  # left, right, (d,): number of y below each x, and at or below each x
    right: Indices
    n: int  # Number of y


@dataclass(frozen=True, eq=False)
class PlacementSteps:
    """Placements of every y among x, as a step function over the sorted y."""

    # (s + 1,): First position of each step in the sorted y, then the number of y.
    bounds: Indices
    shares: Floats  # (s,): Share of x below the y of each step

    @property
    def counts(self) -> Floats:
        """Number of y on each step, as floats, which numpy multiplies much faster than ints."""
        return (self.bounds[1:] - self.bounds[:-1]).astype(np.float64)

    def compute_deviations(self) -> Floats:
        """Return the shares minus their mean over all y, shape (s,)."""
        return self.shares - inner_product(self.counts, self.shares) / float(self.bounds[-1])


def find_runs(scores: npt.NDArray[np.floating]) -> Runs:
    """Find the distinct values of sorted scores."""
    new = np.flatnonzero(scores[1:] != scores[:-1]) + 1
    starts = np.concatenate(([0] * bool(scores.size), new, [scores.size])).astype(np.intp)
    return Runs(scores[starts[:-1]], starts)


def place_runs(base: npt.NDArray[np.floating], runs: Runs) -> Placements:
    """Search distinct scores in a sorted class."""
    return Placements(
        np.searchsorted(base, runs.values, side="left"),
        np.searchsorted(base, runs.values, side="right"),
        int(base.size),
    )


def compute_steps(placed: Placements, runs: Runs) -> PlacementSteps:
    """Return the placements of every y among x."""
    bounds = np.zeros(2 * runs.values.size + 2, dtype=np.intp)
    bounds[1:-1:2], bounds[2:-1:2] = placed.left, placed.right
    bounds[-1] = placed.n
    shares = np.zeros(2 * runs.values.size + 1)
    shares[1::2], shares[2::2] = (runs.starts[:-1] + runs.starts[1:]) / 2.0, runs.starts[1:]
    return PlacementSteps(bounds, shares / runs.n)


def compute_deviations(placed: Placements, runs: Runs) -> Floats:
    """Return the placements of distinct x minus the mean over all x, shape (d,)."""
    shares = (placed.left + placed.right) / (2.0 * placed.n)
    return np.asarray(shares - inner_product(runs.counts.astype(np.float64), shares) / runs.n)


def delong_variance(placed: Placements, runs: Runs) -> tuple[float, float]:
    """Return DeLong's variance of P(x > y), and its degrees of freedom.

    There must be at least two x and two y. The variance is the sum of two estimates. Its own
    variance follows from the fourth moments of the placements (Satterthwaite 1946).
    """
    x_deviations = compute_deviations(placed, runs)
    steps = compute_steps(placed, runs)
    spread_x, error_x = _estimate_mean_variance(
        x_deviations, runs.counts.astype(np.float64), runs.n
    )
    spread_y, error_y = _estimate_mean_variance(steps.compute_deviations(), steps.counts, placed.n)
    variance, error = spread_x + spread_y, error_x + error_y
    return variance, 2 * variance**2 / error if error > 0 else math.inf


def _estimate_mean_variance(deviations: Floats, counts: Floats, n: int) -> tuple[float, float]:
    """Return the variance of a mean of `n` rows, and the variance of this estimate."""
    squares = deviations**2
    weighted = counts * squares
    second, fourth = float(weighted.sum()) / n, inner_product(weighted, squares) / n
    error = (fourth - second**2 * (n - 3) / (n - 1)) / n**3
    return second / (n - 1), max(error, 0.0)


def sum_squares(parts: Iterable[Floats | Iterable[Floats]]) -> tuple[float, float]:
    """Return the sum of squares over several samples, and its degrees of freedom.

    The degrees of freedom are few if a few terms dominate, and at most n - 1 for a sample of n
    terms, which may be given in blocks. A variance with nu degrees of freedom has the relative
    variance 2 / nu. The variance of a sum of n squares is the sum of fourth powers minus the square
    of the sum over n.
    """
    squares = error = 0.0
    for part in parts:
        part_squares, fourths, n = 0.0, 0.0, 0
        blocks: Iterable[Floats] = part
        if isinstance(part, np.ndarray):
            blocks = (part[start : start + BLOCK] for start in range(0, part.size, BLOCK))
        for block in blocks:
            block_squares = block**2
            part_squares, n = part_squares + float(block_squares.sum()), n + block.size
            fourths += inner_product(block_squares, block_squares)
        if part_squares > 0:
            squares += part_squares
            error += compute_square_variance(part_squares, fourths, n)
    return squares, 2 * squares**2 / error if error > 0 else math.inf


def compute_square_variance(squares: float, fourths: float, n: int) -> float:
    """Return the variance of a sum of n squares, given the sum of fourth powers."""
    return max(fourths - squares**2 / n, 2 * squares**2 / max(n - 1, 1))


def inner_product(a: Floats, b: Floats) -> float:
    """Return the sum of a * b in a single thread: starting more threads takes longer."""
    if a.size <= _ONE_THREAD:  # einsum takes three times as long to start
        return float(a.dot(b))
    return float(np.einsum("i,i->", a, b))
