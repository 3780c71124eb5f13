"""Words that begin like an identity term without being listed: possibly missing inflections."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from biasgate.tasks.data.scripts import strip_accents

_FULL_TEXTS, _SAMPLING_STEP = 50_000, 20  # count the first texts, then only every twentieth
_MAX_WORDS = 20_000  # distinct words per identity, to bound memory
_MAX_LISTED, _MIN_TEXTS, _MAX_LISTED_LENGTH = 8, 3, 30


def stem_word(word: str) -> str:
    """Return the beginning that inflections of a word are assumed to share.

    A word of five or six letters loses its last letter, a longer word its last two. A shorter word
    loses a vowel sign at its end.
    """
    n_cut = 2 if len(word) > 6 else 1 if len(word) > 4 else 0
    if not n_cut and len(word) > 2 and unicodedata.category(word[-1])[0] == "M":
        n_cut = 1
    return word[: len(word) - n_cut]


@dataclass(frozen=True)
class NearTerms:
    """Unlisted words that begin like the terms of an identity, in the counted texts."""

    n_looked_at: int
    """Number of counted texts."""
    n_found: int
    """Number of texts that mention the identity."""
    n_near: int
    """Number of texts that have such words and do not mention the identity."""
    words: dict[str, int]
    """The most frequent such words, with their number of texts."""


class NearWordCounter:
    """Counter of words that begin like an identity's terms in texts that do not mention it.

    Parameters
    ----------
    beginnings : mapping of str to sequence of int
        Beginnings of words, each with the numbers of its identities.
    listed : container of str
        Words that are terms themselves.
    """

    def __init__(self, beginnings: Mapping[str, Sequence[int]], listed: Container[str]) -> None:
        self._beginnings = beginnings
        self._all_beginnings = tuple(beginnings)
        self._listed = listed
        self._n_texts = self._n_counted = 0
        self._n_found, self._n_near = Counter[int](), Counter[int]()
        self._words: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._get_identities = lru_cache(65_536)(self._find_identities)

    def is_next_counted(self) -> bool:
        """Check if the words of the next text should be counted; call once per text."""
        self._n_texts += 1
        return bool(self._all_beginnings) and (
            self._n_texts <= _FULL_TEXTS or self._n_texts % _SAMPLING_STEP == 0
        )

    def count_words(self, words: Sequence[str], mentioned: Collection[int]) -> None:
        """Count the words of a text that mentions these identities."""
        self._n_counted += 1
        self._n_found.update(mentioned)
        near = {
            (identity, word)
            for word in set(words)
            for identity in self._get_identities(word)
            if identity not in mentioned
        }
        for identity, word in near:
            counts = self._words[identity]
            if word in counts or len(counts) < _MAX_WORDS:
                counts[word] += 1
        self._n_near.update({identity for identity, _ in near})

    def summarize(self, identities: Sequence[str]) -> dict[str, NearTerms]:
        """Return the counts by identity, with the words that occur in at least three texts.

        Words with digits or punctuation are counted but not listed: they may be account names.
        """
        summary = {}
        for i, name in enumerate(identities):
            if not self._n_near[i]:
                continue
            counts = self._words[i].most_common()
            frequent = ((word, n) for word, n in counts if n >= _MIN_TEXTS and _is_plain_word(word))
            listed = dict(islice(frequent, _MAX_LISTED))
            summary[name] = NearTerms(self._n_counted, self._n_found[i], self._n_near[i], listed)
        return summary

    def _find_identities(self, word: str) -> frozenset[int]:
        """Return the identities with terms that begin like a word, with or without its accents."""
        if word in self._listed:
            return frozenset()
        forms = {word, strip_accents(word)}
        if not any(form.startswith(self._all_beginnings) for form in forms):
            return frozenset()
        return frozenset(
            identity
            for beginning, identities in self._beginnings.items()
            if any(form.startswith(beginning) for form in forms)
            for identity in identities
        )


def _is_plain_word(word: str) -> bool:
    return len(word) <= _MAX_LISTED_LENGTH and all(
        letter.isalpha() or unicodedata.category(letter)[0] == "M" for letter in word
    )
