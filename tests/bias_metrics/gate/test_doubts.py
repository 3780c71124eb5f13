"""A useless model passes no rules, nor does a number that a few heavy rows decide."""

from dataclasses import replace

import numpy as np
import pytest

from bias_metrics import MetricValue, Rows, evaluate_bias
from bias_metrics.gate import Evidence, Flagged, Rule, decide, judge_usefulness, without_proof
from bias_metrics.parts import DominantUnits, dominant_units
from bias_metrics.table import BiasTable, Key, RowCounts

N = 4000


def overall(**auc):
    found = MetricValue(**{"value": 0.7, "low": 0.6, "high": 0.8} | auc)
    return BiasTable({Key("auc"): found}, {None: RowCounts(30, 70)})


def at(negative, positive):
    return Flagged(0.5, negative, positive)


@pytest.mark.parametrize(
    ("auc", "of_threshold", "found"),
    [
        ({}, None, []),
        ({"low": 0.5001}, None, []),
        ({"low": 0.5}, None, ["auc"]),
        ({"value": 0.3, "low": 0.2, "high": 0.4}, None, ["auc"]),
        ({"low": None, "high": None}, None, ["auc"]),
        ({"value": None, "low": None, "high": None}, None, []),
        ({}, at(0.0005, 0.0009), ["flag_rate"]),
        ({}, at(0.0005, 0.0011), []),
        ({}, at(1.0, 1.0), ["flag_rate"]),
        ({}, at(0.9991, 0.9989), []),
        ({}, at(None, 1.0), []),
        ({"low": 0.4}, at(0.0, 0.0), ["auc", "flag_rate"]),
    ],
)
def test_a_useless_model_lacks_what_no_rule_asks_for(auc, of_threshold, found):
    results = judge_usefulness(overall(**auc), of_threshold)
    assert [one.metric for one in results] == found
    assert all((one.outcome, one.counts) == ("insufficient", True) for one in results)


def test_on_these_rows_the_auc_itself_decides():
    unsure = overall(value=0.6, low=0.4, high=0.8)
    assert judge_usefulness(unsure)
    assert not judge_usefulness(unsure, is_sample=False)
    assert judge_usefulness(overall(value=0.5), is_sample=False)


HEAVY = [DominantUnits("gay", "positive", 2, 0.6, 4.0)]


def results_of(*rules):
    rng = np.random.default_rng(0)
    y_true = rng.random(N) < 0.3
    masks = {"gay": rng.random(N) < 0.3, "old": rng.random(N) < 0.3}
    report = evaluate_bias(y_true, rng.standard_normal(N) + 3 * y_true, masks, confidence=0.9)
    return decide({(None, rules[0].level): Evidence(report)}, rules).results


def test_a_pass_that_heavy_rows_decide_is_insufficient():
    bnsp, bpsn, overall_auc = (
        Rule("bnsp_auc", "each", floor=0.5),
        Rule("bpsn_auc", "each", floor=0.5),
        Rule("auc", "overall", floor=0.5),
    )
    results = results_of(bnsp, bpsn, overall_auc)
    assert {one.outcome for one in results} == {"pass"}
    found = without_proof(results, HEAVY)
    by_name = {(one.metric, one.group): one for one in found}
    # Toxic comments that mention gay people are in its BNSP AUC, and in no other's BPSN AUC.
    assert by_name["bnsp_auc", "gay"].outcome == "insufficient"
    assert by_name["bnsp_auc", "gay"].dominated_by == HEAVY[0]
    assert by_name["bnsp_auc", "old"].outcome == by_name["bpsn_auc", "gay"].outcome == "pass"
    assert by_name["bnsp_auc", "old"].dominated_by is None
    assert by_name["auc", None].outcome == "insufficient"
    assert by_name["auc", None].dominated_by == HEAVY[0]
    assert {one.reason for one in found} == {"met"}


def test_heavy_rows_among_all_are_in_every_background():
    (result, *_) = results_of(Rule("bpsn_auc", "each", floor=0.5))
    of_all = replace(HEAVY[0], subgroup=None)
    [found] = without_proof([result], [of_all])
    assert (found.outcome, found.dominated_by) == ("insufficient", of_all)


def test_values_and_clusters_and_what_does_not_pass_stay_as_they_are():
    by_value, failing = (
        Rule("bnsp_auc", "each", floor=0.5, mode="estimate"),
        Rule("bnsp_auc", "each", floor=1.0),
    )
    for results in (results_of(by_value), results_of(failing)):
        assert without_proof(results, HEAVY) == list(results)
    proven = results_of(Rule("bnsp_auc", "each", floor=0.5))
    assert without_proof(proven, [replace(HEAVY[0], weight=None)]) == list(proven)


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
        results = decide({(None, rule.level): Evidence(report)}, [rule]).results
        found = without_proof(results, dominant_units(rows))
        passed += sum(one.outcome == "pass" for one in results)
        doubted += sum(one.outcome == "pass" for one in found)
    assert passed > 0
    assert doubted == 0
