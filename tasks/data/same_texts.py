"""Normal form and hash of texts, to find texts that differ only in case, Unicode or whitespace."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

import numpy as np

# Characters that are not displayed: soft hyphen, zero-width characters, byte order mark.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")


def normalize_text(text: str) -> str:
    """Return the normal form of a text, equal for all texts that readers take as the same.

    It removes differences in case, Unicode form (NFKC), whitespace and invisible characters.
    """
    if text.isascii():
        # Most texts have neither line breaks nor double spaces, and need not be split.
        if text.isprintable() and "  " not in text:
            return text.strip().lower()
    else:
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.lower().split())


def hash_texts(texts: Iterable[str]) -> np.ndarray:
    """Return a 64-bit hash per text, shape (n,); texts are not normalized."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8")
