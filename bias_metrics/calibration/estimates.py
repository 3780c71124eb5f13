"""Numbers of one set of rows, and how much each row moves them: bias, Brier score and slope.

All rest on influences, so that differences between subgroup and background, between two models
and sums over clusters need no formulas of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.intervals import effective_number
from bias_metrics._core.placements import inner, squares_of

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

CLIPPED = 1e-6
"""Scores nearer to 0 or 1 are moved to this distance before their log-odds are taken."""
_ROUNDS, _CONVERGED = 100, 1e-10


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows: those of a subgroup, of its background, or all.

    Attributes
    ----------
    rows : int array of shape (k,)
        Their numbers among all n rows.
    y_true : float array of shape (k,)
        1 for a positive, else 0.
    weight : float array of shape (k,)
        Their weights; 1 without weights.
    clusters : int array of shape (k,) or None
        Codes of their clusters.
    """

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


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number and its influences, or the reason why there is none.

    Attributes
    ----------
    value : float or None
        The number.
    influence : float array of shape (k,)
        How far each row moves it.
    reason : str or None
        Why `value` is None.
    """

    value: float | None
    influence: Floats
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class Moves:
    """How far each row, or each cluster, moves a number.

    Attributes
    ----------
    each : float array
        One value per row of all rows, or per cluster.
    freedom : float
        Degrees of freedom of the standard error.
    """

    each: Floats
    freedom: float

    @property
    def std_error(self) -> float:
        """The standard error."""
        return float(np.sqrt(inner(self.each, self.each)))

    def less(self, other: Moves) -> Moves:
        """Return the moves of the difference of two numbers."""
        each = self.each - other.each
        return Moves(each, min(self.freedom, other.freedom))


def moves_of(estimate: Estimate, sample: Sample, n: int, *, clustered: bool) -> Moves:
    """Return the moves of a number by row, of `n` rows, or by cluster, of `n` clusters.

    Each is divided by sqrt(1 - its share of the weight), as in Bell and McCaffrey (2002).
    """
    if clustered:
        assert sample.clusters is not None  # noqa: S101
        sums, weights = (
            np.bincount(sample.clusters, one, n).astype(np.float64, copy=False)
            for one in (estimate.influence, sample.weight)
        )
        each = _unshrunk(sums, weights / weights.sum())
        return Moves(each, max(effective_number(weights) - 1, 1.0))
    of_rows = _unshrunk(estimate.influence, sample.share)
    each = np.zeros(n)
    each[sample.rows] = of_rows
    return Moves(each, squares_of([of_rows])[1])


def _unshrunk(sums: Floats, shares: Floats) -> Floats:
    left = 1 - shares
    known = left > CLIPPED
    return np.where(known, sums / np.sqrt(np.where(known, left, 1.0)), 0.0)


def mean_of(values: Floats, sample: Sample) -> Estimate:
    """Return the weighted mean of some values."""
    mean = inner(sample.share, values)
    return Estimate(mean, sample.share * (values - mean))


def bias_of(y_score: Floats, sample: Sample) -> Estimate:
    """Return how much higher scores are than the share of positives, in the mean."""
    return mean_of(y_score - sample.y_true, sample)


def brier_of(y_score: Floats, sample: Sample) -> Estimate:
    """Return the Brier score: the mean squared distance of scores from labels."""
    return mean_of((y_score - sample.y_true) ** 2, sample)


def slope_of(y_score: Floats, sample: Sample) -> Estimate:
    """Return the slope of a logistic regression of the labels on the scores' log-odds.

    1 if calibrated; below 1 if scores are too extreme, above 1 if they are too near each other.
    Newton's method finds it; influences are those of a maximum-likelihood estimate.
    """
    nothing = np.zeros(y_score.size)
    inside = np.clip(y_score, CLIPPED, 1 - CLIPPED)
    x = np.log(inside) - np.log1p(-inside)
    y, weight = sample.y_true, sample.share
    if reason := _without_slope(x, y):
        return Estimate(None, nothing, reason)
    centre = inner(weight, x)
    x = x - centre  # so that the two coefficients hardly depend on each other
    design = np.stack([np.ones_like(x), x])
    found = np.array([0.0, 0.0])
    for _ in range(_ROUNDS):
        p = _expit(found @ design)
        curvature = (design * (weight * p * (1 - p))) @ design.T
        step = np.linalg.solve(curvature, design @ (weight * (y - p)))
        largest = float(np.abs(step * [1.0, np.abs(x).max()]).max())
        found = found + step / max(largest / 2, 1.0)  # large steps leave what the model describes
        if largest < _CONVERGED:
            break
    else:
        return Estimate(None, nothing, f"no slope was found in {_ROUNDS} steps")
    influence = np.linalg.inv(curvature)[1] @ design * (weight * (y - p))
    return Estimate(float(found[1]), influence)


def _without_slope(x: Floats, y: Floats) -> str | None:
    positive, negative = x[y > 0], x[y == 0]
    if not positive.size or not negative.size:
        return f"no {'negatives' if positive.size else 'positives'}"
    if positive.min() >= negative.max() or positive.max() <= negative.min():
        return "scores separate the classes, or are all the same"
    return None


def _expit(x: Floats) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


ESTIMATES = {"bias": bias_of, "brier": brier_of, "slope": slope_of}
"""The numbers by name."""
