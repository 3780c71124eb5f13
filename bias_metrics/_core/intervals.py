"""Confidence intervals: the rules for one AUC, and the quantiles behind them.

An AUC's interval is symmetric around the estimate on the logit scale, with DeLong's standard
error. That error is itself an estimate, and its degrees of freedom say how good a one: Student's
quantile allows for it. With fewer than `FEW_ERRORS` errors of the model in the smaller class, that
is not enough:

- with fewer than `FIRM` degrees of freedom, or without a usable standard error, we take the union
  with Newcombe's method 5, which needs no estimated error;
- with fewer than `LOOSE`, a few rows decide almost alone how large the error is, as where most
  toxic comments score far above all harmless ones and a few do not. The sample may have too few of
  these. So we also take the union with Newcombe's interval for as many rows of the other class as
  the smaller one has: near an AUC of 1 it is close to that of a share of rows.

If rows come in clusters, Newcombe's interval is that of as many independent rows as they are worth.
Near an AUC of 1 it is up to 1.4 times as wide as the standard error says. Where that error can be
trusted, since it has `STEADY` degrees of freedom, or since there are `SOME_CLUSTERS` clusters and
these are alike in size, Newcombe's interval is shrunk or stretched to it. Where Newcombe's error
is the larger one, it counts as `GUESSES` further degrees of freedom. Elsewhere we take the union of
Newcombe's and the logit interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics._core.counted import too_few
from bias_metrics._core.ranks import inner

FEW_ERRORS = 20
FIRM, LOOSE = 40, 8
MIN_CLUSTERS, SOME_CLUSTERS = 20, 50
STEADY, GUESSES = 30, 12
ALIKE = 0.6  # of the clusters' number, how many of equal size they are worth
FEW_MIXED = 10


def check_confidence(confidence: float) -> float:
    """Return `confidence`; it must be between 0 and 1, such as 0.95."""
    if not 0 < confidence < 1:
        msg = f"`confidence` must be between 0 and 1, as in 0.95; got {confidence}."
        raise ValueError(msg)
    return float(confidence)


def quantile(confidence: float, degrees_of_freedom: float = math.inf) -> float:
    """Return the two-sided quantile: 1.96 for 0.95; Student's if degrees of freedom are given."""
    return student_quantile(confidence, degrees_of_freedom)


def unseen_reach(fall: float, std_error: float, n_drawn: float, confidence: float) -> float:
    """Return how far a number may be off if one more row falls so far, 0 or below for none.

    The number of fallen rows is skewed, as a Poisson number is: see `with_unseen_loss`.
    """
    fallen, z = max(fall, 0.0) / (n_drawn + 1), quantile(confidence)
    return fallen * (z**2 + 1) / 2 + quantile(confidence, n_drawn) * math.hypot(std_error, fallen)


def two_sided_p(difference: float, std_error: float, degrees_of_freedom: float = math.inf) -> float:
    """Return P(|T| >= |difference| / std_error); 1 if both are 0.

    With the degrees of freedom of an interval it is below 1 - confidence exactly if the symmetric
    interval excludes 0.
    """
    if std_error == 0:
        return 1.0 if difference == 0 else 0.0
    return student_tails(abs(difference) / std_error, degrees_of_freedom)


def effective_number(rows_by_cluster: npt.NDArray[np.float64]) -> float:
    """Return how many clusters of equal size rows in clusters of these sizes are worth."""
    return float(rows_by_cluster.sum()) ** 2 / inner(rows_by_cluster, rows_by_cluster)


def few_clusters(n_clusters: int) -> str | None:
    """Say that there are too few clusters for an interval, if so."""
    return None if n_clusters >= MIN_CLUSTERS else too_few(n_clusters, "cluster", MIN_CLUSTERS)


def independent_rows(n: float, effect: float, least: float, mixed: float = math.inf) -> float:
    """Return how many independent rows clustered ones are worth; at least as many as clusters.

    The design effect is how many times larger the variance is than that of independent rows. It
    cannot be estimated if an event is `mixed`, that is in some rows but not in all, in fewer than
    `FEW_MIXED` clusters: then each cluster counts as one row.
    """
    return least if mixed < FEW_MIXED else max(n / max(effect, 1.0), least)


def few_errors(value: float, *sizes: float) -> bool:
    """Say whether an AUC rests on few errors: rows of the smaller class on the wrong side."""
    return min(sizes) * min(value, 1 - value) < FEW_ERRORS


def auc_interval(
    value: float,
    std_error: float,
    n_negative: float,
    n_positive: float,
    z: float,
    *,
    freedom: float | None = None,
    n_clusters: int | None = None,
    effective: float = 0.0,
) -> tuple[float, float]:
    """Return the confidence interval of one AUC.

    With clusters, the sizes are the independent rows that the rows are worth, and `effective` is
    how many clusters of equal size they are. `freedom`, of `std_error`, is given if `z` is normal
    and does not allow for it; with clusters, if `std_error` may be trusted. The interval has zero
    width only if every score is tied and both classes are large.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44. Newcombe (2006), Statistics in
    Medicine 25, method 5. The rules for few degrees of freedom are ours.
    """
    sizes = (n_negative, n_positive)
    usable = 0 < value < 1 and std_error > 0
    if n_clusters is not None and freedom is not None and usable:
        alike = n_clusters >= SOME_CLUSTERS and effective >= ALIKE * n_clusters
        if alike or freedom >= STEADY:
            stretched = _stretch(value, std_error, sizes, freedom)
            return newcombe_interval(value, *sizes, z * stretched)
    low = high = value
    if 0 < value < 1:
        alone = freedom is not None and n_clusters is None
        reach = _stretched(z, max(freedom or 0.0, LOOSE)) if alone else z
        low, high = logit_interval(value, std_error, reach)
    unions = [sizes] if n_clusters is not None else _cautious_sizes(value, usable, sizes, freedom)
    for of in unions:
        wide_low, wide_high = newcombe_interval(value, *of, z)
        low, high = min(low, wide_low), max(high, wide_high)
    return low, high


def _cautious_sizes(
    value: float,
    usable: bool,  # noqa: FBT001 - a standard error
    sizes: tuple[float, float],
    freedom: float | None,
) -> list[tuple[float, float]]:
    """Return the class sizes for which Newcombe's interval must be within that of single rows."""
    if not few_errors(value, *sizes):
        return [] if usable else [sizes]
    if freedom is None:
        return [sizes]
    if not usable or freedom < LOOSE:
        return [sizes, (min(sizes), min(sizes))]
    return [sizes] if freedom < FIRM else []


def _stretch(value: float, std_error: float, sizes: tuple[float, float], freedom: float) -> float:
    """Return by how much Newcombe's interval is to be stretched."""
    n_negative, n_positive = sizes
    newcombes = value * (1 - value) * _spread(value, *sizes) / (n_negative * n_positive)
    own = std_error**2 / newcombes
    return math.sqrt(own + max(1 - own, 0.0) * GUESSES / (freedom + GUESSES))


def _stretched(z: float, freedom: float) -> float:
    """Return Student's quantile at the confidence of a normal one."""
    return quantile(math.erf(z / math.sqrt(2)), freedom)


def logit_interval(value: float, std_error: float, z: float) -> tuple[float, float]:
    """Return the interval that is symmetric on the logit scale; `value` strictly in (0, 1)."""
    centre = math.log(value) - math.log1p(-value)
    reach = z * std_error / (value * (1 - value))
    return _expit(centre - reach), _expit(centre + reach)


def newcombe_interval(
    value: float, n_negative: float, n_positive: float, z: float
) -> tuple[float, float]:
    """Return Newcombe's method 5: the AUCs from which `value` is `z` standard errors away.

    The standard error is Hanley and McNeil's at that AUC, with both class sizes replaced by
    their mean in the numerator, so the interval is never of zero width and stays in [0, 1].
    """
    low = _newcombe_low(value, n_negative, n_positive, z)
    return low, 1 - _newcombe_low(1 - value, n_negative, n_positive, z)


def _newcombe_low(value: float, n_negative: float, n_positive: float, z: float) -> float:
    share = z * z / (n_negative * n_positive)

    def excess(auc: float) -> float:
        """Return the squared distance less that of `z` standard errors, both over 1 - `auc`."""
        below = value - auc
        of_room = 1.0 if value == 1 else below / (1 - auc)
        return below * of_room - share * auc * _spread(auc, n_negative, n_positive)

    return 0.0 if value == 0 else root(excess, 0.0, value)


def _spread(auc: float, n_negative: float, n_positive: float) -> float:
    """Return Hanley and McNeil's variance over what it would be if all pairs were independent."""
    n = (n_negative + n_positive) / 2 - 1
    return 1 + n * ((1 - auc) / (2 - auc) + auc / (1 + auc))


def root(function: Callable[[float], float], one_end: float, other_end: float) -> float:
    """Return a root of a function whose signs at the two ends differ.

    References
    ----------
    M. Dowell and P. Jarratt (1971). A modified regula falsi method ("Illinois"). BIT 11, 168-174.
    """
    kept, last = one_end, other_end
    at_kept, at_last = function(kept), function(last)
    while at_last and abs(kept - last) > _CLOSE:
        root = last - at_last * (last - kept) / (at_last - at_kept)
        at_root = function(root)
        if root == last:
            break
        if (at_root > 0) == (at_last > 0):
            at_kept /= 2
        else:
            kept, at_kept = last, at_last
        last, at_last = root, at_root
    return last


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


# ---- Student's distribution: its tails and quantiles, for any degrees of freedom.
#
# P(|T| >= t) with nu degrees of freedom is the regularised incomplete beta function at nu / (nu +
# t^2), which is computed as a continued fraction


# With more degrees of freedom the distribution is taken as normal; errors are below 1e-6.
_MANY = 1e6
_CLOSE = 1e-14
_FAR = 3.0
# With as many degrees of freedom, a few terms of the expansion are close to a quantile.
_EXPANDED = 8.0
_NORMAL = NormalDist()


def student_tails(t: float, freedom: float) -> float:
    """Return P(|T| >= t) for t of at least 0; the normal tails if `freedom` is infinite.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 8.17.4 and 8.17.22.
    """
    if freedom > _MANY:
        return math.erfc(t / math.sqrt(2))
    share, rest = freedom / (freedom + t * t), t * t / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if t * t > _FAR:  # the fraction converges fast on one side of it
        return beta_share(share, rest, a, b)
    return 1 - beta_share(rest, share, b, a)


@lru_cache(maxsize=4096)
def student_quantile(confidence: float, freedom: float) -> float:
    """Return the t with P(|T| >= t) = 1 - confidence.

    Newton's method, from the start of the expansion in 1 / freedom where that is close. Its error
    after a step is about the square of the step.

    References
    ----------
    M. Abramowitz and I. A. Stegun (1964). Handbook of Mathematical Functions, 26.7.5.
    """
    z = _NORMAL.inv_cdf(0.5 + confidence / 2)
    if freedom > _MANY:
        return z
    t = z
    if freedom > _EXPANDED:
        t += z * (z**2 + 1) / (4 * freedom)
        t += z * (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2)
    while True:
        step = (student_tails(t, freedom) - (1 - confidence)) / (2 * _density(t, freedom))
        t += step
        if abs(step) <= 1e-6 * t:
            return t


def _density(t: float, freedom: float) -> float:
    log = (
        math.lgamma((freedom + 1) / 2)
        - math.lgamma(freedom / 2)
        - math.log(freedom * math.pi) / 2
        - (freedom + 1) / 2 * math.log1p(t * t / freedom)
    )
    return math.exp(log)


def beta_share(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b); `rest` is 1 - x."""
    if x == 0 or rest == 0:
        return float(rest == 0)
    log = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    return math.exp(log) / a / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """Return 1 + d1 / (1 + d2 / (1 + ...)), by Lentz's method."""
    value, above, below = 1.0, 1.0, 0.0
    k = 0
    while True:
        odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        even = (k + 1) * (b - k - 1) * x / ((a + 2 * k + 1) * (a + 2 * k + 2))
        for d in (odd, even):
            below, above = 1 / (1 + d * below), 1 + d / above
            value *= above * below
        if abs(above * below - 1) < _CLOSE:
            return value
        k += 1
