"""Reliability in bins of equally many rows, and the debiased calibration error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.intervals import effective_number, quantile
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.calibration.estimates import Floats, Sample

N_BINS = 10


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of similar scores.

    Attributes
    ----------
    n : int
        Number of rows.
    mean_score, share_positive : float
        Their mean score, and the share of positives among them; equal if calibrated.
    low, high : float
        Band of the share.
    """

    n: int
    mean_score: float
    share_positive: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Bins:
    """Rows in bins of equally many by score; rows of the same score share a bin.

    Attributes
    ----------
    n : int array of shape (b,)
        Rows of each bin, at least 1.
    weight : float array of shape (b,)
        Share of the weight in each bin.
    mean_score, share_positive : float arrays of shape (b,)
        Weighted means.
    covariance : float array of shape (b, b)
        Covariances of the shares of positives.
    worth : float array of shape (b,)
        How many independent rows each bin is worth.
    """

    n: npt.NDArray[np.signedinteger]
    weight: Floats
    mean_score: Floats
    share_positive: Floats
    covariance: Floats
    worth: Floats

    @classmethod
    def of(cls, y_score: Floats, sample: Sample, n_bins: int) -> Bins:
        """Put rows into bins."""
        edges = np.quantile(y_score, np.linspace(0, 1, n_bins + 1)[1:-1])
        _, at = np.unique(np.searchsorted(edges, y_score), return_inverse=True)
        n = np.bincount(at)
        weight = _sums(at, sample.share)
        score, positive = (
            _sums(at, sample.share * one) / weight for one in (y_score, sample.y_true)
        )
        own = sample.share / weight[at]
        moves = own * (sample.y_true - positive[at])
        alone = _sums(at, moves**2 / np.maximum(1 - own, own))
        equal = _sums(at, own**2)
        if sample.clusters is None:
            return cls(n, weight, score, positive, np.diag(alone), 1 / equal)
        codes = np.unique(sample.clusters, return_inverse=True)[1]
        shape = (int(codes.max()) + 1, n.size)
        cell = codes * n.size + at
        sums, shares = (_sums(cell, one, math.prod(shape)) for one in (moves, own))
        left = 1 - shares
        sums = (sums / np.sqrt(np.where(left > 0, left, 1.0))).reshape(shape)
        covariance = sums.T @ sums
        of_clusters = np.array([effective_number(one) for one in shares.reshape(shape).T])
        effect = np.maximum(np.diag(covariance) / np.where(alone > 0, alone, 1.0), 1.0)
        worth = np.maximum(np.where(alone > 0, 1 / equal / effect, of_clusters), 1.0)
        return cls(n, weight, score, positive, covariance, worth)

    def curve(self, confidence: float) -> tuple[ReliabilityBin, ...]:
        """Return the bins with bands, by Wilson's interval for as many rows as they are worth."""
        z = quantile(confidence)
        return tuple(
            ReliabilityBin(int(n), float(score), float(share), *_band(float(share), worth, z))
            for n, score, share, worth in zip(
                self.n, self.mean_score, self.share_positive, self.worth, strict=True
            )
        )

    def error(self, confidence: float) -> MetricValue:
        """Return the debiased calibration error, with its interval.

        The plug-in error is too large, because shares of positives vary by chance: their variance
        is subtracted. Below 0 the difference counts as 0, which has no standard error. The interval
        is that of the squared error, whose variance is that of a quadratic form of normal shares;
        near an error of 0 it holds more often than `confidence` says.

        References
        ----------
        Kumar, Liang and Ma (2019), Advances in Neural Information Processing Systems 32,
        section 5 (the debiased estimate). The interval is ours.
        """
        if self.n.min() < 2:
            return undefined("fewer than 2 rows in a bin")
        apart = self.share_positive - self.mean_score
        weighted = self.weight[:, None] * self.covariance
        square = float(self.weight @ apart**2 - np.trace(weighted))
        noise = float(np.sum(weighted * weighted.T))
        pull = self.weight * apart
        spread = math.sqrt(4 * float(pull @ self.covariance @ pull) + 2 * noise)
        reach = quantile(confidence) * spread
        low, value, high = (
            math.sqrt(max(one, 0.0)) for one in (square - reach, square, square + reach)
        )
        std_error = spread / (2 * value) if value > 0 else None
        return MetricValue(value, std_error=std_error, low=low, high=high)


def _sums(at: npt.NDArray[np.signedinteger], values: Floats, n: int = 0) -> Floats:
    return np.bincount(at, values, n).astype(np.float64, copy=False)


def _band(share: float, worth: float, z: float) -> tuple[float, float]:
    low, high = wilson_interval(share, worth, z)
    return max(float(low), 0.0), min(float(high), 1.0)
