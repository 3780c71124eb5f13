"""Statistical power: the detectable loss, and the number of rows that a margin needs.

Uses the normal approximation. An outcome never depends on these figures.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from bias_metrics._core.intervals import compute_unseen_reach, student_quantile

POWER = 0.8
_NORMAL = NormalDist()
_ROUNDING = 1e-12  # (0.3 / 0.1) ** 2 is not quite 9


def visible_loss(reach: float, confidence: float) -> float:
    """Return the loss that is detected with a power of 80 %.

    A loss is detected if its one-sided bound excludes 0. For a difference with standard error `se`,
    the bound of an equal model typically excludes only losses beyond the `reach`, `t se`. A true
    loss of `(t + z_80) se` is detected in 80 of 100 samples, where `z_80` is the normal quantile.

    The one-sided `confidence` is between 0.5 and 1. The result is `reach * (1 + z_80 /
    z_confidence)`: Student's `t` in the reach widens both parts by the same factor.

    Examples
    --------
    >>> round(visible_loss(0.10, 0.95), 3)
    0.151
    """
    _refuse_reach("visible_loss", reach)
    if not 0.5 < confidence < 1:
        msg = f"visible_loss: `confidence` must be between 0.5 and 1; got {confidence!r}."
        raise ValueError(msg)
    return reach * (1 + _NORMAL.inv_cdf(POWER) / _NORMAL.inv_cdf(confidence))


def rows_needed(n: int, reach: float, margin: float) -> int:
    """Return the number of further rows that brings a bound within a margin.

    `n` is the number of present rows of the scarcer class, which limits the precision. A reach
    shrinks with the square root of the rows, so the result is `ceil(n (reach / margin)^2) - n`, or
    0 if the reach is small enough. Unless the other class is far larger, it needs more rows also.

    Examples
    --------
    >>> rows_needed(20, 0.10, 0.05)
    60
    """
    _refuse_reach("rows_needed", reach)
    if not margin > 0:
        msg = f"rows_needed: `margin` must be above 0; got {margin!r}."
        raise ValueError(msg)
    if n < 1:
        msg = f"rows_needed: `n` must be at least 1; got {n!r}."
        raise ValueError(msg)
    total = n * (reach / margin) ** 2
    return max(math.ceil(total * (1 - _ROUNDING)) - n, 0)


def rows_for_margin(margin: float, confidence: float, *, is_gap: bool, auc: float = 0.9) -> int:
    """Return the fewest rows of a class with which a model can be proven within a margin.

    Even a model with identical scores on the sample may be worse on rows outside it. With fewer
    rows than this, no model is proven to be within the margin.

    `confidence` is the one-sided confidence of the bound. `auc` is the rival's, for the margin of
    an AUC. The result counts rows of the smaller of the compared classes, or clusters.

    Examples
    --------
    >>> rows_for_margin(0.05, 0.95, is_gap=False), rows_for_margin(0.03, 0.975, is_gap=False)
    (28, 58)
    """
    if not margin > 0:
        msg = f"rows_for_margin: `margin` must be above 0; got {margin!r}."
        raise ValueError(msg)
    level, fall = 2 * confidence - 1, 0.5 if is_gap else max(auc - 0.5, 0.0)
    # The sign of the rival's gap is seldom certain, so each sign has half of the error.
    wider = student_quantile((1 + level) / 2) / student_quantile(level) if is_gap else 1.0
    low, high = 1, 2

    def is_enough(n: int) -> bool:
        return wider * compute_unseen_reach(fall, 0.0, n, level) < margin

    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _refuse_reach(function: str, reach: float) -> None:
    if not 0 <= reach < math.inf:
        msg = f"{function}: `reach` must be a number of at least 0; got {reach!r}."
        raise ValueError(msg)
