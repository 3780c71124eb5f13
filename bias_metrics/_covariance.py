"""DeLong's covariance of one AUC under two models, on the same rows.

What `_influence` says of one model holds for each; the covariance of the two estimates is the
sum over rows of the product of their influences. Under each model the background's influence
is a step function of that model's order, so one pass over the class in the first model's
order, gathering the second's values, gives the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._cells import Comparison
from bias_metrics._influence import CLASSES, Influence, Members, RankedRows
from bias_metrics._placements import (
    Floats,
    deviations_of,
    freedom_of_squares,
    inner,
    runs_of,
    steps_of,
)


@dataclass(frozen=True, eq=False)
class MatchedClass:
    """The rows of one class under two models.

    Attributes
    ----------
    position : int32 array of shape (n,)
        In the first model's order: the row's position in the second's.
    level : int32 array of shape (n,)
        In the first model's order: which of the second's distinct scores the row has. Where
        scores are tied, a table by level is small enough to stay in the processor's cache.
    starts : int array
        Position at which each distinct score of the second begins.
    """

    position: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]
    starts: npt.NDArray[np.intp]

    @classmethod
    def of(cls, first: RankedRows, second: RankedRows, *, positive: bool) -> MatchedClass:
        """Match one class of two rankings of the same rows."""
        rows = np.flatnonzero(first.y_true == positive)
        position = np.empty(rows.size, dtype=np.int32)
        position[first.position[rows]] = second.position[rows]
        everyone = second.everyone.positive if positive else second.everyone.negative
        starts = runs_of(everyone.scores).starts
        levels = np.repeat(np.arange(starts.size - 1, dtype=np.int32), np.diff(starts))
        return cls(position, levels[position], starts)

    def product(self, a: Deviations, b: Deviations) -> float:
        """Sum the two models' step functions' product over all rows of the class."""
        level_bounds = np.searchsorted(self.starts, b.bounds)
        values = np.repeat(b.of_y, np.diff(level_bounds))[self.level]
        taken = np.flatnonzero(np.diff(a.bounds))
        return inner(np.add.reduceat(values, a.bounds[taken]), a.of_y[taken])


@dataclass(frozen=True, eq=False)
class TwoRankings:
    """The same rows ranked by two models.

    Attributes
    ----------
    first, second : RankedRows
        The rankings.
    positive, negative : MatchedClass
        What happened to each class.
    """

    first: RankedRows
    second: RankedRows
    positive: MatchedClass
    negative: MatchedClass

    @classmethod
    def of(cls, first: RankedRows, second: RankedRows) -> TwoRankings:
        """Match two rankings of the same rows."""
        positive, negative = (
            MatchedClass.of(first, second, positive=label) for label in (True, False)
        )
        return cls(first, second, positive, negative)

    def match(self, first: Members, second: Members) -> MatchedMembers:
        """Match a subgroup's rows, and those that are not its background."""
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
        parts = []
        for one, other, classes in zip(a.by_class(), b.by_class(), matched, strict=True):
            apart = other[classes.position]
            np.subtract(one, apart, out=apart)
            parts.append(apart)
        return math.sqrt(sum(inner(one, one) for one in parts)), freedom_of_squares(parts)


@dataclass(frozen=True, eq=False)
class MatchedMembers:
    """A subgroup's rows under two models.

    Attributes
    ----------
    first, second : Members
        The rows, in each model's order.
    positive, negative : int arrays
        For each class, in the first's order: the row's place in the second's.
    others : MatchedMembers or None
        The rows that are not its background; None where these are its own.
    """

    first: Members
    second: Members
    positive: npt.NDArray[np.intp]
    negative: npt.NDArray[np.intp]
    others: MatchedMembers | None = None

    def product(self, a: Floats, b: Floats, *, positive: bool) -> float:
        """Sum a * b over a class's rows, each given in its own model's order."""
        return inner(a, b[self.positive if positive else self.negative])


@dataclass(frozen=True, eq=False)
class Deviations:
    """One AUC's placements under one model, less their means.

    Attributes
    ----------
    of_x : float array of shape (k,)
        Of each row of x, in score order.
    of_y : float array of shape (s,)
        Of each step of y.
    bounds : int array of shape (s + 1,)
        Where the steps begin among all rows of y's class.
    excluded : int array of shape (s + 1,)
        Where they begin among the rows of that class that are not y.
    n_y : int
        Number of y.
    """

    of_x: Floats
    of_y: Floats
    bounds: npt.NDArray[np.intp]
    excluded: npt.NDArray[np.intp]
    n_y: int

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


def covariance(metric: str, pair: TwoRankings, members: MatchedMembers) -> float:
    """Return the covariance of one cell's two estimates; both need two rows in each class."""
    x_positive, y_positive = CLASSES[metric]
    a = Deviations.of(members.first.compared[metric])
    b = Deviations.of(members.second.compared[metric])
    k = a.of_x.size
    of_x = members.product(a.of_x, b.of_x, positive=x_positive) / (k * (k - 1))
    if metric == "subgroup_auc":
        values = np.repeat(a.of_y, np.diff(a.bounds)), np.repeat(b.of_y, np.diff(b.bounds))
        of_y = members.product(*values, positive=y_positive)
    else:
        of_y = (pair.positive if y_positive else pair.negative).product(a, b)
        excluded = members.others or members
        of_y -= excluded.product(a.of_excluded(), b.of_excluded(), positive=y_positive)
    return of_x + of_y / (a.n_y * (a.n_y - 1))
