"""What CI systems show: results as JUnit XML, and as Markdown for GitHub.

JUnit has one test case per rule result, and failures exactly if the command does not exit with 0. A
result that only warns, was skipped, is on a set that is not required, or is of a
candidate whose outcome does not count (`outcome_of`), is a skipped case with its sentence.

The Markdown is for a comment on a pull request, and a job summary. Whoever opens a pull request may
choose the names of candidates, sets and identities. Nothing of theirs makes HTML, a link, a mention
or a second column there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

from bias_metrics.parts import format_count
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.outcomes import get_outcome_words
from biasgate.tasks.records import Summary, Verdict
from biasgate.tasks.reporting.markdown import format_candidates
from biasgate.tasks.reporting.results import Results
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.reporting.verdict_story import Check

# XML 1.0 cannot represent other characters below space, or lone surrogates.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"fail": "failure", "insufficient": "failure", "error": "error"}
_NOT_COUNTED = "its outcome does not count"
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def format_junit(summary: Summary) -> bytes:
    """Return one suite for each verdict, with a case for each check, and one of the decisions."""
    root = ET.Element("testsuites", {"name": _replace_unwritable(summary.evaluation)})
    for verdict in summary.verdicts:
        name = f"{verdict.evaluation_set.name}/{verdict.candidate.name}"
        suite = ET.SubElement(root, "testsuite", {"name": _replace_unwritable(name)})
        does_not_count = _find_excuse(verdict, summary)
        for check in map(Check.from_result, verdict.results):
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
        _set_counts(suite, suite.findall("testcase"))
    _set_counts(root, list(root.iter("testcase")))
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def write_junit(path: Path, summary: Summary) -> None:
    """Write a summary as JUnit XML, atomically."""
    with whole_file(path) as temporary:
        temporary.write_bytes(format_junit(summary))


def _find_excuse(verdict: Verdict, summary: Summary) -> str:
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
    attributes = {
        "classname": _replace_unwritable(classname).replace("/", "."),
        "name": _replace_unwritable(name),
    }
    case = ET.SubElement(suite, "testcase", attributes | {"time": "0"})
    if outcome == "pass":
        ET.SubElement(case, "system-out").text = _replace_unwritable(sentence)
    elif excuse or outcome == "skipped":
        told = sentence if outcome == "skipped" else f"{excuse}: {sentence}"
        ET.SubElement(
            case, "skipped", {"message": _replace_unwritable(told)}
        ).text = _replace_unwritable(told)
    else:
        found = {"message": _replace_unwritable(sentence), "type": outcome}
        ET.SubElement(case, _ELEMENTS[outcome], found).text = _replace_unwritable(sentence)


def _set_counts(element: ET.Element, cases: list[ET.Element]) -> None:
    element.set("tests", str(len(cases)))
    for child, attribute in _COUNTED.items():
        element.set(attribute, str(sum(case.find(child) is not None for case in cases)))
    element.set("time", "0")


def _replace_unwritable(value: str) -> str:
    return _UNWRITABLE.sub("\ufffd", value)


# GitHub refuses comments of more than 65,536 characters.
_MOST, _MOST_CANDIDATES, _MOST_CHECKS, _LONGEST = 60_000, 40, 20, 600
# Letters, digits and signs that start nothing; a point may follow `www`.
_SIGN = re.compile(r"[^\w ,()%.-]|_|(?<=[wW])\.")
# GitHub looks for mentions, issues and addresses in the text that is left: this divides it.
_BREAK = "<!-- -->"
_DIVIDED = frozenset("@#")


def format_github_comment(results: Results, link: str | None = None) -> str:
    """Return a comment that starts with a mark by which the next one replaces it.

    Raises
    ------
    InputError
        If `link` is no such address.
    """
    lines = [*_format_head(results), "", *_format_candidates(results)]
    if link is not None:
        lines += ["", f"[The page with every number and figure]({_quote_link(link)})"]
    text = "\n".join(lines)
    for published in results.each:
        section = "\n".join(_format_checks(published.story))
        if len(text) + len(section) > _MOST:
            return f"{text}\n\nMore checks that did not pass are in `summary.json`.\n"
        text += f"\n\n{section}" if section else ""
    return f"{text}\n"


def escape_github(text: str) -> str:
    """Return a text of others that GitHub shows as it is, in a table too.

    Signs become numeric references, which start nothing in Markdown; control characters and marks
    that change the direction of writing are escaped.

    Examples
    --------
    >>> inert("a|b")
    'a&#124;b'
    >>> inert("@octocat")
    '&#64;<!-- -->octocat'
    """
    shown = escape_invisible(text)
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}..."
    return _SIGN.sub(_encode_sign, shown)


def _encode_sign(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};{_BREAK if found[0] in _DIVIDED else ''}"


def _format_name(text: str) -> str:
    """Return a name as code; one in another script is isolated from what is around it."""
    shown = escape_github(text)
    return f"<code>{shown if text.isascii() else f'&#8296;{shown}&#8297;'}</code>"


def _format_head(results: Results) -> Iterator[str]:
    if results.summary is None:
        [only] = results.each
        title, word = only.story.about, only.story.word.text
    else:
        title, word = results.summary.evaluation, get_outcome_words(results.summary).text
    mark = re.sub(r"[^A-Za-z0-9_.]+", " ", title).strip()
    yield f"<!-- biasgate: {mark} -->"
    yield f"### biasgate: {escape_github(word)}"
    yield ""
    yield f"Identity bias, evaluation {_format_name(title)}"


def _format_candidates(results: Results) -> Iterator[str]:
    lines = results.lines
    yield from format_candidates(lines[:_MOST_CANDIDATES], _format_name, escape_github)
    if len(lines) > _MOST_CANDIDATES:
        yield f"And {len(lines) - _MOST_CANDIDATES:,} more in `summary.json`."


def _format_checks(said: Story) -> Iterator[str]:
    whose = f"{_format_name(said.candidate)} on {_format_name(said.evaluation_set)}"
    if not said.unmet:
        return
    checks = format_count(len(said.unmet), "check")
    yield f"<details><summary>{checks} did not pass: {whose}</summary>"
    yield ""
    for check in said.unmet[:_MOST_CHECKS]:
        yield f"- {escape_github(check.word)}: {escape_github(check.sentence)}"
    if len(said.unmet) > _MOST_CHECKS:
        yield f"- and {len(said.unmet) - _MOST_CHECKS:,} more"
    yield ""
    yield "</details>"


def _quote_link(link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        msg = f"`--link` must be an address that starts with http:// or https://; got {link!r}."
        raise InputError(msg)
    return quote(link, safe=":/?&=%#~+,;@!$*")
