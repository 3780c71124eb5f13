"""Support of rows with sampling weights: how many rows of equal weight they are worth."""

import numpy as np
import pytest

from bias_metrics import evaluate_bias
from bias_metrics.gate import Evidence
from bias_metrics.gate.decision import judge_rules, list_needed_evidence
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.verdict import Lack

N = 2000
RNG = np.random.default_rng(0)
Y_TRUE = RNG.random(N) < 0.5
MASKS = {"gay": RNG.random(N) < 0.2}
Y_SCORE = RNG.normal(3.0 * Y_TRUE, 1)
WEIGHT = np.where(np.arange(N) % 4 == 0, 9.0, 1.0)


def judge_weights(weight, **options):
    rule = Rule(metric="bnsp_auc", scope="each", floor=0.5, **options)
    report = evaluate_bias(Y_TRUE, Y_SCORE, MASKS, sample_weight=weight)
    evidence = dict.fromkeys(list_needed_evidence([rule]), Evidence(report))
    return judge_rules(evidence, [rule]).results[0]


def count_effective(rows):
    return WEIGHT[rows].sum() ** 2 / (WEIGHT[rows] ** 2).sum()


@pytest.mark.parametrize(
    ("option", "label", "side", "rows"),
    [
        ("min_positives", "positive", "", Y_TRUE & MASKS["gay"]),
        ("min_negatives", "negative", "background", ~Y_TRUE & ~MASKS["gay"]),
    ],
    ids=["subgroup", "background"],
)
def test_rows_count_as_the_equal_ones_that_they_are_worth(option, label, side, rows):
    worth = int(count_effective(rows))
    assert worth < rows.sum() / 2
    least = {"min_positives": 2, "min_negatives": 2}
    assert judge_weights(WEIGHT, **least | {option: worth}).outcome == "pass"
    lacking = judge_weights(WEIGHT, **least | {option: worth + 1})
    assert (lacking.outcome, lacking.reason) == ("insufficient", "few_rows")
    assert lacking.lack == Lack(label, worth, worth + 1, side=side, effective=True)


def test_equal_weights_are_worth_their_number_of_rows():
    n = int((Y_TRUE & MASKS["gay"]).sum())
    assert judge_weights(np.full(N, 0.1), min_positives=n).outcome == "pass"
    assert judge_weights(np.full(N, 0.1), min_positives=n + 1).outcome == "insufficient"
