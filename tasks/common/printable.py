"""Texts of others for a terminal: without characters that move the cursor or reorder the line."""

from __future__ import annotations

import unicodedata


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text in which every character that is not plainly visible is escaped.

    Control characters (escape, carriage return), marks that change the direction of writing,
    invisible characters and halves of characters could rewrite what a terminal shows.

    Examples
    --------
    >>> print(printable("holds\x1b[2K\r\u202eok"))
    holds\x1b[2K\r\u202eok
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in keep else ascii(character)[1:-1]
        for character in text
    )


def without_invisible(text: str) -> str:
    """Return a text without characters that show nothing, such as zero-width spaces."""
    return "".join(one for one in text if unicodedata.category(one) not in {"Cf", "Cc"})
