"""How two models' errors are related, from counts of pairs of wide bins.

A row's two scores are in a pair of bins, one of each model. How many rows of each class and
subgroup each pair has adds up over shards like other counts: it is counted as if the pair were a
score. The placements of rows that two models' AUCs rest on are then known in the mean of each wide
bin, and how far they are from it in each bin alone. What the deviations of the two models have to
do with each other stays open, but not by more than Cauchy and Schwarz allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.covariance import Joint
from bias_metrics._core.ranks import inner
from bias_metrics.binned.bin_counts import BinCounts
from bias_metrics.binned.bins import Counts, bins_of

BITS = 4
Rows = tuple[Counts, Counts, Counts]
"""Some rows by bins of the first model, of the second, and by pairs."""
Mask = npt.NDArray[np.bool_]
_HALF = 2**16  # more wide bins than there are on one side of 0


def pair_codes(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the pair of wide bins of each row's two scores, as one whole number."""
    a, b = (bins_of(scores, BITS) + _HALF for scores in (first, second))
    return np.asarray(2 * _HALF * a + b, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The wide bin of each bin of two models, and of each pair."""

    of_bins: tuple[Counts, Counts]
    of_pairs: tuple[Counts, Counts]

    @classmethod
    def of(cls, first: BinCounts, second: BinCounts, pairs: BinCounts) -> Pairs:
        """Find the wide bins."""
        codes = pairs.least.astype(np.int64)
        both = codes // (2 * _HALF) - _HALF, codes % (2 * _HALF) - _HALF
        of_bins, of_pairs = [], []
        for counts, of_model in zip((first, second), both, strict=True):
            if counts.bits < BITS:
                msg = f"counts that are compared by pairs must have at least {BITS} bits; "
                msg += f"got {counts.bits}."
                raise ValueError(msg)
            names, places = np.unique(counts.bins >> counts.bits - BITS, return_inverse=True)
            if not np.isin(of_model, names).all():
                raise ValueError(_OTHERS)
            of_bins.append(places)
            of_pairs.append(np.searchsorted(names, of_model))
        return cls((of_bins[0], of_bins[1]), (of_pairs[0], of_pairs[1]))

    def together(self, y: Rows, x: Rows, *, flip: bool) -> tuple[Joint, float]:
        """Return how two AUCs vary together, and by how much their covariance may be wrong.

        `y` and `x` are the compared rows by bins of the first model, of the second, and by pairs.
        Each has at least two rows. Third moments are those of the wide bins.
        """
        covariance, wrong, thirds = 0.0, 0.0, np.zeros(4)
        for rows, others, sign in ((y, x, -1), (x, y, 1)):
            middle, open_, of_side = self._of_side(rows, others)
            n = int(rows[0].sum())
            covariance, wrong = covariance + middle / (n - 1), wrong + open_ / (n - 1)
            thirds += (-sign if flip else sign) * of_side / n**2
        aaa, aab, abb, bbb = thirds.tolist()
        return Joint(covariance, (aaa, aab, abb, bbb)), wrong

    def both(self, rows: Rows, flagged: tuple[Mask, Mask]) -> tuple[int, int]:
        """Return how many rows both models flag, at least and at most, given their flagged bins.

        A threshold cuts at most one wide bin of a model. Of the rows in it that are surely flagged
        by the other model, at least as many are flagged by both as do not fit into the rest of the
        bin.
        """
        together, sides = rows[2], []
        for own, flags, wide, places in zip(
            rows[:2], flagged, self.of_bins, self.of_pairs, strict=True
        ):
            size, of_flagged = np.bincount(wide, own), np.bincount(wide, own * flags)
            is_cut = (of_flagged > 0) & (of_flagged < size)
            whole = (of_flagged == size)[places]
            cut = [(places == at, of_flagged[at], size[at]) for at in np.flatnonzero(is_cut)]
            sides.append((whole, cut, is_cut[places]))
        (whole_a, cut_a, in_a), (whole_b, cut_b, in_b) = sides
        low = high = int(together[whole_a & whole_b].sum())
        for cut, others in ((cut_a, whole_b), (cut_b, whole_a)):
            for inside, n_flagged, size in cut:
                n = int(together[inside & others].sum())
                low, high = low + max(n - int(size - n_flagged), 0), high + min(n, int(n_flagged))
        return low, high + int(together[in_a & in_b].sum())

    def _of_side(self, rows: Rows, others: Rows) -> tuple[float, float, FloatArray]:
        """Return the covariance of the rows' placements, its error, and the third moments."""
        n = float(rows[0].sum())
        together = rows[2].astype(np.float64)
        means, within, sizes = [], [], []
        for own, other, wide, places in zip(
            rows[:2], others[:2], self.of_bins, self.of_pairs, strict=True
        ):
            weight = own.astype(np.float64)
            placed = (np.cumsum(other) - other / 2) / other.sum()
            placed -= inner(weight, placed) / n
            size = np.bincount(wide, weight)
            if not np.array_equal(size, np.bincount(places, together, size.size)):
                raise ValueError(_OTHERS)
            mean = np.bincount(wide, weight * placed) / np.maximum(size, 1)
            within.append(math.sqrt(inner(weight, (placed - mean[wide]) ** 2) / n))
            means.append(mean[places])
            sizes.append(size)
        spread = []
        for mean, places, size in zip(means, reversed(self.of_pairs), reversed(sizes), strict=True):
            given = np.bincount(places, together * mean, size.size) / np.maximum(size, 1)
            spread.append(math.sqrt(inner(together, (mean - given[places]) ** 2) / n))
        open_ = spread[0] * within[1] + spread[1] * within[0] + within[0] * within[1]
        a, b = means
        thirds = [inner(together, one) / n for one in (a**3, a**2 * b, a * b**2, b**3)]
        return inner(together, a * b) / n, open_, np.array(thirds)


_OTHERS = "`pairs` must be counts of the pairs of the same rows; they are of others."
