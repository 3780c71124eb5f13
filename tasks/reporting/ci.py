"""Results for CI systems: as JUnit XML, and as Markdown for GitHub.

JUnit has one test case per rule result, and failures exactly if the command does not exit with 0. A
result is a skipped case with its sentence if it only warns, was skipped, or is on a set that is not
required. So are all results of candidates whose outcome does not count (`outcome_of`).

The Markdown is for a comment on a pull request, and a job summary. The author of a pull request may
choose the names of candidates, sets and identities: these cannot become HTML, links, mentions or
columns.
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
from biasgate.tasks.reporting.verdict_story import CheckStory

# XML 1.0 cannot represent other characters below space, or lone surrogates.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"fail": "failure", "insufficient": "failure", "error": "error"}
_NOT_COUNTED = "its outcome does not count"
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def format_junit(summary: Summary) -> bytes:
    """Return one suite for each verdict, with a case for each check, and one of the decisions."""
    root = ET.Element("testsuites", {"name": summary.evaluation})
    for verdict in summary.verdicts:
        name = f"{verdict.evaluation_set.name}/{verdict.candidate.name}"
        suite = ET.SubElement(root, "testsuite", {"name": name})
        verdict_excuse = _excuse_verdict(verdict, summary)
        for check in map(CheckStory.from_result, verdict.results):
            result = check.result
            on_slice = f"on {result.slice}" if result.slice else None
            words = filter(None, [result.rule, result.kind, result.group, on_slice])
            excuse = check.excuse or verdict_excuse
            _add_case(suite, name, " ".join(words), result.outcome, check.sentence, excuse)
    suite = ET.SubElement(root, "testsuite", {"name": "decisions"})
    for decision in summary.decisions:
        text = " ".join([decision.sentence, *(decision.exceptions or [])])
        excuse = "" if decision.candidate in summary.outcome_of else _NOT_COUNTED
        _add_case(suite, "decisions", decision.candidate, decision.outcome, text, excuse)
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, _UNWRITABLE.sub("\ufffd", value))
        element.text = element.text and _UNWRITABLE.sub("\ufffd", element.text)
    for element in (root, *root):
        cases = list(element.iter("testcase"))
        element.set("tests", str(len(cases)))
        for child, attribute in _COUNTED.items():
            element.set(attribute, str(sum(case.find(child) is not None for case in cases)))
        element.set("time", "0")
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _excuse_verdict(verdict: Verdict, summary: Summary) -> str:
    """Return the reason why the checks of a verdict cannot fail the run; empty if they can."""
    if verdict.policy.report_only:
        return "reported only"
    if verdict.candidate.name not in summary.outcome_of:
        return _NOT_COUNTED
    return "" if verdict.evaluation_set.required else "set not required"


def write_junit(path: Path, summary: Summary) -> None:
    """Write a summary as JUnit XML, atomically."""
    with whole_file(path) as temporary:
        temporary.write_bytes(format_junit(summary))


def _add_case(
    suite: ET.Element, classname: str, name: str, outcome: str, sentence: str, excuse: str
) -> None:
    # Some readers split class names into packages at dots; here each suite is one package.
    attributes = {"classname": classname.replace("/", "."), "name": name, "time": "0"}
    case = ET.SubElement(suite, "testcase", attributes)
    if outcome == "pass":
        ET.SubElement(case, "system-out").text = sentence
    elif excuse or outcome == "skipped":
        message = sentence if outcome == "skipped" else f"{excuse}: {sentence}"
        ET.SubElement(case, "skipped", {"message": message}).text = message
    else:
        failure = {"message": sentence, "type": outcome}
        ET.SubElement(case, _ELEMENTS[outcome], failure).text = sentence


# GitHub refuses comments of more than 65,536 characters.
_MOST, _MOST_CANDIDATES, _MOST_CHECKS, _LONGEST = 60_000, 40, 20, 600
# All but letters, digits and signs without a meaning; `www.` would start a link.
_SIGN = re.compile(r"[^\w ,()%.-]|_|(?<=[wW])\.")
# GitHub finds mentions and issues in decoded text, unless a comment divides it.
_BREAK = "<!-- -->"


def format_github_comment(results: Results, link: str | None = None) -> str:
    """Return a comment that starts with a mark, by which the next comment replaces it.

    Raises
    ------
    InputError
        If `link` is not an HTTP address.
    """
    if results.summary is None:
        [story] = (published.story for published in results.published)
        title, word = story.title, story.word.text
    else:
        title, word = results.summary.evaluation, get_outcome_words(results.summary).text
    mark = re.sub(r"[^A-Za-z0-9_.]+", " ", title).strip()
    lines = [f"<!-- biasgate: {mark} -->", f"### biasgate: {escape_github(word)}", ""]
    lines += [f"Identity bias, evaluation {_format_name(title)}", ""]
    candidates = results.candidates
    lines += format_candidates(candidates[:_MOST_CANDIDATES], _format_name, escape_github)
    if len(candidates) > _MOST_CANDIDATES:
        lines.append(f"And {len(candidates) - _MOST_CANDIDATES:,} more in `summary.json`.")
    if link is not None:
        lines += ["", f"[The page with every number and figure]({_quote_link(link)})"]
    text = "\n".join(lines)
    for published in results.published:
        section = "\n".join(_format_checks(published.story))
        if len(text) + len(section) > _MOST:
            return f"{text}\n\nMore checks that did not pass are in `summary.json`.\n"
        text += f"\n\n{section}" if section else ""
    return f"{text}\n"


def escape_github(text: str) -> str:
    """Escape a text so that GitHub shows it unchanged, also in tables.

    Signs become numeric references, which have no meaning in Markdown. Control characters and marks
    that change the direction of writing are escaped.

    Examples
    --------
    >>> escape_github("a|b")
    'a&#124;b'
    >>> escape_github("@octocat")
    '&#64;<!-- -->octocat'
    """
    shown = escape_invisible(text)
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}..."
    return _SIGN.sub(lambda sign: f"&#{ord(sign[0])};{_BREAK if sign[0] in '@#' else ''}", shown)


def _format_name(text: str) -> str:
    """Return a name as code; a name in another script is isolated from its surroundings."""
    shown = escape_github(text)
    return f"<code>{shown if text.isascii() else f'&#8296;{shown}&#8297;'}</code>"


def _format_checks(story: Story) -> Iterator[str]:
    if not story.unmet:
        return
    title = f"{_format_name(story.candidate)} on {_format_name(story.evaluation_set)}"
    checks = format_count(len(story.unmet), "check")
    yield f"<details><summary>{checks} did not pass: {title}</summary>"
    yield ""
    for check in story.unmet[:_MOST_CHECKS]:
        yield f"- {escape_github(check.word)}: {escape_github(check.sentence)}"
    if len(story.unmet) > _MOST_CHECKS:
        yield f"- and {len(story.unmet) - _MOST_CHECKS:,} more"
    yield ""
    yield "</details>"


def _quote_link(link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        msg = f"`--link` must be an address that starts with http:// or https://; got {link!r}."
        raise InputError(msg)
    return quote(link, safe=":/?&=%#~+,;@!$*")
