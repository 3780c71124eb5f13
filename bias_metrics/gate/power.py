"""What rows can prove: the loss that would be shown, and the rows that a margin needs.

Uses the normal approximation. An outcome never depends on these figures.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from bias_metrics._core.intervals import quantile, unseen_reach

POWER = 0.8
_NORMAL = NormalDist()
_ROUNDING = 1e-12  # (0.3 / 0.1) ** 2 is not quite 9


def visible_loss(reach: float, confidence: float) -> float:
    """Return the loss that would be shown with a chance of 80 %.

    A loss is shown where its one-sided bound excludes 0. With a difference whose standard error
    is `se`, an equal model's loss is typically excluded only beyond the `reach`, `t se`; a true
    loss of `(t + z_80) se` is shown in 80 of 100 samples, where `z_80` is the normal quantile.

    Parameters
    ----------
    reach : float
        From the estimate to its one-sided bound, `t` times the standard error; at least 0.
    confidence : float
        One-sided confidence of the bound, between 0.5 and 1.

    Returns
    -------
    float
        `reach * (1 + z_80 / z_confidence)`, at least 0. With Student's `t` in the reach, both
        parts are widened alike.

    Raises
    ------
    ValueError
        If a value is out of range.

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
    """Return how many more rows bring a bound within a margin.

    Parameters
    ----------
    n : int
        Rows there are, of the class that decides the precision: the scarcer one. At least 1:
        without rows there is no reach.
    reach : float
        From the estimate to its one-sided bound, with these rows; at least 0.
    margin : float
        The reach that is wanted, above 0.

    Returns
    -------
    int
        `ceil(n (reach / margin)^2) - n`, as a reach shrinks with the square root of the rows; 0 if
        none are needed. If the other class is not far larger, more of it are needed too.

    Raises
    ------
    ValueError
        If a value is out of range.

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
    wanted = n * (reach / margin) ** 2
    return max(math.ceil(wanted * (1 - _ROUNDING)) - n, 0)


def rows_for_margin(margin: float, confidence: float, *, is_gap: bool, auc: float = 0.9) -> int:
    """Return with how many rows of a class a margin can be shown at all.

    A model may lose in rows that were not drawn, even if it is the same on all that were. With
    fewer rows than these no model is shown to be within the margin.

    Parameters
    ----------
    margin : float
        Above 0.
    confidence : float
        One-sided confidence of the bound, between 0.5 and 1.
    is_gap : bool
        Whether the margin is one of the size of a gap.
    auc : float, default=0.9
        Of the rival, for the margin of an AUC.

    Returns
    -------
    int
        Rows of the smaller of the classes that are compared; in clusters, clusters.

    Raises
    ------
    ValueError
        If the margin is not above 0.

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
    wider = quantile((1 + level) / 2) / quantile(level) if is_gap else 1.0
    low, high = 1, 2

    def shows(n: int) -> bool:
        return wider * unseen_reach(fall, 0.0, n, level) < margin

    while not shows(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high


def _refuse_reach(function: str, reach: float) -> None:
    if not 0 <= reach < math.inf:
        msg = f"{function}: `reach` must be a number of at least 0; got {reach!r}."
        raise ValueError(msg)
