"""Means and differences over several trainings, with the spread of splits and rows.

Trainings on parts of a data set share most of their rows, so they differ less from each other than
trainings on new data would: a t interval is far too narrow (docs/evidence/mitigation.md).
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
    """A number with its 95 % interval; NaN if it is undefined or unknown."""

    value: float
    low: float = NAN
    high: float = NAN

    def __str__(self) -> str:
        """Return the cell of a table."""
        if math.isnan(self.value):
            return "undefined"
        if math.isnan(self.low):
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class OverSplits:
    """A number of a method on k splits."""

    values: np.ndarray
    """Of shape (k,)."""
    left_out: np.ndarray | None = None
    """Values without each of g parts of the measured rows, of shape (k, g).

    None for rows that a split leaves out."""

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
        variance = float(np.var(self.values, ddof=1)) * compute_factor(k, test_share)
        if self.left_out is not None:
            variance += compute_covariance(self.left_out)[0, 0]
        reach = student.ppf((1 + LEVEL) / 2, k - 1) * math.sqrt(variance)
        return Interval(mean, mean - reach, mean + reach)


def compute_factor(k: int, rho: float) -> float:
    """Return the factor of a variance over `k` splits, each without a share `rho`.

    For numbers that depend on the training rows this is the delete-d jackknife (Shao and Wu 1989),
    for numbers of the rows left out Nadeau and Bengio's correction (2003, equation 9). The larger
    factor is right for one kind, and too wide for the other.
    """
    return 1 / k + max(rho / (1 - rho), (1 - rho) / rho)


def compute_covariance(*left_out: np.ndarray) -> np.ndarray:
    """Return the covariance over rows of means over splits: a delete-a-group jackknife."""
    means = np.stack([np.mean(values, axis=0) for values in left_out])
    centred = means - means.mean(axis=1, keepdims=True)
    n_parts = means.shape[1]
    return np.asarray(centred @ centred.T * (n_parts - 1) / n_parts)


def compute_recovery(
    biased: OverSplits, mitigated: OverSplits, clean: OverSplits, test_share: float
) -> Interval:
    """Return the share of a known bias that is gone, from 0 to 1, with Fieller's interval.

    Undefined if the interval of the bias includes 0.
    """
    gain, whole = biased - mitigated, biased - clean
    k, mean = len(whole.values), float(np.mean(whole.values))
    if mean == 0:
        return Interval(NAN)
    share = float(np.mean(gain.values)) / mean
    if k == 1:
        return Interval(share)
    spread: Any = np.cov(gain.values, whole.values) * compute_factor(k, test_share)
    if gain.left_out is not None and whole.left_out is not None:
        spread = spread + compute_covariance(gain.left_out, whole.left_out)
    (gain_variance, covariance), (_, whole_variance) = spread.tolist()
    quantile = student.ppf((1 + LEVEL) / 2, k - 1)
    g = quantile**2 * whole_variance / mean**2
    if g >= 1:
        return Interval(NAN)
    # Without a spread of the denominator, the term of its variance is left out.
    slope = covariance / whole_variance if whole_variance > 0 else 0.0
    residual = gain_variance - slope * covariance
    variance = gain_variance - 2 * share * covariance + share**2 * whole_variance
    reach = quantile / abs(mean) * math.sqrt(max(variance - g * residual, 0.0)) / (1 - g)
    centre = (share - g * slope) / (1 - g)
    return Interval(share, centre - reach, centre + reach)
