"""What rows can prove: the chance that a rule passes, the loss that would be seen, the rows for it.

Uses the normal approximation. These figures are for planning; a verdict never uses them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

_NORMAL = NormalDist()
_ROUNDING = 1e-12  # (0.3 / 0.1) ** 2 is not quite 9


def chance_of_proof(slack: float, std_error: float, confidence: float = 0.95) -> float:
    """Return the chance that a bound lies on the good side of a limit.

    Parameters
    ----------
    slack : float
        How much better the true value is than the limit; for an equally good model
        against a margin, the margin.
    std_error : float
        Standard error of the estimate, or of the difference, at least 0.
    confidence : float, default=0.95
        One-sided confidence of the bound.

    Returns
    -------
    float
        In [0, 1]; `1 - confidence` if the slack is 0.

    Examples
    --------
    >>> round(chance_of_proof(0.02, 0.01), 3), round(chance_of_proof(0.0, 0.01), 3)
    (0.639, 0.05)
    """
    z = _NORMAL.inv_cdf(confidence)
    if std_error == 0:
        return 1.0 if slack > 0 else 0.0
    return _NORMAL.cdf(slack / std_error - z)


def difference_error(std_error: float, correlation: float) -> float:
    """Return the standard error of the difference of two equally precise estimates.

    Parameters
    ----------
    std_error : float
        Standard error of each.
    correlation : float
        Correlation of the two over repeated samples of rows. Models for the same task usually
        agree about which rows are hard; 0.8 is common.

    Returns
    -------
    float
        0 if the correlation is 1.

    Examples
    --------
    >>> round(difference_error(0.01, 0.5), 6)
    0.01
    """
    return std_error * math.sqrt(2 * (1 - correlation))


def chance_of_all(chances: Iterable[float]) -> float:
    """Return the chance that all of several rules pass, assuming they are independent.

    Examples
    --------
    >>> chance_of_all([0.5, 0.5])
    0.25
    """
    return math.prod(chances)


def visible_loss(reach: float, confidence: float, *, power: float = 0.8) -> float:
    """Return the loss that would be shown with a given chance.

    A loss is shown where its one-sided bound excludes 0. With a difference whose standard error
    is `se`, an equal model's loss is typically excluded only beyond the `reach`, `t se`; a true
    loss of `(t + z_power) se` is shown with a chance of `power`.

    Parameters
    ----------
    reach : float
        From the estimate to its one-sided bound, `t` times the standard error; at least 0.
    confidence : float
        One-sided confidence of the bound, between 0.5 and 1.

    Returns
    -------
    float
        `reach * (1 + z_power / z_confidence)`, at least 0 if `power` is at least 0.5. With
        Student's `t` in the reach, both parts are widened alike.

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
    for name, chance, least in (("confidence", confidence, 0.5), ("power", power, 0.0)):
        if not least < chance < 1:
            msg = f"visible_loss: `{name}` must be between {least:g} and 1; got {chance!r}."
            raise ValueError(msg)
    return reach * (1 + _NORMAL.inv_cdf(power) / _NORMAL.inv_cdf(confidence))


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


def _refuse_reach(function: str, reach: float) -> None:
    if not 0 <= reach < math.inf:
        msg = f"{function}: `reach` must be a number of at least 0; got {reach!r}."
        raise ValueError(msg)
