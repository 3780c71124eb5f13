"""What several trainings show together: means and differences, with the spread of splits and rows.

Trainings on parts of one data set share most of their rows, so they differ less from each other
than trainings on new data would: a t interval is far too narrow (docs/evidence/mitigation.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

LEVEL = 0.95
NAN = math.nan


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval; NaN where it is undefined or not known."""

    value: float
    low: float = NAN
    high: float = NAN

    def __str__(self) -> str:
        """Return it as it stands in a table."""
        if math.isnan(self.value):
            return "undefined"
        if math.isnan(self.low):
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class OverSplits:
    """One number of one method.

    Attributes
    ----------
    values : float array of shape (k,)
        On each split.
    left_out : float array of shape (k, g) or None
        The same without each part of the measured rows; None for rows that a split leaves out.
    """

    values: np.ndarray
    left_out: np.ndarray | None = None

    def __sub__(self, other: OverSplits) -> OverSplits:
        """Return the differences, split by split."""
        if self.left_out is None or other.left_out is None:
            return OverSplits(self.values - other.values)
        return OverSplits(self.values - other.values, self.left_out - other.left_out)

    def interval(self, test_share: float) -> Interval:
        """Return the mean over splits, with its interval over splits and rows."""
        mean, k = float(np.mean(self.values)), len(self.values)
        if k == 1:
            return Interval(mean)
        variance = float(np.var(self.values, ddof=1)) * widened(k, test_share)
        if self.left_out is not None:
            variance += covariance(self.left_out)[0, 0]
        reach = student.ppf((1 + LEVEL) / 2, k - 1) * math.sqrt(variance)
        return Interval(mean, mean - reach, mean + reach)


def widened(k: int, rho: float) -> float:
    """Return by how much a variance over `k` splits, each without a share `rho`, is multiplied.

    For numbers that depend on the training rows this is the delete-d jackknife (Shao and Wu 1989),
    for those of the rows left out Nadeau and Bengio's correction (2003, equation 9). The larger one
    is right for the one kind, and too wide for the other.
    """
    return 1 / k + max(rho / (1 - rho), (1 - rho) / rho)


def covariance(*left_out: np.ndarray) -> np.ndarray:
    """Return the covariance over rows of means over splits: a delete-a-group jackknife."""
    means = np.stack([np.mean(one, axis=0) for one in left_out])
    apart = means - means.mean(axis=1, keepdims=True)
    n_parts = means.shape[1]
    return np.asarray(apart @ apart.T * (n_parts - 1) / n_parts)


def recovered(
    biased: OverSplits, mitigated: OverSplits, clean: OverSplits, test_share: float
) -> Interval:
    """Return how much of a known bias is gone: 1 all of it, 0 none, with Fieller's interval.

    Undefined where the interval of the bias itself includes 0.
    """
    gain, whole = biased - mitigated, biased - clean
    k, mean = len(whole.values), float(np.mean(whole.values))
    if mean == 0:
        return Interval(NAN)
    share = float(np.mean(gain.values)) / mean
    if k == 1:
        return Interval(share)
    spread: Any = np.cov(gain.values, whole.values) * widened(k, test_share)
    if gain.left_out is not None and whole.left_out is not None:
        spread = spread + covariance(gain.left_out, whole.left_out)
    (of_gain, of_both), (_, of_whole) = spread.tolist()
    quantile = student.ppf((1 + LEVEL) / 2, k - 1)
    g = quantile**2 * of_whole / mean**2
    if g >= 1:
        return Interval(NAN)
    # Without a spread of the denominator there is no term in its variance.
    slope = of_both / of_whole if of_whole > 0 else 0.0
    across = of_gain - slope * of_both
    variance = of_gain - 2 * share * of_both + share**2 * of_whole
    reach = quantile / abs(mean) * math.sqrt(max(variance - g * across, 0.0)) / (1 - g)
    centre = (share - g * slope) / (1 - g)
    return Interval(share, centre - reach, centre + reach)
