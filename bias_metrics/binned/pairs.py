"""Correlation of two models' errors, from counts of pairs of wide bins.

The two scores of a row fall into a pair of bins. Rows are counted by pair, class and subgroup as if
the pair were a score, so the counts can be added over shards like other counts. For each
model, the mean placement in each wide bin, and the deviations from it, are then known. The
correlation of the two models' deviations within a pair is unknown; the Cauchy-Schwarz inequality
bounds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.covariance import JointMoments
from bias_metrics._core.ranks import inner_product
from bias_metrics.binned.bin_counts import BinCounts, Counts, compute_bins

BITS = 4
PairedCounts = tuple[Counts, Counts, Counts]
"""Counts of rows by bins of the first model, of the second model, and by pairs."""
Mask = npt.NDArray[np.bool_]
_HALF = 2**16  # exceeds the number of wide bins on either side of 0


def encode_pairs(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the pairs of wide bins of rows' two scores, as integers."""
    a, b = (compute_bins(scores, BITS) + _HALF for scores in (first, second))
    return np.asarray(2 * _HALF * a + b, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class WideBins:
    """The wide bins of two models' bins, and of pairs."""

    wide_bins: tuple[Counts, Counts]
    wide_bins_of_pairs: tuple[Counts, Counts]

    @classmethod
    def from_counts(cls, first: BinCounts, second: BinCounts, pairs: BinCounts) -> WideBins:
        """Find the wide bins of both models' bins, and of the pairs."""
        codes = pairs.least.astype(np.int64)
        both = codes // (2 * _HALF) - _HALF, codes % (2 * _HALF) - _HALF
        wide_bins, wide_bins_of_pairs = [], []
        for counts, pair_bins in zip((first, second), both, strict=True):
            if counts.bits < BITS:
                msg = f"counts that are compared by pairs must have at least {BITS} bits; "
                msg += f"got {counts.bits}."
                raise ValueError(msg)
            names, places = np.unique(counts.bins >> counts.bits - BITS, return_inverse=True)
            if not np.isin(pair_bins, names).all():
                raise ValueError(_OTHERS)
            wide_bins.append(places)
            wide_bins_of_pairs.append(np.searchsorted(names, pair_bins))
        return cls((wide_bins[0], wide_bins[1]), (wide_bins_of_pairs[0], wide_bins_of_pairs[1]))

    def measure_joint(
        self, y: PairedCounts, x: PairedCounts, *, flip: bool
    ) -> tuple[JointMoments, float]:
        """Return the joint moments of two AUCs, and the largest error of their covariance.

        The compared rows `y` and `x` must each have at least two rows. Third moments are those of
        the wide bins.
        """
        covariance, wrong, thirds = 0.0, 0.0, np.zeros(4)
        for rows, others, sign in ((y, x, -1), (x, y, 1)):
            part, open_, side_moments = self._measure_side(rows, others)
            n = int(rows[0].sum())
            covariance, wrong = covariance + part / (n - 1), wrong + open_ / (n - 1)
            thirds += (-sign if flip else sign) * side_moments / n**2
        aaa, aab, abb, bbb = thirds.tolist()
        return JointMoments(covariance, (aaa, aab, abb, bbb)), wrong

    def count_both_flagged(self, rows: PairedCounts, flagged: tuple[Mask, Mask]) -> tuple[int, int]:
        """Return the least and largest number of rows that both models flag.

        A threshold cuts at most a single wide bin of a model. Some rows in it are flagged by the
        other model. If these are more than the bin's unflagged rows, both models flag the excess.
        """
        pair_counts, sides = rows[2], []
        for own, flags, wide, places in zip(
            rows[:2], flagged, self.wide_bins, self.wide_bins_of_pairs, strict=True
        ):
            size, n_flagged_in = np.bincount(wide, own), np.bincount(wide, own * flags)
            is_cut = (n_flagged_in > 0) & (n_flagged_in < size)
            whole = (n_flagged_in == size)[places]
            cut = [
                (places == position, n_flagged_in[position], size[position])
                for position in np.flatnonzero(is_cut)
            ]
            sides.append((whole, cut, is_cut[places]))
        (whole_a, cut_a, in_a), (whole_b, cut_b, in_b) = sides
        low = high = int(pair_counts[whole_a & whole_b].sum())
        for cut, others in ((cut_a, whole_b), (cut_b, whole_a)):
            for inside, n_flagged, size in cut:
                n = int(pair_counts[inside & others].sum())
                low, high = low + max(n - int(size - n_flagged), 0), high + min(n, int(n_flagged))
        return low, high + int(pair_counts[in_a & in_b].sum())

    def _measure_side(
        self, rows: PairedCounts, others: PairedCounts
    ) -> tuple[float, float, FloatArray]:
        """Return the covariance of the rows' placements, its largest error, and third moments."""
        n = float(rows[0].sum())
        weights = rows[2].astype(np.float64)
        means, within, sizes = [], [], []
        for own, other, wide, places in zip(
            rows[:2], others[:2], self.wide_bins, self.wide_bins_of_pairs, strict=True
        ):
            weight = own.astype(np.float64)
            placed = (np.cumsum(other) - other / 2) / other.sum()
            placed -= inner_product(weight, placed) / n
            size = np.bincount(wide, weight)
            if not np.array_equal(size, np.bincount(places, weights, size.size)):
                raise ValueError(_OTHERS)
            mean = np.bincount(wide, weight * placed) / np.maximum(size, 1)
            within.append(math.sqrt(inner_product(weight, (placed - mean[wide]) ** 2) / n))
            means.append(mean[places])
            sizes.append(size)
        spread = []
        for mean, places, size in zip(
            means, reversed(self.wide_bins_of_pairs), reversed(sizes), strict=True
        ):
            conditional = np.bincount(places, weights * mean, size.size) / np.maximum(size, 1)
            spread.append(math.sqrt(inner_product(weights, (mean - conditional[places]) ** 2) / n))
        open_ = spread[0] * within[1] + spread[1] * within[0] + within[0] * within[1]
        a, b = means
        thirds = [
            inner_product(weights, product) / n for product in (a**3, a**2 * b, a * b**2, b**3)
        ]
        return inner_product(weights, a * b) / n, open_, np.array(thirds)


_OTHERS = "`pairs` must be counts of the pairs of the same rows; they are of others."
