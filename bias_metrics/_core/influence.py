"""How much each row moves a metric: the variance of any smooth function of AUCs.

An AUC is P(x > y) over a searched class x and a base class y. The influence of a row of x is
how far its placement among the y lies from the mean, divided by the number of x; for a row of
y it is the same with the opposite sign. The influence on a smooth function of several AUCs is
the combination of their influences weighted by its derivatives, and its variance is the sum of
their squares (with clusters: of the squared sums within clusters). For a single AUC this is
DeLong's variance.

There are many background rows, but their placements are step functions: they are added up as
differences at the steps, and one cumulative sum per class gives every row's value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import Comparison, comparisons
from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.index import aligned
from bias_metrics._core.ranks import (
    BLOCK,
    Floats,
    SortedClasses,
    SortedScores,
    deviations_of,
    squares_of,
    steps_of,
    weighted_scores,
)
from bias_metrics.metrics import PAIRS


@dataclass(frozen=True, eq=False)
class RankedRows:
    """All rows sorted by class, and the place of each row."""

    everyone: SortedClasses  # The sorted classes
    y_true: BoolArray
    position: npt.NDArray[np.int32]  # Position of each row among the sorted rows of its class

    @property
    def is_weighted(self) -> bool:
        """Whether the rows have weights."""
        return self.everyone.positive.weight is not None

    def members(self, rows: npt.NDArray[np.intp], excluded: Members | None = None) -> Members:
        """Return a subgroup's rows by class, in score order.

        Its background is all rows except the excluded ones; by default, except its own.
        """
        labels = self.y_true[rows]
        positive = self._class_members(rows[labels], self.everyone.positive)
        negative = self._class_members(rows[~labels], self.everyone.negative)
        classes = SortedClasses(positive.scores, negative.scores)
        outside = None if excluded is None else excluded.classes
        compared = comparisons(self.everyone, classes, outside)
        return Members(positive, negative, compared, excluded)

    def _class_members(self, rows: npt.NDArray[np.intp], scores: SortedScores) -> ClassMembers:
        position = self.position[rows]
        order = np.argsort(position)
        places = position[order]
        return ClassMembers(scores.taken(places), rows[order].astype(np.int32), places)


@dataclass(frozen=True, eq=False)
class ClassMembers:
    """A subgroup's rows of one class, in score order."""

    scores: SortedScores  # Their scores
    rows: npt.NDArray[np.int32]  # (k,): Their row numbers
    position: npt.NDArray[np.int32]  # (k,): Their positions among the sorted rows of the class


@dataclass(frozen=True, eq=False)
class Members:
    """A subgroup's rows by class, and what its metrics compare."""

    positive: ClassMembers  # positive, negative: the rows
    negative: ClassMembers
    compared: Mapping[str, Comparison]  # By metric
    # The rows excluded from its background; None if these are its own.
    others: Members | None = None

    @property
    def excluded(self) -> Members:
        """The rows excluded from its background."""
        return self if self.others is None else self.others

    @property
    def classes(self) -> SortedClasses:
        """The scores."""
        return SortedClasses(self.positive.scores, self.negative.scores)

    def of_class(self, *, positive: bool) -> ClassMembers:
        """Return one class."""
        return self.positive if positive else self.negative


@aligned
def rank_rows(
    y_true: BoolArray, y_score: FloatArray, weights: FloatArray | None = None
) -> RankedRows:
    """Sort all rows by class, keeping the place of each; weights must be above 0."""
    y_true, y_score = np.asarray(y_true), np.asarray(y_score)
    weights = None if weights is None else np.asarray(weights)
    order = np.argsort(y_score) if weights is None else np.lexsort((weights, y_score))
    labels = y_true[order]
    position = np.empty(y_true.size, dtype=np.int32)
    classes = []
    for of_class in (labels, ~labels):
        rows = order[of_class]
        scores = y_score[rows]
        classes.append(
            SortedScores(scores) if weights is None else weighted_scores(scores, weights[rows])
        )
        position[rows] = np.arange(rows.size, dtype=np.int32)
    return RankedRows(SortedClasses(*classes), y_true, position)


@dataclass(eq=False)
class Influence:
    """The influence of every row on one number, collected as differences by position."""

    n_positive: int  # n_positive, n_negative: rows of each class
    n_negative: int
    _values: dict[bool, Floats] = field(init=False)
    # Which rows of each class, in score order, belong to a class that an added AUC compares.
    counted: dict[bool, npt.NDArray[np.bool_]] = field(init=False)

    def __post_init__(self) -> None:
        """Start with no influence."""
        sizes = {True: self.n_positive, False: self.n_negative}
        self._values = {label: np.zeros(n + 1) for label, n in sizes.items()}
        self.counted = {label: np.zeros(n, np.bool_) for label, n in sizes.items()}

    def add_auc(
        self, metric: str, comparison: Comparison, members: Members | None, weight: float
    ) -> None:
        """Add `weight` times the influence of one AUC.

        `weight` is the derivative of the number with respect to this AUC; `members` is None for the
        overall AUC.
        """
        x_positive, y_positive = CLASSES[metric]
        runs, placed = comparison.runs, comparison.placed
        weight = -weight if comparison.flip else weight
        x_scale = weight / math.sqrt(runs.n * (runs.n - 1))
        y_scale = -weight / math.sqrt(placed.n * (placed.n - 1))
        of_x = deviations_of(placed, runs) * x_scale
        self._add_steps(runs.starts, of_x, members, positive=x_positive)
        self._count(members, positive=x_positive)
        of_y = steps_of(placed, runs).deviations() * y_scale
        bounds = steps_of(comparison.among_all, runs).bounds
        if comparison.excluded is None or members is None:
            self._add_steps(bounds, of_y, members, positive=y_positive)
            self._count(members, positive=y_positive)
            return
        self._add_steps(bounds, of_y, None, positive=y_positive)
        excluded = bounds - steps_of(placed, runs).bounds
        self._add_steps(excluded, -of_y, members.excluded, positive=y_positive)
        counted = self.counted[y_positive]
        positions = members.excluded.of_class(positive=y_positive).position
        before = counted[positions]
        counted[:] = True
        counted[positions] = before

    def _count(self, members: Members | None, *, positive: bool) -> None:
        which = slice(None) if members is None else members.of_class(positive=positive).position
        self.counted[positive][which] = True

    def _add_steps(
        self,
        bounds: npt.NDArray[np.intp],
        values: Floats,
        members: Members | None,
        *,
        positive: bool,
    ) -> None:
        """Add a step function over a class in score order: of all rows, or of the members."""
        differences = self._values[positive]
        if members is None:
            rises = values.copy()
            rises[1:] -= values[:-1]
            np.add.at(differences, bounds[:-1], rises)
            differences[bounds[-1]] -= values[-1]
            return
        positions = members.of_class(positive=positive).position
        each = np.repeat(values, bounds[1:] - bounds[:-1])
        differences[positions] += each
        differences[positions + 1] -= each

    def clear(self) -> None:
        """Reset to no influence."""
        for differences, counted in zip(self._values.values(), self.counted.values(), strict=True):
            differences[:], counted[:] = 0.0, False

    def by_row(self, ranked: RankedRows) -> Floats:
        """Return the influence of each row, shape (n,)."""
        positive, negative = self.by_class()
        rows = np.empty(ranked.y_true.size)
        rows[ranked.y_true] = positive[ranked.position[ranked.y_true]]
        rows[~ranked.y_true] = negative[ranked.position[~ranked.y_true]]
        return rows

    def by_class(self) -> tuple[Floats, Floats]:
        """Return the influence of the positives and the negatives, in score order."""
        return self._values[True][:-1], self._values[False][:-1]

    def error(self) -> tuple[float, float]:
        """Return the standard error and its degrees of freedom, for independent rows."""
        squares, freedom = squares_of(
            values if counted.all() else values[counted]
            for values, counted in zip(self.by_class(), self.counted.values(), strict=True)
        )
        return math.sqrt(squares), freedom

    def settle(self, total: Influence | None = None, weight: float = 1.0) -> None:
        """Sum the differences; call it after the last `add_auc` and before reading anything.

        Add `weight` times the influence to `total`, if it is given. Both are done block by block,
        while the block is in the processor's cache.
        """
        totals = None if total is None else dict(zip((True, False), total.by_class(), strict=True))
        for label, differences in self._values.items():
            if total is not None:
                total.counted[label] |= self.counted[label]
            known = 0.0
            for start in range(0, differences.size, BLOCK):
                block = differences[start : start + BLOCK]
                block[0] += known
                np.cumsum(block, out=block)
                known = block[-1]
                if totals is not None:
                    part = totals[label][start : start + BLOCK]
                    part += weight * block[: part.size]


CLASSES = {name: (one.x == "positive", one.y == "positive") for name, one in PAIRS.items()}
"""Whether x, the searched class, and y, the class it is searched in, are positive."""
