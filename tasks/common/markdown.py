"""Escaping of foreign text in Markdown, so that it cannot add HTML, links or table cells."""

from __future__ import annotations

import re
from collections.abc import Iterable

from biasgate.tasks.common.printable import escape_invisible

# `_` inside a word, as in bpsn_auc, is not markup. Bare addresses would become links.
_SPECIAL = re.compile(
    r"""[\\`*\[<|~&$]"""
    r"""|(?<![^\W_])_|_(?![^\W_])"""
    r"""|(?<=\w):(?=//)|(?<=www)\.|@(?=\w)""",
    re.ASCII | re.IGNORECASE,
)
# Markup for a heading, a list or a quotation at the start of a line.
_START = re.compile(r"([#>=+-]|\d+(?=[.)](?:\s|$)))")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def escape_markdown(text: str) -> str:
    r"""Return a text as one line of Markdown with all markup escaped.

    Line breaks become spaces. Invisible characters, and those that change the direction of
    writing, are replaced by escape sequences.

    Examples
    --------
    >>> print(escape_markdown("bpsn_auc of <b>|[a](http://host)"))
    bpsn_auc of \<b>\|\[a](http\://host)
    """
    line = escape_invisible(" ".join(text.split()))
    escaped = _SPECIAL.sub(lambda match: f"\\{match[0]}", line)
    start = _START.match(escaped)
    if start is None:
        return escaped
    n_digits = start.end() if start[0].isdigit() else 0
    return f"{escaped[:n_digits]}\\{escaped[n_digits:]}"


def format_table_row(cells: Iterable[str]) -> str:
    """Return a row of a Markdown table from cells that are valid Markdown."""
    return f"| {' | '.join(cells)} |"


def escape_html_tags(markdown: str) -> str:
    """Return foreign Markdown with HTML tags escaped and open code blocks closed.

    Links, emphasis and lists are kept. An open code block would swallow all text after it.
    """
    shown = re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", escape_invisible(markdown, keep="\n\t"))
    fences = _FENCE.findall(shown)
    return f"{shown}\n{fences[-1]}" if len(fences) % 2 else shown
