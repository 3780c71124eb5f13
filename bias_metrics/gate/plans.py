"""Plans: the probability that a group passes its rules, and the number of rows for a probability.

A plan assumes normal scores within each class. The joint distribution of a group's five cells is
then known, and depends on rows only through its numbers of positives and negatives. Measured values
can replace the assumption: standard errors of an earlier evaluation, and the correlation of the two
models. A verdict never uses a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics._core.intervals import (
    auc_interval,
    compute_unseen_reach,
    has_few_errors,
    student_quantile,
)
from bias_metrics._core.ranks import Floats
from bias_metrics.gate.outcome import RIVALS
from bias_metrics.gate.rules import Rule
from bias_metrics.metrics import AUCS, METRICS, PAIRS

_NORMAL = NormalDist()
_DRAWS, _SEED, _POINTS = 4_000, 7, 64
MAX_PLANNED_ROWS = 10_000_000
_STEPS = 4
_NEAR = 1e-4
# Found by simulation: with few errors, intervals are wider in samples with a lower difference.
_FEW = 1.18
# Gaps of two models correlate more closely than their AUCs: placements near 1/2 are less skewed.
_GAPS_AGREE = 0.88


@dataclass(frozen=True)
class PlanAssumptions:
    """Assumptions of a plan about a group or category."""

    values: dict[str, float] = field(default_factory=dict)
    """True values by metric; all other AUCs are `auc`, and all other gaps are 0."""
    auc: float = 0.9
    """True value of the AUCs that `values` leaves out."""
    correlation: float = 0.8
    """Correlation of the two models' estimates over repeated samples of rows."""
    inflation: float = 1.0
    """Factor by which variances exceed those of independent rows with normal scores, such as the
    design effect of clusters."""

    def get_value(self, metric: str) -> float:
        """Return a cell's true value.

        A measured AUC of exactly 0 or 1 is moved slightly inwards, since the next sample will have
        errors.
        """
        value = self.values.get(metric, 0.0 if METRICS[metric].is_gap else self.auc)
        centre = METRICS[metric].centre
        return min(max(value, _NEAR - centre), 1 - _NEAR - centre)


@dataclass(frozen=True)
class PlannedCounts:
    """Rows of a group and of its background by class; expected numbers may be fractions."""

    positive: float
    negative: float
    outside_positive: float
    outside_negative: float

    @property
    def own(self) -> dict[str, float]:
        """Rows of the group by class."""
        return {"positive": self.positive, "negative": self.negative}

    @property
    def outside(self) -> dict[str, float]:
        """Rows of the background by class."""
        return {"positive": self.outside_positive, "negative": self.outside_negative}


def lacks_support(rule: Rule, counts: PlannedCounts) -> bool:
    """Return True if a group or its background has too few rows for a rule."""
    least = {"positive": rule.min_positives, "negative": rule.min_negatives}
    sides = zip((counts.own, counts.outside), METRICS[rule.metric].classes, strict=True)
    return any(rows[label] < least[label] for rows, classes in sides for label in classes)


def is_planned(rule: Rule) -> bool:
    """Return True if plans cover a rule: it blocks by bounds of a group's AUCs or AEGs."""
    return rule.metric in PAIRS and rule.mode == "proven" and rule.action == "block"


def estimate_group_chance(
    rules: Sequence[Rule], guess: PlanAssumptions, counts: PlannedCounts
) -> float:
    """Return the probability that a group passes all rules on its cells.

    Each rule is planned (`is_planned`) and applies to this group; every class has at least 2 rows.
    Against a rival, the probability is that of a model that is as good as the rival. It is 0 if a
    rule lacks support.

    Examples
    --------
    >>> rule = Rule("bpsn_auc", "each", margin=0.05)
    >>> few, many = (PlannedCounts(n, n, 5000, 40000) for n in (20, 200))
    >>> chances = [estimate_group_chance([rule], PlanAssumptions(), n) for n in (few, many)]
    >>> chances[0] < chances[1]
    True
    """
    if any(lacks_support(rule, counts) for rule in rules):
        return 0.0
    absolute, relative = _draw_deviates()
    passed = np.ones(_DRAWS, dtype=np.bool_)
    for rule in rules:
        value = guess.get_value(rule.metric)
        effects = _compute_effects(rule.metric, value, counts)
        columns, weights = [column for column, _ in effects], [weight for _, weight in effects]
        error = _combine_effects(effects, guess)
        for kind, limit in rule.checks:
            draws = relative if kind in RIVALS else absolute
            z = draws[:, columns] @ np.array(weights) * math.sqrt(guess.inflation)
            if kind in RIVALS:
                passed &= _keeps_margin(rule, value, limit, z, error, guess, counts)
            else:
                passed &= _keeps_limit(rule, value, limit, z, error, counts)
    return float(passed.mean())


def estimate_auc_chance(
    rule: Rule, auc: float, guess: PlanAssumptions, n_positive: float, n_negative: float
) -> float:
    """Return the probability that the overall AUC passes a rule."""
    if n_positive < rule.min_positives or n_negative < rule.min_negatives:
        return 0.0
    variance = guess.inflation * _placement_variance(auc) * (1 / n_positive + 1 / n_negative)
    error, z = math.sqrt(variance), student_quantile(rule.level)
    chance = 1.0
    for kind, limit in rule.checks:
        slack, spread, reach = auc - limit, error, z * error
        if kind in RIVALS:
            slack, spread = limit, error * math.sqrt(2 * (1 - guess.correlation))
            reach = compute_unseen_reach(
                auc - 0.5, spread, min(n_positive, n_negative) / guess.inflation, rule.level
            )
        chance *= _NORMAL.cdf((slack - reach) / spread) if spread else float(slack > reach)
    return chance


def predict_standard_error(metric: str, value: float, counts: PlannedCounts) -> float:
    """Return the standard error of a cell for independent rows with normal scores."""
    return _combine_effects(_compute_effects(metric, value, counts), PlanAssumptions())


def compute_paired_reach(down: float, up: float, correlation: float) -> float:
    """Return the distance to the one-sided bound of the difference of two equally good AUCs.

    `down` and `up` are the distances from each AUC to the ends of its interval. For normal errors,
    the result is the quantile times the standard error of the difference.
    """
    return math.sqrt(1 - correlation) * math.hypot(down, up)


def find_least_rows(
    chance: Callable[[float], float], wanted: float, least: float = 4.0
) -> float | None:
    """Return the fewest rows at which a probability is large enough; None if it never is.

    `chance` is a probability that grows with the number of rows; the search starts at `least` rows.
    """
    if chance(MAX_PLANNED_ROWS) < wanted:
        return None
    low, high = least, least
    while chance(high) < wanted:
        low, high = high, 2 * high
    while high - low > max(0.5, 1e-3 * high):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= wanted else (middle, high)
    return high


# Columns of the components of a group's cells: placements of its positives among negatives and
# among positives, of its negatives among positives and among negatives, and of its background.
_U, _V, _W, _T, _OUT_POSITIVE, _OUT_NEGATIVE = range(6)


@cache
def _draw_deviates() -> tuple[Floats, Floats]:
    """Draw the standard normal components twice, with the correlations within a group."""
    rng = np.random.default_rng(_SEED)
    distance = math.sqrt(2) * _NORMAL.inv_cdf(0.9)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_POINTS)
    weights = weights / weights.sum()
    cdf = np.vectorize(_NORMAL.cdf)
    among_other, among_own = cdf(nodes + distance), cdf(nodes)
    a, b = (values - weights @ values for values in (among_other, among_own))
    squares = (weights @ a**2) * (weights @ b**2)
    correlation = float(weights @ (a * b) / math.sqrt(squares))
    matrix = np.eye(6)
    matrix[_U, _V] = matrix[_V, _U] = matrix[_W, _T] = matrix[_T, _W] = correlation
    root = np.linalg.cholesky(matrix)
    first, second = (rng.standard_normal((_DRAWS, 6)) @ root.T for _ in range(2))
    return first, second


def _compute_effects(metric: str, value: float, counts: PlannedCounts) -> list[tuple[int, float]]:
    """Return the columns and signed standard errors of the components of a cell."""
    auc = value + METRICS[metric].centre
    size = math.sqrt(_placement_variance(auc))
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
    return [(column, sign * size / math.sqrt(n)) for column, n, sign in parts]


def _combine_effects(effects: list[tuple[int, float]], guess: PlanAssumptions) -> float:
    return math.sqrt(guess.inflation * sum(weight**2 for _, weight in effects))


def _keeps_margin(
    rule: Rule,
    value: float,
    limit: float,
    z: Floats,
    error: float,
    guess: PlanAssumptions,
    counts: PlannedCounts,
) -> npt.NDArray[np.bool_]:
    """Return the draws in which a difference is significantly within the margin."""
    scale = math.sqrt(2 * (1 - guess.correlation))
    smaller = min(_count_compared(rule.metric, counts)) / guess.inflation
    if rule.is_gap:  # the sign of the rival's gap is seldom certain
        scale *= _GAPS_AGREE
        wider = student_quantile((1 + rule.level) / 2) / student_quantile(rule.level)
        reach = wider * compute_unseen_reach(0.5, scale * error, smaller, rule.level)
        return np.asarray(scale * np.abs(z) + reach < limit)
    down, up = _compute_reaches(rule.metric, rule.level, value, error, counts)
    reach = compute_paired_reach(down, up, guess.correlation)
    if has_few_errors(value, *_count_compared(rule.metric, counts)):
        reach *= _FEW
    reach = max(reach, compute_unseen_reach(value - 0.5, scale * error, smaller, rule.level))
    return np.asarray(scale * z - reach > -limit)


def _keeps_limit(
    rule: Rule, value: float, limit: float, z: Floats, error: float, counts: PlannedCounts
) -> npt.NDArray[np.bool_]:
    """Return the draws in which a value is significantly within a floor or ceiling."""
    if rule.is_gap:
        return np.asarray(np.abs(value + z) + student_quantile(rule.level) * error <= limit)
    least = value  # the smallest estimate whose lower bound is not below the limit
    for _ in range(_STEPS):
        ratio = _placement_variance(round(least, 4)) / _placement_variance(value)
        own_error = error * math.sqrt(ratio)
        reach, _ = _compute_reaches(rule.metric, rule.level, least, own_error, counts)
        least = min(limit + reach, 1 - 1e-6)
    return np.asarray(_logit(value) + z / (value * (1 - value)) >= _logit(least))


def _logit(value: float) -> float:
    return math.log(value / (1 - value))


def _compute_reaches(
    metric: str, level: float, value: float, error: float, counts: PlannedCounts
) -> tuple[float, float]:
    """Return the distances from a cell to the lower and the upper end of its interval."""
    n_x, n_y = _count_compared(metric, counts)
    if METRICS[metric].is_gap or not has_few_errors(value, n_x, n_y):
        reach = student_quantile(level) * error
        return reach, reach
    low, high = auc_interval(value, error, n_y, n_x, student_quantile(level))
    return value - low, high - value


def _count_compared(metric: str, counts: PlannedCounts) -> tuple[float, float]:
    """Return the rows of the two classes that a metric compares."""
    pair = PAIRS[metric]
    return counts.own[pair.x], (counts.own if pair.inside else counts.outside)[pair.y]


@cache
def _placement_variance(auc: float) -> float:
    """Return the variance of a placement: P(two lower draws below an upper draw) - AUC^2."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_POINTS)
    distance = math.sqrt(2) * _NORMAL.inv_cdf(min(max(auc, 1e-9), 1 - 1e-9))
    below = np.array([_NORMAL.cdf(distance + node) for node in nodes])
    weights = weights / weights.sum()
    return float(weights @ below**2 - (weights @ below) ** 2)
