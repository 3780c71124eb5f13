"""The error sentence of a service, without words that it may quote from a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.secrets import mask_secrets

# Plain text: neither a web page nor a copy of the request.
_PLAIN = re.compile(r"[\w\s.,:;'()-]*")
_MAX_LENGTH, _MAX_LEVELS, _MAX_READ = 160, 6, 4096
_KEYS = (
    *("message", "msg", "detail", "details", "error_description", "description", "reason"),
    *("error", "errors", "title", "code", "status"),
)
_WORD = re.compile(r"\w+")
_ENCODED = re.compile(r"\\[ux]|%[0-9A-Fa-f]{2}|&#?\w+;")
_LONGEST_WORD = 24
_HIDDEN = "…"
# Words that reveal nothing, even if a comment also has them.
_FUNCTION_WORDS = """
    a an and any are as at be been but by can cannot contains could did do does for from had has
    have if in into is it its may more most must no not of on one only or should than that the
    their then there these this to too was were when which will with within you your
"""
_SHOWN_WORDS = frozenset(_FUNCTION_WORDS.split())


def extract_sentence(body: Any, answer: bytes, texts: Sequence[str]) -> str:
    """Return the error sentence of an answer for messages, or an empty text.

    Words that also occur in a comment of the request are hidden, except words such as *the*. So are
    long words and words that are not ASCII. A sentence with encoded characters is left out.

    Parameters
    ----------
    body : any
        The JSON of the answer; None if it is not JSON.
    answer : bytes
        The answer as it was sent.
    texts : sequence of str
        The comments of the request.
    """
    sentence = next(_iterate_texts(body), "")
    if body is None and _PLAIN.fullmatch(text := answer[:_MAX_READ].decode("utf-8", "replace")):
        sentence = text
    sentence = " ".join(sentence[:_MAX_READ].split())
    if not sentence or _ENCODED.search(sentence):
        return ""
    comments = "\n".join(texts).casefold()
    comment_words = {word for word in _WORD.findall(comments) if len(word) > 2}

    def hide_quoted(match: re.Match[str]) -> str:
        word = match[0].casefold()
        if word in _SHOWN_WORDS:
            return match[0]
        is_plain = word.isascii() and len(word) <= _LONGEST_WORD
        is_quoted = word in comments or any(part in word for part in comment_words)
        return match[0] if is_plain and not is_quoted else _HIDDEN

    hidden = _WORD.sub(hide_quoted, sentence)
    short = re.sub(rf"{_HIDDEN}(?:\W+{_HIDDEN})+", _HIDDEN, hidden)
    if len(short) > _MAX_LENGTH:
        short = short[: _MAX_LENGTH - 1].rstrip() + _HIDDEN
    return mask_secrets(escape_invisible(short)).rstrip(". ")


def _iterate_texts(body: Any, levels: int = _MAX_LEVELS) -> Iterator[str]:
    """Yield the texts that may be the error of an answer, the likeliest first."""
    if isinstance(body, str) and body.strip() and levels < _MAX_LEVELS:
        yield body
    elif isinstance(body, list) and levels:
        for item in body[:3]:
            yield from _iterate_texts(item, levels - 1)
    elif isinstance(body, dict) and levels:
        for key in _KEYS:
            yield from _iterate_texts(body.get(key), levels - 1)
