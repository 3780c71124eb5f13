"""A number with the influence of every row: its standard error, interval and differences."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import correct_leverage
from bias_metrics._core.differences import (
    Difference,
    PairedError,
    make_undefined_difference,
)
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import (
    compute_effective_size,
    count_independent_rows,
    explain_few_clusters,
    has_few_errors,
    student_quantile,
)
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.ranks import Floats, inner_product, sum_squares
from bias_metrics._core.values import MetricValue, make_undefined

_LEAST_ROWS = 2.0
_ROUNDING = 1e-9
_WHOLE = 1e-6  # a row, or cluster, with all but this share of the weight has influence 0


@dataclass(frozen=True)
class Positives:
    """Correction of an interval for few positives, whose influences underestimate the error."""

    share: float
    """Share of positives."""
    n: float
    """Effective number of independent rows."""
    noise: float
    """Variance of the labels given calibrated scores, divided by the variance of the labels."""
    step: float
    """Derivative of the number with respect to the share."""
    std_error: float
    """Standard error of the number, from influences."""

    def compute_reaches(self, confidence: float) -> tuple[float, float]:
        """Return the lower and upper reach of the number's interval, from that of the share."""
        z = student_quantile(confidence)
        low, high = wilson_interval(self.share, self.n, z * math.sqrt(self.noise))
        ends = self.step * (low - self.share), self.step * (high - self.share)
        least = z * self.std_error
        return max(-min(ends), least), max(*ends, least)


@dataclass(frozen=True)
class LinearSummary:
    """Summary of an estimate, for intervals at any confidence without the rows."""

    value: float | None
    std_error: float
    freedom: float
    n_effective: float
    bounds: tuple[float, float]
    reason: str | None = None
    """As in `LinearEstimate`."""
    row_std_error: float | None = None
    """If rows are clustered: the standard error for independent rows."""
    n_clusters: int = 0
    positives: tuple[Positives, ...] = ()

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval within bounds: symmetric, or wider if positives are few."""
        assert self.value is not None  # noqa: S101
        down = up = student_quantile(confidence, self.freedom) * self.std_error
        if self.positives:
            each = zip(
                *(labels.compute_reaches(confidence) for labels in self.positives), strict=True
            )
            downs, ups = each
            down, up = max(down, math.hypot(*downs)), max(up, math.hypot(*ups))
        least, largest = self.bounds
        return max(self.value - down, least), min(self.value + up, largest)

    def compute_value(self, confidence: float) -> MetricValue:
        """Return the number with its interval, or the reason why it is undefined."""
        if self.value is None:
            return make_undefined(self.reason or "")
        if self.n_effective < _LEAST_ROWS - _ROUNDING:
            return MetricValue(self.value, "fewer than 2 rows in subgroup or background")
        low, high = self.interval(confidence)
        number = MetricValue(self.value, std_error=self.std_error, low=low, high=high)
        if self.row_std_error is None:
            return number
        number = replace(number, row_std_error=self.row_std_error, n_clusters=self.n_clusters)
        reason = explain_few_clusters(self.n_clusters)
        return replace(number, low=None, high=None, reason=reason) if reason else number


@dataclass(frozen=True)
class NumberPair:
    """The numbers of two models on the same rows, and their joint error."""

    first: LinearSummary
    second: LinearSummary
    paired_error: PairedError | None
    """None if either number is undefined."""

    def compute_difference(self, confidence: float, *, is_gap: bool) -> Difference:
        """Return the first number minus the second, with an interval."""
        a, b = self.first.compute_value(confidence), self.second.compute_value(confidence)
        if self.paired_error is None or a.std_error is None or b.std_error is None:
            return make_undefined_difference(a, b)
        return self.paired_error.compute_difference(a, b, confidence, is_gap=is_gap)


@dataclass(frozen=True, eq=False)
class LinearEstimate:
    """A number with the influences of rows or clusters, and the inputs of its interval.

    `subtract` subtracts two estimates from the same rows row by row, so that covariances need no
    separate formula.

    Examples
    --------
    >>> import numpy as np
    >>> influences = np.array([0.3, -0.1, -0.2]) / 3
    >>> print(LinearEstimate(0.5, influences, freedom=2.0, n_effective=3.0).compute_value(0.95))
    0.500 [-0.037, 1.037]
    """

    value: float | None
    influence: Floats
    """(n,): Influences of the rows; 0 for rows that do not count. Empty if only the influences of
    clusters are known."""
    freedom: float = math.inf
    """Degrees of freedom of the standard error."""
    n_effective: float = math.inf
    """Effective number of rows; for a difference, the smaller of two."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest possible value."""
    reason: str | None = None
    """Why the value is undefined."""
    by_cluster: Floats | None = field(default=None)
    """Influences of the clusters, if rows are clustered."""
    n_clusters: int = 0
    """Number of clusters with rows that count."""
    positives: tuple[Positives, ...] = ()
    """Corrections for few positives; for a difference, of both numbers."""
    is_counted: npt.NDArray[np.bool_] | None = None
    """(n,): Rows that count; None for all rows."""

    @classmethod
    def undefined(cls, reason: str, n: int) -> LinearEstimate:
        """Return an undefined number, with influence 0 of all n rows."""
        none = np.zeros(n, np.bool_)
        return cls(None, np.zeros(n), 1.0, 0.0, reason=reason, is_counted=none)

    @classmethod
    @require_aligned
    def from_influence(
        cls,
        value: float | None,
        influence: Floats,
        places: npt.NDArray[np.intp],
        weight: Floats,
        n: int,
        *,
        clusters: npt.NDArray[np.intp] | None = None,
        bounds: tuple[float, float],
    ) -> LinearEstimate:
        """Return a number of some of n rows, given their influences.

        A row, or cluster, with much of the weight pulls the number towards itself, so its deviation
        is too small. It is divided by sqrt(1 - its share of the weight).

        References
        ----------
        Bell and McCaffrey (2002), Survey Methodology 28.
        """
        row_influences = correct_leverage(influence * weight.sum(), weight, _WHOLE)
        influences, is_counted = np.zeros(n), np.zeros(n, np.bool_)
        influences[places], is_counted[places] = row_influences, True
        estimate = cls(
            value,
            influences,
            sum_squares([row_influences])[1],
            compute_effective_size(weight),
            bounds,
            is_counted=is_counted,
        )
        if clusters is None:
            return estimate
        # Codes of all n rows have no gaps, so the number of codes is at most n.
        sums, weights = (
            np.bincount(clusters[places], values, int(clusters.max()) + 1).astype(np.float64)
            for values in (influence, weight)
        )
        by_cluster = correct_leverage(sums * weights.sum(), weights, _WHOLE)
        present = np.unique(clusters[places])
        largest = compute_effective_size(weights) - 1
        return replace(
            estimate,
            freedom=max(min(largest, sum_squares([by_cluster[present]])[1]), 1.0),
            by_cluster=by_cluster,
            n_clusters=int(present.size),
        )

    @property
    def influences(self) -> Floats:
        """Influences of the clusters or, if rows are not clustered, of the rows."""
        return self.influence if self.by_cluster is None else self.by_cluster

    @property
    def std_error(self) -> float:
        """Standard error, which allows for clusters."""
        return _root_sum_squares(self.influences)

    @cached_property
    def summary(self) -> LinearSummary:
        """The number without its influences."""
        return LinearSummary(
            self.value,
            self.std_error,
            self.freedom,
            self.n_effective,
            self.bounds,
            self.reason,
            None if self.by_cluster is None else _root_sum_squares(self.influence),
            self.n_clusters,
            self.positives,
        )

    def compute_value(self, confidence: float) -> MetricValue:
        """Return the number with its interval, or the reason why it is undefined."""
        return self.summary.compute_value(confidence)

    def subtract(
        self, other: LinearEstimate, bounds: tuple[float, float] = (-math.inf, math.inf)
    ) -> LinearEstimate:
        """Return the difference of two numbers of the same n rows."""
        if self.value is None or other.value is None:
            name, number = ("subgroup", self) if self.value is None else ("background", other)
            return LinearEstimate.undefined(f"{name}: {number.reason}", self.influence.size)
        by_cluster, rows = None, self.influence - other.influence
        counted = None
        if self.is_counted is not None and other.is_counted is not None:
            counted = self.is_counted | other.is_counted
        if self.by_cluster is not None and other.by_cluster is not None:
            by_cluster = self.by_cluster - other.by_cluster
            freedom = min(self.freedom, other.freedom)
        else:
            freedom = sum_squares([rows if counted is None else rows[counted]])[1]
        return LinearEstimate(
            self.value - other.value,
            rows,
            freedom,
            min(self.n_effective, other.n_effective),
            bounds,
            None,
            by_cluster,
            min(self.n_clusters, other.n_clusters),
            self.label_parts + other.negate().label_parts
            if self.positives or other.positives
            else (),
            counted,
        )

    def negate(self) -> LinearEstimate:
        """Return minus the number, so that `subtract` adds two numbers of the same rows."""
        return replace(
            self,
            value=None if self.value is None else -self.value,
            influence=-self.influence,
            bounds=(-self.bounds[1], -self.bounds[0]),
            by_cluster=None if self.by_cluster is None else -self.by_cluster,
            positives=tuple(replace(labels, step=-labels.step) for labels in self.positives),
        )

    def add_labels(
        self, share: float, noise: float, step: float, mixed_clusters: int = 0
    ) -> LinearEstimate:
        """Add the correction for few positives or negatives, if they are few.

        `mixed_clusters` is the number of clusters with a positive or with a negative, whichever is
        smaller.
        """
        n = self.n_effective
        if self.by_cluster is not None:
            row_error = _root_sum_squares(self.influence)
            effect = (self.std_error / row_error) ** 2 if row_error else math.inf
            n = count_independent_rows(n, effect, min(self.n_clusters, n), mixed_clusters)
        if not has_few_errors(share, n + _ROUNDING):
            return self
        return replace(self, positives=(Positives(share, n, noise, step, self.std_error),))

    @property
    def n_drawn(self) -> float:
        """Effective number of rows, or clusters."""
        if self.by_cluster is None:
            return self.n_effective
        return min(self.n_effective, float(self.n_clusters))

    def pair_with(self, other: LinearEstimate) -> NumberPair:
        """Pair this model's number with that of another model on the same rows."""
        if self.value is None or other.value is None:
            return NumberPair(self.summary, other.summary, None)
        drawn = min(self.n_drawn, other.n_drawn)
        return NumberPair(
            self.summary,
            other.summary,
            PairedError.from_influences(self, other, drawn, is_auc=False),
        )

    @property
    def label_parts(self) -> tuple[Positives, ...]:
        """Corrections for few positives; with many positives, only the standard error."""
        return self.positives or (Positives(0.0, 1.0, 0.0, 0.0, self.std_error),)

    @property
    def cluster_count(self) -> int | None:
        """Number of clusters; None if rows are not clustered."""
        return None if self.by_cluster is None else self.n_clusters


def _root_sum_squares(each: Floats) -> float:
    return float(np.sqrt(inner_product(each, each)))
