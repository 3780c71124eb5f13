"""The results as Markdown for GitHub: a comment on a pull request, a job summary.

Whoever opens a pull request may choose the names of candidates, sets and identities. Nothing of
theirs makes HTML, a link, a mention or a second column here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from bias_metrics.parts import counted
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import printable
from biasgate.tasks.outcomes import word_of
from biasgate.tasks.reporting.markdown import candidates_markdown
from biasgate.tasks.reporting.results import Results
from biasgate.tasks.reporting.story import Story

# GitHub refuses comments of more than 65,536 characters.
_MOST, _MOST_CANDIDATES, _MOST_CHECKS, _LONGEST = 60_000, 40, 20, 600
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
    lines = [*_head(results), "", *_candidates(results)]
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


def _candidates(results: Results) -> Iterator[str]:
    lines = results.lines
    yield from candidates_markdown(lines[:_MOST_CANDIDATES], _name, inert)
    if len(lines) > _MOST_CANDIDATES:
        yield f"And {len(lines) - _MOST_CANDIDATES:,} more in `summary.json`."


def _checks(said: Story) -> Iterator[str]:
    whose = f"{_name(said.candidate)} on {_name(said.evaluation_set)}"
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
