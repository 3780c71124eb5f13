"""Pairs of rows from the same cluster: their number in an AUC, and their order.

Rows of a thread are alike, so its toxic comments outrank its harmless comments more often than
those of other threads. With G clusters, about 1 pair in G is from the same cluster. In the
population this share is 0, so an interval is around the AUC of the other pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.ranks import Floats, SortedClasses, inner_product

Codes = npt.NDArray[np.intp]
Places = npt.NDArray[np.integer]


@dataclass(frozen=True)
class SamePairs:
    """Pairs from the same cluster within an AUC."""

    share: float  # Share of all pairs, below 1
    auc: float  # AUC of these pairs; any number if `share` is 0

    def remove_from(self, auc: float) -> float:
        """Return the AUC of the other pairs, given the AUC of all pairs."""
        return min(max((auc - self.share * self.auc) / (1 - self.share), 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Rows of a class."""

    positive: bool
    places: Places | None = None
    """Ascending places among the sorted rows of the class; None for all rows."""


@dataclass(frozen=True, eq=False)
class ClusterOrder:
    """All rows, ordered by cluster and score."""

    # By class (True for positives): the cluster of each row, in score order.
    codes: Mapping[bool, Codes]
    everyone: SortedClasses

    def count_wins(self, winners: ClassRows, losers: ClassRows) -> float:
        """Return the number, or weight, of pairs within clusters that `winners` win.

        A tie counts one half.
        """
        weight = self._select_weights(winners)
        if losers.places is None:
            return inner_product(
                weight,
                _take_places(
                    self._weights_below[losers.positive][winners.positive], winners.places
                ),
            )
        if losers is winners:  # each pair occurs twice, and is won once
            weights = np.bincount(
                _take_places(self.codes[winners.positive], winners.places), weight
            )
            return float(np.square(weights).sum()) / 2
        keys, others = self._select_keys(winners), self._select_keys(losers)
        order = np.argsort(others)
        others, totals = others[order], _cumulate_weights(self._select_weights(losers)[order])
        first = keys - keys % self._n_levels
        start, left = (totals[np.searchsorted(others, bounds)] for bounds in (first, keys))
        right = totals[np.searchsorted(others, keys, side="right")]
        return inner_product(weight, (left + right) / 2 - start)

    @cached_property
    def _weights_below(self) -> dict[bool, dict[bool, Floats]]:
        """Weight of the lower-scored rows in a row's cluster, by their class and the row's."""
        keys = np.concatenate([self._keys[True], self._keys[False]])
        order, n_positive = np.argsort(keys), self._keys[True].size
        keys, is_positive = keys[order], order < n_positive
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        ties = np.diff(starts, append=keys.size)
        cluster = keys[starts] // self._n_levels
        begins = starts[np.searchsorted(cluster, cluster)]
        weights = {}
        for label in (True, False):
            weight = np.zeros(keys.size)
            weight[is_positive == label] = 1.0
            if self.everyone.positive.weight is not None:
                class_weights = [
                    self._select_weights(ClassRows(positive)) for positive in (True, False)
                ]
                weight *= np.concatenate(class_weights)[order]
            totals = _cumulate_weights(weight)
            below = np.empty(keys.size)
            level_weights = (totals[starts] + totals[starts + ties]) / 2 - totals[begins]
            below[order] = np.repeat(level_weights, ties)
            weights[label] = {True: below[:n_positive], False: below[n_positive:]}
        return weights

    @property
    def _n_levels(self) -> int:
        """Factor of the cluster's code in a key, which adds the level of the score."""
        return self.everyone.positive.n + self.everyone.negative.n + 1

    @cached_property
    def _keys(self) -> dict[bool, Codes]:
        classes = self.everyone.positive.scores, self.everyone.negative.scores
        levels = {
            label: np.searchsorted(classes[0], own) + np.searchsorted(classes[1], own)
            for label, own in zip((True, False), classes, strict=True)
        }
        return {
            label: codes * self._n_levels + levels[label] for label, codes in self.codes.items()
        }

    def _select_keys(self, rows: ClassRows) -> Codes:
        return _take_places(self._keys[rows.positive], rows.places)

    def _select_weights(self, rows: ClassRows) -> Floats:
        scores = self.everyone.select_class(positive=rows.positive)
        weight = np.ones(scores.n) if scores.weight is None else scores.weight.astype(np.float64)
        return _take_places(weight, rows.places)


def _cumulate_weights(weight: Floats) -> Floats:
    """Return the cumulative weight, starting at 0."""
    return np.concatenate(([0.0], np.cumsum(weight)))


def _take_places(values: npt.NDArray[Any], places: Places | None) -> npt.NDArray[Any]:
    return values if places is None else values[places]
