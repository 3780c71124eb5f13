"""AUCs of comments that are positive with a probability: exact values, and what moves them.

Each comment counts as positive with its probability p and as negative with 1 - p. The AUC is the
weighted share of pairs of two *different* comments in which the positive one scores higher; a tie
counts one half. All rows are sorted once; cumulative sums of weights then give every placement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.clusters import ClusterSums, Codes
from bias_metrics._core.intervals import effective_number
from bias_metrics._core.placements import Floats, inner
from bias_metrics._core.weighted import unshrunk
from bias_metrics.metrics import PAIRS, SUBGROUP_METRICS, Class

Key = tuple[str | None, str]
OVERALL: Key = (None, "auc")
FINAL: Key = (None, "final_score")
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class SortedRows:
    """Rows in score order."""

    order: npt.NDArray[np.intp]  # Number of the row at each place
    left: npt.NDArray[np.intp]  # left, right: where the rows with the same score begin and end
    right: npt.NDArray[np.intp]

    @classmethod
    def of(cls, y_score: FloatArray) -> SortedRows:
        """Sort rows."""
        order = np.argsort(y_score, kind="stable")
        scores = y_score[order]
        left = np.searchsorted(scores, scores, side="left")
        return cls(order, left, np.searchsorted(scores, scores, side="right"))

    def below(self, weight: Floats) -> Floats:
        """Return the weight of lower scores, plus half of that of equal ones, for each row."""
        total = np.concatenate(([0.0], np.cumsum(weight)))
        return np.asarray((total[self.left] + total[self.right]) / 2)


@dataclass(frozen=True, eq=False)
class SoftClass:
    """The positives, or the negatives, of some rows."""

    inside: BoolArray  # Which rows
    weight: Floats  # Probability of each row to be of this class; 0 outside
    sign: int  # 1 for positives, whose weight grows with the probability; -1 for negatives

    @classmethod
    def of(cls, which: Class, inside: BoolArray, probability: Floats) -> SoftClass:
        """Take one class of some rows."""
        if which == "positive":
            return cls(inside, np.where(inside, probability, 0.0), 1)
        return cls(inside, np.where(inside, 1 - probability, 0.0), -1)

    @cached_property
    def total(self) -> float:
        """How many rows of this class to expect."""
        return float(self.weight.sum())

    @cached_property
    def size(self) -> float:
        """How many rows of equal weight they are worth (Kish)."""
        return effective_number(self.weight) if self.total > 0 else 0.0


@dataclass(frozen=True, eq=False)
class SoftPair:
    """P(high > low) over pairs of different comments of two classes; all arrays in score order."""

    rows: SortedRows  # All rows
    high: SoftClass  # high, low: the two classes
    low: SoftClass
    names: tuple[str, str]  # What they are called in the reason, if one is empty

    @property
    def lack(self) -> str | None:
        """Which class is empty, if so."""
        found = zip(self.names, (self.high.total, self.low.total), strict=True)
        empty = [name for name, total in found if total == 0]
        if empty:
            return f"no {' and no '.join(empty)}"
        return None if self.pairs > 0 else "no two different comments to compare"

    @cached_property
    def pairs(self) -> float:
        """The weight of all pairs of different comments."""
        same = inner(self.high.weight, self.low.weight)
        found = self.high.total * self.low.total - same
        return found if found > _ROUNDING * same else 0.0

    @cached_property
    def _below(self) -> Floats:
        return self.rows.below(self.low.weight) - self.low.weight / 2

    @cached_property
    def value(self) -> float:
        """The share of pairs; there must be some."""
        return min(max(inner(self.high.weight, self._below) / self.pairs, 0.0), 1.0)

    @cached_property
    def moved(self) -> tuple[Floats, Floats]:
        """The derivatives of the value by the weights of the high and the low class."""
        high, low = self.high, self.low
        above = high.total - self.rows.below(high.weight) - high.weight / 2
        of_high = self._below - self.value * (low.total - low.weight)
        of_low = above - self.value * (high.total - high.weight)
        return of_high / self.pairs, of_low / self.pairs

    @property
    def by_probability(self) -> Floats:
        """The derivative of the value by the probability of each comment."""
        found = np.zeros(self.high.weight.size)
        for one, of in zip((self.high, self.low), self.moved, strict=True):
            found += np.where(one.inside, one.sign * of, 0.0)
        return found

    @property
    def sizes(self) -> tuple[float, float]:
        """How many rows of equal weight the low and the high class are worth."""
        return self.low.size, self.high.size

    def sums(self, codes: Codes | None) -> ClusterSums:
        """Return the influences of the comments, or of the clusters with these codes."""
        each, rows = [], []
        for one, of in zip((self.low, self.high), self.moved[::-1], strict=True):
            moves, weight = one.weight * of * one.total, one.weight
            if codes is not None:
                moves, weight = (
                    np.bincount(codes, by).astype(np.float64) for by in (moves, weight)
                )
            each.append(unshrunk(moves, weight))
            rows.append(weight)
        low, high = (effective_number(one) for one in rows)
        n_low, n_high = (int(np.count_nonzero(one)) for one in rows)
        both = each[0] + each[1]
        return ClusterSums(both, (n_low, n_high), min(low, high), (low, high), codes is None)


@dataclass(frozen=True, eq=False)
class SoftPairs:
    """What the overall AUC and every metric of every subgroup compare, computed on demand."""

    rows: SortedRows  # All rows
    probability: Floats  # Probability of each row to be positive, in score order
    masks: Mapping[str, BoolArray]  # The subgroups, in row order
    # The background of every subgroup, in row order; None if it is all rows outside it.
    outside: BoolArray | None

    def __iter__(self) -> Iterator[tuple[Key, SoftPair]]:
        """Yield each number's key and what it compares."""
        yield OVERALL, self.overall()
        for name in self.masks:
            for metric in SUBGROUP_METRICS:
                yield (name, metric), self.of(name, metric)

    def overall(self) -> SoftPair:
        """Return what the overall AUC compares."""
        everyone = np.ones(self.probability.size, dtype=np.bool_)
        positive, negative = (
            SoftClass.of(one, everyone, self.probability) for one in ("positive", "negative")
        )
        return SoftPair(self.rows, positive, negative, ("positives", "negatives"))

    def of(self, name: str, metric: str) -> SoftPair:
        """Return what one metric of a subgroup compares."""
        pair, own = PAIRS[metric], self.masks[name][self.rows.order]
        if pair.inside:
            others, where = own, "subgroup"
        else:
            others = ~own if self.outside is None else self.outside[self.rows.order]
            where = "background"
        x = SoftClass.of(pair.x, own, self.probability), f"subgroup {pair.x}s"
        y = SoftClass.of(pair.y, others, self.probability), f"{where} {pair.y}s"
        high, low = (y, x) if pair.flip else (x, y)
        return SoftPair(self.rows, high[0], low[0], (high[1], low[1]))
