"""A page as one HTML file, which runs nothing but its own script and asks for nothing.

Names are input of others: the template escapes everything, marks that change the direction of
writing are shown instead of obeyed, and the content security policy of the page names the digest of
the only script and style sheet that a browser may use.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from biasgate.tasks.common.printable import printable
from biasgate.tasks.reporting.page.page import Page

_TEMPLATES = Path(__file__).parent / "templates"


def render(page: Page) -> bytes:
    """Return a page as HTML in UTF-8."""
    style, script = _read("page.css"), _read("page.js")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    html = (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            told=lambda sentence: _told(sentence, page.names),
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            policy=policy,
        )
    )
    return html.encode("utf-8")


def _told(sentence: str, names: frozenset[str]) -> Markup:
    """Return a sentence in which each name of another script is isolated from what is around it."""
    others = [name for name in names if not name.isascii()]
    if not any(name in sentence for name in others):
        return escape(printable(sentence))
    longest_first = sorted(others, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", sentence)
    texts = [escape(printable(one)) for one in parts]
    return Markup().join(
        Markup("<bdi>{}</bdi>").format(one) if number % 2 else one
        for number, one in enumerate(texts)
    )


def _shown(value: Any) -> Any:
    """Escape characters that would reorder the line; everything else is left to autoescaping."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value, keep="\n")
    return value


def _named(name: str) -> Markup:
    """Return a name isolated from what is around it, with places where its line may break."""
    text = str(escape(printable(name))).replace("_", "_<wbr>")
    return Markup(f"<bdi>{text}</bdi>")  # noqa: S704 - escaped above


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["named"] = _named
    return found


def _read(name: str) -> str:
    return (_TEMPLATES / name).read_text("utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
