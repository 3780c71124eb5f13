"""The summary as JUnit XML, which CI systems show: one test case per rule result.

The file has failures exactly if the command does not exit with 0. A result that is waived, only
warns, was skipped, is on a set that is not required, or is of a candidate whose outcome does not
count (`outcome_of`), is a skipped case with its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from xml.etree import ElementTree as ET

from bias_metrics import RuleResult
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.records import Summary, Verdict

# XML 1.0 cannot represent other characters below space, or lone surrogates.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"fail": "failure", "insufficient": "failure", "error": "error"}
_NOT_COUNTED = "its outcome does not count"
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def junit_xml(summary: Summary) -> bytes:
    """Return a summary as JUnit XML.

    Parameters
    ----------
    summary : mapping
        The result of `summarise_evaluation`.

    Returns
    -------
    bytes
        One suite `SET/CANDIDATE` per verdict with one case per rule result, and a suite
        `decisions` with the decision on each candidate.
    """
    root = ET.Element("testsuites", {"name": _text(summary.evaluation)})
    counted = summary.outcome_of
    for verdict in summary.verdicts:
        _add_verdict(root, verdict, counted)
    decisions = ET.SubElement(root, "testsuite", {"name": "decisions"})
    for decision in summary.decisions:
        case = _case(decisions, "decisions", decision.candidate)
        if decision.outcome != "pass" and decision.candidate not in counted:
            _add(case, "skipped", f"{_NOT_COUNTED}: {decision.sentence}")
        else:
            text = " ".join([decision.sentence, *(decision.exceptions or [])])
            _add_outcome(case, decision.outcome, text)
    for suite in root:
        _count(suite, suite.findall("testcase"))
    _count(root, list(root.iter("testcase")))
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def write_junit(path: Path, summary: Summary) -> None:
    """Write a summary as JUnit XML, atomically."""
    with whole_file(path) as temporary:
        temporary.write_bytes(junit_xml(summary))


def _add_verdict(root: ET.Element, verdict: Verdict, counted: Collection[str]) -> None:
    name = f"{verdict.evaluation_set.name}/{verdict.candidate.name}"
    suite = ET.SubElement(root, "testsuite", {"name": _text(name)})
    for result in verdict.results:
        words = [result.rule, result.kind]
        words += [result.group] if result.group else []
        words += [f"on {result.slice}"] if result.slice else []
        case = _case(suite, name, " ".join(words))
        excuse = _excuse(result, verdict, counted)
        if result.outcome == "skipped":
            _add(case, "skipped", result.sentence)
        elif result.outcome != "pass" and excuse:
            _add(case, "skipped", f"{excuse}: {result.sentence}")
        else:
            _add_outcome(case, result.outcome, result.sentence)


def _excuse(result: RuleResult, verdict: Verdict, counted: Collection[str]) -> str | None:
    """Return why a result does not fail the run, or None if it does."""
    if result.waived_by:
        return f"waived by {result.waived_by}"
    if result.action == "warn":
        return "warning"
    if verdict.policy.report_only:
        return "reported only"
    if verdict.candidate.name not in counted:
        return _NOT_COUNTED
    return None if verdict.evaluation_set.required else "set not required"


def _case(suite: ET.Element, name: str, case: str) -> ET.Element:
    # Some readers split class names into packages at dots; here each suite is one package.
    known = {"classname": _text(name).replace("/", "."), "name": _text(case)}
    return ET.SubElement(suite, "testcase", known | {"time": "0"})


def _add_outcome(case: ET.Element, outcome: str, sentence: str) -> None:
    if outcome == "pass":
        ET.SubElement(case, "system-out").text = _text(sentence)
    else:
        _add(case, _ELEMENTS[outcome], sentence, type=outcome)


def _add(case: ET.Element, element: str, sentence: str, **attributes: str) -> None:
    added = ET.SubElement(case, element, {"message": _text(sentence)} | attributes)
    added.text = _text(sentence)


def _count(element: ET.Element, cases: list[ET.Element]) -> None:
    element.set("tests", str(len(cases)))
    for child, attribute in _COUNTED.items():
        element.set(attribute, str(sum(case.find(child) is not None for case in cases)))
    element.set("time", "0")


def _text(value: str) -> str:
    return _UNWRITABLE.sub("\ufffd", value)
