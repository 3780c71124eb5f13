"""Optimism of selection: how far the best of several candidates looks better than it is."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def estimate_optimism(std_error: float, n_candidates: int, *, adaptive: bool = False) -> float:
    """Return the expected optimism of the best of several candidates, chosen on a single set.

    Selecting the best of many equal candidates selects the luckiest: its value on the set is better
    than its true value.

    Parameters
    ----------
    std_error : float
        The part of a candidate's standard error that candidates do not share: the standard error of
        the difference of two candidates, divided by the square root of 2.
    n_candidates : int
        Number of candidates that were judged on the set.
    adaptive : bool, default=False
        Whether the results of earlier candidates were used to build the best candidate. The result
        is then the gain of a candidate that combines all earlier ones by the sign of their luck.

    Returns
    -------
    float
        In the unit of `std_error`; 0 for one candidate, and larger for more.

    Raises
    ------
    ValueError
        If the error is negative or not finite, or `n_candidates` is below 1.

    Notes
    -----
    `std_error` times the expected largest of n independent normal variables or, if adaptive,
    times `sqrt(2 (n - 1) / pi)`.

    References
    ----------
    Dwork, Feldman, Hardt, Pitassi, Reingold and Roth (2015), Science 349. Blum and Hardt (2015),
    ICML 37, section 4 (the boosting attack).

    Examples
    --------
    >>> [round(estimate_optimism(0.01, n), 4) for n in (1, 2, 10, 365)]
    [0.0, 0.0056, 0.0154, 0.0294]
    >>> round(estimate_optimism(0.01, 365, adaptive=True), 3)
    0.152
    """
    if not (math.isfinite(std_error) and std_error >= 0):
        msg = f"`std_error` must be a finite number of at least 0; got {std_error}."
        raise ValueError(msg)
    if n_candidates < 1:
        msg = f"`n_candidates` must be at least 1; got {n_candidates}."
        raise ValueError(msg)
    if adaptive:
        return std_error * math.sqrt(2 * (n_candidates - 1) / math.pi)
    return std_error * _expected_maximum(n_candidates)


@lru_cache(maxsize=1024)
def _expected_maximum(n: int) -> float:
    """Return the expected largest of n independent standard normal variables."""
    if n == 1:
        return 0.0
    z, step = np.linspace(0.0, 12.0, 2401, retstep=True)
    below = np.array([math.erfc(value / math.sqrt(2)) / 2 for value in z])  # P(Z < -z)
    parts = -np.expm1(n * np.log1p(-below)) - below**n
    return float(step * (parts.sum() - (parts[0] + parts[-1]) / 2))
