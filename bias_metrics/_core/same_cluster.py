"""Pairs of rows from the same cluster: how many an AUC compares, and how they are ranked.

Rows of one thread are alike, so its toxic comments outrank its harmless ones more often than
those of other threads. With G clusters about 1 pair in G is of this kind. In the population, none
are: an interval is around the AUC of the other pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.placements import Floats, inner
from bias_metrics._core.ranks import SortedClasses

Codes = npt.NDArray[np.intp]
Places = npt.NDArray[np.integer]


@dataclass(frozen=True)
class SamePairs:
    """The pairs from the same cluster that one AUC compares.

    Attributes
    ----------
    share : float
        Share of all pairs, below 1.
    auc : float
        The AUC of these pairs; any number if there are none.
    """

    share: float
    auc: float

    def removed_from(self, auc: float) -> float:
        """Return the AUC of the other pairs, given that of all."""
        return min(max((auc - self.share * self.auc) / (1 - self.share), 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one class.

    Attributes
    ----------
    positive : bool
        The class.
    places : int array, or None
        Their places among the sorted rows of the class, in ascending order; None for all.
    """

    positive: bool
    places: Places | None = None


@dataclass(frozen=True, eq=False)
class SameCluster:
    """All rows, ordered by cluster and score.

    Attributes
    ----------
    codes : mapping of bool to int array
        By class (True for the positives): the cluster of each row, in score order.
    everyone : SortedClasses
        The scores.
    """

    codes: Mapping[bool, Codes]
    everyone: SortedClasses

    def wins(self, of: Rows, over: Rows) -> float:
        """Return the number, or weight, of pairs of one cluster that `of` wins; a tie is 1/2."""
        if over.places is None:
            below = self._below[of.positive, over.positive]
            return inner(self._weight_of(of), below if of.places is None else below[of.places])
        return inner(self._weight_of(of), self._in_order(over).below(self._keys_of(of)))

    @cached_property
    def _below(self) -> dict[tuple[bool, bool], Floats]:
        """By the classes of a row and of others: the weight of its cluster's others below it."""
        known = {label: self._in_order(Rows(label)) for label in (True, False)}
        found = {}
        for one, other in product(known, known):
            below = known[other].below(known[one].keys)
            found[one, other] = np.empty(below.size)
            found[one, other][known[one].order] = below
        return found

    def _in_order(self, rows: Rows) -> _Ordered:
        keys, weight = self._keys_of(rows), self._weight_of(rows)
        order = np.argsort(keys)
        totals = np.concatenate(([0.0], np.cumsum(weight[order])))
        return _Ordered(order, keys[order], totals, self._levels)

    @property
    def _levels(self) -> int:
        """More than there are scores: a key is the cluster's code times this, plus the level."""
        return self.everyone.positive.n + self.everyone.negative.n + 1

    @cached_property
    def _keys(self) -> dict[bool, Codes]:
        classes = self.everyone.positive.scores, self.everyone.negative.scores
        levels = {
            label: np.searchsorted(classes[0], own) + np.searchsorted(classes[1], own)
            for label, own in zip((True, False), classes, strict=True)
        }
        return {label: codes * self._levels + levels[label] for label, codes in self.codes.items()}

    def _keys_of(self, rows: Rows) -> Codes:
        return _taken(self._keys[rows.positive], rows.places)

    def _weight_of(self, rows: Rows) -> Floats:
        scores = self.everyone.positive if rows.positive else self.everyone.negative
        weight = np.ones(scores.n) if scores.weight is None else scores.weight.astype(np.float64)
        return _taken(weight, rows.places)


@dataclass(frozen=True, eq=False)
class _Ordered:
    """Rows in the order of their clusters and scores.

    Attributes
    ----------
    order : int array of shape (k,)
        The rows in that order.
    keys : int array of shape (k,)
        Ascending.
    totals : float array of shape (k + 1,)
        The weight of the first rows.
    levels : int
        The keys of one cluster begin at a multiple of it.
    """

    order: Codes
    keys: Codes
    totals: Floats
    levels: int

    def below(self, keys: Codes) -> Floats:
        """Return the weight of each key's cluster that is below it; a tie counts one half."""
        first = keys - keys % self.levels
        start, left = (self.totals[np.searchsorted(self.keys, one)] for one in (first, keys))
        right = self.totals[np.searchsorted(self.keys, keys, side="right")]
        return np.asarray((left + right) / 2 - start)


def _taken(values: npt.NDArray[Any], places: Places | None) -> npt.NDArray[Any]:
    return values if places is None else values[places]
