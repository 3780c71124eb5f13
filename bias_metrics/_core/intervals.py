"""Confidence intervals of an AUC, and the quantiles that they use.

The interval of an AUC is symmetric around the estimate on the logit scale, with DeLong's standard
error. That error is itself an estimate. Student's quantile allows for its degrees of freedom. This
does not suffice if the smaller class has fewer than `FEW_ERRORS` errors of the model:

- With fewer than `FIRM` degrees of freedom, or without a usable standard error, we take the union
  with Newcombe's method 5, which needs no estimated error.
- With fewer than `LOOSE` degrees of freedom, the error depends almost only on a few rows. An
  example is a model that scores all but a few toxic comments far above the harmless comments. The
  sample may contain too few of these rows. So we also take the union with Newcombe's interval for
  two classes of the smaller size. Near an AUC of 1 it is close to the interval of a share of rows.

With clusters, Newcombe's interval uses the effective number of independent rows. Near an AUC of 1
it is up to 1.4 times as wide as the standard error implies. That error is reliable if it has
`STEADY` degrees of freedom, or if there are `SOME_CLUSTERS` clusters of similar size. Newcombe's
interval is then shrunk or stretched to it. If Newcombe's error is larger, it counts as `GUESSES`
further degrees of freedom. Otherwise we take the union of Newcombe's and the logit interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics._core.ranks import inner_product
from bias_metrics._core.wording import format_shortage

FEW_ERRORS = 20
FIRM, LOOSE = 40, 8
MIN_CLUSTERS, SOME_CLUSTERS = 20, 50
STEADY, GUESSES = 30, 12
ALIKE = 0.6  # least effective number of clusters of similar size, as a share of their number
FEW_MIXED = 10


def check_confidence(confidence: float) -> float:
    """Return `confidence`; it must be between 0 and 1, such as 0.95."""
    if not 0 < confidence < 1:
        msg = f"`confidence` must be between 0 and 1, as in 0.95; got {confidence}."
        raise ValueError(msg)
    return float(confidence)


def compute_unseen_reach(fall: float, std_error: float, n_drawn: float, confidence: float) -> float:
    """Return the error of a number if an undrawn row falls by `fall`; a negative fall counts as 0.

    The number of fallen rows is skewed like a Poisson number: see `widen_for_unseen_loss`.
    """
    fallen, z = max(fall, 0.0) / (n_drawn + 1), student_quantile(confidence)
    reach = student_quantile(confidence, n_drawn) * math.hypot(std_error, fallen)
    return fallen * (z**2 + 1) / 2 + reach


def compute_p_value(
    difference: float, std_error: float, degrees_of_freedom: float = math.inf
) -> float:
    """Return P(|T| >= |difference| / std_error); 1 if both are 0.

    With the degrees of freedom of an interval, the p-value is below 1 - confidence exactly if the
    symmetric interval excludes 0.
    """
    if std_error == 0:
        return 1.0 if difference == 0 else 0.0
    return compute_student_tails(abs(difference) / std_error, degrees_of_freedom)


def compute_effective_size(rows_by_cluster: npt.NDArray[np.float64]) -> float:
    """Return the effective number of clusters, or Kish's effective sample size of weighted rows."""
    return float(rows_by_cluster.sum()) ** 2 / inner_product(rows_by_cluster, rows_by_cluster)


def explain_few_clusters(n_clusters: int) -> str | None:
    """Return why the clusters are too few for an interval; None if they suffice."""
    return format_shortage({"cluster": n_clusters}, MIN_CLUSTERS)


def count_independent_rows(n: float, effect: float, least: float, mixed: float = math.inf) -> float:
    """Return the effective number of independent rows of clustered rows.

    The design effect is the ratio of the variance to that of independent rows. It cannot be
    estimated if fewer than `FEW_MIXED` clusters are `mixed`: contain an event in some rows, but not
    in all. Each cluster then counts as one row. The result is at least `least`.
    """
    return least if mixed < FEW_MIXED else max(n / max(effect, 1.0), least)


def has_few_errors(value: float, *sizes: float) -> bool:
    """Check whether an AUC has few errors: rows of the smaller class in the wrong order."""
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
    """Return the confidence interval of an AUC.

    With clusters, the class sizes are effective numbers of independent rows, and `effective` is the
    effective number of clusters. `freedom`, of `std_error`, is given if `z` is a normal quantile
    and, with clusters, if `std_error` may be reliable. The interval has zero width only if every
    score is tied and both classes are large.

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
            ratio = _compute_variance_ratio(value, *sizes)
            own = std_error**2 / (value * (1 - value) * ratio / (n_negative * n_positive))
            stretch = math.sqrt(own + max(1 - own, 0.0) * GUESSES / (freedom + GUESSES))
            return newcombe_interval(value, *sizes, z * stretch)
    low = high = value
    if 0 < value < 1:
        reach = z
        if freedom is not None and n_clusters is None:
            reach = student_quantile(math.erf(z / math.sqrt(2)), max(freedom, LOOSE))
        low, high = logit_interval(value, std_error, reach)
    unions = (
        [sizes] if n_clusters is not None else _choose_newcombe_sizes(value, usable, sizes, freedom)
    )
    for union_sizes in unions:
        wide_low, wide_high = newcombe_interval(value, *union_sizes, z)
        low, high = min(low, wide_low), max(high, wide_high)
    return low, high


def _choose_newcombe_sizes(
    value: float,
    usable: bool,  # noqa: FBT001 - a standard error
    sizes: tuple[float, float],
    freedom: float | None,
) -> list[tuple[float, float]]:
    """Return the class sizes of the Newcombe intervals to include, for independent rows."""
    if not has_few_errors(value, *sizes):
        return [] if usable else [sizes]
    if freedom is None:
        return [sizes]
    if not usable or freedom < LOOSE:
        return [sizes, (min(sizes), min(sizes))]
    return [sizes] if freedom < FIRM else []


def logit_interval(value: float, std_error: float, z: float) -> tuple[float, float]:
    """Return an interval that is symmetric on the logit scale; `value` is strictly in (0, 1)."""
    centre = math.log(value) - math.log1p(-value)
    reach = z * std_error / (value * (1 - value))
    return _compute_expit(centre - reach), _compute_expit(centre + reach)


def newcombe_interval(
    value: float, n_negative: float, n_positive: float, z: float
) -> tuple[float, float]:
    """Return Newcombe's method 5: the AUCs from which `value` is `z` standard errors away.

    The standard error is Hanley and McNeil's at that AUC, with both class sizes replaced by
    their mean in the numerator, so the interval is never of zero width and stays in [0, 1].
    """
    low = _find_newcombe_low(value, n_negative, n_positive, z)
    return low, 1 - _find_newcombe_low(1 - value, n_negative, n_positive, z)


def _find_newcombe_low(value: float, n_negative: float, n_positive: float, z: float) -> float:
    share = z * z / (n_negative * n_positive)

    def excess(auc: float) -> float:
        """Return the squared distance minus that of `z` standard errors, over 1 - `auc`."""
        below = value - auc
        share_of_room = 1.0 if value == 1 else below / (1 - auc)
        return below * share_of_room - share * auc * _compute_variance_ratio(
            auc, n_negative, n_positive
        )

    return 0.0 if value == 0 else find_root(excess, 0.0, value)


def _compute_variance_ratio(auc: float, n_negative: float, n_positive: float) -> float:
    """Return the ratio of Hanley and McNeil's variance to the variance of independent pairs."""
    n = (n_negative + n_positive) / 2 - 1
    return 1 + n * ((1 - auc) / (2 - auc) + auc / (1 + auc))


def find_root(function: Callable[[float], float], one_end: float, other_end: float) -> float:
    """Return a root of a function whose signs at both ends differ.

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


def _compute_expit(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


# ---- Student's distribution: its tails and quantiles, for any degrees of freedom.
#
# P(|T| >= t) with nu degrees of freedom is the regularised incomplete beta function at nu / (nu +
# t^2), which is computed as a continued fraction


# With more degrees of freedom, the normal distribution is used; errors are below 1e-6.
_MANY = 1e6
_CLOSE = 1e-14
_FAR = 3.0
# From this many degrees of freedom, a few terms of the expansion are close to the quantile.
_EXPANDED = 8.0
_NORMAL = NormalDist()


def compute_student_tails(t: float, freedom: float) -> float:
    """Return P(|T| >= t) for t >= 0; with infinite `freedom`, of the normal distribution.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 8.17.4 and 8.17.22.
    """
    if freedom > _MANY:
        return math.erfc(t / math.sqrt(2))
    share, rest = freedom / (freedom + t * t), t * t / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if t * t > _FAR:  # the fraction converges faster on this side
        return incomplete_beta(share, rest, a, b)
    return 1 - incomplete_beta(rest, share, b, a)


@lru_cache(maxsize=4096)
def student_quantile(confidence: float, freedom: float = math.inf) -> float:
    """Return the two-sided quantile t, with P(|T| >= t) = 1 - confidence: 1.96 for 0.95.

    Newton's method, starting from a few terms of the expansion in 1 / freedom if they are close.
    The error after a step is about the square of the step.

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
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale -= math.log(freedom * math.pi) / 2
    while True:
        density = math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))
        step = (compute_student_tails(t, freedom) - (1 - confidence)) / (2 * density)
        t += step
        if abs(step) <= 1e-6 * t:
            return t


def incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b); `rest` is 1 - x."""
    if x == 0 or rest == 0:
        return float(rest == 0)
    log = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    return math.exp(log) / a / _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
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
