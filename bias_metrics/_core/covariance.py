"""An AUC under two models on the same rows: DeLong's covariance, and third moments.

The covariance of the two estimates is the sum over rows of the product of their influences (see
`influence`). Under each model the background's influence is a step function in that model's
order. So the sum takes a single pass over the class in the first model's order, gathering the
second model's values. Sums of cubes, which measure the skewness of the difference, are computed in
the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import Comparison
from bias_metrics._core.influence import PAIR_LABELS, Influence, Members, RankedRows
from bias_metrics._core.ranks import (
    BLOCK,
    Floats,
    compute_deviations,
    compute_steps,
    find_runs,
    inner_product,
    sum_squares,
)
from bias_metrics.metrics import PAIRS

# Third moments ignore a class that is this many times larger: its influences shrink by the square.
DOMINATED = 10


@dataclass(frozen=True, eq=False)
class MatchedClass:
    """The rows of a class under two models."""

    position: npt.NDArray[np.intp]  # Position in the second model's order, in the first's order
    # In the first model's order: index of the row's score among the second model's distinct
    # scores. With tied scores, a table by level fits into the processor's cache. `take` is four
    # times as fast with numpy's own index type.
    levels: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]  # First position of each distinct score of the second model

    @classmethod
    def from_rankings(
        cls, first: RankedRows, second: RankedRows, *, positive: bool
    ) -> MatchedClass:
        """Match a class in two rankings of the same rows."""
        rows = np.flatnonzero(first.y_true == positive)
        position = np.empty(rows.size, dtype=np.intp)
        position[first.position[rows]] = second.position[rows]
        everyone = second.everyone.select_class(positive=positive)
        starts = find_runs(everyone.scores).starts
        levels = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        return cls(position, levels[position], starts)

    def sum_products(
        self, a: PlacementDeviations, b: PlacementDeviations, *, cubes: bool
    ) -> Floats:
        """Sum products of the two models' step functions over all rows of the class."""
        level_bounds = np.searchsorted(self.starts, b.bounds)
        values = np.repeat(b.y_deviations, np.diff(level_bounds)).take(self.levels)
        counts = np.diff(a.bounds)
        taken = np.flatnonzero(counts)
        steps, starts = a.y_deviations[taken], a.bounds[taken]
        sums = np.add.reduceat(values, starts)
        shared = inner_product(sums, steps)
        if not cubes:
            return np.array([shared, 0.0, 0.0, 0.0, 0.0])
        squares = np.add.reduceat(np.square(values, out=values), starts)
        cubed = inner_product(counts[taken].astype(np.float64), steps**3)
        b_cubed = inner_product(np.diff(b.bounds).astype(np.float64), b.y_deviations**3)
        return np.array(
            [shared, cubed, inner_product(sums, steps**2), inner_product(squares, steps), b_cubed]
        )


@dataclass(frozen=True, eq=False)
class TwoRankings:
    """The same rows ranked by two models."""

    first: RankedRows
    second: RankedRows
    positive: MatchedClass  # positive, negative: rows of each class
    negative: MatchedClass

    @classmethod
    def from_rankings(cls, first: RankedRows, second: RankedRows) -> TwoRankings:
        """Match two rankings of the same rows."""
        positive, negative = (
            MatchedClass.from_rankings(first, second, positive=label) for label in (True, False)
        )
        return cls(first, second, positive, negative)

    def match_members(self, first: Members, second: Members) -> MatchedMembers:
        """Match a subgroup's rows, and the rows excluded from its background."""
        others = None
        if first.others is not None and second.others is not None:
            others = self.match_members(first.others, second.others)
        positive, negative = (
            np.searchsorted(matched.position, self.second.position[members.rows])
            for members, matched in (
                (first.positive, second.positive),
                (first.negative, second.negative),
            )
        )
        return MatchedMembers(first, second, positive, negative, others)

    def compute_difference_error(self, a: Influence, b: Influence) -> tuple[float, float]:
        """Return the standard error of a difference, and its degrees of freedom."""
        matched = self.positive, self.negative
        parts = zip(
            a.split_classes(), b.split_classes(), matched, a.is_counted.values(), strict=True
        )
        squares, freedom = sum_squares(_subtract_influences(*part) for part in parts)
        return math.sqrt(squares), freedom


def _subtract_influences(
    a: Floats, b: Floats, matched: MatchedClass, counted: npt.NDArray[np.bool_]
) -> Iterator[Floats]:
    """Yield differences of two models' influences on the rows of a class, in blocks."""
    for start in range(0, a.size, BLOCK):
        rows = slice(start, start + BLOCK)
        differences = a[rows] - b.take(matched.position[rows])
        yield differences if counted[rows].all() else differences[counted[rows]]


@dataclass(frozen=True, eq=False)
class MatchedMembers:
    """A subgroup's rows under two models."""

    first: Members  # first, second: the rows, in each model's order
    second: Members
    # positive, negative: position in the second model's order, in the first's order.
    positive: npt.NDArray[np.intp]
    negative: npt.NDArray[np.intp]
    # Rows excluded from the background; None if these are the subgroup's own rows.
    others: MatchedMembers | None = None

    def sum_products(self, a: Floats, b: Floats, *, positive: bool) -> Floats:
        """Sum products over a class's rows; `a` and `b` are in the order of their own model."""
        b = b[self.positive if positive else self.negative]
        a_squared, b_squared = a * a, b * b
        pairs = (a, b), (a_squared, a), (a_squared, b), (a, b_squared), (b, b_squared)
        return np.array([inner_product(left, right) for left, right in pairs])


@dataclass(frozen=True, eq=False)
class PlacementDeviations:
    """Placements of an AUC under a model, minus their means."""

    x_deviations: Floats  # (k,): Deviation of each row of x, in score order
    y_deviations: Floats  # (s,): Deviation of each step of y
    bounds: npt.NDArray[np.intp]  # (s + 1,): First position of each step in all rows of y's class
    # (s + 1,): First position of each step in the rows of that class that are not y.
    excluded: npt.NDArray[np.intp]
    n_y: int  # Number of rows y

    @classmethod
    def from_comparison(cls, comparison: Comparison) -> PlacementDeviations:
        """Compute the deviations of a comparison."""
        runs, placed = comparison.runs, comparison.placements
        steps = compute_steps(placed, runs)
        bounds = compute_steps(comparison.base_placements, runs).bounds
        return cls(
            np.repeat(compute_deviations(placed, runs), runs.counts),
            steps.compute_deviations(),
            bounds,
            bounds - steps.bounds,
            placed.n,
        )

    def expand_excluded(self) -> Floats:
        """Return the step values of rows that are not y, in score order."""
        return np.repeat(self.y_deviations, np.diff(self.excluded))


@dataclass(frozen=True)
class JointMoments:
    """Covariance and third moments of two models' estimates of a metric."""

    covariance: float  # Covariance of the two estimates
    # Sums over rows of products of the influences a and b on the two estimates: aaa, aab, abb, bbb;
    # 0 if skewness is not measured.
    third_moments: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @property
    def third_moment(self) -> float:
        """Third moment of the difference."""
        aaa, aab, abb, bbb = self.third_moments
        return aaa - 3 * aab + 3 * abb - bbb

    def negate_second(self) -> JointMoments:
        """Return the moments with the second estimate negated: its difference is then the sum."""
        aaa, aab, abb, bbb = self.third_moments
        return JointMoments(-self.covariance, (aaa, -aab, abb, -bbb))


def measure_joint_moments(metric: str, pair: TwoRankings, members: MatchedMembers) -> JointMoments:
    """Return the joint moments of a cell under two models; each class needs two rows.

    The third moments ignore a class that is `DOMINATED` by the other.
    """
    x_positive, y_positive = PAIR_LABELS[metric]
    compared = members.first.comparisons[metric]
    a = PlacementDeviations.from_comparison(compared)
    b = PlacementDeviations.from_comparison(members.second.comparisons[metric])
    n_x = a.x_deviations.size
    x_sums = members.sum_products(a.x_deviations, b.x_deviations, positive=x_positive)
    if PAIRS[metric].inside:
        values = [np.repeat(each.y_deviations, np.diff(each.bounds)) for each in (a, b)]
        y_sums = members.sum_products(*values, positive=y_positive)
    else:
        cubes = a.n_y < DOMINATED * n_x
        y_sums = (pair.positive if y_positive else pair.negative).sum_products(a, b, cubes=cubes)
        excluded = members.others or members
        y_sums -= excluded.sum_products(
            a.expand_excluded(), b.expand_excluded(), positive=y_positive
        )
        if not cubes:
            y_sums[1:] = 0.0
    x_scale, y_scale = n_x * (n_x - 1), a.n_y * (a.n_y - 1)
    sign = -1 if compared.flip else 1
    aaa, aab, abb, bbb = sign * (x_sums[1:] / x_scale**1.5 - y_sums[1:] / y_scale**1.5)
    covariance = x_sums[0] / x_scale + y_sums[0] / y_scale
    return JointMoments(float(covariance), (float(aaa), float(aab), float(abb), float(bbb)))
