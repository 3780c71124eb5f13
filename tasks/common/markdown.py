"""Texts of others in Markdown: names make no HTML, link, picture, heading or cell of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable

from biasgate.tasks.common.printable import printable

# `_` inside a word, as in bpsn_auc, means nothing. Addresses would become links by themselves.
_SPECIAL = re.compile(
    r"""[\\`*\[<|~&$]"""
    r"""|(?<![^\W_])_|_(?![^\W_])"""
    r"""|(?<=\w):(?=//)|(?<=www)\.|@(?=\w)""",
    re.ASCII | re.IGNORECASE,
)
# At the start of a line these would begin a heading, a list or a quotation.
_START = re.compile(r"([#>=+-]|\d+(?=[.)](?:\s|$)))")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def as_text(text: str) -> str:
    r"""Return a text for one line of Markdown, in which nothing is markup.

    Line breaks become blanks. Invisible characters and those that change the direction of writing
    are shown as escapes.

    Examples
    --------
    >>> print(as_text("bpsn_auc of <b>|[a](http://host)"))
    bpsn_auc of \<b>\|\[a](http\://host)
    """
    line = printable(" ".join(text.split()))
    escaped = _SPECIAL.sub(lambda found: f"\\{found[0]}", line)
    start = _START.match(escaped)
    if start is None:
        return escaped
    at = start.end() if start[0].isdigit() else 0
    return f"{escaped[:at]}\\{escaped[at:]}"


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a Markdown table; its cells are Markdown already."""
    return f"| {' | '.join(cells)} |"


def without_html(markdown: str) -> str:
    """Return Markdown of others in which tags are text, and which ends what it begins.

    Links, emphasis and lists stay; a block of code that is not closed would hide all that follows.
    """
    shown = re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", printable(markdown, keep="\n\t"))
    fences = _FENCE.findall(shown)
    return f"{shown}\n{fences[-1]}" if len(fences) % 2 else shown
