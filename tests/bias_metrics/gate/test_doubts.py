"""A useless model passes no rules, nor does a number that a few heavy rows decide."""

from dataclasses import replace

import numpy as np
import pytest

from bias_metrics import MetricValue, Rows, evaluate_bias
from bias_metrics.gate import (
    Evidence,
    FlagRates,
    Rule,
    judge_rules,
    judge_usefulness,
    withdraw_dominated_passes,
)
from bias_metrics.parts import DominantUnits, find_dominant_units
from bias_metrics.table import BiasTable, Key, RowCounts

N = 4000


def build_table(**auc):
    estimate = MetricValue(**{"value": 0.7, "low": 0.6, "high": 0.8} | auc)
    return BiasTable({Key("auc"): estimate}, {None: RowCounts(30, 70)})


def build_flags(negative, positive):
    return FlagRates(0.5, negative, positive)


@pytest.mark.parametrize(
    ("auc", "of_threshold", "lacking"),
    [
        ({}, None, []),
        ({"low": 0.5001}, None, []),
        ({"low": 0.5}, None, ["auc"]),
        ({"value": 0.3, "low": 0.2, "high": 0.4}, None, ["auc"]),
        ({"low": None, "high": None}, None, ["auc"]),
        ({"value": None, "low": None, "high": None}, None, []),
        ({}, build_flags(0.0005, 0.0009), ["flag_rate"]),
        ({}, build_flags(0.0005, 0.0011), []),
        ({}, build_flags(1.0, 1.0), ["flag_rate"]),
        ({}, build_flags(0.9991, 0.9989), []),
        ({}, build_flags(None, 1.0), []),
        ({"low": 0.4}, build_flags(0.0, 0.0), ["auc", "flag_rate"]),
    ],
)
def test_a_useless_model_lacks_what_no_rule_asks_for(auc, of_threshold, lacking):
    results = judge_usefulness(build_table(**auc), of_threshold)
    assert [result.metric for result in results] == lacking
    assert all((result.outcome, result.is_counted) == ("insufficient", True) for result in results)


def test_on_these_rows_the_auc_itself_decides():
    unsure = build_table(value=0.6, low=0.4, high=0.8)
    assert judge_usefulness(unsure)
    assert not judge_usefulness(unsure, is_sample=False)
    assert judge_usefulness(build_table(value=0.5), is_sample=False)


HEAVY = [DominantUnits("gay", "positive", 2, 0.6, 4.0)]


def judge_scores(*rules):
    rng = np.random.default_rng(0)
    y_true = rng.random(N) < 0.3
    masks = {"gay": rng.random(N) < 0.3, "old": rng.random(N) < 0.3}
    report = evaluate_bias(y_true, rng.standard_normal(N) + 3 * y_true, masks, confidence=0.9)
    return judge_rules({(None, rules[0].level): Evidence(report)}, rules).results


def test_a_pass_that_heavy_rows_decide_is_insufficient():
    bnsp, bpsn, overall_auc = (
        Rule("bnsp_auc", "each", floor=0.5),
        Rule("bpsn_auc", "each", floor=0.5),
        Rule("auc", "overall", floor=0.5),
    )
    results = judge_scores(bnsp, bpsn, overall_auc)
    assert {result.outcome for result in results} == {"pass"}
    withdrawn = withdraw_dominated_passes(results, HEAVY)
    by_name = {(result.metric, result.group): result for result in withdrawn}
    # Toxic comments that mention gay people are in its BNSP AUC, and in no other's BPSN AUC.
    assert by_name["bnsp_auc", "gay"].outcome == "insufficient"
    assert by_name["bnsp_auc", "gay"].dominated_by == HEAVY[0]
    assert by_name["bnsp_auc", "old"].outcome == by_name["bpsn_auc", "gay"].outcome == "pass"
    assert by_name["bnsp_auc", "old"].dominated_by is None
    assert by_name["auc", None].outcome == "insufficient"
    assert by_name["auc", None].dominated_by == HEAVY[0]
    assert {result.reason for result in withdrawn} == {"met"}


def test_heavy_rows_among_all_are_in_every_background():
    (result, *_) = judge_scores(Rule("bpsn_auc", "each", floor=0.5))
    of_all = replace(HEAVY[0], subgroup=None)
    [withdrawn] = withdraw_dominated_passes([result], [of_all])
    assert (withdrawn.outcome, withdrawn.dominated_by) == ("insufficient", of_all)


def test_values_and_clusters_and_what_does_not_pass_stay_as_they_are():
    by_value, failing = (
        Rule("bnsp_auc", "each", floor=0.5, mode="estimate"),
        Rule("bnsp_auc", "each", floor=1.0),
    )
    for results in (judge_scores(by_value), judge_scores(failing)):
        assert withdraw_dominated_passes(results, HEAVY) == list(results)
    proven = judge_scores(Rule("bnsp_auc", "each", floor=0.5))
    assert withdraw_dominated_passes(proven, [replace(HEAVY[0], weight=None)]) == list(proven)


def test_weights_that_go_with_the_score_prove_no_floor():
    """Rows that are flagged high weigh 200 times as much as others; few of them are drawn."""
    rng = np.random.default_rng(1)
    passed = doubted = 0
    for _ in range(40):
        y_true = rng.random(1500) < 0.3
        y_score = rng.standard_normal(1500) + 1.2 * y_true
        weight = np.where(rng.random(1500) < 0.02, 3.8, 0.02)
        mask = rng.random(1500) < 0.1
        rows = Rows(y_true, {"gay": mask}, sample_weight=weight)
        report = evaluate_bias(rows, y_score, confidence=0.9)
        rule = Rule("subgroup_auc", "each", floor=0.6)
        results = judge_rules({(None, rule.level): Evidence(report)}, [rule]).results
        withdrawn = withdraw_dominated_passes(results, find_dominant_units(rows))
        passed += sum(result.outcome == "pass" for result in results)
        doubted += sum(result.outcome == "pass" for result in withdrawn)
    assert passed > 0
    assert doubted == 0
