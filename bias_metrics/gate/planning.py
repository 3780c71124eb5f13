"""How many rows rules need: the chance that a group passes all of them, and the rows for a chance.

A plan assumes scores that are normal within each class. The five cells of a group then vary
together in a known way, and rows enter through two numbers, its positives and its negatives. What
was measured can replace the assumption: the errors of an earlier evaluation, and how closely the
two models agree. A verdict never uses a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics._core.intervals import auc_interval, few_errors, quantile, unseen_reach
from bias_metrics.gate.judging import RIVALS
from bias_metrics.gate.rules import Rule
from bias_metrics.metrics import AUCS, METRICS, PAIRS

Floats = npt.NDArray[np.float64]
_NORMAL = NormalDist()
_DRAWS, _SEED, _POINTS = 4_000, 7, 64
MOST = 10_000_000
_STEPS = 4
_NEAR = 1e-4
# By simulation: with few errors an interval is wider in samples where the difference is lower.
_FEW = 1.18
# Gaps of two models agree more closely than their AUCs: placements near 1/2 are less skewed.
_GAPS_AGREE = 0.88


@dataclass(frozen=True)
class Guess:
    """What a plan assumes of one group, or category."""

    values: dict[str, float] = field(default_factory=dict)
    """The true value of each cell; a cell that is not named has `auc`, or a gap of 0."""
    auc: float = 0.9
    """The AUCs that are not named."""
    correlation: float = 0.8
    """Correlation of the two models' estimates over repeated samples of rows."""
    inflation: float = 1.0
    """How many times larger variances are than those of independent rows with normal scores: the
    design effect of clusters, for example."""

    def value(self, metric: str) -> float:
        """Return a cell's true value.

        A measured share of exactly 0 or 1 of the pairs is taken as one that is almost so, since the
        next sample will have errors.
        """
        value = self.values.get(metric, 0.0 if METRICS[metric].is_gap else self.auc)
        centre = METRICS[metric].centre
        return min(max(value, _NEAR - centre), 1 - _NEAR - centre)


@dataclass(frozen=True)
class Counts:
    """Rows of a group and of its background by class; fractions are expectations."""

    positive: float
    negative: float
    outside_positive: float
    outside_negative: float


def lacks_support(rule: Rule, counts: Counts) -> bool:
    """Say whether a rule would find too few rows in a group or its background."""
    pair = PAIRS[rule.metric]
    own, outside = {pair.x}, {pair.y}
    if pair.inside:
        own, outside = {pair.x, pair.y}, set()
    least = {"positive": rule.min_positives, "negative": rule.min_negatives}
    have = {"positive": counts.positive, "negative": counts.negative}
    beside = {"positive": counts.outside_positive, "negative": counts.outside_negative}
    return any(have[one] < least[one] for one in own) or any(
        beside[one] < least[one] for one in outside
    )


def is_planned(rule: Rule) -> bool:
    """Say whether plans cover a rule: those that block by the bounds of AUCs and AEGs of groups."""
    return rule.metric in PAIRS and rule.mode == "proven" and rule.action == "block"


def chance_of_group(rules: Sequence[Rule], guess: Guess, counts: Counts) -> float:
    """Return the chance that a group passes all rules on its cells.

    Parameters
    ----------
    rules : sequence of Rule
        Rules for which `is_planned`; each applies to this group.
    guess : Guess
        What is assumed.
    counts : Counts
        Its rows, at least 2 of each.

    Returns
    -------
    float
        In [0, 1]; against a rival, of a model that is as good as the rival. 0 if a rule lacks
        support.

    Examples
    --------
    >>> rule = Rule("bpsn_auc", "each", margin=0.05)
    >>> few, many = (Counts(n, n, 5000, 40000) for n in (20, 200))
    >>> chance_of_group([rule], Guess(), few) < chance_of_group([rule], Guess(), many)
    True
    """
    if any(lacks_support(rule, counts) for rule in rules):
        return 0.0
    absolute, relative = _deviates()
    passed = np.ones(_DRAWS, dtype=np.bool_)
    for rule in rules:
        value = guess.value(rule.metric)
        moves = _moves(rule.metric, value, counts)
        for kind, limit in rule.checks:
            draws = relative if kind in RIVALS else absolute
            weights = np.array([weight for _, weight in moves])
            z = draws[:, [at for at, _ in moves]] @ weights * math.sqrt(guess.inflation)
            check = _against_rival if kind in RIVALS else _against_limit
            passed &= check(rule, value, limit, z, _error(moves, guess), guess, counts)
    return float(passed.mean())


def chance_of_auc(
    rule: Rule, auc: float, guess: Guess, n_positive: float, n_negative: float
) -> float:
    """Return the chance that the overall AUC passes a rule."""
    if n_positive < rule.min_positives or n_negative < rule.min_negatives:
        return 0.0
    variance = guess.inflation * _spread(auc) * (1 / n_positive + 1 / n_negative)
    error, z = math.sqrt(variance), quantile(rule.level)
    chance = 1.0
    for kind, limit in rule.checks:
        slack, one, reach = auc - limit, error, z * error
        if kind in RIVALS:
            slack, one = limit, error * math.sqrt(2 * (1 - guess.correlation))
            reach = unseen_reach(
                auc - 0.5, one, min(n_positive, n_negative) / guess.inflation, rule.level
            )
        chance *= _NORMAL.cdf((slack - reach) / one) if one else float(slack > reach)
    return chance


def standard_error(metric: str, value: float, counts: Counts) -> float:
    """Return the standard error of a cell of independent rows with normal scores."""
    return _error(_moves(metric, value, counts), Guess())


def paired_reach(down: float, up: float, correlation: float) -> float:
    """Return how far the one-sided bound of the difference of two equally good AUCs reaches.

    Parameters
    ----------
    down, up : float
        How far the interval of each AUC reaches down and up.
    correlation : float
        Of the two models' estimates.

    Returns
    -------
    float
        With normal errors, the quantile times the standard error of the difference.
    """
    return math.sqrt(1 - correlation) * math.hypot(down, up)


def least_rows(chance: Callable[[float], float], wanted: float, least: float = 4.0) -> float | None:
    """Return the fewest rows at which a chance is large enough; None if no number of rows is.

    Parameters
    ----------
    chance : callable
        From a number of rows to a chance that grows with it.
    wanted : float
        The chance.
    least : float, default=4
        Where to start.
    """
    if chance(MOST) < wanted:
        return None
    low, high = least, least
    while chance(high) < wanted:
        low, high = high, 2 * high
    while high - low > max(0.5, 1e-3 * high):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= wanted else (middle, high)
    return high


# The components of a group's cells: placements of its positives among negatives and among
# positives, of its negatives among positives and among negatives, and the background's.
_U, _V, _W, _T, _OUT_POSITIVE, _OUT_NEGATIVE = range(6)


@cache
def _deviates() -> tuple[Floats, Floats]:
    """Return standard normal draws of the components, twice, correlated as in one group."""
    rng = np.random.default_rng(_SEED)
    distance = math.sqrt(2) * _NORMAL.inv_cdf(0.9)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_POINTS)
    weights = weights / weights.sum()
    cdf = np.vectorize(_NORMAL.cdf)
    among_other, among_own = cdf(nodes + distance), cdf(nodes)
    alike = float(_correlation(among_other, among_own, weights))
    together = np.eye(6)
    together[_U, _V] = together[_V, _U] = together[_W, _T] = together[_T, _W] = alike
    root = np.linalg.cholesky(together)
    first, second = (rng.standard_normal((_DRAWS, 6)) @ root.T for _ in range(2))
    return first, second


def _correlation(a: Floats, b: Floats, weights: Floats) -> float:
    a, b = a - weights @ a, b - weights @ b
    return float(weights @ (a * b) / math.sqrt((weights @ a**2) * (weights @ b**2)))


def _moves(metric: str, value: float, counts: Counts) -> list[tuple[int, float]]:
    """Return how far each component moves a cell: its place and its standard error."""
    auc = value + METRICS[metric].centre
    size = math.sqrt(_spread(auc))
    own_x = _U if metric in AUCS else _V
    pair = PAIRS[metric]
    if pair.x == pair.y:
        if pair.x == "positive":
            parts = [(_V, counts.positive, 1.0), (_OUT_POSITIVE, counts.outside_positive, -1.0)]
        else:
            parts = [(_T, counts.negative, 1.0), (_OUT_NEGATIVE, counts.outside_negative, -1.0)]
    elif pair.inside:
        parts = [(own_x, counts.positive, 1.0), (_W, counts.negative, -1.0)]
    elif pair.x == "positive":
        parts = [(own_x, counts.positive, 1.0), (_OUT_NEGATIVE, counts.outside_negative, -1.0)]
    else:
        parts = [(_W, counts.negative, -1.0), (_OUT_POSITIVE, counts.outside_positive, 1.0)]
    return [(at, sign * size / math.sqrt(n)) for at, n, sign in parts]


def _error(moves: list[tuple[int, float]], guess: Guess) -> float:
    return math.sqrt(guess.inflation * sum(weight**2 for _, weight in moves))


def _against_rival(
    rule: Rule, value: float, limit: float, z: Floats, error: float, guess: Guess, counts: Counts
) -> npt.NDArray[np.bool_]:
    """Say in which draws a difference is shown to be within the margin."""
    apart = math.sqrt(2 * (1 - guess.correlation))
    smaller = min(_sizes(rule.metric, counts)) / guess.inflation
    if rule.is_gap:  # the sign of the rival's gap is seldom certain
        apart *= _GAPS_AGREE
        wider = quantile((1 + rule.level) / 2) / quantile(rule.level)
        reach = wider * unseen_reach(0.5, apart * error, smaller, rule.level)
        return np.asarray(apart * np.abs(z) + reach < limit)
    down, up = _reaches(rule.metric, rule.level, value, error, counts)
    reach = paired_reach(down, up, guess.correlation)
    if few_errors(value, *_sizes(rule.metric, counts)):
        reach *= _FEW
    reach = max(reach, unseen_reach(value - 0.5, apart * error, smaller, rule.level))
    return np.asarray(apart * z - reach > -limit)


def _against_limit(
    rule: Rule, value: float, limit: float, z: Floats, error: float, guess: Guess, counts: Counts
) -> npt.NDArray[np.bool_]:
    """Say in which draws a value is shown to be on the good side of a floor or ceiling."""
    del guess
    if rule.is_gap:
        return np.asarray(np.abs(value + z) + quantile(rule.level) * error <= limit)
    least = value  # the smallest estimate whose lower bound is not below the limit
    for _ in range(_STEPS):
        own = error * math.sqrt(_spread(round(least, 4)) / _spread(value))
        reach, _ = _reaches(rule.metric, rule.level, least, own, counts)
        least = min(limit + reach, 1 - 1e-6)
    return np.asarray(_logit(value) + z / (value * (1 - value)) >= _logit(least))


def _logit(value: float) -> float:
    return math.log(value / (1 - value))


def _reaches(
    metric: str, level: float, value: float, error: float, counts: Counts
) -> tuple[float, float]:
    """Return how far the interval of a cell reaches down and up."""
    n_x, n_y = _sizes(metric, counts)
    if METRICS[metric].is_gap or not few_errors(value, n_x, n_y):
        reach = quantile(level) * error
        return reach, reach
    low, high = auc_interval(value, error, n_y, n_x, quantile(level))
    return value - low, high - value


def _sizes(metric: str, counts: Counts) -> tuple[float, float]:
    """Return the rows of the two classes that a metric compares."""
    pair = PAIRS[metric]
    own = {"positive": counts.positive, "negative": counts.negative}
    outside = {"positive": counts.outside_positive, "negative": counts.outside_negative}
    return own[pair.x], (own if pair.inside else outside)[pair.y]


@cache
def _spread(auc: float) -> float:
    """Return the variance of a placement: P(two lower draws below one upper draw) - AUC^2."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_POINTS)
    distance = math.sqrt(2) * _NORMAL.inv_cdf(min(max(auc, 1e-9), 1 - 1e-9))
    below = np.array([_NORMAL.cdf(distance + node) for node in nodes])
    weights = weights / weights.sum()
    return float(weights @ below**2 - (weights @ below) ** 2)
