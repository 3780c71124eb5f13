"""One AUC under two models on the same rows: DeLong's covariance, and third moments.

What `influence` says about one model holds for each; the covariance of the two estimates is the
sum over rows of the product of their influences. Under each model the background's influence
is a step function of that model's order, so the sum takes one pass over the class in the first
model's order, gathering the second's values. Sums of cubes, which measure how skewed the
difference is, are computed in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import Comparison
from bias_metrics._core.influence import CLASSES, Influence, Members, RankedRows
from bias_metrics._core.ranks import (
    BLOCK,
    Floats,
    deviations_of,
    inner,
    runs_of,
    squares_of,
    steps_of,
)
from bias_metrics.metrics import PAIRS

# A class this many times larger has small influences: in the third moments, by its square.
DOMINATED = 10


@dataclass(frozen=True, eq=False)
class MatchedClass:
    """The rows of one class under two models."""

    position: npt.NDArray[np.intp]  # In the first model's order: the row's position in the second's
    # In the first model's order: which of the second's distinct scores the row has. Where scores
    # are tied, a table by level is small enough to stay in the processor's cache. It has numpy's
    # own index type, because `take` is four times as fast with it.
    level: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]  # Position at which each distinct score of the second model begins

    @classmethod
    def of(cls, first: RankedRows, second: RankedRows, *, positive: bool) -> MatchedClass:
        """Match one class of two rankings of the same rows."""
        rows = np.flatnonzero(first.y_true == positive)
        position = np.empty(rows.size, dtype=np.intp)
        position[first.position[rows]] = second.position[rows]
        everyone = second.everyone.positive if positive else second.everyone.negative
        starts = runs_of(everyone.scores).starts
        levels = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        return cls(position, levels[position], starts)

    def products(self, a: Deviations, b: Deviations, *, cubes: bool) -> Floats:
        """Sum the products of the two models' step functions over all rows of the class."""
        level_bounds = np.searchsorted(self.starts, b.bounds)
        values = np.repeat(b.of_y, np.diff(level_bounds)).take(self.level)
        counts = np.diff(a.bounds)
        taken = np.flatnonzero(counts)
        of_a, starts = a.of_y[taken], a.bounds[taken]
        sums = np.add.reduceat(values, starts)
        shared = inner(sums, of_a)
        if not cubes:
            return np.array([shared, 0.0, 0.0, 0.0, 0.0])
        squares = np.add.reduceat(np.square(values, out=values), starts)
        cubed = inner(counts[taken].astype(np.float64), of_a**3)
        of_b = inner(np.diff(b.bounds).astype(np.float64), b.of_y**3)
        return np.array([shared, cubed, inner(sums, of_a**2), inner(squares, of_a), of_b])


@dataclass(frozen=True, eq=False)
class TwoRankings:
    """The same rows ranked by two models."""

    first: RankedRows
    second: RankedRows
    positive: MatchedClass  # positive, negative: the rows of each class
    negative: MatchedClass

    @classmethod
    def of(cls, first: RankedRows, second: RankedRows) -> TwoRankings:
        """Match two rankings of the same rows."""
        positive, negative = (
            MatchedClass.of(first, second, positive=label) for label in (True, False)
        )
        return cls(first, second, positive, negative)

    def match(self, first: Members, second: Members) -> MatchedMembers:
        """Match a subgroup's rows, and the rows excluded from its background."""
        others = None
        if first.others is not None and second.others is not None:
            others = self.match(first.others, second.others)
        positive, negative = (
            np.searchsorted(other.position, self.second.position[one.rows])
            for one, other in (
                (first.positive, second.positive),
                (first.negative, second.negative),
            )
        )
        return MatchedMembers(first, second, positive, negative, others)

    def difference_error(self, a: Influence, b: Influence) -> tuple[float, float]:
        """Return the standard error of two numbers' difference, and its degrees of freedom."""
        matched = self.positive, self.negative
        parts = zip(a.by_class(), b.by_class(), matched, a.counted.values(), strict=True)
        squares, freedom = squares_of(_differences(*part) for part in parts)
        return math.sqrt(squares), freedom


def _differences(
    a: Floats, b: Floats, matched: MatchedClass, counted: npt.NDArray[np.bool_]
) -> Iterator[Floats]:
    """Yield the differences of two models' influences on the rows of one class, in blocks."""
    for start in range(0, a.size, BLOCK):
        rows = slice(start, start + BLOCK)
        apart = a[rows] - b.take(matched.position[rows])
        yield apart if counted[rows].all() else apart[counted[rows]]


@dataclass(frozen=True, eq=False)
class MatchedMembers:
    """A subgroup's rows under two models."""

    first: Members  # first, second: the rows, in each model's order
    second: Members
    # positive, negative: for each class, in the first's order: the row's place in the second's.
    positive: npt.NDArray[np.intp]
    negative: npt.NDArray[np.intp]
    # The rows excluded from its background; None if these are its own.
    others: MatchedMembers | None = None

    def products(self, a: Floats, b: Floats, *, positive: bool) -> Floats:
        """Sum products over a class's rows, each given in its own model's order."""
        b = b[self.positive if positive else self.negative]
        a_squared, b_squared = a * a, b * b
        pairs = (a, b), (a_squared, a), (a_squared, b), (a, b_squared), (b, b_squared)
        return np.array([inner(one, other) for one, other in pairs])


@dataclass(frozen=True, eq=False)
class Deviations:
    """One AUC's placements under one model, minus their means."""

    of_x: Floats  # (k,): Deviation of each row of x, in score order
    of_y: Floats  # (s,): Deviation of each step of y
    bounds: npt.NDArray[np.intp]  # (s + 1,): Where the steps begin among all rows of y's class
    # (s + 1,): Where the steps begin among the rows of that class that are not y.
    excluded: npt.NDArray[np.intp]
    n_y: int  # Number of y

    @classmethod
    def of(cls, comparison: Comparison) -> Deviations:
        """Return the deviations of one comparison."""
        runs, placed = comparison.runs, comparison.placed
        steps = steps_of(placed, runs)
        bounds = steps_of(comparison.among_all, runs).bounds
        return cls(
            np.repeat(deviations_of(placed, runs), runs.counts),
            steps.deviations(),
            bounds,
            bounds - steps.bounds,
            placed.n,
        )

    def of_excluded(self) -> Floats:
        """Return the step values of the rows that are not y, in score order."""
        return np.repeat(self.of_y, np.diff(self.excluded))


@dataclass(frozen=True)
class Joint:
    """How two models' estimates of one cell vary together."""

    covariance: float  # Covariance of the two estimates
    # Sums over all rows of products of their influences a and b on the two estimates: aaa, aab,
    # abb, bbb.
    thirds: tuple[float, float, float, float]

    @property
    def third(self) -> float:
        """The third moment of the difference."""
        aaa, aab, abb, bbb = self.thirds
        return aaa - 3 * aab + 3 * abb - bbb

    def negated(self) -> Joint:
        """Return it for the first and minus the second estimate: their difference is the sum."""
        aaa, aab, abb, bbb = self.thirds
        return Joint(-self.covariance, (aaa, -aab, abb, -bbb))


def joint(metric: str, pair: TwoRankings, members: MatchedMembers) -> Joint:
    """Return how one cell's two estimates vary together; both need two rows in each class.

    A class that is `DOMINATED` adds so little to the third moments that it is left out.
    """
    x_positive, y_positive = CLASSES[metric]
    compared = members.first.compared[metric]
    a = Deviations.of(compared)
    b = Deviations.of(members.second.compared[metric])
    n_x = a.of_x.size
    of_x = members.products(a.of_x, b.of_x, positive=x_positive)
    if PAIRS[metric].inside:
        values = np.repeat(a.of_y, np.diff(a.bounds)), np.repeat(b.of_y, np.diff(b.bounds))
        of_y = members.products(*values, positive=y_positive)
    else:
        cubes = a.n_y < DOMINATED * n_x
        of_y = (pair.positive if y_positive else pair.negative).products(a, b, cubes=cubes)
        excluded = members.others or members
        of_y -= excluded.products(a.of_excluded(), b.of_excluded(), positive=y_positive)
        if not cubes:
            of_y[1:] = 0.0
    x_scale, y_scale = n_x * (n_x - 1), a.n_y * (a.n_y - 1)
    sign = -1 if compared.flip else 1
    aaa, aab, abb, bbb = sign * (of_x[1:] / x_scale**1.5 - of_y[1:] / y_scale**1.5)
    covariance = of_x[0] / x_scale + of_y[0] / y_scale
    return Joint(float(covariance), (float(aaa), float(aab), float(abb), float(bbb)))
