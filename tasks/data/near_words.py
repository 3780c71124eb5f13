"""Words of texts that begin like a term and are none: other forms that a list may lack."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from biasgate.tasks.data.scripts import bare

_ALL_UNTIL, _THEN_EVERY = 50_000, 20  # texts of which the words are looked at; later only some
_MOST_WORDS = 20_000  # kept for an identity, so that memory is bounded
_SHOWN, _SHOWN_FROM, _LONGEST_SHOWN = 8, 3, 30


def stem(word: str) -> str:
    """Return how other forms of a word may begin.

    Without a vowel sign at its end; without its last letter if it has five or six letters, without
    two if it has more.
    """
    cut = 2 if len(word) > 6 else 1 if len(word) > 4 else 0
    if not cut and len(word) > 2 and unicodedata.category(word[-1])[0] == "M":
        cut = 1
    return word[: len(word) - cut]


@dataclass(frozen=True)
class NearTerms:
    """The words like terms of one identity, among the texts whose words were looked at."""

    n_looked_at: int
    n_found: int
    """Texts in which the identity was found."""
    n_near: int
    """Texts in which it was not found, and which have such words."""
    words: dict[str, int]
    """The most frequent ones, with the number of texts."""


class NearWords:
    """Counts, in texts in which an identity was not found, the words that begin like its terms.

    `beginnings`: how words may begin, with the identities by number. `listed`: the words that are
    terms.
    """

    def __init__(self, beginnings: Mapping[str, Sequence[int]], listed: Container[str]) -> None:
        self._beginnings = beginnings
        self._any = tuple(beginnings)
        self._listed = listed
        self._seen = self._looked_at = 0
        self._n_found, self._n_near = Counter[int](), Counter[int]()
        self._words: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._identities_of = lru_cache(65_536)(self._find_identities)

    def wants_next(self) -> bool:
        """Whether the words of the next text should be looked at; call it for each."""
        self._seen += 1
        return bool(self._any) and (self._seen <= _ALL_UNTIL or self._seen % _THEN_EVERY == 0)

    def look(self, words: Sequence[str], found: Collection[int]) -> None:
        """Count the words of one text, in which these identities were found."""
        self._looked_at += 1
        self._n_found.update(found)
        near = {
            (identity, word)
            for word in set(words)
            for identity in self._identities_of(word)
            if identity not in found
        }
        for identity, word in near:
            counts = self._words[identity]
            if word in counts or len(counts) < _MOST_WORDS:
                counts[word] += 1
        self._n_near.update({identity for identity, _ in near})

    def summarize(self, identities: Sequence[str]) -> dict[str, NearTerms]:
        """Return the counts, by identity, and the words of at least three texts.

        Words with other characters than letters are only counted: they may be names of accounts.
        """
        summary = {}
        for at, name in enumerate(identities):
            if not self._n_near[at]:
                continue
            counts = self._words[at].most_common()
            frequent = ((word, n) for word, n in counts if n >= _SHOWN_FROM and _is_plain(word))
            shown = dict(islice(frequent, _SHOWN))
            summary[name] = NearTerms(self._looked_at, self._n_found[at], self._n_near[at], shown)
        return summary

    def _find_identities(self, word: str) -> frozenset[int]:
        """Return whose terms a word begins like; an accent that they do not have may be its own."""
        if word in self._listed:
            return frozenset()
        forms = {word, bare(word)}
        if not any(form.startswith(self._any) for form in forms):
            return frozenset()
        return frozenset(
            identity
            for beginning, identities in self._beginnings.items()
            if any(form.startswith(beginning) for form in forms)
            for identity in identities
        )


def _is_plain(word: str) -> bool:
    return len(word) <= _LONGEST_SHOWN and all(
        letter.isalpha() or unicodedata.category(letter)[0] == "M" for letter in word
    )
