"""Which texts mention which identity: matches whole words and ignores case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import JsonValue

Matching = Literal["longest", "overlap"]
_MARK = "\0"
_ARTICLE = re.compile(rf"\ban (?={_MARK})")


class TermMatcher:
    """Finds identity terms in texts.

    Parameters
    ----------
    terms : mapping of str to sequence of str
        The terms of each identity.
    matching : {"longest", "overlap"}
        `longest` counts `african american` only for the longest term that matches there;
        `overlap` also counts it for `african` and `american`.

    Raises
    ------
    ValueError
        If an identity has no terms, or an empty one, which would match everywhere.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]], matching: Matching = "longest") -> None:
        if not all(word.strip() for words in terms.values() for word in words or [""]):
            msg = "every identity must have terms, and none may be empty"
            raise ValueError(msg)
        self.identities = list(terms)
        self._terms = {name: list(words) for name, words in terms.items()}
        self.matching = matching
        owners: dict[str, list[int]] = {}
        for position, words in enumerate(terms.values()):
            for word in words:
                owners.setdefault(_folded(word), []).append(position)
        longest_first = sorted(owners, key=len, reverse=True)
        self._words = longest_first
        self._unmatched = set(longest_first)
        self._owners = [owners[word] for word in longest_first]
        # One group per word: the matched text does not tell which word it was, because the case
        # rules of `re` and `str.lower` differ for letters such as the Turkish dotted I.
        self._any = _pattern(f"({_spaced(word)})" for word in longest_first)
        self._each = [_pattern(map(_spaced, words)) for words in terms.values()]

    def mentions(self, texts: Sequence[str]) -> np.ndarray:
        """Return which texts mention which identity."""
        found = np.zeros((len(texts), len(self.identities)), dtype=np.bool_)
        for row, text in enumerate(texts):
            if self.matching == "longest":
                for match in self._any.finditer(text):
                    at = (match.lastindex or 0) - 1
                    found[row, self._owners[at]] = True
                    self._unmatched.discard(self._words[at])
            elif self._any.search(text):
                self._unmatched -= {
                    one for one in self._unmatched if _pattern([_spaced(one)]).search(text)
                }
                found[row] = [pattern.search(text) is not None for pattern in self._each]
        return found

    def around(self, texts: Sequence[str]) -> Iterator[tuple[int, str] | None]:
        """Yield the text around the terms, for each text that names exactly one identity.

        The longest term counts, whatever `matching` is. Texts that differ only in the
        identity yield the same: case, spaces, and *a* or *an* before the term are ignored.

        Yields
        ------
        tuple of int and str, or None
            The index of the identity in `identities`, and the text with a mark in place of
            each term; None for a text without a term, or with terms of several identities.
        """
        for text in texts:
            owners = {
                owner
                for match in self._any.finditer(text)
                for owner in self._owners[(match.lastindex or 0) - 1]
            }
            rest = " ".join(self._any.sub(_MARK, text).lower().split())
            yield (owners.pop(), _ARTICLE.sub("a ", rest)) if len(owners) == 1 else None

    def swapped(self, text: str, rng: np.random.Generator) -> str | None:
        """Return the text with every term replaced by one of another identity.

        Each identity of the text gets another one, everywhere the same. A term is replaced by the
        term at the same place of the other's list (or its first one), so that lists in the same
        order keep plurals. Capitals stay; nothing else of the grammar is regarded.

        Returns
        -------
        str or None
            None if the text has no term, or there is no other identity.
        """
        others: dict[int, int] = {}

        def other(match: re.Match[str]) -> str:
            at = (match.lastindex or 0) - 1
            owner = self._owners[at][0]
            if owner not in others:
                left = [
                    index for index in range(len(self.identities)) if index not in self._owners[at]
                ]
                others[owner] = int(rng.choice(left)) if left else owner
            own = list(map(_folded, self._terms[self.identities[owner]]))
            theirs = self._terms[self.identities[others[owner]]]
            place = own.index(self._words[at])
            return _in_case_of(match[0], theirs[place if place < len(theirs) else 0])

        found = self._any.sub(other, text)
        return found if others and found != text else None

    def unmatched(self) -> dict[str, JsonValue]:
        """Return the terms that have not matched any text so far, by identity.

        With `longest`, this includes terms that only occur within longer ones.
        """
        lacking: dict[str, JsonValue] = {
            name: [word for word in words if _folded(word) in self._unmatched]
            for name, words in self._terms.items()
        }
        return {name: words for name, words in lacking.items() if words}


def _in_case_of(model: str, word: str) -> str:
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def _folded(word: str) -> str:
    return " ".join(word.lower().split())


def _spaced(word: str) -> str:
    return r"\s+".join(map(re.escape, word.split()))


def _pattern(alternatives: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)
