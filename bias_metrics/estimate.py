"""A number with the influence of every row on it: its error, its interval and differences."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import unshrunk
from bias_metrics._core.differences import (
    Apart,
    Difference,
    undefined_difference,
)
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import (
    effective_number,
    few_clusters,
    few_errors,
    independent_rows,
    quantile,
)
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.ranks import Floats, inner, squares_of
from bias_metrics._core.values import MetricValue, undefined

_LEAST_ROWS = 2.0
_ROUNDING = 1e-9
_WHOLE = 1e-6  # a row, or cluster, with all but this share of the weight has no influence


@dataclass(frozen=True)
class Positives:
    """The labels that a number rests on: where few are positive, influences say too little."""

    share: float
    """Of positives."""
    n: float
    """How many independent rows they are worth."""
    noise: float
    """Variance of the labels given the scores, if these are right, over that of the labels."""
    step: float
    """How far the number moves if the share does."""
    std_error: float
    """Of the number, by influences."""

    def reaches(self, confidence: float) -> tuple[float, float]:
        """Return how far the number reaches down and up as the share does in its interval."""
        z = quantile(confidence)
        low, high = wilson_interval(self.share, self.n, z * math.sqrt(self.noise))
        ends = self.step * (low - self.share), self.step * (high - self.share)
        least = z * self.std_error
        return max(-min(ends), least), max(*ends, least)


@dataclass(frozen=True)
class Number:
    """What is kept of an estimate: its interval at any confidence needs no rows."""

    value: float | None
    std_error: float
    freedom: float
    n_effective: float
    bounds: tuple[float, float]
    reason: str | None = None
    """As in `LinearEstimate`."""
    row_std_error: float | None = None
    """If rows come in clusters: the standard error if they were independent."""
    n_clusters: int = 0
    positives: tuple[Positives, ...] = ()

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval within bounds: symmetric, but as wide as few positives require."""
        assert self.value is not None  # noqa: S101
        down = up = quantile(confidence, self.freedom) * self.std_error
        if self.positives:
            each = zip(*(labels.reaches(confidence) for labels in self.positives), strict=True)
            downs, ups = each
            down, up = max(down, math.hypot(*downs)), max(up, math.hypot(*ups))
        least, largest = self.bounds
        return max(self.value - down, least), min(self.value + up, largest)

    def at(self, confidence: float) -> MetricValue:
        """Return the number with its interval, or the reason why it has none."""
        if self.value is None:
            return undefined(self.reason or "")
        if self.n_effective < _LEAST_ROWS - _ROUNDING:
            return MetricValue(self.value, "fewer than 2 rows in subgroup or background")
        low, high = self.interval(confidence)
        found = MetricValue(self.value, std_error=self.std_error, low=low, high=high)
        if self.row_std_error is None:
            return found
        found = replace(found, row_std_error=self.row_std_error, n_clusters=self.n_clusters)
        reason = few_clusters(self.n_clusters)
        return replace(found, low=None, high=None, reason=reason) if reason else found


@dataclass(frozen=True)
class Change:
    """Two models' numbers of the same rows, and how they vary together."""

    first: Number
    second: Number
    apart: Apart | None
    """None if one is undefined."""

    def at(self, confidence: float, *, is_gap: bool) -> Difference:
        """Return the first minus the second, with an interval."""
        a, b = self.first.at(confidence), self.second.at(confidence)
        if self.apart is None or a.std_error is None or b.std_error is None:
            return undefined_difference(a, b)
        return self.apart.difference(a, b, confidence, is_gap=is_gap)


@dataclass(frozen=True, eq=False)
class LinearEstimate:
    """A number, how far each row or cluster moves it, and what its interval needs.

    Two estimates from the same rows are subtracted with `minus`, row by row: no covariance has a
    formula of its own.

    Examples
    --------
    >>> import numpy as np
    >>> of_rows = np.array([0.3, -0.1, -0.2]) / 3
    >>> print(LinearEstimate(0.5, of_rows, freedom=2.0, n_effective=3.0).measured(0.95))
    0.500 [-0.037, 1.037]
    """

    value: float | None
    """The number."""
    influence: Floats
    """How far each of the n rows moves it; 0 for rows that do not count. Empty where only clusters
    are counted."""
    freedom: float = math.inf
    """Degrees of freedom of the standard error."""
    n_effective: float = math.inf
    """How many rows of equal weight it rests on; of a difference, the smaller number."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Its smallest and largest possible value."""
    reason: str | None = None
    """Why there is no value."""
    by_cluster: Floats | None = field(default=None)
    """How far each cluster moves it, if rows come in clusters."""
    n_clusters: int = 0
    """Clusters behind it."""
    positives: tuple[Positives, ...] = ()
    """The labels that it rests on; of a difference, those of both sides."""
    counted: npt.NDArray[np.bool_] | None = None
    """Which of these it rests on; None for all."""

    @classmethod
    def undefined(cls, reason: str, n: int) -> LinearEstimate:
        """Return a number of no rows, out of n."""
        none = np.zeros(n, np.bool_)
        return cls(None, np.zeros(n), 1.0, 0.0, reason=reason, counted=none)

    @classmethod
    @aligned
    def of(
        cls,
        value: float | None,
        influence: Floats,
        places: npt.NDArray[np.intp],
        weight: Floats,
        n: int,
        *,
        clusters: npt.NDArray[np.intp] | None = None,
        bounds: tuple[float, float],
        reason: str | None = None,
    ) -> LinearEstimate:
        """Return a number of some of n rows, given their influences on it.

        A row, or cluster, with much of the weight pulls the number towards itself, so its own
        deviation is too small. Each is divided by sqrt(1 - its share of the weight).

        References
        ----------
        Bell and McCaffrey (2002), Survey Methodology 28.
        """
        of_rows = unshrunk(influence * weight.sum(), weight, _WHOLE)
        each, counted = np.zeros(n), np.zeros(n, np.bool_)
        each[places], counted[places] = of_rows, True
        found = cls(
            value,
            each,
            squares_of([of_rows])[1],
            effective_number(weight),
            bounds,
            reason,
            counted=counted,
        )
        if clusters is None:
            return found
        # Codes of all n rows have no gaps, and so no more of them than rows.
        sums, weights = (
            np.bincount(clusters[places], of, int(clusters.max()) + 1).astype(np.float64)
            for of in (influence, weight)
        )
        by_cluster = unshrunk(sums * weights.sum(), weights, _WHOLE)
        present = np.unique(clusters[places])
        most = effective_number(weights) - 1
        return replace(
            found,
            freedom=max(min(most, squares_of([by_cluster[present]])[1]), 1.0),
            by_cluster=by_cluster,
            n_clusters=int(present.size),
        )

    @property
    def each(self) -> Floats:
        """The influences of the clusters, or of the rows if there are none."""
        return self.influence if self.by_cluster is None else self.by_cluster

    @property
    def std_error(self) -> float:
        """Standard error; it allows for clusters if there are any."""
        return _root(self.each)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval, see `Number`."""
        return self.number.interval(confidence)

    @cached_property
    def number(self) -> Number:
        """What is kept if the influences are not."""
        return Number(
            self.value,
            self.std_error,
            self.freedom,
            self.n_effective,
            self.bounds,
            self.reason,
            None if self.by_cluster is None else _root(self.influence),
            self.n_clusters,
            self.positives,
        )

    def measured(self, confidence: float) -> MetricValue:
        """Return the number with its interval, or the reason why it has none."""
        return self.number.at(confidence)

    def minus(
        self, other: LinearEstimate, bounds: tuple[float, float] = (-math.inf, math.inf)
    ) -> LinearEstimate:
        """Return the difference of two numbers of the same n rows."""
        if self.value is None or other.value is None:
            return LinearEstimate.undefined(_lacking(self, other), self.influence.size)
        by_cluster, rows = None, self.influence - other.influence
        counted = None
        if self.counted is not None and other.counted is not None:
            counted = self.counted | other.counted
        if self.by_cluster is not None and other.by_cluster is not None:
            by_cluster = self.by_cluster - other.by_cluster
            freedom = min(self.freedom, other.freedom)
        else:
            freedom = squares_of([rows if counted is None else rows[counted]])[1]
        return LinearEstimate(
            self.value - other.value,
            rows,
            freedom,
            min(self.n_effective, other.n_effective),
            bounds,
            None,
            by_cluster,
            min(self.n_clusters, other.n_clusters),
            self.parts + other.negated().parts if self.positives or other.positives else (),
            counted,
        )

    def negated(self) -> LinearEstimate:
        """Return minus the number: `minus` of it adds two numbers of the same rows."""
        return replace(
            self,
            value=None if self.value is None else -self.value,
            influence=-self.influence,
            bounds=(-self.bounds[1], -self.bounds[0]),
            by_cluster=None if self.by_cluster is None else -self.by_cluster,
            positives=tuple(replace(labels, step=-labels.step) for labels in self.positives),
        )

    def resting_on(
        self, share: float, noise: float, step: float, mixed_clusters: int = 0
    ) -> LinearEstimate:
        """Return the number with the labels that it rests on, if few are positive or negative.

        `mixed_clusters`: those with a positive, or with a negative, if they are fewer.
        """
        n = self.n_effective
        if self.by_cluster is not None:
            row_error = _root(self.influence)
            effect = (self.std_error / row_error) ** 2 if row_error else math.inf
            n = independent_rows(n, effect, min(self.n_clusters, n), mixed_clusters)
        if not few_errors(share, n + _ROUNDING):
            return self
        return replace(self, positives=(Positives(share, n, noise, step, self.std_error),))

    @property
    def n_drawn(self) -> float:
        """How many rows, or clusters, of equal weight it rests on."""
        if self.by_cluster is None:
            return self.n_effective
        return min(self.n_effective, float(self.n_clusters))

    def beside(self, other: LinearEstimate) -> Change:
        """Return this model's number beside another's, of the same rows."""
        if self.value is None or other.value is None:
            return Change(self.number, other.number, None)
        drawn = min(self.n_drawn, other.n_drawn)
        return Change(self.number, other.number, Apart.of(self, other, drawn, of_auc=False))

    @property
    def parts(self) -> tuple[Positives, ...]:
        """The labels that it rests on; if they are many, nothing but its error."""
        return self.positives or (Positives(0.0, 1.0, 0.0, 0.0, self.std_error),)

    @property
    def in_clusters(self) -> int | None:
        """Clusters behind it; None if rows come in no clusters."""
        return None if self.by_cluster is None else self.n_clusters


def _root(each: Floats) -> float:
    return float(np.sqrt(inner(each, each)))


def _lacking(own: LinearEstimate, other: LinearEstimate) -> str:
    if own.value is None:
        return f"subgroup: {own.reason}"
    return f"background: {other.reason}"
