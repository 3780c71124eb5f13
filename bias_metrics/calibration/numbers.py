"""The numbers of calibration and their influences, and reliability in bins."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bias_metrics._core.intervals import effective_number, few_clusters, few_errors, quantile
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.ranks import Floats, inner
from bias_metrics._core.values import MetricValue, undefined

N_BINS = 10
_CLIPPED = (
    1e-6  # scores nearer to 0 or 1 are moved to this distance before their log-odds are taken
)
_ROUNDS, _CONVERGED = 100, 1e-10
_ENOUGH = 10_000  # rows whose slope is near that of all
_MEAN_RANGE = math.sqrt(8 / math.pi)  # of a Brownian motion from 0 to 1
_STEPS, _BLOCK, _DRAWS, _JITTER = 128, 4096, 4000, 1e-9
_BETWEEN = 0.5826  # steps' standard deviations that a maximum between them is higher
_SHOWN = 0.99  # the highest quantile that the draws show

Codes = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows, by place: those of a subgroup, of its background, or all; labels are 0 and 1."""

    rows: Codes
    y_true: Floats
    weight: Floats
    clusters: Codes | None

    @property
    def n_positive(self) -> int:
        """Number of positives."""
        return int(np.count_nonzero(self.y_true))

    @property
    def share(self) -> Floats:
        """Each row's share of the weight."""
        return np.asarray(self.weight / self.weight.sum())

    @property
    def mixed_clusters(self) -> int:
        """Clusters with a positive, or with a negative, if they are fewer."""
        if self.clusters is None:
            return 0
        is_positive = self.y_true > 0
        return min(np.unique(self.clusters[rows]).size for rows in (is_positive, ~is_positive))


class Influenced(NamedTuple):
    """A number and how far each row of a sample moves it, or the reason why there is none."""

    value: float | None
    influence: Floats
    reason: str | None = None


def mean_of(values: Floats, sample: Sample) -> Influenced:
    """Return the weighted mean of some values."""
    mean = inner(sample.share, values)
    return Influenced(mean, sample.share * (values - mean))


def bias_of(y_score: Floats, sample: Sample) -> Influenced:
    """Return how much higher scores are than the share of positives, in the mean."""
    return mean_of(y_score - sample.y_true, sample)


def brier_of(y_score: Floats, sample: Sample) -> Influenced:
    """Return the Brier score: the mean squared distance of scores from labels."""
    return mean_of((y_score - sample.y_true) ** 2, sample)


def slope_of(y_score: Floats, sample: Sample) -> Influenced:
    """Return the slope of a logistic regression of the labels on the scores' log-odds.

    1 if calibrated; below 1 if scores are too extreme, above 1 if they are too near each other.
    Newton's method finds it; influences are those of a maximum-likelihood estimate.
    """
    nothing = np.zeros(y_score.size)
    inside = np.clip(y_score, _CLIPPED, 1 - _CLIPPED)
    x = np.log(inside) - np.log1p(-inside)
    y, weight = sample.y_true, sample.share
    if reason := _without_slope(x, y):
        return Influenced(None, nothing, reason)
    centre = inner(weight, x)
    x = x - centre  # so that the two coefficients hardly depend on each other
    design = np.stack([np.ones_like(x), x])
    start = None
    if (every := x.size // _ENOUGH) > 1:  # a part of many rows tells nearly where the answer is
        with suppress(np.linalg.LinAlgError):  # such as a part whose scores are all the same
            start = _regression(design[:, ::every], y[::every], weight[::every])
    regression = _regression(design, y, weight, start)
    if regression is None:
        return Influenced(None, nothing, f"no slope was found in {_ROUNDS} steps")
    found, p, curvature = regression
    inverse = np.linalg.inv(curvature)
    influence = inverse[1] @ design * (weight * (y - p))
    if few_errors(inner(weight, y), 1 / inner(weight, weight)):
        # Residuals of few positives are too small: the error is at least the regression's own.
        least, error = inverse[1, 1] * inner(weight, weight), inner(influence, influence)
        influence = influence * math.sqrt(max(least / error, 1.0))
    return Influenced(float(found[1]), influence)


class _Regression(NamedTuple):
    """A logistic regression."""

    coefficients: Floats
    p: Floats
    """The probability of each row, of shape (n,)."""
    curvature: Floats


def _regression(
    design: Floats, y: Floats, weight: Floats, start: _Regression | None = None
) -> _Regression | None:
    """Regress by Newton's method; None if it does not end."""
    found = np.array([0.0, 0.0]) if start is None else start.coefficients
    reach = [1.0, np.abs(design[1]).max()]
    for _ in range(_ROUNDS):
        p = _expit(found @ design)
        curvature = (design * (weight * p * (1 - p))) @ design.T
        step = np.linalg.solve(curvature, design @ (weight * (y - p)))
        largest = float(np.abs(step * reach).max())
        found = found + step / max(largest / 2, 1.0)  # large steps leave what the model describes
        if largest < _CONVERGED:
            return _Regression(found, p, curvature)
    return None


def _without_slope(x: Floats, y: Floats) -> str | None:
    positive, negative = x[y > 0], x[y == 0]
    if not positive.size or not negative.size:
        return f"no {'negatives' if positive.size else 'positives'}"
    if positive.min() >= negative.max() or positive.max() <= negative.min():
        return "scores separate the classes, or are all the same"
    return None


def _expit(x: Floats) -> Floats:
    small = np.exp(-np.abs(x))  # never overflows
    return np.asarray(np.where(x >= 0, 1.0, small) / (1 + small))


def labels_of(name: str, y_score: Floats, sample: Sample) -> tuple[float, float, float] | None:
    """Return the share of positives, their noise and step, see `Positives`; None for a slope."""
    if name == "slope":
        return None
    positive, mean = (inner(sample.share, values) for values in (sample.y_true, y_score))
    variances = sample.share * y_score * (1 - y_score)
    noise = min(float(variances.sum()) / (mean * (1 - mean)), 1.0) if 0 < mean < 1 else 1.0
    if name == "bias":
        return positive, noise, -1.0
    moved = 1 - 2 * y_score  # a Brier score, if this row's label becomes positive
    if not variances.any():
        return positive, 1.0, float(np.abs(moved).max())
    size = math.sqrt(inner(variances, moved**2) / float(variances.sum()))
    return positive, noise, math.copysign(size, inner(variances, moved))


ESTIMATES = {"bias": bias_of, "brier": brier_of, "slope": slope_of}
"""The numbers by name."""
RANGES = {"bias": (-1.0, 1.0), "brier": (0.0, 1.0), "slope": (-math.inf, math.inf)}
"""Smallest and largest possible value of each number."""


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of similar scores."""

    n: int
    """Number of rows."""
    mean_score: float
    share_positive: float
    """mean_score, share_positive: their mean score, and the share of positives among them; equal if
    calibrated."""
    low: float
    high: float
    """low, high: band of the share."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Rows in bins of equally many by score; rows of the same score share a bin."""

    n: npt.NDArray[np.signedinteger]  # (b,): Rows of each bin, at least 1
    weight: Floats  # (b,): Share of the weight in each bin
    mean_score: Floats  # mean_score, share_positive, (b,): weighted means
    share_positive: Floats
    covariance: Floats  # (b, b): Covariances of the shares of positives
    worth: Floats  # (b,): How many independent rows each bin is worth

    @classmethod
    def of(cls, y_score: Floats, sample: Sample, n_bins: int) -> Bins:
        """Put rows into bins."""
        edges = np.quantile(y_score, np.linspace(0, 1, n_bins + 1)[1:-1])
        at = np.searchsorted(edges, y_score)
        n = np.bincount(at)
        at, n = (np.cumsum(n > 0) - 1)[at], n[n > 0]
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
        """Return the bins with bands."""
        return curve(self.n, self.mean_score, self.share_positive, self.worth, confidence)

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


def curve(
    n: npt.NDArray[np.signedinteger],
    mean_score: Floats,
    share_positive: Floats,
    worth: Floats,
    confidence: float,
) -> tuple[ReliabilityBin, ...]:
    """Return bins with bands, by Wilson's interval for as many rows as each is worth."""
    z = quantile(confidence)
    return tuple(
        ReliabilityBin(int(rows), float(score), float(share), *_band(float(share), of_bin, z))
        for rows, score, share, of_bin in zip(n, mean_score, share_positive, worth, strict=True)
    )


class Cumulative(NamedTuple):
    """The range of cumulative differences of labels and scores, by ascending score.

    It needs no bins. If scores are calibrated, it is 1.6 times its scale `sigma` in the mean. Rows
    of the same score are added as one, so that their order does not matter.

    References
    ----------
    Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu (2022), Journal of Machine Learning Research 23
    (ECCE-R and sigma). Feller (1951), Annals of Mathematical Statistics 22 (the range of a
    Brownian motion). The interval is ours.
    """

    value: float
    sigma: float
    in_clusters: ClusteredRange | None

    @classmethod
    def of(cls, y_score: Floats, sample: Sample) -> Cumulative:
        """Add up differences."""
        order = np.argsort(y_score)
        scores, share = y_score[order], sample.share[order]
        moves = share * (sample.y_true[order] - scores)
        last = np.append(np.flatnonzero(np.diff(scores)), scores.size - 1)  # of each score
        sums = np.cumsum(moves)[last]
        value = max(float(sums.max()), 0.0) - min(float(sums.min()), 0.0)
        expected, squares = inner(share**2, scores * (1 - scores)), inner(moves, moves)
        sigma = math.sqrt(max(expected, squares))
        if sample.clusters is None:
            return cls(value, sigma, None)
        known = ClusteredRange.of(moves, share, last, sample.clusters[order])
        # Where few rows are positive, the differences say too little.
        scale = sigma / math.sqrt(squares) if squares else 0.0
        return cls(value, scale * known.mean / _MEAN_RANGE, known)

    def at(self, confidence: float) -> MetricValue:
        """Return the range with its interval; `std_error` is sigma.

        It reaches as far as the range of a Brownian motion whose variance is the sum of the squared
        differences, which is no less than that of the sums; in clusters, as far as that of a normal
        process with the covariances of their sums. The range is a seminorm, so that two ranges
        differ by no more than the range of the difference.
        """
        among = self.in_clusters
        if among is not None and (reason := few_clusters(among.n_clusters)):
            return MetricValue(self.value, reason, n_clusters=among.n_clusters)
        of_sigma = range_quantile(confidence) if among is None else among.quantile(confidence)
        reach = of_sigma * self.sigma
        low, high = max(self.value - reach, 0.0), min(self.value + reach, 1.0)
        n_clusters = None if among is None else among.n_clusters
        sigma = self.sigma
        return MetricValue(self.value, std_error=sigma, low=low, high=high, n_clusters=n_clusters)


class ClusteredRange(NamedTuple):
    """Ranges of a normal process whose increments vary together as the sums of clusters do."""

    drawn: Floats  # ascending
    mean: float
    freedom: float
    n_clusters: int

    @classmethod
    def of(cls, moves: Floats, share: Floats, last: Codes, clusters: Codes) -> ClusteredRange:
        """Draw ranges, given differences by ascending score, in at most `_STEPS` steps.

        Between steps a process goes on: it is taken to go as far as independent increments would.

        References
        ----------
        Broadie, Glasserman and Kou (1997), Mathematical Finance 7 (the maximum between steps).
        """
        codes = np.unique(clusters, return_inverse=True)[1]
        n = int(codes.max()) + 1
        of_score = np.searchsorted(last, np.arange(moves.size))
        n_steps = min(last.size, _STEPS)
        cell = codes * n_steps + of_score * n_steps // last.size
        order = np.argsort(codes)
        starts = np.searchsorted(codes[order], np.arange(0, n + _BLOCK, _BLOCK))
        sizes = _sums(codes, share, n)
        left = np.sqrt(np.where(sizes < 1, 1 - sizes, 1.0))
        together = np.zeros((n_steps, n_steps))
        for at, (begin, end) in enumerate(pairwise(starts)):
            rows, first = order[begin:end], at * _BLOCK
            many = min(_BLOCK, n - first)
            sums = _sums(cell[rows] - first * n_steps, moves[rows], many * n_steps)
            of_cluster = sums.reshape(many, n_steps) / left[first : first + many, None]
            together += of_cluster.T @ of_cluster
        jitter = _JITTER * max(float(np.trace(together)) / n_steps, np.finfo(float).tiny)
        root = np.linalg.cholesky(together + jitter * np.eye(n_steps))
        paths = _normal_draws(n_steps) @ np.cumsum(root, axis=0).T
        ranges = np.maximum(paths.max(axis=1), 0) - np.minimum(paths.min(axis=1), 0)
        between = 2 * _BETWEEN * math.sqrt(float(np.trace(together)) / n_steps)
        drawn = np.sort(ranges + (between if last.size > n_steps else 0.0))
        return cls(drawn, float(drawn.mean()), max(effective_number(sizes) - 1, 1.0), n)

    def quantile(self, confidence: float) -> float:
        """Return the quantile of the ranges, over their mean and for a unit sigma."""
        level = min(confidence, _SHOWN)
        found = float(np.quantile(self.drawn, level)) / (self.mean or 1.0) * _MEAN_RANGE
        found *= range_quantile(confidence) / range_quantile(level)
        return found * quantile(confidence, self.freedom) / quantile(confidence)


@lru_cache(maxsize=1)  # nearly always of `_STEPS`
def _normal_draws(n_steps: int) -> Floats:
    return np.random.default_rng(0).standard_normal((_DRAWS, n_steps))


def range_tail(x: float) -> float:
    """Return the chance that a Brownian motion from 0 to 1 has a range of more than `x`."""
    if x < 0.5:  # the chance of a smaller one is below 1e-7, and the series is slow
        return 1.0
    tail = NormalDist().cdf
    return 8 * sum((-1.0) ** (k - 1) * k * tail(-k * x) for k in range(1, math.ceil(9 / x) + 1))


@cache
def range_quantile(confidence: float) -> float:
    """Return the range that a Brownian motion exceeds with chance 1 - `confidence`."""
    low, high = 0.5, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if range_tail(middle) > 1 - confidence else (low, middle)
    return high


def _sums(at: npt.NDArray[np.signedinteger], values: Floats, n: int = 0) -> Floats:
    return np.bincount(at, values, n).astype(np.float64, copy=False)


def _band(share: float, worth: float, z: float) -> tuple[float, float]:
    low, high = wilson_interval(share, worth, z)
    return max(float(low), 0.0), min(float(high), 1.0)
