"""The summary as JUnit XML, which CI systems show: one test case per rule result.

The file has failures exactly if the command does not exit with 0. A result that is waived, only
warns, was skipped, is on a set that is not required, or is of a candidate whose outcome does not
count (`outcome_of`), is a skipped case with its sentence.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from biasgate.tasks.common.files import whole_file
from biasgate.tasks.records import Summary, Verdict
from biasgate.tasks.reporting.verdict_story import Check

# XML 1.0 cannot represent other characters below space, or lone surrogates.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"fail": "failure", "insufficient": "failure", "error": "error"}
_NOT_COUNTED = "its outcome does not count"
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def junit_xml(summary: Summary) -> bytes:
    """Return one suite for each verdict, with a case for each check, and one of the decisions."""
    root = ET.Element("testsuites", {"name": _text(summary.evaluation)})
    for verdict in summary.verdicts:
        name = f"{verdict.evaluation_set.name}/{verdict.candidate.name}"
        suite = ET.SubElement(root, "testsuite", {"name": _text(name)})
        does_not_count = _excuse(verdict, summary)
        for check in map(Check.of, verdict.results):
            result = check.result
            of_slice = f"on {result.slice}" if result.slice else None
            words = filter(None, [result.rule, result.kind, result.group, of_slice])
            excuse = check.excuse or does_not_count
            _add_case(suite, name, " ".join(words), result.outcome, check.sentence, excuse)
    suite = ET.SubElement(root, "testsuite", {"name": "decisions"})
    for decision in summary.decisions:
        text = " ".join([decision.sentence, *(decision.exceptions or [])])
        excuse = "" if decision.candidate in summary.outcome_of else _NOT_COUNTED
        _add_case(suite, "decisions", decision.candidate, decision.outcome, text, excuse)
    for suite in root:
        _count(suite, suite.findall("testcase"))
    _count(root, list(root.iter("testcase")))
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def write_junit(path: Path, summary: Summary) -> None:
    """Write a summary as JUnit XML, atomically."""
    with whole_file(path) as temporary:
        temporary.write_bytes(junit_xml(summary))


def _excuse(verdict: Verdict, summary: Summary) -> str:
    """Return why no check of a verdict fails the run; empty if they do."""
    if verdict.policy.report_only:
        return "reported only"
    if verdict.candidate.name not in summary.outcome_of:
        return _NOT_COUNTED
    return "" if verdict.evaluation_set.required else "set not required"


def _add_case(
    suite: ET.Element, classname: str, name: str, outcome: str, sentence: str, excuse: str
) -> None:
    # Some readers split class names into packages at dots; here each suite is one package.
    attributes = {"classname": _text(classname).replace("/", "."), "name": _text(name)}
    case = ET.SubElement(suite, "testcase", attributes | {"time": "0"})
    if outcome == "pass":
        ET.SubElement(case, "system-out").text = _text(sentence)
    elif excuse or outcome == "skipped":
        told = sentence if outcome == "skipped" else f"{excuse}: {sentence}"
        ET.SubElement(case, "skipped", {"message": _text(told)}).text = _text(told)
    else:
        found = {"message": _text(sentence), "type": outcome}
        ET.SubElement(case, _ELEMENTS[outcome], found).text = _text(sentence)


def _count(element: ET.Element, cases: list[ET.Element]) -> None:
    element.set("tests", str(len(cases)))
    for child, attribute in _COUNTED.items():
        element.set(attribute, str(sum(case.find(child) is not None for case in cases)))
    element.set("time", "0")


def _text(value: str) -> str:
    return _UNWRITABLE.sub("\ufffd", value)
