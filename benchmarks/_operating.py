"""Operating characteristics of the gate: simulated rates of each outcome.

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
from datetime import date

import numpy as np
import numpy.typing as npt

from benchmarks._situations import Situation, iter_situations
from bias_metrics import (
    Rows,
    compare_bias,
    equal_error_range,
    equal_error_rate,
    evaluate_bias,
)
from bias_metrics.gate import judge_rules
from bias_metrics.gate.verdict import Evidence
from bias_metrics.thresholds import MeasuredRates

TODAY = date(2026, 1, 1)
Floats = npt.NDArray[np.float64]


def simulate_outcomes(situation: Situation, draws: int) -> Counter[str]:
    """Count the outcomes in samples, whose generator is seeded by the situation's name."""
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
        evidence = _measure_errors(situation, labels, members, first, second)
    elif second is None:
        evidence = Evidence(evaluate_bias(labels, first, members, confidence=level))
    else:
        comparison = compare_bias(labels, first, second, members, confidence=level)
        report = evaluate_bias(labels, first, members, intervals=False)
        evidence = Evidence(report.add_numbers(comparison, against="champion"))
    return judge_rules({(rule.slice, rule.level): evidence}, [rule]).outcome


def _measure_errors(
    situation: Situation,
    labels: npt.NDArray[np.bool_],
    members: dict[str, npt.NDArray[np.bool_]],
    first: Floats,
    second: Floats | None,
) -> Evidence:
    """Measure error rates as in an evaluation, each model at its threshold."""
    name, level = str(situation.rule.threshold), situation.rule.level

    def find_threshold(scores: Floats) -> tuple[float, tuple[float, float] | None]:
        if name == "given":
            return situation.at, None
        span = equal_error_range(labels, scores, confidence=level)
        return equal_error_rate(labels, scores).threshold or 0.0, span

    threshold, span = find_threshold(first)
    rows = Rows(labels, members)
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
    for situation in iter_situations():
        outcomes = simulate_outcomes(situation, draws)
        shares = [f"{outcomes[kind] / draws:.1%}" for kind in ("pass", "fail", "insufficient")]
        requirement = (
            f"at most {situation.most_passes:.1%} passes"
            if situation.most_passes < 1
            else f"at least {situation.least_passes:.0%} passes"
        )
        yield situation.name, *shares, requirement


if __name__ == "__main__":
    csv.writer(sys.stdout, lineterminator="\n").writerows(iter_table(2000))
