"""Escaping of foreign text for a terminal: control, invisible and bidirectional characters."""

from __future__ import annotations

import unicodedata


def escape_invisible(text: str, *, keep: str = "") -> str:
    r"""Return a text with all invisible characters escaped, except those in `keep`.

    Control characters (escape, carriage return), marks that change the direction of writing,
    zero-width characters and unpaired surrogates could alter the output of a terminal.

    Examples
    --------
    >>> print(escape_invisible("holds\x1b[2K\r\u202eok"))
    holds\x1b[2K\r\u202eok
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in keep else ascii(character)[1:-1]
        for character in text
    )


def remove_invisible(text: str) -> str:
    """Return a text without invisible characters, such as zero-width spaces."""
    return "".join(
        character for character in text if unicodedata.category(character) not in {"Cf", "Cc"}
    )
