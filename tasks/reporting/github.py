"""The results as Markdown for GitHub: a comment on a pull request, a job summary.

Whoever opens a pull request may choose the names of candidates, sets and identities. Nothing of
theirs makes HTML, a link, a mention or a second column here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlsplit

from bias_metrics.parts import counted
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import printable
from biasgate.tasks.outcomes import word_of
from biasgate.tasks.reporting.results import Published, Results
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.reporting.tables import Kind, Table

# GitHub refuses comments of more than 65,536 characters.
_MOST, _MOST_ROWS, _MOST_CHECKS, _LONGEST = 60_000, 40, 20, 600
# Letters, digits and signs that start nothing; a point may follow `www`.
_SIGN = re.compile(r"[^\w ,()%.-]|_|(?<=[wW])\.")
# GitHub looks for mentions, issues and addresses in the text that is left: this divides it.
_BREAK = "<!-- -->"
_DIVIDED = frozenset("@#")


def markdown_for_github(results: Results, link: str | None = None) -> str:
    """Return a comment that starts with a mark by which the next one replaces it.

    Raises
    ------
    InputError
        If `link` is no such address.
    """
    lines = [*_head(results), "", *_table(results.each), "", *_decisions(results)]
    if link is not None:
        lines += ["", f"[The page with every number and figure]({_address(link)})"]
    text = "\n".join(lines)
    for one in results.each:
        section = "\n".join(_checks(one.story))
        if len(text) + len(section) > _MOST:
            return f"{text}\n\nMore checks that did not pass are in `summary.json`.\n"
        text += f"\n\n{section}" if section else ""
    return f"{text}\n"


def inert(text: str) -> str:
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
    shown = printable(text)
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}..."
    return _SIGN.sub(_as_reference, shown)


def _as_reference(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};{_BREAK if found[0] in _DIVIDED else ''}"


def _name(text: str) -> str:
    """Return a name as code; one in another script is isolated from what is around it."""
    shown = inert(text)
    return f"<code>{shown if text.isascii() else f'&#8296;{shown}&#8297;'}</code>"


def _head(results: Results) -> Iterator[str]:
    if results.summary is None:
        [only] = results.each
        title, word = only.story.about, only.story.word.text
    else:
        title, word = results.summary.evaluation, word_of(results.summary).text
    mark = re.sub(r"[^A-Za-z0-9_.]+", " ", title).strip()
    yield f"<!-- biasgate: {mark} -->"
    yield f"### biasgate: {inert(word)}"
    yield ""
    yield f"Identity bias, evaluation {_name(title)}"


def _table(each: Sequence[Published]) -> Iterator[str]:
    rows = [
        (
            one.candidate,
            one.evaluation_set,
            one.word.text,
            " ".join(
                [one.headline, *([f"Worst: {one.treated_worst}."] if one.treated_worst else [])]
            ),
            one.counted,
        )
        for one in (published.story for published in each[:_MOST_ROWS])
    ]
    columns: dict[str, Kind] = {
        "candidate": "name",
        "set": "name",
        "verdict": "words",
        "who is treated worst, and by how much": "words",
        "checks": "words",
    }
    yield from Table("Verdicts", columns, rows).markdown(_name, inert)
    if len(each) > _MOST_ROWS:
        yield ""
        yield f"And {len(each) - _MOST_ROWS:,} more in `summary.json`."


def _decisions(results: Results) -> Iterator[str]:
    decisions = [] if results.summary is None else results.summary.decisions
    for one in decisions[:_MOST_ROWS]:
        word = inert(word_of(one).text)
        yield f"- **{word}**: {_name(one.candidate)}. {inert(one.sentence)}"


def _checks(said: Story) -> Iterator[str]:
    whose = f"{_name(said.candidate)} on {_name(said.evaluation_set)}"
    for text in said.exceptions:
        yield f"- {whose}: {inert(text)}"
    if said.exceptions:
        yield ""
    if not said.unmet:
        return
    yield f"<details><summary>{counted(len(said.unmet), 'check')} did not pass: {whose}</summary>"
    yield ""
    for check in said.unmet[:_MOST_CHECKS]:
        yield f"- {inert(check.word)}: {inert(check.sentence)}"
    if len(said.unmet) > _MOST_CHECKS:
        yield f"- and {len(said.unmet) - _MOST_CHECKS:,} more"
    yield ""
    yield "</details>"


def _address(link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        msg = f"`--link` must be an address that starts with http:// or https://; got {link!r}."
        raise InputError(msg)
    return quote(link, safe=":/?&=%#~+,;@!$*")
