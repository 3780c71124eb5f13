"""Situations for simulations of the gate: rules, with known populations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import NormalDist

from bias_metrics.gate.rules import Rule

ALPHA = 0.05
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Situation:
    """A rule, and a population with known values of its metric.

    Attributes
    ----------
    name : str
        Description in words.
    rule : Rule
        The rule.
    candidate, champion : tuple of float
        Upward shift of each group's harmless comments, in standard deviations.
    n_positive, n_negative : int
        Rows of each class in each group; the background has five times as many.
    most_passes, least_passes : float
        Limits on the share of passes.
    separation : float
        Distance between the classes, in standard deviations.
    correlation : float
        Correlation of the two models' scores.
    at : float
        The given threshold, for rules on error rates at it.
    """

    name: str
    rule: Rule
    candidate: tuple[float, ...]
    champion: tuple[float, ...] | None = None
    n_positive: int = 200
    n_negative: int = 200
    most_passes: float = 1.0
    least_passes: float = 0.0
    separation: float = 2.0
    correlation: float = 0.8
    at: float = 1.0
    outcomes_allowed: frozenset[str] = field(default=frozenset({"pass", "fail", "insufficient"}))


def find_bpsn_shift(bpsn: float, separation: float) -> float:
    """Return the shift that results in a BPSN AUC."""
    return separation - math.sqrt(2) * _NORMAL.inv_cdf(bpsn)


def find_gap_shift(gap: float) -> float:
    """Return the shift that results in a Negative AEG."""
    return math.sqrt(2) * _NORMAL.inv_cdf(gap + 0.5)


def find_rate_shift(gap: float, at: float) -> float:
    """Return the shift that results in an FPR gap at a threshold."""
    return at + _NORMAL.inv_cdf(gap + _NORMAL.cdf(-at))


def find_equal_error_shift(gap: float, separation: float, share: float = 1 / 6) -> float:
    """Return the shift that results in an FPR gap at the threshold of equal errors.

    The threshold depends on the shift, and the more so the larger the group's share of the rows.
    """
    low, high = -10.0, 10.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        excess = _NORMAL.cdf(-middle) + share * gap - _NORMAL.cdf(middle - separation)
        low, high = (middle, high) if excess > 0 else (low, middle)
    return find_rate_shift(gap, low)


def iter_situations() -> Iterator[Situation]:
    """Yield all situations. They have a single group unless their name gives a number."""
    yield from _iter_score_situations()
    yield from _iter_error_situations()


def _iter_error_situations() -> Iterator[Situation]:
    """Yield the situations with rules on error rates at a threshold."""
    given = {"metric": "fpr_gap", "scope": "each", "threshold": "given"}
    equal = given | {"threshold": "equal_errors"}
    for gap, name in ((0.1, "FPR gap at it"), (-0.1, "FPR gap of the other sign at it")):
        yield Situation(
            f"ceiling at a given threshold, {name}",
            Rule(**given, ceiling=0.1),
            (find_rate_shift(gap, 1.0),),
            most_passes=ALPHA,
        )
    yield Situation(
        "ceiling at a given threshold, FPR gap at it, 25 rows of each class",
        Rule(**given, ceiling=0.3),
        (find_rate_shift(0.3, 1.0),),
        n_positive=25,
        n_negative=25,
        most_passes=ALPHA,
    )
    yield Situation(
        "ceiling at a given threshold, FPR gap at it, rates of 1 and 6 %",
        Rule(**given, ceiling=0.05),
        (find_rate_shift(0.05, -_NORMAL.inv_cdf(0.01)),),
        most_passes=ALPHA,
        at=-_NORMAL.inv_cdf(0.01),
    )
    yield Situation(
        "ceiling at a given threshold, no gap",
        Rule(**given, ceiling=0.15),
        (0.0,),
        least_passes=0.95,
    )
    for gap, name in ((0.1, "FPR gap at it"), (-0.1, "FPR gap of the other sign at it")):
        yield Situation(
            f"ceiling at equal errors, {name}",
            Rule(**equal, ceiling=0.1),
            (find_equal_error_shift(gap, 2.0),),
            most_passes=ALPHA,
        )
    yield Situation(
        "ceiling at equal errors, FPR gap at it, 60 toxic rows in all",
        Rule(**equal, ceiling=0.3),
        (find_equal_error_shift(0.3, 2.0),),
        n_positive=10,
        n_negative=1000,
        most_passes=ALPHA,
    )
    wide = find_rate_shift(0.15, 1.0)
    yield Situation(
        "margin on an FPR gap, wider by exactly it",
        Rule(**given, margin=0.05),
        (wide,),
        (find_rate_shift(0.1, 1.0),),
        most_passes=ALPHA,
    )
    yield Situation(
        "margin on an FPR gap, wider by exactly it with the other sign",
        Rule(**given, margin=0.05),
        (find_rate_shift(-0.1, 1.0),),
        (find_rate_shift(0.05, 1.0),),
        most_passes=ALPHA,
    )
    yield Situation(
        "margin on an FPR gap, wider by exactly it, rates of 1 and 6 %",
        Rule(**given, margin=0.05),
        (find_rate_shift(0.05, -_NORMAL.inv_cdf(0.01)),),
        (0.0,),
        most_passes=ALPHA,
        at=-_NORMAL.inv_cdf(0.01),
    )
    yield Situation(
        "margin on an FPR gap, from 0 to +0.05 by exactly it",
        Rule(**given, margin=0.05),
        (find_rate_shift(0.05, 1.0),),
        (0.0,),
        most_passes=ALPHA,
    )
    yield Situation(
        "margin on an FPR gap at equal errors, wider by exactly it",
        Rule(**equal, margin=0.05),
        (find_equal_error_shift(0.15, 2.0),),
        (find_equal_error_shift(0.1, 2.0),),
        most_passes=ALPHA,
    )
    yield Situation(
        "margin on an FPR gap that shrinks from .30 to .05",
        Rule(**given, margin=0.05),
        (find_rate_shift(0.05, 1.0),),
        (find_rate_shift(0.3, 1.0),),
        least_passes=0.99,
        outcomes_allowed=frozenset({"pass"}),
    )


def _iter_score_situations() -> Iterator[Situation]:
    """Yield the situations with rules on AUCs and AEGs."""
    at = find_bpsn_shift(0.85, 2.0)
    bpsn = {"metric": "bpsn_auc", "scope": "each"}
    gap = {"metric": "negative_aeg", "scope": "each"}
    yield Situation("floor, value at it", Rule(**bpsn, floor=0.85), (at,), most_passes=ALPHA)
    yield Situation(
        "floor, value .05 below",
        Rule(**bpsn, floor=0.85),
        (find_bpsn_shift(0.8, 2.0),),
        most_passes=0.001,
    )
    yield Situation(
        "floor, value .07 above",
        Rule(**bpsn, floor=0.85),
        (find_bpsn_shift(0.92, 2.0),),
        least_passes=0.95,
    )
    yield Situation(
        "floor on the worst of 8 tied groups at it",
        Rule("bpsn_auc", "worst", floor=0.85),
        (at,) * 8,
        most_passes=ALPHA,
    )
    yield Situation(
        "ceiling, gap at it", Rule(**gap, ceiling=0.2), (find_gap_shift(0.2),), most_passes=ALPHA
    )
    yield Situation(
        "ceiling, gap of the other sign at it",
        Rule(**gap, ceiling=0.2),
        (find_gap_shift(-0.2),),
        most_passes=ALPHA,
    )
    yield Situation("ceiling, no gap", Rule(**gap, ceiling=0.2), (0.0,), least_passes=0.95)
    equal = (at,)
    yield Situation(
        "margin, worse by exactly it",
        Rule(**bpsn, margin=0.03),
        (find_bpsn_shift(0.82, 2.0),),
        equal,
        most_passes=ALPHA,
    )
    yield Situation(
        "margin, 4 groups all worse by exactly it",
        Rule(**bpsn, margin=0.03),
        (find_bpsn_shift(0.82, 2.0),) * 4,
        equal * 4,
        most_passes=ALPHA,
    )
    yield Situation(
        "margin, equally good, correlation .95",
        Rule(**bpsn, margin=0.03),
        equal,
        equal,
        least_passes=0.9,
        correlation=0.95,
    )
    yield Situation(
        "margin, better by .03",
        Rule(**bpsn, margin=0.03),
        (find_bpsn_shift(0.88, 2.0),),
        equal,
        least_passes=0.95,
    )
    yield Situation(
        "margin on a gap, wider by exactly it",
        Rule(**gap, margin=0.05),
        (find_gap_shift(0.2),),
        (find_gap_shift(0.15),),
        most_passes=ALPHA,
    )
    yield Situation(
        "margin on a gap, wider by exactly it with the other sign",
        Rule(**gap, margin=0.05),
        (find_gap_shift(-0.2),),
        (find_gap_shift(0.15),),
        most_passes=ALPHA,
    )
    for gap_now in (0.05, -0.05):
        yield Situation(
            f"margin on a gap, from 0 to {gap_now:+.2f} by exactly it",
            Rule(**gap, margin=0.05),
            (find_gap_shift(gap_now),),
            (0.0,),
            most_passes=ALPHA,
        )
    yield Situation(
        "margin on a gap that shrinks from .30 to .10",
        Rule(**gap, margin=0.05),
        (find_gap_shift(0.1),),
        (find_gap_shift(0.3),),
        least_passes=0.99,
        outcomes_allowed=frozenset({"pass"}),
    )
    yield Situation(
        "margin on a gap that turns from +.30 to -.10",
        Rule(**gap, margin=0.05),
        (find_gap_shift(-0.1),),
        (find_gap_shift(0.3),),
        least_passes=0.99,
        outcomes_allowed=frozenset({"pass"}),
    )
    yield Situation(
        "too few positives for the rule, however good",
        Rule(metric="subgroup_auc", scope="each", floor=0.5, min_positives=25),
        (0.0,),
        n_positive=10,
        most_passes=0.0,
        separation=4.0,
        outcomes_allowed=frozenset({"insufficient"}),
    )
