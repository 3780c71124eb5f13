"""Influences of rows on a metric, and the variance of any smooth function of AUCs.

An AUC is P(x > y) over a searched class x and a base class y. The influence of a row x is the
deviation of its placement among y from the mean placement, divided by the number of x. For a row y
it is the same with the opposite sign. The influence on a smooth function of several AUCs is the sum
of their influences weighted by its derivatives. Its variance is the sum of squared influences or,
with clusters, of their squared sums within clusters. For a single AUC this is DeLong's variance.

Background rows are many, but their placements are step functions: influences are added as
differences at the steps, and a cumulative sum per class gives the value of every row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import Comparison, compare_classes
from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.index import require_aligned
from bias_metrics._core.ranks import (
    BLOCK,
    Floats,
    SortedClasses,
    SortedScores,
    compute_deviations,
    compute_steps,
    make_sorted_scores,
    sum_squares,
)
from bias_metrics.metrics import PAIRS


@dataclass(frozen=True, eq=False)
class RankedRows:
    """All rows sorted by class, and their positions."""

    everyone: SortedClasses  # Scores of all rows
    y_true: BoolArray
    position: npt.NDArray[np.int32]  # Position of each row among the sorted rows of its class

    @property
    def is_weighted(self) -> bool:
        """True if rows have weights."""
        return self.everyone.positive.weight is not None

    def select_members(
        self, rows: npt.NDArray[np.intp], excluded: Members | None = None
    ) -> Members:
        """Return a subgroup's rows by class, in score order.

        The background is all rows except `excluded`, by default the subgroup.
        """
        labels = self.y_true[rows]
        positive = self._select_class(rows[labels], self.everyone.positive)
        negative = self._select_class(rows[~labels], self.everyone.negative)
        classes = SortedClasses(positive.scores, negative.scores)
        outside = None if excluded is None else excluded.classes
        compared = compare_classes(self.everyone, classes, outside)
        return Members(positive, negative, compared, excluded)

    def _select_class(self, rows: npt.NDArray[np.intp], scores: SortedScores) -> ClassMembers:
        position = self.position[rows]
        order = np.argsort(position)
        places = position[order]
        weight = None if scores.weight is None else scores.weight[places]
        own = make_sorted_scores(scores.scores[places], weight)
        return ClassMembers(own, rows[order].astype(np.int32), places)


@dataclass(frozen=True, eq=False)
class ClassMembers:
    """A subgroup's rows of a class, in score order."""

    scores: SortedScores  # Scores of the rows
    rows: npt.NDArray[np.int32]  # (k,): Row numbers
    position: npt.NDArray[np.int32]  # (k,): Positions among all sorted rows of the class


@dataclass(frozen=True, eq=False)
class Members:
    """A subgroup's rows by class, and the classes that its metrics compare."""

    positive: ClassMembers  # positive, negative: rows of each class
    negative: ClassMembers
    comparisons: Mapping[str, Comparison]  # By metric
    # Rows excluded from the background; None if these are the subgroup's own rows.
    others: Members | None = None

    @property
    def excluded(self) -> Members:
        """Rows excluded from the background."""
        return self if self.others is None else self.others

    @property
    def classes(self) -> SortedClasses:
        """Scores of both classes."""
        return SortedClasses(self.positive.scores, self.negative.scores)

    def select_class(self, *, positive: bool) -> ClassMembers:
        """Return the rows of a class."""
        return self.positive if positive else self.negative


@require_aligned
def rank_rows(
    y_true: BoolArray, y_score: FloatArray, weights: FloatArray | None = None
) -> RankedRows:
    """Sort all rows by class and record their positions; weights must be above 0."""
    y_true, y_score = np.asarray(y_true), np.asarray(y_score)
    weights = None if weights is None else np.asarray(weights)
    order = np.argsort(y_score) if weights is None else np.lexsort((weights, y_score))
    labels = y_true[order]
    position = np.empty(y_true.size, dtype=np.int32)
    classes = []
    for in_class in (labels, ~labels):
        rows = order[in_class]
        own_weights = None if weights is None else weights[rows]
        classes.append(make_sorted_scores(y_score[rows], own_weights))
        position[rows] = np.arange(rows.size, dtype=np.int32)
    return RankedRows(SortedClasses(*classes), y_true, position)


@dataclass(eq=False)
class Influence:
    """Influence of every row on a number, collected as differences by position."""

    n_positive: int  # n_positive, n_negative: number of rows of each class
    n_negative: int
    _values: dict[bool, Floats] = field(init=False)
    # Rows of each class, in score order, that an added AUC compares.
    is_counted: dict[bool, npt.NDArray[np.bool_]] = field(init=False)

    @classmethod
    def make_empty(cls, ranked: RankedRows) -> Influence:
        """Return influences of 0 of all ranked rows."""
        return cls(ranked.everyone.positive.n, ranked.everyone.negative.n)

    def __post_init__(self) -> None:
        """Start with an influence of 0."""
        sizes = {True: self.n_positive, False: self.n_negative}
        self._values = {label: np.zeros(n + 1) for label, n in sizes.items()}
        self.is_counted = {label: np.zeros(n, np.bool_) for label, n in sizes.items()}

    def add_auc(
        self, metric: str, comparison: Comparison, members: Members | None, weight: float
    ) -> None:
        """Add `weight` times the influence on an AUC.

        `weight` is the derivative of the number with respect to this AUC; `members` is None for the
        overall AUC.
        """
        x_positive, y_positive = PAIR_LABELS[metric]
        runs, placed = comparison.runs, comparison.placements
        weight = -weight if comparison.flip else weight
        x_scale = weight / math.sqrt(runs.n * (runs.n - 1))
        y_scale = -weight / math.sqrt(placed.n * (placed.n - 1))
        x_steps = compute_deviations(placed, runs) * x_scale
        self._add_steps(runs.starts, x_steps, members, positive=x_positive)
        self._mark_counted(members, positive=x_positive)
        y_steps = compute_steps(placed, runs).compute_deviations() * y_scale
        bounds = compute_steps(comparison.base_placements, runs).bounds
        if comparison.excluded is None or members is None:
            self._add_steps(bounds, y_steps, members, positive=y_positive)
            self._mark_counted(members, positive=y_positive)
            return
        self._add_steps(bounds, y_steps, None, positive=y_positive)
        excluded = bounds - compute_steps(placed, runs).bounds
        self._add_steps(excluded, -y_steps, members.excluded, positive=y_positive)
        counted = self.is_counted[y_positive]
        positions = members.excluded.select_class(positive=y_positive).position
        was_counted = counted[positions]
        counted[:] = True
        counted[positions] = was_counted

    def _mark_counted(self, members: Members | None, *, positive: bool) -> None:
        places = (
            slice(None) if members is None else members.select_class(positive=positive).position
        )
        self.is_counted[positive][places] = True

    def _add_steps(
        self,
        bounds: npt.NDArray[np.intp],
        values: Floats,
        members: Members | None,
        *,
        positive: bool,
    ) -> None:
        """Add a step function over a class in score order: all rows, or only the members."""
        differences = self._values[positive]
        if members is None:
            rises = values.copy()
            rises[1:] -= values[:-1]
            np.add.at(differences, bounds[:-1], rises)
            differences[bounds[-1]] -= values[-1]
            return
        positions = members.select_class(positive=positive).position
        each = np.repeat(values, bounds[1:] - bounds[:-1])
        differences[positions] += each
        differences[positions + 1] -= each

    def clear(self) -> None:
        """Reset the influence to 0."""
        for differences, counted in zip(
            self._values.values(), self.is_counted.values(), strict=True
        ):
            differences[:], counted[:] = 0.0, False

    def expand_rows(self, ranked: RankedRows) -> Floats:
        """Return the influences in row order, shape (n,)."""
        positive, negative = self.split_classes()
        rows = np.empty(ranked.y_true.size)
        rows[ranked.y_true] = positive[ranked.position[ranked.y_true]]
        rows[~ranked.y_true] = negative[ranked.position[~ranked.y_true]]
        return rows

    def split_classes(self) -> tuple[Floats, Floats]:
        """Return the influences of positives and of negatives, in score order."""
        return self._values[True][:-1], self._values[False][:-1]

    def compute_error(self) -> tuple[float, float]:
        """Return the standard error for independent rows, and its degrees of freedom."""
        squares, freedom = sum_squares(
            values if counted.all() else values[counted]
            for values, counted in zip(self.split_classes(), self.is_counted.values(), strict=True)
        )
        return math.sqrt(squares), freedom

    def sum_differences(self, total: Influence | None = None, weight: float = 1.0) -> None:
        """Sum the differences; call this after the last `add_auc` and before reading influences.

        Also add `weight` times the influence to `total`, if given. The sums run block by block,
        while a block is in the processor's cache.
        """
        totals = (
            None if total is None else dict(zip((True, False), total.split_classes(), strict=True))
        )
        for label, differences in self._values.items():
            if total is not None:
                total.is_counted[label] |= self.is_counted[label]
            carried = 0.0
            for start in range(0, differences.size, BLOCK):
                block = differences[start : start + BLOCK]
                block[0] += carried
                np.cumsum(block, out=block)
                carried = block[-1]
                if totals is not None:
                    part = totals[label][start : start + BLOCK]
                    part += weight * block[: part.size]


PAIR_LABELS = {name: (pair.x == "positive", pair.y == "positive") for name, pair in PAIRS.items()}
"""By metric: True for positives, for the searched class x and the base class y."""
