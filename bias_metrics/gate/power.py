"""What a rule can prove with the rows available: the chance that it passes.

Uses the normal approximation. These figures are for planning; a verdict never uses them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

_NORMAL = NormalDist()


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
