"""Texts that are the same but for case, Unicode form and whitespace, by one hash."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

import numpy as np

# Shown as nothing: soft hyphen, zero-width characters, byte order mark.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")


def normal_form(text: str) -> str:
    """Return what all texts have in common that differ only in what no reader sees as another text.

    That is case, Unicode form (NFKC), whitespace and invisible characters.
    """
    if text.isascii():
        # Faster than to split most texts, which have no line breaks and no double spaces.
        if text.isprintable() and "  " not in text:
            return text.strip().lower()
    else:
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.lower().split())


def hash_texts(texts: Iterable[str]) -> np.ndarray:
    """Return 64 bits of a hash of each text as it is."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8")
