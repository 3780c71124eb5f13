"""The objective of a policy: the value and the paired difference."""

import numpy as np
import pytest

from bias_metrics import compare_bias, evaluate_bias
from bias_metrics.gate.objective import OBJECTIVES, Objective, measure_objective
from bias_metrics.gate.verdict import Evidence
from bias_metrics.table import BiasTable, Key

Y_TRUE = np.arange(400) % 2 == 1
GROUPS = {"gay": np.arange(400) % 3 == 0, "muslim": np.arange(400) % 5 == 0}
NOISE = np.random.default_rng(3).random(400)
GOOD, BAD = Y_TRUE + 1.3 * NOISE, Y_TRUE + 1.6 * NOISE


@pytest.fixture(scope="module")
def compared():
    return compare_bias(Y_TRUE, GOOD, BAD, GROUPS, confidence=0.9)


def build_evidence(compared):
    return Evidence(evaluate_bias(Y_TRUE, GOOD, GROUPS).add_numbers(compared, against="champion"))


@pytest.mark.parametrize("metric", OBJECTIVES)
def test_the_objective_is_the_paired_difference_of_the_comparison(compared, metric):
    objective = measure_objective(metric, build_evidence(compared), 0.95)
    expected = compared[Key(metric)]
    assert (objective.value, objective.rival) == (expected.first, expected.second)
    assert (objective.change, objective.low, objective.high) == (
        expected.value,
        expected.low,
        expected.high,
    )
    assert (objective.is_higher, objective.is_lower) == (True, False)


def test_the_other_way_round_it_is_shown_to_be_lower():
    turned = compare_bias(Y_TRUE, BAD, GOOD, GROUPS, confidence=0.9)
    objective = measure_objective("auc", build_evidence(turned), 0.95)
    assert (objective.is_higher, objective.is_lower) == (False, True)
    assert -0.1 < objective.change < objective.high < 0


@pytest.mark.parametrize("metric", OBJECTIVES)
def test_without_a_champion_there_is_a_value_alone(metric):
    report = evaluate_bias(Y_TRUE, GOOD, GROUPS)
    objective = measure_objective(metric, Evidence(report), 0.95)
    assert (objective.value, objective.change) == (report.overall[metric], None)
    assert (objective.is_higher, objective.is_lower) == (False, False)


def test_an_undefined_objective_says_why():
    groups = GROUPS | {"deaf": np.zeros(400, dtype=bool)}
    compared = compare_bias(Y_TRUE, GOOD, BAD, groups, confidence=0.9)
    objective = measure_objective("final_score", build_evidence(compared), 0.95)
    assert (objective.metric, objective.change) == ("final_score", None)
    assert "deaf" in objective.reason


def test_it_is_ready_for_json():
    content = Objective("auc", 0.95, 0.9).to_dict()
    assert (content["metric"], content["confidence"], content["value"]) == ("auc", 0.95, 0.9)


def test_another_metric_is_refused():
    with pytest.raises(ValueError, match=r"`metric` must be one of auc, subgroup_auc, .*'fped'"):
        measure_objective("fped", Evidence(BiasTable({}, {})), 0.95)
