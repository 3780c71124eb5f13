"""Which texts mention which identity: matching of whole words, whatever their case."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

Matching = Literal["longest", "overlap"]


class TermMatcher:
    """Finds identity terms in texts.

    Parameters
    ----------
    terms : mapping of str to sequence of str
        The terms of each identity.
    matching : {"longest", "overlap"}
        `longest` gives `african american` to the longest term that matches there alone;
        `overlap` gives it to `african` and `american` too.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]], matching: Matching = "longest") -> None:
        self.identities = list(terms)
        self.matching = matching
        self._owners: dict[str, list[int]] = {}
        for position, words in enumerate(terms.values()):
            for word in words:
                self._owners.setdefault(_folded(word), []).append(position)
        self._any = _pattern([word for words in terms.values() for word in words])
        self._each = [_pattern(list(words)) for words in terms.values()]

    def mentions(self, texts: Sequence[str]) -> np.ndarray:
        """Say which texts mention which identity.

        Parameters
        ----------
        texts : sequence of str, length n

        Returns
        -------
        bool array of shape (n, number of identities)
        """
        found = np.zeros((len(texts), len(self.identities)), dtype=np.bool_)
        for row, text in enumerate(texts):
            if self.matching == "longest":
                for match in self._any.finditer(text):
                    found[row, self._owners[_folded(match[0])]] = True
            elif self._any.search(text):
                found[row] = [pattern.search(text) is not None for pattern in self._each]
        return found


def _folded(word: str) -> str:
    return " ".join(word.lower().split())


def _pattern(words: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(words, key=len, reverse=True)
    alternatives = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest_first)
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)
