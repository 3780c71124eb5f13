"""Pairs of rows from the same cluster: how many an AUC compares, and how they are ranked.

Rows of one thread are alike, so its toxic comments outrank its harmless ones more often than
those of other threads. With G clusters about 1 pair in G is of this kind. In the population,
none are: an interval is around the AUC of the other pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.ranks import Floats, SortedClasses, inner

NEGLIGIBLE = 0.05
Codes = npt.NDArray[np.intp]
Places = npt.NDArray[np.integer]


@dataclass(frozen=True)
class SamePairs:
    """The pairs from the same cluster that one AUC compares."""

    share: float  # Share of all pairs, below 1
    auc: float  # The AUC of these pairs; any number if there are none

    @staticmethod
    def matter(pairs: float, n: float, std_error: float) -> bool:
        """Say whether as many of n pairs move an AUC by more than `NEGLIGIBLE` standard errors."""
        return NEGLIGIBLE * std_error * n < pairs < n

    @classmethod
    def of(cls, wins: float, pairs: float, n: float, *, flip: bool) -> SamePairs:
        """Return the pairs of one cluster, of n, given in how many x is above y."""
        auc = wins / pairs
        return cls(pairs / n, 1 - auc if flip else auc)

    def removed_from(self, auc: float) -> float:
        """Return the AUC of the other pairs, given that of all."""
        return min(max((auc - self.share * self.auc) / (1 - self.share), 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Rows of one class."""

    positive: bool
    """The class."""
    places: Places | None = None
    """Their places among the sorted rows of the class, in ascending order; None for all."""


@dataclass(frozen=True, eq=False)
class SameCluster:
    """All rows, ordered by cluster and score."""

    # By class (True for the positives): the cluster of each row, in score order.
    codes: Mapping[bool, Codes]
    everyone: SortedClasses

    def wins(self, of: ClassRows, over: ClassRows) -> float:
        """Return the number, or weight, of pairs of one cluster that `of` wins; a tie is 1/2."""
        weight = self._weight_of(of)
        if over.places is None:
            return inner(weight, _taken(self._below[over.positive][of.positive], of.places))
        if over is of:  # each pair is there twice, and won once
            known = np.bincount(_taken(self.codes[of.positive], of.places), weight)
            return float(np.square(known).sum()) / 2
        keys, others = self._keys_of(of), self._keys_of(over)
        order = np.argsort(others)
        others, totals = others[order], _totals(self._weight_of(over)[order])
        first = keys - keys % self._levels
        start, left = (totals[np.searchsorted(others, one)] for one in (first, keys))
        right = totals[np.searchsorted(others, keys, side="right")]
        return inner(weight, (left + right) / 2 - start)

    @cached_property
    def _below(self) -> dict[bool, dict[bool, Floats]]:
        """By the class of others, and of a row: the weight of its cluster's others below it."""
        keys = np.concatenate([self._keys[True], self._keys[False]])
        order, n_positive = np.argsort(keys), self._keys[True].size
        keys, is_positive = keys[order], order < n_positive
        new = np.flatnonzero(np.diff(keys, prepend=-1))
        ties = np.diff(new, append=keys.size)
        cluster = keys[new] // self._levels
        begins = new[np.searchsorted(cluster, cluster)]
        found = {}
        for label in (True, False):
            weight = np.zeros(keys.size)
            weight[is_positive == label] = 1.0
            if self.everyone.positive.weight is not None:
                both = [self._weight_of(ClassRows(positive)) for positive in (True, False)]
                weight *= np.concatenate(both)[order]
            totals = _totals(weight)
            below = np.empty(keys.size)
            each = (totals[new] + totals[new + ties]) / 2 - totals[begins]
            below[order] = np.repeat(each, ties)
            found[label] = {True: below[:n_positive], False: below[n_positive:]}
        return found

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

    def _keys_of(self, rows: ClassRows) -> Codes:
        return _taken(self._keys[rows.positive], rows.places)

    def _weight_of(self, rows: ClassRows) -> Floats:
        scores = self.everyone.positive if rows.positive else self.everyone.negative
        weight = np.ones(scores.n) if scores.weight is None else scores.weight.astype(np.float64)
        return _taken(weight, rows.places)


def _totals(weight: Floats) -> Floats:
    """Return the weight of the first rows, for each number of them."""
    return np.concatenate(([0.0], np.cumsum(weight)))


def _taken(values: npt.NDArray[Any], places: Places | None) -> npt.NDArray[Any]:
    return values if places is None else values[places]
