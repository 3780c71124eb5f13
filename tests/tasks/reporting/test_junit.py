"""JUnit XML of a summary, parsed as CI systems do."""

from dataclasses import replace
from itertools import product
from xml.etree import ElementTree as ET

import junitparser
import pytest
from support import made
from support.made import decision_of, result, verdict_of

from bias_metrics.gate.decision import find_worst_outcome
from biasgate.tasks.check_messages import describe_check
from biasgate.tasks.reporting.ci import format_junit, write_junit

NOT_COUNTED = "its outcome does not count: "
OUTCOMES = ("pass", "fail", "insufficient", "error")
SAID = {one: describe_check(result(one)) for one in (*OUTCOMES, "skipped")}


def make_summary(*results, required=True, report_only=False, decided=None):
    outcome = find_worst_outcome([one.outcome for one in results])
    decided = decided or outcome
    known = {"name": "words", "of_set": "comments", "outcome": outcome}
    verdict = verdict_of(*results, required=required, report_only=report_only, **known)
    decision = decision_of("words", decided, "What became of it.")
    return made.summary_of([verdict], [decision], outcome=decided)


def parse_junit(summary):
    return ET.fromstring(format_junit(summary))  # noqa: S314 - our own


def list_cases(summary):
    """Return the elements of each case by its name."""
    return {
        case.get("name"): [(one.tag, one.get("message"), one.text) for one in case]
        for case in parse_junit(summary).iter("testcase")
    }


def test_every_rule_result_and_every_decision_is_a_case():
    found = make_summary(
        result("pass"),
        result("fail", group="deaf", slice="short"),
        result("fail", kind="champion", group=None, rival=0.9),
    )
    suites = {one.get("name"): [case.get("name") for case in one] for one in parse_junit(found)}
    assert suites == {
        "comments/words": [
            "bpsn_auc/each floor gay",
            "bpsn_auc/each floor deaf on short",
            "bpsn_auc/each champion",
        ],
        "decisions": ["words"],
    }


@pytest.mark.parametrize(
    ("outcome", "element"),
    [("fail", "failure"), ("insufficient", "failure"), ("error", "error")],
)
def test_what_is_not_a_pass_carries_its_sentence(outcome, element):
    [case, decision] = list_cases(make_summary(result(outcome))).values()
    assert case == [(element, SAID[outcome], SAID[outcome])]
    assert decision == [(element, "What became of it.", "What became of it.")]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"action": "warn"}, {}, "only warns: "),
        ({}, {"report_only": True}, "reported only: "),
        ({}, {"required": False}, "set not required: "),
    ],
)
def test_what_does_not_count_is_skipped_with_the_reason(changes, options, message):
    found = make_summary(result("insufficient", **changes), decided="pass", **options)
    case = list_cases(found)["bpsn_auc/each floor gay"]
    text = message + SAID["insufficient"]
    assert case == [("skipped", text, text)]


def test_a_candidate_whose_outcome_does_not_count_is_skipped_with_the_reason():
    found = list_cases(replace(make_summary(result("fail")), outcome_of=["another"]))
    assert found == {
        "bpsn_auc/each floor gay": [("skipped", *2 * (NOT_COUNTED + SAID["fail"],))],
        "words": [("skipped", *2 * (NOT_COUNTED + "What became of it.",))],
    }


def test_a_rule_without_champion_to_compare_with_is_skipped():
    case = list_cases(make_summary(result("skipped"), decided="pass"))["bpsn_auc/each floor gay"]
    assert case == [("skipped", SAID["skipped"], SAID["skipped"])]


@pytest.mark.parametrize("outcomes", list(product(OUTCOMES, repeat=2)))
def test_the_file_is_red_exactly_when_the_run_did_not_pass(outcomes):
    root = parse_junit(make_summary(*map(result, outcomes)))
    red = int(root.get("failures")) + int(root.get("errors"))
    assert (red == 0) == (set(outcomes) == {"pass"})


def test_counts_of_suites_and_of_the_whole_are_those_of_their_cases():
    outcomes = ["pass", "pass", "fail", "insufficient", "error", "skipped"]
    root = parse_junit(make_summary(*map(result, outcomes)))
    first, decisions = root
    counts = ("tests", "failures", "errors", "skipped")
    assert [int(first.get(one)) for one in counts] == [6, 2, 1, 1]
    assert [int(decisions.get(one)) for one in counts] == [1, 0, 1, 0]
    assert [int(root.get(one)) for one in counts] == [7, 2, 2, 1]


def test_characters_that_xml_cannot_hold_are_replaced(tmp_path):
    write_junit(tmp_path / "junit.xml", make_summary(result("fail", group="a<&\"'\x00\ud800é😀")))
    root = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - our own
    assert root[0][0].get("name") == "bpsn_auc/each floor a<&\"'\ufffd\ufffdé😀"


def test_readers_for_junit_files_agree_with_the_summary():
    xml = junitparser.JUnitXml.fromstring(
        format_junit(make_summary(result("pass"), result("fail")))
    )
    [suite, decisions] = xml
    assert (suite.tests, suite.failures, suite.errors) == (2, 1, 0)
    [passed, failed] = suite
    assert passed.is_passed
    assert failed.result[0].message == SAID["fail"]
    assert not next(iter(decisions)).is_passed
