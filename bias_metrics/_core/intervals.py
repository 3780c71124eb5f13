"""Confidence intervals: the rules for one AUC, and the normal quantiles behind them.

An AUC's interval is symmetric around the estimate on the logit scale, with DeLong's standard
error. In small or nearly perfect cells its coverage is too low (and it has zero width at an
AUC of 1), so with fewer than `SMALL` rows in either class, or without a usable standard error,
we take its union with Newcombe's method 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

SMALL = 200
MIN_CLUSTERS = 20
_FEWEST = 4  # degrees of freedom; with fewer the expansion of Student's quantile is poor
_NORMAL = NormalDist()
_BISECTIONS = 60


def check_confidence(confidence: float) -> float:
    """Return `confidence`; it must be between 0 and 1, such as 0.95."""
    if not 0 < confidence < 1:
        msg = f"`confidence` must be between 0 and 1, as in 0.95; got {confidence}."
        raise ValueError(msg)
    return float(confidence)


def quantile(confidence: float, degrees_of_freedom: float = math.inf) -> float:
    """Return the two-sided quantile: 1.96 for 0.95; Student's if degrees of freedom are given.

    Student's quantile uses the expansion of Abramowitz and Stegun (1964), 26.7.5; at 0.99 its
    error is below 0.001 for 10 or more degrees of freedom. Fewer than 4 count as 4.
    """
    z = _NORMAL.inv_cdf(0.5 + confidence / 2)
    if math.isinf(degrees_of_freedom):
        return z
    nu = max(degrees_of_freedom, _FEWEST)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / nu**power for power, term in enumerate(terms, 1))


def two_sided_p(difference: float, std_error: float) -> float:
    """Return P(|Z| >= |difference| / std_error); 1 if both are 0."""
    if std_error == 0:
        return 1.0 if difference == 0 else 0.0
    return math.erfc(abs(difference) / std_error / math.sqrt(2))


def auc_interval(
    value: float, std_error: float, n_negative: int, n_positive: int, z: float
) -> tuple[float, float]:
    """Return the confidence interval of one AUC.

    Parameters
    ----------
    value : float
        The AUC, in [0, 1].
    std_error : float
        DeLong's, at least 0.
    n_negative, n_positive : int
        Rows of the two classes that it compares.
    z : float
        Normal quantile, from `quantile`.

    Returns
    -------
    (float, float)
        Within [0, 1]; has zero width only if every score is tied and both classes are large.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44. Newcombe (2006), Statistics in
    Medicine 25, method 5.
    """
    on_edge = value in {0.0, 1.0}
    low, high = (value, value) if on_edge else logit_interval(value, std_error, z)
    if on_edge or std_error == 0 or min(n_negative, n_positive) < SMALL:
        wide_low, wide_high = newcombe_interval(value, n_negative, n_positive, z)
        low, high = min(low, wide_low), max(high, wide_high)
    return low, high


def logit_interval(value: float, std_error: float, z: float) -> tuple[float, float]:
    """Return the interval that is symmetric on the logit scale; `value` strictly in (0, 1)."""
    centre = math.log(value) - math.log1p(-value)
    reach = z * std_error / (value * (1 - value))
    return _expit(centre - reach), _expit(centre + reach)


def newcombe_interval(
    value: float, n_negative: int, n_positive: int, z: float
) -> tuple[float, float]:
    """Return Newcombe's method 5: the AUCs from which `value` is `z` standard errors away.

    The standard error is Hanley and McNeil's at that AUC, with both class sizes replaced by
    their mean in the numerator, so the interval is never of zero width and stays in [0, 1].
    """

    def distance(auc: float) -> float:
        return abs(auc - value) - z * _hanley_mcneil(auc, n_negative, n_positive)

    low = 0.0 if value == 0 else _root(distance, 0.0, value)
    high = 1.0 if value == 1 else _root(distance, 1.0, value)
    return low, high


def _hanley_mcneil(auc: float, n_negative: int, n_positive: int) -> float:
    n = (n_negative + n_positive) / 2 - 1
    spread = 1 + n * ((1 - auc) / (2 - auc) + auc / (1 + auc))
    return math.sqrt(auc * (1 - auc) * spread / (n_negative * n_positive))


def _root(distance: Callable[[float], float], outside: float, inside: float) -> float:
    """Bisect between a point with a distance above 0 and the estimate itself."""
    for _ in range(_BISECTIONS):
        middle = (outside + inside) / 2
        if distance(middle) > 0:
            outside = middle
        else:
            inside = middle
    return outside


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
