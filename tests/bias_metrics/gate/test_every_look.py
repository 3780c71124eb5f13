"""Rules on rows of several nights, with bounds that hold at every night together."""

from dataclasses import replace

import pytest
from support.gate_cells import TODAY, cell, content

from bias_metrics.gate.decide import decide, evidence_needed
from bias_metrics.gate.rules import Rule, for_every_look
from bias_metrics.gate.verdict import Evidence

RULE = Rule("bpsn_auc", "each", floor=0.8)


def result(**evidence):
    known = Evidence(content(cell(0.9, 0.85, 0.95)), **evidence)
    [found] = decide({evidence_needed([RULE])[0]: known}, [RULE], today=TODAY).results
    return found


def test_rules_ask_for_twenty_rows_of_each_class_at_least():
    few, many = (
        Rule("auc", "overall", floor=0.8),
        Rule("auc", "overall", floor=0.8, min_negatives=50),
    )
    found = [(one.min_positives, one.min_negatives) for one in for_every_look([few, many])]
    assert found == [(20, 20), (20, 50)]


def test_sentences_say_how_many_nights_there_are():
    assert "bpsn_auc of muslim over 6 nights is 0.9000" in result(nights=6).sentence
    assert "bpsn_auc of muslim is 0.9000" in result(nights=1).sentence
    assert "bpsn_auc of muslim is 0.9000" in result().sentence
    assert "bpsn_auc of muslim on these rows is" in result(is_sample=False).sentence


@pytest.mark.parametrize(
    ("high", "action", "outcome", "told"),
    [
        (0.79, "block", "fail", ["pass", "fail"]),
        (0.79, "warn", "pass", ["pass", "fail"]),
        (0.81, "block", "pass", ["pass"]),  # insufficient
    ],
)
def test_an_alarm_can_only_fail(high, action, outcome, told):
    alarm = replace(RULE, slice="newest", action=action)
    known = [Evidence(content(cell(0.9, 0.85, 0.95))), Evidence(content(cell(0.75, 0.7, high)))]
    evidence = dict(zip(evidence_needed([RULE, alarm]), known, strict=True))
    found = decide(evidence, [RULE], alarms=[alarm], today=TODAY)
    assert (found.outcome, [one.outcome for one in found.results]) == (outcome, told)


def test_an_alarm_says_nothing_twice_and_needs_evidence():
    alarm = replace(RULE, slice="newest")
    bad = Evidence(content(cell(0.75, 0.7, 0.79)))
    evidence = dict.fromkeys(evidence_needed([RULE, alarm]), bad)
    [found] = decide(evidence, [RULE], alarms=[alarm], today=TODAY).results
    assert found.slice is None
    with pytest.raises(ValueError, match=r"lacks .*newest"):
        decide({(None, RULE.level): bad}, [RULE], alarms=[alarm], today=TODAY)
