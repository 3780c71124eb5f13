"""Levels for a long line of decisions, so that few of the promotions of a year are wrong.

Each decision tests whether a candidate is good enough, and a bad candidate passes with a chance of
at most the decision's own level. A year of decisions at .05 promotes a bad one every twenty. Here
each decision gets a share of alpha before its data are looked at.

- `spending_share` bounds the chance that any promotion is wrong: the shares add up to 1, so the
  levels add up to alpha. This holds however the decisions depend on each other (Bonferroni).
- `lord_share` bounds the share of promotions that are wrong (the false discovery rate): each
  promotion earns new shares. The levels of all decisions so far add up to at most alpha times the
  number of promotions (or alpha, before the first).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

# Of alpha, for the decisions that were planned; the rest is for those beyond the plan.
_PLANNED = 0.9
# Of alpha, before the first promotion; the first promotion earns the rest.
_FIRST = 0.5
_TERMS = 10_000


def spending_share(number: int, *, planned: int) -> float:
    """Return the share of alpha of one decision; the shares of all decisions add up to 1.

    Each of the planned decisions gets the same share of nine tenths of alpha. Those beyond the
    plan share the last tenth, and never use it up.

    Parameters
    ----------
    number : int
        Which decision it is, from 1.
    planned : int
        About how many decisions there will be, chosen before the first. Never change it on the way.

    Returns
    -------
    float
        Above 0, at most .9; times alpha it is the level of the decision.

    Raises
    ------
    ValueError
        If a number is not at least 1.

    Notes
    -----
    `.9 / planned` up to the plan; then `.1 * planned / ((number - 1) * number)`, whose sum over all
    numbers above `planned` is .1.

    References
    ----------
    Foster and Stine (2008), Journal of the Royal Statistical Society B 70, section 2
    (alpha-spending for a stream of tests).

    Examples
    --------
    >>> [round(spending_share(number, planned=10), 4) for number in (1, 10, 11, 20)]
    [0.09, 0.09, 0.0091, 0.0026]
    """
    _require_count("number", number)
    _require_count("planned", planned)
    if number <= planned:
        return _PLANNED / planned
    return (1 - _PLANNED) * planned / ((number - 1) * number)


def lord_share(number: int, promotions: Sequence[int]) -> float:
    """Return the share of alpha of one decision, so that few promotions are wrong (LORD++).

    Only whether earlier decisions promoted counts, so no p-values are needed.

    Parameters
    ----------
    number : int
        Which decision it is, from 1.
    promotions : sequence of int
        For each promotion before it, how many decisions had been made by then.

    Returns
    -------
    float
        Above 0; times alpha it is the level of the decision. It may be above 1 after many
        promotions, and is never more than their number.

    Raises
    ------
    ValueError
        If `number` is not at least 1, or a promotion is not of an earlier decision.

    Notes
    -----
    With weights g that add up to 1, the share is `g[t] / 2`, plus `g[t - s] / 2` for the first
    promotion after s decisions, plus `g[t - s]` for each later one. g[j] is proportional to
    `log(max(j, 2)) / (j exp(sqrt(log j)))`. The share of wrong promotions is at most alpha in
    expectation (in the sense of a ratio of expectations) if each decision errs with at most its
    level given the earlier ones; in the strict sense if decisions are independent.

    References
    ----------
    Javanmard and Montanari (2018), Annals of Statistics 46 (LORD and its weights). Ramdas, Yang,
    Wainwright and Jordan (2017), NeurIPS 30, section 3 (LORD++).

    Examples
    --------
    >>> [round(lord_share(number, []), 4) for number in (1, 2, 10, 100)]
    [0.0274, 0.006, 0.002, 0.0002]
    >>> round(lord_share(10, [9]), 4)
    0.0294
    """
    _require_count("number", number)
    for promotion in promotions:
        if not 1 <= promotion < number:
            most = number - 1
            msg = f"`promotions` must be numbers of decisions from 1 to {most}; got {promotion}."
            raise ValueError(msg)
    earned = [_weight(number - promotion) for promotion in sorted(promotions)]
    first = earned[0] if earned else 0.0
    return _FIRST * _weight(number) + (1 - _FIRST) * first + math.fsum(earned[1:])


def selection_flattery(std_error: float, n_candidates: int, *, adaptive: bool = False) -> float:
    """Return how far the best of several candidates is flattered by being the best on one set.

    Choosing the best of many equal candidates chooses the luckiest: its number on the set is better
    than its true one.

    Parameters
    ----------
    std_error : float
        Standard error of one candidate's number, as far as candidates do not share it: that of
        the difference of two candidates, divided by the square root of 2.
    n_candidates : int
        How many candidates the set has judged.
    adaptive : bool, default=False
        Whether the numbers of earlier candidates were used to build the best one. It is then what
        candidates could gain that combine all earlier ones by the sign of their luck.

    Returns
    -------
    float
        In the unit of `std_error`; 0 for one candidate, and larger for more.

    Raises
    ------
    ValueError
        If the error is negative or not finite, or there are no candidates.

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
    >>> [round(selection_flattery(0.01, n), 4) for n in (1, 2, 10, 365)]
    [0.0, 0.0056, 0.0154, 0.0294]
    >>> round(selection_flattery(0.01, 365, adaptive=True), 3)
    0.152
    """
    if not (math.isfinite(std_error) and std_error >= 0):
        msg = f"`std_error` must be a finite number of at least 0; got {std_error}."
        raise ValueError(msg)
    _require_count("n_candidates", n_candidates)
    if adaptive:
        return std_error * math.sqrt(2 * (n_candidates - 1) / math.pi)
    return std_error * _expected_maximum(n_candidates)


@lru_cache(maxsize=4096)
def _weight(lag: int) -> float:
    """Return the weight of a decision, so many after the start or a promotion."""
    return _unscaled(lag) / _scale()


def _unscaled(lag: float) -> float:
    return math.log(max(lag, 2)) / (lag * math.exp(math.sqrt(math.log(lag))))


@lru_cache(maxsize=1)
def _scale() -> float:
    """Return the sum of all unscaled weights, or a little more: the rest is below its integral."""
    s = math.sqrt(math.log(_TERMS))
    rest = 2 * math.exp(-s) * (s**3 + 3 * s**2 + 6 * s + 6)
    return math.fsum(_unscaled(lag) for lag in range(1, _TERMS + 1)) + rest


@lru_cache(maxsize=1024)
def _expected_maximum(n: int) -> float:
    """Return the expected largest of n independent standard normal variables."""
    if n == 1:
        return 0.0
    z, step = np.linspace(0.0, 12.0, 2401, retstep=True)
    below = np.array([math.erfc(one / math.sqrt(2)) / 2 for one in z])  # chance of less than -z
    parts = -np.expm1(n * np.log1p(-below)) - below**n
    return float(step * (parts.sum() - (parts[0] + parts[-1]) / 2))


def _require_count(name: str, value: int) -> None:
    if value < 1:
        msg = f"`{name}` must be at least 1; got {value}."
        raise ValueError(msg)
