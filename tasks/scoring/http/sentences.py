"""What a service says when it refuses a comment, without what it may quote of the comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.secrets import mask_secrets

# Not a page, nor what repeats the request.
_PLAIN = re.compile(r"[\w\s.,:;'()-]*")
_LONGEST, _MOST_LEVELS, _MOST_READ = 160, 6, 4096
_KEYS = (
    *("message", "msg", "detail", "details", "error_description", "description", "reason"),
    *("error", "errors", "title", "code", "status"),
)
_WORD = re.compile(r"\w+")
_ENCODED = re.compile(r"\\[ux]|%[0-9A-Fa-f]{2}|&#?\w+;")
_SHORTEST_WORD, _LONGEST_WORD = 3, 24
_HIDDEN = "…"
# Words that say nothing of a comment that has them too.
_FUNCTION_WORDS = """
    a an and any are as at be been but by can cannot contains could did do does for from had has
    have if in into is it its may more most must no not of on one only or should than that the
    their then there these this to too was were when which will with within you your
"""
_TELL_NOTHING = frozenset(_FUNCTION_WORDS.split())


def sentence_of(body: Any, answer: bytes, texts: Sequence[str]) -> str:
    """Return the sentence of an answer that is an error, for messages; "" if there is none.

    Every word that a comment of the request has too is hidden, but for words such as *the*; and
    the rest of what is quoted, encoded or not plain letters.

    Parameters
    ----------
    body : any
        The JSON of the answer; None if it is not JSON.
    answer : bytes
        The answer as it was sent.
    texts : sequence of str
        The comments of the request.
    """
    found = next(_sentences(body), "")
    if body is None and _PLAIN.fullmatch(text := answer[:_MOST_READ].decode("utf-8", "replace")):
        found = text
    found = " ".join(found[:_MOST_READ].split())
    if not found or _ENCODED.search(found):
        return ""
    comments = "\n".join(texts).casefold()
    of_comments = {word for word in _WORD.findall(comments) if len(word) > 2}

    def shown(match: re.Match[str]) -> str:
        word = match[0].casefold()
        if word in _TELL_NOTHING:
            return match[0]
        is_plain = word.isascii() and len(word) <= _LONGEST_WORD
        quotes = word in comments or any(one in word for one in of_comments)
        return match[0] if is_plain and not quotes else _HIDDEN

    plain = re.sub(rf"{_HIDDEN}(?:\W+{_HIDDEN})+", _HIDDEN, _WORD.sub(shown, found))
    short = plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1].rstrip() + _HIDDEN
    return mask_secrets(escape_invisible(short)).rstrip(". ")


def _sentences(body: Any, levels: int = _MOST_LEVELS) -> Iterator[str]:
    """Yield the texts of an answer that may be its error, the likeliest first."""
    if isinstance(body, str) and body.strip() and levels < _MOST_LEVELS:
        yield body
    elif isinstance(body, list) and levels:
        for one in body[:3]:
            yield from _sentences(one, levels - 1)
    elif isinstance(body, dict) and levels:
        for key in _KEYS:
            yield from _sentences(body.get(key), levels - 1)
