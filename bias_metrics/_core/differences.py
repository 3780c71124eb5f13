"""The difference of a metric between two models on the same rows, with paired intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from bias_metrics._core.covariance import JointMoments
from bias_metrics._core.intervals import (
    compute_p_value,
    compute_unseen_reach,
    explain_few_clusters,
    student_quantile,
)
from bias_metrics._core.ranks import Floats, inner_product
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import Estimate, MetricValue

_IF_ANY = {"reason", "n_clusters", "size_low", "size_high"}


@dataclass(frozen=True, repr=False)
class Difference(Estimate, Tabular):
    """A metric of two models on the same rows, and the first value minus the second."""

    first: float | None
    second: float | None
    """The metric under each model."""
    value: float | None = None
    """`first - second`; None if either is undefined."""
    std_error: float | None = None
    low: float | None = None
    high: float | None = None
    """Standard error and paired confidence interval of `value`."""
    p_value: float | None = None
    """Two-sided p-value of the hypothesis of no difference."""
    reason: str | None = None
    """Why a number is None."""
    p_holm: float | None = None
    p_bh: float | None = None
    """`p_value` adjusted for all cells of the comparison: Holm controls the family-wise error rate,
    Benjamini and Hochberg the false discovery rate."""
    n_clusters: int | None = None
    """Number of clusters, if the standard error allows for clusters."""
    size_low: float | None = None
    size_high: float | None = None
    """For a gap (AEG): bounds on `|first| - |second|`, the change of its size. They have the same
    confidence whatever the signs, and are 0 or less for identical scores."""

    def set_adjusted_p(self, p_holm: float | None, p_bh: float | None) -> Difference:
        """Return the difference with its adjusted p-values."""
        difference = replace(self, p_holm=p_holm, p_bh=p_bh)
        return difference if self._measure is None else difference.attach_measure(self._measure)

    def change_confidence(self, confidence: float) -> Difference:
        """Return the difference with its interval at another confidence; see `Estimate`."""
        return super().change_confidence(confidence).set_adjusted_p(self.p_holm, self.p_bh)

    def is_non_inferior(self, margin: float) -> bool | None:
        """Test whether the first model is non-inferior: not worse than the second by `margin`.

        A higher AUC is better. A smaller gap is better, whatever its sign.

        Returns
        -------
        bool or None
            True: non-inferior; False: significantly worse by more than `margin`; None: undecided.
        """
        if self.size_low is not None and self.size_high is not None:
            return True if self.size_high < margin else False if self.size_low > margin else None
        if self.low is None or self.high is None:
            return None
        return True if self.low > -margin else False if self.high < -margin else None

    def is_equivalent(self, margin: float) -> bool | None:
        """Test whether the two models are equivalent: they differ by less than `margin`.

        Returns
        -------
        bool or None
            True: the interval is within the margin on both sides; False: it is outside; None:
            undecided.
        """
        if self.low is None or self.high is None:
            return None
        if -margin < self.low and self.high < margin:
            return True
        return False if self.low > margin or self.high < -margin else None

    def is_significant(self, confidence: float) -> bool:
        """Test for a difference, by Holm's adjusted p-value and by the interval."""
        if self.low is None or self.high is None or self.p_holm is None:
            return False
        return self.p_holm <= 1 - confidence and not self.low <= 0 <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; reason, clusters and sizes only if defined."""
        [values] = self.rows()
        return {
            name: number
            for name, number in values.items()
            if name not in _IF_ANY or number is not None
        }

    def rows(self) -> list[Row]:
        """Return a single record."""
        return [{field.name: getattr(self, field.name) for field in fields(self)}]

    def __str__(self) -> str:
        if self.value is None:
            return f"undefined ({self.reason})"
        if self.low is None or self.high is None:
            return f"{self.value:+.3f}"
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


# ---- The interval of a difference of two estimates from the same rows


# Below this share of the estimates' variances, the variance of a difference is rounding error.
_ROUNDING = 1e-12
# Factor of a difference's skewness. Hall's transformation ignores terms that are not small if few
# rows are out of order. With a factor of 1, claims of non-inferiority are false in 5.0 to 5.9 of
# 100 samples of 500 positives near an AUC of 1; with this factor, in 5.
_CAUTION = 1.5
# The sign of a gap counts as certain if the gap is more than this many standard errors from 0.
SURE = 3.0


def subtract_values(a: MetricValue, b: MetricValue) -> float | None:
    """Return a - b, or None if either is undefined."""
    return None if a.value is None or b.value is None else a.value - b.value


def make_undefined_difference(a: MetricValue, b: MetricValue) -> Difference:
    """Return a difference without an interval, and the reason."""
    reason = a.reason or b.reason or "one of the two has no standard error"
    return Difference(a.value, b.value, subtract_values(a, b), reason=reason)


def make_symmetric_difference(
    a: MetricValue,
    b: MetricValue,
    std_error: float,
    confidence: float,
    freedom: float = math.inf,
) -> Difference:
    """Return a difference with a symmetric interval."""
    value, z = subtract_values(a, b), student_quantile(confidence, freedom)
    assert value is not None  # noqa: S101
    return Difference(
        a.value,
        b.value,
        value,
        std_error,
        value - z * std_error,
        value + z * std_error,
        compute_p_value(value, std_error, freedom),
    )


class HasInfluences(Protocol):
    """Influences of rows or clusters on a number: `LinearEstimate` or `ClusterSums`."""

    @property
    def influences(self) -> Floats:
        """The influences."""

    @property
    def std_error(self) -> float:
        """Standard error: the root of the sum of squared influences."""

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard error."""

    @property
    def cluster_count(self) -> int | None:
        """Number of clusters; None if rows are not clustered."""

    def subtract(self, other: Any, /) -> HasInfluences:
        """Return the influences on the difference of two numbers of the same rows."""


@dataclass(frozen=True)
class PairedError:
    """Joint error of two numbers of the same rows; their difference is computed without rows."""

    joint_moments: JointMoments
    freedom: float = math.inf
    """Degrees of freedom of the difference's standard error."""
    is_small: bool = True
    """True if the interval is computed from the numbers' own intervals."""
    n_clusters: int | None = None
    """Number of clusters; None if rows are not clustered."""
    std_error: float = 0.0
    """Standard error of the difference, for clustered rows."""
    n_drawn: float = math.inf
    """Effective number of rows, or clusters, of the smaller class: see `widen_for_unseen_loss`."""
    is_auc: bool = True
    """True for AUCs and AEGs."""

    @classmethod
    def from_influences(
        cls,
        first: HasInfluences,
        second: HasInfluences,
        n_drawn: float = math.inf,
        *,
        is_auc: bool = True,
    ) -> PairedError:
        """Compute the joint error from the influences on both numbers."""
        difference = first.subtract(second)
        joint_moments = JointMoments(inner_product(first.influences, second.influences))
        n_clusters = difference.cluster_count
        return cls(
            joint_moments,
            difference.freedom,
            n_clusters=n_clusters,
            std_error=0.0 if n_clusters is None else difference.std_error,
            n_drawn=n_drawn,
            is_auc=is_auc,
        )

    def compute_difference(
        self, a: MetricValue, b: MetricValue, confidence: float, *, is_gap: bool = False
    ) -> Difference:
        """Return the difference of two numbers with intervals at this confidence."""
        n_clusters = self.n_clusters
        if n_clusters is not None and (reason := explain_few_clusters(n_clusters)):
            result = Difference(
                a.value, b.value, subtract_values(a, b), self.std_error, reason=reason
            )
        else:

            def subtract_pair(b: MetricValue, joint_moments: JointMoments) -> Difference:
                difference = compute_paired_difference(
                    a, b, joint_moments, confidence, self.freedom, small=self.is_small
                )
                is_auc = self.is_auc and not is_gap
                return widen_for_unseen_loss(difference, self.n_drawn, confidence, is_auc=is_auc)

            result = subtract_pair(b, self.joint_moments)
            if is_gap:
                result = bound_size_change(
                    result,
                    subtract_pair(negate_value(b), self.joint_moments.negate_second()),
                    b,
                    confidence,
                )
        return result if n_clusters is None else replace(result, n_clusters=n_clusters)


def compute_paired_difference(
    a: MetricValue,
    b: MetricValue,
    joint_moments: JointMoments,
    confidence: float,
    freedom: float = math.inf,
    *,
    small: bool,
) -> Difference:
    """Return the difference of two estimates from the same rows.

    With few rows in a class (`small`), or if an estimate has a standard error of 0, the interval is
    computed from the estimates' own intervals (see `_compute_reach`). Otherwise it is computed from
    the error of the difference, and allows for skewness (see `compute_skewed_reach`). It has zero
    width if both models rank the rows alike; `widen_for_unseen_loss` widens it.
    """
    assert a.std_error is not None  # noqa: S101
    assert b.std_error is not None  # noqa: S101
    product = a.std_error * b.std_error
    variance = max(a.std_error**2 + b.std_error**2 - 2 * joint_moments.covariance, 0.0)
    value = subtract_values(a, b)
    assert value is not None  # noqa: S101
    if product > 0 and variance <= _ROUNDING * product:  # the same ranks, apart from rounding
        return make_symmetric_difference(a, b, 0.0, confidence)
    std_error = math.sqrt(variance)
    if small or product == 0:
        correlation = joint_moments.covariance / product if product > 0 else 0.0
        down, up = (_compute_reach(a, b, correlation, upwards=upwards) for upwards in (False, True))
    else:
        z = student_quantile(confidence, freedom)
        skewness = _CAUTION * joint_moments.third_moment / std_error**3
        down, up = (std_error * distance for distance in compute_skewed_reach(z, skewness))
    p_value = compute_p_value(value, std_error, freedom)
    return Difference(a.value, b.value, value, std_error, value - down, value + up, p_value)


def widen_for_unseen_loss(
    difference: Difference, n_drawn: float, confidence: float, *, is_auc: bool
) -> Difference:
    """Widen the interval of a difference for a loss in rows that were not drawn.

    A model may rank a few rows worse and all others alike. Nearly all differences of single rows
    are then 0, and their variance contains no information about undrawn rows. So a row is added to
    the smaller class, which has effectively `n_drawn` rows or clusters. Under either model, it
    falls to the middle of the scores that it is compared with; numbers other than AUCs move by 1/2
    of its weight. The number of fallen rows is skewed like a Poisson number: its upper limit is
    `(z^2 - 1) / 3` rows above the normal limit. A row whose fall is uniform between its place and
    the other end weighs 3/2 of the mean fall.

    Notes
    -----
    By simulation (`tests/bias_metrics/report/test_losses_in_few_rows.py`), a loss equal to the
    margin passes at most as often as the confidence allows, whichever rows it affects.

    References
    ----------
    Agresti and Coull (1998), The American Statistician 52 (added rows). Wilson and Hilferty (1931),
    PNAS 17 (the skewness of limits of a Poisson number).
    """
    if difference.low is None or difference.high is None or n_drawn == math.inf:
        return difference
    assert difference.value is not None  # noqa: S101
    down, up = (
        compute_unseen_reach(
            (model_value or 0.0) - 0.5 if is_auc else 0.5,
            difference.std_error or 0.0,
            n_drawn,
            confidence,
        )
        for model_value in (difference.first, difference.second)
    )
    low, high = difference.value - down, difference.value + up
    return replace(difference, low=min(difference.low, low), high=max(difference.high, high))


def widen_for_unseen_rows(difference: Difference, error: float, confidence: float) -> Difference:
    """Widen the interval of a difference of aggregates for rows that were not drawn.

    `error` is the standard error due to these rows, independent of the difference's own.
    """
    if difference.value is None or difference.low is None or difference.high is None or not error:
        return difference
    reach = student_quantile(confidence) * error
    down, up = (
        math.hypot(difference.value - end, reach) for end in (difference.low, difference.high)
    )
    return replace(difference, low=difference.value - down, high=difference.value + up)


def compute_skewed_reach(z: float, skewness: float) -> tuple[float, float]:
    """Return the distances of an interval's ends from the estimate, in standard errors.

    If an estimate is skewed, its t statistic is skewed in the opposite direction: with a long tail
    of high values, large underestimates are more frequent than the standard error suggests. Hall's
    transformation corrects for this. The distances are never below `z`, because the skewness is
    estimated from the same few rows.

    References
    ----------
    Hall (1992), Journal of the Royal Statistical Society B 54, 221-228.
    """
    if abs(skewness) < _ROUNDING:
        return z, z

    def distance(point: float) -> float:
        return 3 / skewness * (math.cbrt(1 + skewness * (point - skewness / 6)) - 1)

    return max(distance(z), z), max(-distance(-z), z)


def negate_value(b: MetricValue) -> MetricValue:
    """Return -b, so that a sum is a difference: a + b = a - (-b)."""
    value, low, high = (None if end is None else -end for end in (b.value, b.high, b.low))
    return replace(b, value=value, low=low, high=high)


def bound_size_change(
    difference: Difference, total: Difference, second: MetricValue, confidence: float
) -> Difference:
    """Return the difference of two gaps with bounds on |first| - |second|.

    Upper bound: for either sign s, |first| - |second| is at most the larger of
    s (first - second) and -s (first + second). We take the sign of the second gap's estimate as
    s, and the larger of these two upper bounds. The change is also at most |first - second|. We use
    that bound if it is tighter, as for nearly equal gaps around 0, whose sign is unclear. Unless
    the sign of the second gap is certain, the estimate could have selected either sign. Each sign
    then gets half of the error that `confidence` allows.

    Lower bound: |first| is larger than |second| only if first - second and first + second are both
    above 0 or both below 0. So both must be significant: an intersection-union test, which needs no
    wider intervals. The signs of the estimates are not used: two gaps of equal size and opposite
    sign may both have been estimated on the same side of 0.

    References
    ----------
    Berger (1982), Technometrics 24, 295-300 (intersection-union tests).
    """
    if None in {difference.low, difference.high, total.low, total.high}:
        return difference
    assert second.value is not None  # noqa: S101
    assert second.std_error is not None  # noqa: S101
    sure = abs(second.value) > SURE * second.std_error
    wider = 1.0 if sure else student_quantile((1 + confidence) / 2) / student_quantile(confidence)
    turned = second.value < 0
    difference_ends, total_ends = (
        _widen_ends(number, wider, turned=turned) for number in (difference, total)
    )
    unwidened = [_widen_ends(number, 1.0, turned=False) for number in (difference, total)]
    both = min(low for low, _ in unwidened), max(high for _, high in unwidened)
    return replace(
        difference,
        size_low=max(both[0], -both[1]),
        size_high=max(difference_ends[1], min(-total_ends[0], -difference_ends[0])),
    )


def _widen_ends(difference: Difference, wider: float, *, turned: bool) -> tuple[float, float]:
    """Return the ends of a widened interval; if `turned`, of the negated number."""
    assert difference.value is not None  # noqa: S101
    assert difference.low is not None  # noqa: S101
    assert difference.high is not None  # noqa: S101
    low, high = (
        difference.value + wider * (end - difference.value)
        for end in (difference.low, difference.high)
    )
    return (-high, -low) if turned else (low, high)


def _compute_reach(a: MetricValue, b: MetricValue, correlation: float, *, upwards: bool) -> float:
    """Return the distance from the estimate of `a - b` to an end of its interval.

    With correlation 0 this is Zou's rule: the hypotenuse of the distances of `a` to an end of its
    interval, and of `b` to the opposite end of its own. With correlation 1 both are at the same end
    of their intervals, the end that moves their difference farther in this direction. The distance
    is then 0 for identical scores. Correlations between 0 and 1 are interpolated. In large cells,
    whose intervals are symmetric, this is the usual paired interval whatever the correlation.
    """
    a_distance = _compute_distance(a, upwards=upwards)
    b_distance = _compute_distance(b, upwards=not upwards)
    independent = a_distance**2 + b_distance**2
    if correlation <= 0:
        return math.sqrt(independent - 2 * correlation * a_distance * b_distance)
    correlation = min(correlation, 1.0)
    correlated = max(
        a_distance - _compute_distance(b, upwards=upwards),
        b_distance - _compute_distance(a, upwards=not upwards),
        0.0,
    )
    return math.sqrt((1 - correlation) * independent + correlation * correlated**2)


def _compute_distance(value: MetricValue, *, upwards: bool) -> float:
    end = value.high if upwards else value.low
    assert value.value is not None  # noqa: S101
    assert end is not None  # noqa: S101 - with a standard error there is an interval
    return abs(end - value.value)
