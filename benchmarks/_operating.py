"""Operating characteristics of the gate: simulated rates of its outcomes.

Scores are normal within each class and group, so that every population value is known. Rules are
judged by `bias_metrics.gate.judge_rules`, as in an evaluation.
`python -m benchmarks._operating` prints docs/evidence/operating.csv.
"""

from __future__ import annotations

import csv
import math
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics import (
    Rows,
    compare_bias,
    equal_error_range,
    equal_error_rate,
    evaluate_bias,
)
from bias_metrics.gate import judge_rules
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.verdict import Evidence
from bias_metrics.thresholds import MeasuredRates

ALPHA = 0.05
_NORMAL = NormalDist()
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Situation:
    """A rule, and a population with known values of its metric."""

    name: str
    rule: Rule
    candidate: tuple[float, ...]
    """Upward shift of harmless comments per group, in standard deviations."""
    champion: tuple[float, ...] | None = None
    n_positive: int = 200
    """Rows per group; the background has five times as many."""
    n_negative: int = 200
    passes: tuple[float, float] = (0.0, ALPHA)
    """Smallest and largest allowed share of passes."""
    separation: float = 2.0
    """Distance between the classes, in standard deviations."""
    correlation: float = 0.8
    """Correlation of the two models' scores."""
    given_threshold: float = 1.0
    outcomes_allowed: frozenset[str] = frozenset({"pass", "fail", "insufficient"})


def find_bpsn_shift(bpsn: float) -> float:
    """Return the shift that results in a BPSN AUC."""
    return Situation.separation - math.sqrt(2) * _NORMAL.inv_cdf(bpsn)


def find_gap_shift(gap: float) -> float:
    """Return the shift that results in a Negative AEG."""
    return math.sqrt(2) * _NORMAL.inv_cdf(gap + 0.5)


def find_rate_shift(gap: float, threshold: float = Situation.given_threshold) -> float:
    """Return the shift that results in an FPR gap at a threshold."""
    return threshold + _NORMAL.inv_cdf(gap + _NORMAL.cdf(-threshold))


def find_equal_error_shift(gap: float, share: float = 1 / 6) -> float:
    """Return the shift that results in an FPR gap at the threshold of equal errors.

    The threshold depends on the shift, and the more so the larger the group's share of the rows.
    """
    low, high = -10.0, 10.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        missed = _NORMAL.cdf(middle - Situation.separation)
        excess = _NORMAL.cdf(-middle) + share * gap - missed
        low, high = (middle, high) if excess > 0 else (low, middle)
    return find_rate_shift(gap, low)


FLOOR = Rule("bpsn_auc", "each", floor=0.85)
MARGIN = Rule("bpsn_auc", "each", margin=0.03)
GAP_CEILING = Rule("negative_aeg", "each", ceiling=0.2)
GAP_MARGIN = Rule("negative_aeg", "each", margin=0.05)
RATE = {"metric": "fpr_gap", "scope": "each", "threshold": "given"}
RATE_MARGIN = Rule(**RATE, margin=0.05)
EQUAL = RATE | {"threshold": "equal_errors"}
AT_FLOOR = (find_bpsn_shift(0.85),)
BELOW_MARGIN = (find_bpsn_shift(0.82),)
RARE = -_NORMAL.inv_cdf(0.01)
"""The threshold at which 1 % of the harmless comments of the background are flagged."""
MUST_PASS = {"passes": (0.99, 1.0), "outcomes_allowed": frozenset({"pass"})}
# Situations have a single group unless their name gives a number.
SITUATIONS = (
    Situation("floor, value at it", FLOOR, AT_FLOOR),
    Situation("floor, value .05 below", FLOOR, (find_bpsn_shift(0.8),), passes=(0, 0.001)),
    Situation("floor, value .07 above", FLOOR, (find_bpsn_shift(0.92),), passes=(0.95, 1)),
    Situation(
        "floor on the worst of 8 tied groups at it",
        Rule("bpsn_auc", "worst", floor=0.85),
        AT_FLOOR * 8,
    ),
    Situation("ceiling, gap at it", GAP_CEILING, (find_gap_shift(0.2),)),
    Situation("ceiling, gap of the other sign at it", GAP_CEILING, (find_gap_shift(-0.2),)),
    Situation("ceiling, no gap", GAP_CEILING, (0.0,), passes=(0.95, 1)),
    Situation("margin, worse by exactly it", MARGIN, BELOW_MARGIN, AT_FLOOR),
    Situation("margin, 4 groups all worse by exactly it", MARGIN, BELOW_MARGIN * 4, AT_FLOOR * 4),
    Situation(
        "margin, equally good, correlation .95",
        MARGIN,
        AT_FLOOR,
        AT_FLOOR,
        passes=(0.9, 1),
        correlation=0.95,
    ),
    Situation(
        "margin, better by .03", MARGIN, (find_bpsn_shift(0.88),), AT_FLOOR, passes=(0.95, 1)
    ),
    Situation(
        "margin on a gap, wider by exactly it",
        GAP_MARGIN,
        (find_gap_shift(0.2),),
        (find_gap_shift(0.15),),
    ),
    Situation(
        "margin on a gap, wider by exactly it with the other sign",
        GAP_MARGIN,
        (find_gap_shift(-0.2),),
        (find_gap_shift(0.15),),
    ),
    *(
        Situation(
            f"margin on a gap, from 0 to {gap:+.2f} by exactly it",
            GAP_MARGIN,
            (find_gap_shift(gap),),
            (0.0,),
        )
        for gap in (0.05, -0.05)
    ),
    Situation(
        "margin on a gap that shrinks from .30 to .10",
        GAP_MARGIN,
        (find_gap_shift(0.1),),
        (find_gap_shift(0.3),),
        **MUST_PASS,
    ),
    Situation(
        "margin on a gap that turns from +.30 to -.10",
        GAP_MARGIN,
        (find_gap_shift(-0.1),),
        (find_gap_shift(0.3),),
        **MUST_PASS,
    ),
    Situation(
        "too few positives for the rule, however good",
        Rule(metric="subgroup_auc", scope="each", floor=0.5, min_positives=25),
        (0.0,),
        n_positive=10,
        passes=(0, 0),
        separation=4.0,
        outcomes_allowed=frozenset({"insufficient"}),
    ),
    *(
        Situation(
            f"ceiling at a given threshold, FPR gap {sign}at it",
            Rule(**RATE, ceiling=0.1),
            (find_rate_shift(gap),),
        )
        for gap, sign in ((0.1, ""), (-0.1, "of the other sign "))
    ),
    Situation(
        "ceiling at a given threshold, FPR gap at it, 25 rows of each class",
        Rule(**RATE, ceiling=0.3),
        (find_rate_shift(0.3),),
        n_positive=25,
        n_negative=25,
    ),
    Situation(
        "ceiling at a given threshold, FPR gap at it, rates of 1 and 6 %",
        Rule(**RATE, ceiling=0.05),
        (find_rate_shift(0.05, RARE),),
        given_threshold=RARE,
    ),
    Situation(
        "ceiling at a given threshold, no gap",
        Rule(**RATE, ceiling=0.15),
        (0.0,),
        passes=(0.95, 1),
    ),
    *(
        Situation(
            f"ceiling at equal errors, FPR gap {sign}at it",
            Rule(**EQUAL, ceiling=0.1),
            (find_equal_error_shift(gap),),
        )
        for gap, sign in ((0.1, ""), (-0.1, "of the other sign "))
    ),
    Situation(
        "ceiling at equal errors, FPR gap at it, 60 toxic rows in all",
        Rule(**EQUAL, ceiling=0.3),
        (find_equal_error_shift(0.3),),
        n_positive=10,
        n_negative=1000,
    ),
    Situation(
        "margin on an FPR gap, wider by exactly it",
        RATE_MARGIN,
        (find_rate_shift(0.15),),
        (find_rate_shift(0.1),),
    ),
    Situation(
        "margin on an FPR gap, wider by exactly it with the other sign",
        RATE_MARGIN,
        (find_rate_shift(-0.1),),
        (find_rate_shift(0.05),),
    ),
    Situation(
        "margin on an FPR gap, wider by exactly it, rates of 1 and 6 %",
        RATE_MARGIN,
        (find_rate_shift(0.05, RARE),),
        (0.0,),
        given_threshold=RARE,
    ),
    Situation(
        "margin on an FPR gap, from 0 to +0.05 by exactly it",
        RATE_MARGIN,
        (find_rate_shift(0.05),),
        (0.0,),
    ),
    Situation(
        "margin on an FPR gap at equal errors, wider by exactly it",
        Rule(**EQUAL, margin=0.05),
        (find_equal_error_shift(0.15),),
        (find_equal_error_shift(0.1),),
    ),
    Situation(
        "margin on an FPR gap that shrinks from .30 to .05",
        RATE_MARGIN,
        (find_rate_shift(0.05),),
        (find_rate_shift(0.3),),
        **MUST_PASS,
    ),
)


def simulate_outcomes(situation: Situation, draws: int) -> Counter[str]:
    """Count the outcomes in samples from a generator seeded by the situation's name."""
    rng = np.random.default_rng(zlib.crc32(situation.name.encode()))
    return Counter(_judge_sample(situation, rng) for _ in range(draws))


def _judge_sample(situation: Situation, rng: np.random.Generator) -> str:
    n_groups = len(situation.candidate)
    sizes = [(situation.n_positive, situation.n_negative)] * n_groups
    sizes.append((5 * situation.n_positive, 5 * situation.n_negative))
    group = np.repeat(np.arange(n_groups + 1), list(map(sum, sizes)))
    labels = np.concatenate([np.arange(sum(counts)) < counts[0] for counts in sizes])
    members = {str(i): group == i for i in range(n_groups)}
    common = rng.standard_normal(labels.size) * math.sqrt(situation.correlation)

    def draw_scores(shifts: tuple[float, ...]) -> Floats:
        noise = rng.standard_normal(labels.size) * math.sqrt(1 - situation.correlation)
        shift = np.array([*shifts, 0.0])[group] * ~labels
        return common + noise + situation.separation * labels + shift

    rule, level = situation.rule, situation.rule.level
    first = draw_scores(situation.candidate)
    second = None if situation.champion is None else draw_scores(situation.champion)
    if rule.threshold is not None:
        evidence = _measure_errors(situation, Rows(labels, members), first, second)
    elif second is None:
        evidence = Evidence(evaluate_bias(labels, first, members, confidence=level))
    else:
        comparison = compare_bias(labels, first, second, members, confidence=level)
        report = evaluate_bias(labels, first, members, intervals=False)
        evidence = Evidence(report.add_numbers(comparison, against="champion"))
    return judge_rules({(rule.slice, rule.level): evidence}, [rule]).outcome


def _measure_errors(
    situation: Situation, rows: Rows, first: Floats, second: Floats | None
) -> Evidence:
    """Measure error rates as in an evaluation, each model at its threshold."""
    name, level = str(situation.rule.threshold), situation.rule.level

    def find_threshold(scores: Floats) -> tuple[float, tuple[float, float] | None]:
        if name == "given":
            return situation.given_threshold, None
        span = equal_error_range(rows.y_true, scores, confidence=level)
        return equal_error_rate(rows.y_true, scores).threshold or 0.0, span

    threshold, span = find_threshold(first)
    gaps = MeasuredRates(rows, {"y_score": first}, [threshold]).measure_gaps(
        level, span, threshold_name=name
    )
    table = evaluate_bias(rows, first, intervals=False).add_numbers(gaps)
    if second is None:
        return Evidence(table)
    threshold_b, span_b = find_threshold(second)
    rates = MeasuredRates(rows, {"y_score_a": first, "y_score_b": second}, [threshold, threshold_b])
    comparison = rates.compare_gaps(level, (span, span_b), threshold_name=name)
    return Evidence(table.add_numbers(comparison, against="champion"))


def get_error_allowance(share: float, draws: int) -> float:
    """Return two Monte Carlo errors of a share."""
    return 2 * math.sqrt(share * (1 - share) / draws)


def iter_table(draws: int) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table of outcomes."""
    yield "situation", "passes", "fails", "insufficient", "required"
    for situation in SITUATIONS:
        outcomes = simulate_outcomes(situation, draws)
        shares = [f"{outcomes[kind] / draws:.1%}" for kind in ("pass", "fail", "insufficient")]
        least, most = situation.passes
        requirement = f"at most {most:.1%} passes" if most < 1 else f"at least {least:.0%} passes"
        yield situation.name, *shares, requirement


if __name__ == "__main__":
    csv.writer(sys.stdout, lineterminator="\n").writerows(iter_table(2000))
