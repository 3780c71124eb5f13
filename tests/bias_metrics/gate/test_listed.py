"""Rows that are the whole list in question: values decide."""

import pytest
from support.gate_cells import cell, change, content, evidence_of, number

from bias_metrics import MetricValue
from bias_metrics.gate.decision import judge_rules, list_needed_evidence
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.targets import remove_sampling_error


def test_a_number_of_a_list_has_no_error_and_an_undefined_one_stays_undefined():
    exact = remove_sampling_error(MetricValue(0.9, None, 0.05, 0.8, 0.95, 0.1, 3))
    assert exact == MetricValue(0.9, std_error=0.0, low=0.9, high=0.9)
    undefined = MetricValue(None, "no positives")
    assert remove_sampling_error(undefined) == undefined


def test_a_difference_on_a_list_has_the_exact_change_of_its_size():
    drawn = number(change(-0.3, 0.1, -0.5, 0.2, gap=True) | {"p_value": 0.1}, "champion")
    exact = remove_sampling_error(drawn)
    assert (exact.low, exact.high) == (-0.4, -0.4)
    assert exact.size_low == exact.size_high == pytest.approx(0.2)
    assert exact.p_value is None


@pytest.mark.parametrize(("value", "outcome"), [(0.8, "pass"), (0.7999, "fail")])
def test_on_a_list_the_value_decides_however_few_its_clusters(value, outcome):
    rule = Rule("bpsn_auc", "each", floor=0.8)
    report = content(cell(value, 0.1, 0.99, n_clusters=3))
    sampled, listed = (
        judge_rules(
            {list_needed_evidence([rule])[0]: evidence_of(report, is_sample=is_sample)}, [rule]
        )
        for is_sample in (True, False)
    )
    assert sampled.outcome == "insufficient"
    assert listed.outcome == outcome
    [drawn], [whole] = sampled.results, listed.results
    assert (whole.metric, whole.group, whole.mode) == ("bpsn_auc", "muslim", "estimate")
    assert (whole.on_these_rows, drawn.on_these_rows) == (True, False)


def test_on_a_list_no_number_of_rows_is_too_few_but_an_undefined_number_is_an_error():
    rule = Rule("bpsn_auc", "each", floor=0.8, min_negatives=500)
    key = list_needed_evidence([rule])[0]
    for exact, outcome in ((cell(0.9), "pass"), ({"value": None, "reason": "none"}, "error")):
        evidence = {key: evidence_of(content(exact), is_sample=False)}
        assert judge_rules(evidence, [rule]).outcome == outcome


def test_on_a_list_one_row_of_each_class_in_one_cluster_is_enough():
    rule = Rule("subgroup_auc", "each", floor=0.8)
    report = content(cell(0.9, 0.9, 0.9, n_clusters=1), n=2, n_positive=1)
    evidence = {list_needed_evidence([rule])[0]: evidence_of(report, is_sample=False)}
    assert judge_rules(evidence, [rule]).outcome == "pass"
