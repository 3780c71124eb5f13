"""One metric of two models on the same rows, and what its interval shows."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from bias_metrics._core.covariance import Joint
from bias_metrics._core.intervals import few_clusters, quantile, two_sided_p, unseen_reach
from bias_metrics._core.ranks import Floats, inner
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import Estimate, MetricValue

_IF_ANY = {"reason", "n_clusters", "size_low", "size_high"}


@dataclass(frozen=True, repr=False)
class Difference(Estimate, Tabular):
    """One metric of two models on the same rows, and the first minus the second."""

    first: float | None
    second: float | None
    """The metric under each model."""
    value: float | None = None
    """`first - second`; None if either is undefined."""
    std_error: float | None = None
    low: float | None = None
    high: float | None = None
    """Standard error and confidence interval of `value`, the two models paired."""
    p_value: float | None = None
    """Two-sided p-value for no difference."""
    reason: str | None = None
    """Why something is None."""
    p_holm: float | None = None
    p_bh: float | None = None
    """`p_value` adjusted for all cells of the comparison: Holm controls the chance of any error,
    Benjamini and Hochberg the share of errors among the findings."""
    n_clusters: int | None = None
    """Number of clusters behind the metric, if the error allows for clusters."""
    size_low: float | None = None
    size_high: float | None = None
    """For a gap (AEG): bounds on `|first| - |second|`, how much wider the first gap is than the
    second, at the same confidence whatever the signs; 0 or less for identical scores."""

    def adjusted(self, p_holm: float | None, p_bh: float | None) -> Difference:
        """Return the difference with its adjusted p-values."""
        found = replace(self, p_holm=p_holm, p_bh=p_bh)
        return found if self._measure is None else found.measured_by(self._measure)

    def at(self, confidence: float) -> Difference:
        """Return the difference with its interval at another confidence: see `Estimate`."""
        return super().at(confidence).adjusted(self.p_holm, self.p_bh)

    def not_worse_by(self, margin: float) -> bool | None:
        """Say whether the first model is significantly not worse by `margin`.

        Of an AUC, higher is better. Of a gap, the size counts: either sign is harm, and a gap that
        shrinks is better. True: significantly not worse by `margin` (non-inferior); False:
        significantly worse by more; None: undecided.
        """
        if self.size_low is not None and self.size_high is not None:
            return True if self.size_high < margin else False if self.size_low > margin else None
        if self.low is None or self.high is None:
            return None
        return True if self.low > -margin else False if self.high < -margin else None

    def within(self, margin: float) -> bool | None:
        """Say whether the two are shown to differ by less than `margin`.

        True: the interval lies within the margin on both sides; False: it lies outside;
        None: neither.
        """
        if self.low is None or self.high is None:
            return None
        if -margin < self.low and self.high < margin:
            return True
        return False if self.low > margin or self.high < -margin else None

    def shown(self, confidence: float) -> bool:
        """Say whether the two differ, by the p-value adjusted by Holm and by the interval."""
        if self.low is None or self.high is None or self.p_holm is None:
            return False
        return self.p_holm <= 1 - confidence and not self.low <= 0 <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; reason, clusters and sizes only if they exist."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            key: value for key, value in found.items() if key not in _IF_ANY or value is not None
        }

    def rows(self) -> list[Row]:
        """Return one record."""
        return [{field.name: getattr(self, field.name) for field in fields(self)}]

    def __str__(self) -> str:
        if self.value is None:
            return f"undefined ({self.reason})"
        if self.low is None or self.high is None:
            return f"{self.value:+.3f}"
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


# ---- The interval of a difference of two estimates from the same rows


# A variance of a difference below this share of the estimates' own variances is rounding error.
_ROUNDING = 1e-12
# The skewness of a difference is multiplied by this. Hall's transformation ignores terms that
# are not small when few rows are out of order: with a factor of 1, claims of being not worse are
# false in 5.0 to 5.9 of 100 samples of 500 positives near an AUC of 1; with this one, in 5.
_CAUTION = 1.5
# The sign of a gap is taken as certain if it is more than this many standard errors from 0.
SURE = 3.0


def less(a: MetricValue, b: MetricValue) -> float | None:
    """Return a - b if both are defined."""
    return None if a.value is None or b.value is None else a.value - b.value


def undefined_difference(a: MetricValue, b: MetricValue) -> Difference:
    """Return a difference without uncertainty, with the reason."""
    reason = a.reason or b.reason or "one of the two has no standard error"
    return Difference(a.value, b.value, less(a, b), reason=reason)


def symmetric(
    a: MetricValue,
    b: MetricValue,
    std_error: float,
    confidence: float,
    freedom: float = math.inf,
) -> Difference:
    """Return a difference whose interval reaches as far on both sides."""
    value, z = less(a, b), quantile(confidence, freedom)
    assert value is not None  # noqa: S101
    return Difference(
        a.value,
        b.value,
        value,
        std_error,
        value - z * std_error,
        value + z * std_error,
        two_sided_p(value, std_error, freedom),
    )


class Spread(Protocol):
    """How far rows or clusters move a number, and what they are worth: Estimate or ClusterSums."""

    @property
    def each(self) -> Floats:
        """The influences."""

    @property
    def std_error(self) -> float:
        """Their root sum of squares."""

    @property
    def freedom(self) -> float:
        """Its degrees of freedom."""

    @property
    def in_clusters(self) -> int | None:
        """How many clusters are behind the number; None if rows come in no clusters."""

    def minus(self, other: Any, /) -> Spread:
        """Return the same of the difference of two numbers of the same rows."""


@dataclass(frozen=True)
class Apart:
    """How two numbers of the same rows vary together: their difference needs no rows."""

    together: Joint
    """Their covariance, and third moments."""
    freedom: float = math.inf
    """Degrees of freedom of the difference's standard error."""
    small: bool = True
    """Whether the interval is that of the numbers' own ones."""
    n_clusters: int | None = None
    """Clusters behind the difference; None if rows come in no clusters."""
    std_error: float = 0.0
    """With clusters: its standard error."""
    n_drawn: float = math.inf
    """How many rows, or clusters, the smaller compared class is worth: see `with_unseen_loss`."""
    of_auc: bool = True
    """Whether the numbers are AUCs or AEGs."""

    @classmethod
    def of(
        cls, of_a: Spread, of_b: Spread, n_drawn: float = math.inf, *, of_auc: bool = True
    ) -> Apart:
        """Compare the influences on two numbers."""
        apart = of_a.minus(of_b)
        together = Joint(inner(of_a.each, of_b.each), (0.0, 0.0, 0.0, 0.0))
        n_clusters = apart.in_clusters
        error = 0.0 if n_clusters is None else apart.std_error
        return cls(
            together,
            apart.freedom,
            n_clusters=n_clusters,
            std_error=error,
            n_drawn=n_drawn,
            of_auc=of_auc,
        )

    def difference(
        self, a: MetricValue, b: MetricValue, confidence: float, *, is_gap: bool = False
    ) -> Difference:
        """Return the difference of the two numbers, whose intervals have this confidence."""
        n_clusters = self.n_clusters
        if n_clusters is not None and (reason := few_clusters(n_clusters)):
            found = Difference(a.value, b.value, less(a, b), self.std_error, reason=reason)
        else:

            def apart(b: MetricValue, together: Joint) -> Difference:
                found = paired(a, b, together, confidence, self.freedom, small=self.small)
                of_auc = self.of_auc and not is_gap
                return with_unseen_loss(found, self.n_drawn, confidence, of_auc=of_auc)

            found = apart(b, self.together)
            if is_gap:
                found = sized(found, apart(negated(b), self.together.negated()), b, confidence)
        return found if n_clusters is None else replace(found, n_clusters=n_clusters)


def paired(
    a: MetricValue,
    b: MetricValue,
    together: Joint,
    confidence: float,
    freedom: float = math.inf,
    *,
    small: bool,
) -> Difference:
    """Return the difference of two estimates from the same rows.

    With few rows in a class (`small`), or if an estimate has no error of its own, the interval is
    computed from the estimates' own intervals (see `_reach`); otherwise from the error of the
    difference, stretched if it is skewed (see `skewed_reach`). It has zero width if both models
    rank the rows alike, which `with_unseen_loss` widens.
    """
    assert a.std_error is not None  # noqa: S101
    assert b.std_error is not None  # noqa: S101
    product = a.std_error * b.std_error
    variance = max(a.std_error**2 + b.std_error**2 - 2 * together.covariance, 0.0)
    value = less(a, b)
    assert value is not None  # noqa: S101
    if product > 0 and variance <= _ROUNDING * product:  # the same ranks, apart from rounding
        return symmetric(a, b, 0.0, confidence)
    std_error = math.sqrt(variance)
    if small or product == 0:
        correlation = together.covariance / product if product > 0 else 0.0
        down, up = (_reach(a, b, correlation, upwards=upwards) for upwards in (False, True))
    else:
        z = quantile(confidence, freedom)
        skewness = _CAUTION * together.third / std_error**3
        down, up = (std_error * one for one in skewed_reach(z, skewness))
    p_value = two_sided_p(value, std_error, freedom)
    return Difference(a.value, b.value, value, std_error, value - down, value + up, p_value)


def with_unseen_loss(
    found: Difference, n_drawn: float, confidence: float, *, of_auc: bool
) -> Difference:
    """Return a difference whose interval allows for a loss in rows of which none was drawn.

    A model may lose in a few rows and be the same in all others. The differences of single rows
    are then nearly all 0, and their deviation says nothing of the rows that were not drawn. So one
    row is added to the smaller compared class, which falls, under one of the models, to the middle
    of the scores that it is compared with. The number of fallen rows is skewed, as a Poisson
    number is: its upper limit is `(z^2 - 1) / 3` rows farther than the normal one, and a fallen row
    that is spread evenly between its place and the other end weighs 3/2 of the mean one.

    Parameters
    ----------
    found : Difference
        With an interval.
    n_drawn : float
        How many rows, or clusters, of equal weight the class is worth.
    confidence : float
        Of the interval.
    of_auc : bool
        Whether the numbers are AUCs; a row moves another number by 1/2 of its weight.

    Notes
    -----
    By simulation (`tests/bias_metrics/report/test_losses_in_few_rows.py`), a loss of just the
    margin passes in at most the asked share, whatever the rows that it sits in.

    References
    ----------
    Agresti and Coull (1998), The American Statistician 52 (added rows). Wilson and Hilferty (1931),
    PNAS 17 (the skewness of limits of a Poisson number).
    """
    if found.low is None or found.high is None or n_drawn == math.inf:
        return found
    assert found.value is not None  # noqa: S101
    down, up = (
        unseen_reach(
            (of_model or 0.0) - 0.5 if of_auc else 0.5, found.std_error or 0.0, n_drawn, confidence
        )
        for of_model in (found.first, found.second)
    )
    low, high = min(found.low, found.value - down), max(found.high, found.value + up)
    return replace(found, low=low, high=high)


def with_unseen(found: Difference, error: float, confidence: float) -> Difference:
    """Return the difference of two aggregates, which may be off by rows that were not drawn.

    Parameters
    ----------
    error : float
        By how much: as a standard error, independent of the difference's own.
    """
    if found.value is None or found.low is None or found.high is None or not error:
        return found
    reach = quantile(confidence) * error
    down, up = (math.hypot(found.value - end, reach) for end in (found.low, found.high))
    return replace(found, low=found.value - down, high=found.value + up)


def skewed_reach(z: float, skewness: float) -> tuple[float, float]:
    """Return how many standard errors an interval reaches down and up from its estimate.

    If an estimate is skewed, its distance from the truth in standard errors is skewed in the
    opposite direction: with a long tail of high values, it is too low by a large amount more
    often than it seems. Hall's transformation corrects this. It never makes the interval shorter
    than `z`, because the skewness itself is estimated from the same few rows.

    References
    ----------
    Hall (1992), Journal of the Royal Statistical Society B 54, 221-228.
    """
    if abs(skewness) < _ROUNDING:
        return z, z

    def distance(point: float) -> float:
        return 3 / skewness * (math.cbrt(1 + skewness * (point - skewness / 6)) - 1)

    return max(distance(z), z), max(-distance(-z), z)


def negated(b: MetricValue) -> MetricValue:
    """Return -b, so that a sum is a difference: a + b = a - (-b)."""
    value, low, high = (None if one is None else -one for one in (b.value, b.high, b.low))
    return replace(b, value=value, low=low, high=high)


def sized(
    difference: Difference, total: Difference, second: MetricValue, confidence: float
) -> Difference:
    """Return the difference of two gaps with bounds on how much larger the first one's size is.

    Upper bound: whatever the sign s, |first| - |second| is at most the larger of
    s (first - second) and -s (first + second). We take the sign of the second gap's estimate as
    s, and the larger of these two upper bounds. Nor is it ever more than |first - second|: if
    that gives a tighter bound (nearly equal gaps around zero, whose sign is unclear), we use it.
    Unless the sign of the second gap is certain, the estimate could have picked either sign, so
    each sign gets half of the error that `confidence` allows.

    Lower bound: |first| is larger than |second| only if first - second and first + second
    are both above 0, or both below it, so both must be shown (an intersection-union test, which
    needs no wider intervals). The signs of the estimates are not used: two gaps of the same size
    and opposite sign may both have been estimated on the same side of 0.

    References
    ----------
    Berger (1982), Technometrics 24, 295-300 (intersection-union tests).
    """
    if None in {difference.low, difference.high, total.low, total.high}:
        return difference
    assert second.value is not None  # noqa: S101
    assert second.std_error is not None  # noqa: S101
    sure = abs(second.value) > SURE * second.std_error
    wider = 1.0 if sure else quantile((1 + confidence) / 2) / quantile(confidence)
    turned = second.value < 0
    apart, against = (_ends(one, wider, turned=turned) for one in (difference, total))
    plain = [_ends(one, 1.0, turned=False) for one in (difference, total)]
    both = min(low for low, _ in plain), max(high for _, high in plain)
    return replace(
        difference,
        size_low=max(both[0], -both[1]),
        size_high=max(apart[1], min(-against[0], -apart[0])),
    )


def _ends(difference: Difference, wider: float, *, turned: bool) -> tuple[float, float]:
    """Return the ends of a widened interval; if `turned`, those for the negated number."""
    assert difference.value is not None  # noqa: S101
    assert difference.low is not None  # noqa: S101
    assert difference.high is not None  # noqa: S101
    low, high = (
        difference.value + wider * (end - difference.value)
        for end in (difference.low, difference.high)
    )
    return (-high, -low) if turned else (low, high)


def _reach(a: MetricValue, b: MetricValue, correlation: float, *, upwards: bool) -> float:
    """Return how far the interval of `a - b` reaches from the estimate.

    With correlation 0 this is Zou's rule: the hypotenuse of the distance of `a` to one end of
    its interval and of `b` to the opposite end of its own. With correlation 1 both are at the
    same end of their intervals, the end that moves their difference farther in this direction:
    0 for the same scores. Values in between are interpolated. In large cells, where intervals
    are symmetric, this is the usual paired interval whatever the correlation.
    """
    to_a = _distance(a, upwards=upwards)
    to_b = _distance(b, upwards=not upwards)
    apart = to_a**2 + to_b**2
    if correlation <= 0:
        return math.sqrt(apart - 2 * correlation * to_a * to_b)
    correlation = min(correlation, 1.0)
    together = max(
        to_a - _distance(b, upwards=upwards), to_b - _distance(a, upwards=not upwards), 0.0
    )
    return math.sqrt((1 - correlation) * apart + correlation * together**2)


def _distance(value: MetricValue, *, upwards: bool) -> float:
    end = value.high if upwards else value.low
    assert value.value is not None  # noqa: S101
    assert end is not None  # noqa: S101 - with a standard error there is an interval
    return abs(end - value.value)
