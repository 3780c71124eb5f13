"""Weighted rows: one AUC, its standard error by linearisation, and what the rows are worth.

A sampling weight says how many rows of the population a row stands for. The weighted AUC is a
ratio of sums, and the influence of a row is its weight times the distance of its placement from
the weighted mean. The background is never computed by subtraction: its rows are picked out, so
that no digits are lost where a subgroup outweighs it.

References
----------
Binder (1983), International Statistical Review 51 (linearisation). Kish (1965), Survey Sampling,
section 11.7 (effective sample size).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bias_metrics._core.intervals import effective_number
from bias_metrics._core.placements import Floats, inner, squares_of
from bias_metrics._core.ranks import SortedScores, doubled_wins

LEAST_EFFECTIVE = 2.0
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class WeightedPair:
    """P(x > y) over two classes of weighted rows."""

    # y, x: rows of the two classes, with their weights. If one is empty there are only sizes.
    y: SortedScores
    x: SortedScores

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """The weights of y and x, in score order."""
        assert self.y.weight is not None  # noqa: S101
        assert self.x.weight is not None  # noqa: S101
        return self.y.weight.astype(np.float64), self.x.weight.astype(np.float64)

    @cached_property
    def shares(self) -> tuple[Floats, Floats]:
        """The share of x below each y, and of y below each x; a tie counts one half."""
        return _share_below(self.y, self.x), _share_below(self.x, self.y)

    def value(self, *, flip: bool) -> float:
        """Return the AUC, or P(y > x); exact for whole weights."""
        pairs = self.y.total * self.x.total
        wins = doubled_wins(self.y, self.x)
        # Sums of fractional weights may exceed the range by a rounding error.
        share = (2 * pairs - wins if flip else wins) / (2 * pairs)
        return min(max(share, 0.0), 1.0)

    @cached_property
    def deviations(self) -> tuple[Floats, Floats]:
        """The shares minus their weighted means."""
        of_y, of_x = (
            shares - _mean(shares, weight)
            for shares, weight in zip(self.shares, self.weights, strict=True)
        )
        return of_y, of_x

    @cached_property
    def error(self) -> tuple[float, float]:
        """The standard error for independent rows, and its degrees of freedom."""
        parts = zip(self.deviations, self.weights, strict=True)
        squares, freedom = squares_of([unshrunk(of * weight, weight) for of, weight in parts])
        return math.sqrt(squares), freedom

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """How many rows of equal weight y and x are worth."""
        y, x = (effective_number(one) if one.size else 0.0 for one in self.weights)
        return y, x

    def lack(self) -> str | None:
        """Say that the weights leave too few rows for an interval, if so."""
        if min(self.weights[0].size, self.weights[1].size) < LEAST_EFFECTIVE:
            return "fewer than 2 rows in a class"
        if min(self.sizes) < LEAST_EFFECTIVE - _ROUNDING:
            return "weights leave fewer than 2 effective rows in a class"
        return None


def unshrunk(sums: Floats, rows: Floats, least: float = _ROUNDING) -> Floats:
    """Return the influences of one class's rows or clusters, given their shares of its weight.

    One with much of the weight pulls the mean towards itself, so its own deviation is too small.
    It is divided by sqrt(1 - its share); one with all but `least` of the weight has no influence.
    """
    n = rows.sum()
    left = 1 - rows / n
    known = left > least
    return np.where(known, sums / (n * np.sqrt(np.where(known, left, 1.0))), 0.0)


def _share_below(of: SortedScores, others: SortedScores) -> Floats:
    assert others.cumulative_weight is not None  # noqa: S101
    left = np.searchsorted(others.scores, of.scores, side="left")
    right = np.searchsorted(others.scores, of.scores, side="right")
    below = others.cumulative_weight[left] + others.cumulative_weight[right]
    return np.asarray(below / (2 * others.total))


def _mean(values: Floats, weights: Floats) -> float:
    return inner(values, weights) / float(weights.sum())
