"""Rules on calibration: ceilings, margins, and scores that are no probabilities."""

import numpy as np
import pytest

from bias_metrics import Rows, calibration_report, compare_bias, compare_calibration, evaluate_bias
from bias_metrics.gate import Evidence
from bias_metrics.gate.decision import judge_rules, list_needed_evidence, needs_calibration
from bias_metrics.gate.rules import Rule
from bias_metrics.metrics import CALIBRATION_GAP
from bias_metrics.table import Key

N = 4000
RNG = np.random.default_rng(0)
CHANCE = RNG.beta(1.5, 2, N)
Y_TRUE = RNG.random(N) < CHANCE
MASKS = {"gay": RNG.random(N) < 0.3, "muslim": RNG.random(N) < 0.3}
OFF = np.clip(CHANCE + 0.15 * MASKS["gay"], 0, 1)


def group_results(gaps):
    return {Key(CALIBRATION_GAP, name): gap for name, gap in gaps.items()}


def judge_gap(rule, y_score, champion=None):
    rows, options = Rows(Y_TRUE, MASKS), {"confidence": rule.level}
    gaps = calibration_report(rows, y_score, **options).gaps
    table = evaluate_bias(rows, y_score, **options).add_numbers(group_results(gaps))
    if champion is not None:
        change = compare_calibration(rows, y_score, champion, **options).subgroups
        changes = group_results({name: cells[CALIBRATION_GAP] for name, cells in change.items()})
        compared = compare_bias(rows, y_score, champion, **options).add_numbers(changes)
        table = table.add_numbers(compared, against="champion")
    verdict = judge_rules(dict.fromkeys(list_needed_evidence([rule]), Evidence(table)), [rule])
    return {result.group: result for result in verdict.results}


def test_a_ceiling_on_the_calibration_gap():
    rule = Rule(metric="calibration_gap", scope="each", ceiling=0.08)
    results = judge_gap(rule, OFF)
    assert (results["gay"].outcome, results["muslim"].outcome) == ("fail", "pass")
    assert results["gay"].reason == "not_met"
    assert 0.08 < results["gay"].bound < results["gay"].value  # scores of mentions are too high
    assert judge_gap(rule, CHANCE)["gay"].outcome == "pass"


def test_the_worst_of_all():
    results = judge_gap(Rule(metric="calibration_gap", scope="worst", ceiling=0.08), OFF)
    assert [(result.group, result.outcome) for result in results.values()] == [("gay", "fail")]


def test_a_margin_against_the_champion():
    rule = Rule(metric="calibration_gap", scope="each", margin=0.4)
    assert {result.outcome for result in judge_gap(rule, CHANCE, CHANCE).values()} == {"pass"}
    assert judge_gap(rule, OFF, CHANCE)["muslim"].outcome == "pass"
    strict = Rule(metric="calibration_gap", scope="each", margin=0.05)
    worse = judge_gap(strict, OFF, CHANCE)["gay"]
    assert (worse.outcome, worse.reason) == ("fail", "not_met")
    assert 0.05 < worse.bound < abs(worse.value) - abs(worse.rival)
    assert judge_gap(strict, CHANCE, OFF)["gay"].outcome == "pass"


def test_scores_that_are_no_probabilities_are_an_error():
    results = judge_gap(Rule(metric="calibration_gap", scope="each", ceiling=0.1), CHANCE * 2 - 1)
    assert (results["gay"].outcome, results["gay"].reason) == ("error", "undefined")
    assert "scores are not probabilities" in results["gay"].why


def test_evidence_without_calibration_is_refused():
    rule = Rule(metric="calibration_gap", scope="each", ceiling=0.1)
    report = evaluate_bias(Y_TRUE, CHANCE, MASKS)
    evidence = dict.fromkeys(list_needed_evidence([rule]), Evidence(report))
    with pytest.raises(ValueError, match="must have the calibration that calibration_gap"):
        judge_rules(evidence, [rule])


def test_only_rules_on_calibration_need_it():
    assert needs_calibration([Rule(metric="calibration_gap", scope="each", ceiling=0.1)])
    assert not needs_calibration([Rule(metric="bpsn_auc", scope="each", floor=0.1)])
