"""Texts as numbers of words: a word is what stands between white space.

Texts share most of their words. What is computed for a word is kept, and computed again only for
words that are new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, Protocol

import numpy as np

# Words are forgotten beyond this many characters, about 200,000 words: what is kept of them is
# twenty times as large.
MOST_CHARACTERS = 2_000_000


@dataclass(frozen=True)
class WordNumbers:
    """The words of some texts.

    Attributes
    ----------
    numbers : numpy.ndarray
        The number of each word, text after text, shape (m,).
    starts : numpy.ndarray
        Where each text begins, and where the last one ends, shape (n + 1,).
    new : list of str
        The words that have numbers from `first_new` on.
    first_new : int
        How many words were known before; 0 if all were forgotten.
    """

    numbers: np.ndarray
    starts: np.ndarray
    new: list[str]
    first_new: int


class Reader:
    """Numbers the words of texts.

    Parameters
    ----------
    prepare : callable
        What is done with a text before it is split, such as `str.lower`.
    most_characters : int or None
        When to forget all words; None for never.
    """

    def __init__(
        self, prepare: Callable[[str], str], most_characters: int | None = MOST_CHARACTERS
    ) -> None:
        self._prepare = prepare
        self._most = most_characters
        self._kept = 0
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def read(self, texts: Sequence[str]) -> Texts:
        """Prepare some texts."""
        return Texts([self._prepare(text) for text in texts], self)

    def numbered(self, prepared: Sequence[str]) -> WordNumbers:
        """Give the words of prepared texts their numbers."""
        if self._most is not None and self._kept > self._most:
            self._numbers.clear()
            self._kept = 0
        known = len(self._numbers)
        words = [text.split() for text in prepared]
        starts = starts_of(np.fromiter(map(len, words), np.int64, len(words)))
        numbers = np.fromiter(
            map(self._numbers.__getitem__, chain.from_iterable(words)), np.int32, int(starts[-1])
        )
        new = list(islice(reversed(self._numbers), len(self._numbers) - known))[::-1]
        self._kept += sum(map(len, new))
        return WordNumbers(numbers, starts, new, known)


class HasWords(Protocol):
    """Texts whose words have numbers."""

    @property
    def words(self) -> WordNumbers:
        """The numbers of their words."""

    def __len__(self) -> int: ...


class Texts:
    """Some prepared texts; those who count n-grams of words share the numbers of the words."""

    def __init__(self, prepared: list[str], reader: Reader) -> None:
        self.prepared = prepared
        self._reader = reader

    def __len__(self) -> int:
        return len(self.prepared)

    @cached_property
    def words(self) -> WordNumbers:
        """The numbers of their words."""
        return self._reader.numbered(self.prepared)


class Lists:
    """Many lists of numbers, one after the other in an array that grows."""

    def __init__(self) -> None:
        self._starts, self._values = np.zeros(1, np.int32), np.empty(0, np.int32)
        self._n_lists = self._n_values = 0

    def __len__(self) -> int:
        return self._n_lists

    def cut_to(self, n_lists: int) -> None:
        """Keep only the first lists: words after them were forgotten, or an error came between.

        Raises
        ------
        ValueError
            If there are fewer.
        """
        if n_lists > self._n_lists:
            msg = f"`n_lists` must be at most {self._n_lists}; got {n_lists}."
            raise ValueError(msg)
        self._n_lists, self._n_values = n_lists, int(self._starts[n_lists])

    def append(self, lengths: np.ndarray, values: np.ndarray) -> None:
        """Add lists: their lengths, and their numbers one after the other."""
        n_lists, n_values = self._n_lists + len(lengths), self._n_values + len(values)
        self._starts = _with_room(self._starts, self._n_lists + 1, n_lists + 1)
        self._values = _with_room(self._values, self._n_values, n_values)
        self._starts[self._n_lists + 1 : n_lists + 1] = self._n_values + np.cumsum(lengths)
        self._values[self._n_values : n_values] = values
        self._n_lists, self._n_values = n_lists, n_values

    @property
    def starts(self) -> np.ndarray:
        """Where each list begins, and where the last one ends, shape (n + 1,)."""
        return self._starts[: self._n_lists + 1]

    @property
    def values(self) -> np.ndarray:
        """The numbers of all lists."""
        return self._values[: self._n_values]

    def joined(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lengths of some lists, and their numbers one after the other."""
        first = self._starts[chosen].astype(np.int64)
        lengths = self._starts[chosen + 1] - first
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if ends.size else 0
        at = np.arange(total) + np.repeat(first - (ends - lengths), lengths)
        return lengths, self._values[at]


def preparing(vectorizer: Any) -> Callable[[str], str]:
    """Return what a vectoriser of scikit-learn does with a text before it splits it."""
    if vectorizer.lowercase and not vectorizer.strip_accents:
        return str.lower
    prepare: Callable[[str], str] = vectorizer.build_preprocessor()
    return prepare


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """Return where each of some lists begins, and where the last one ends, shape (n + 1,)."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def left_of(lengths: np.ndarray) -> np.ndarray:
    """Return for each element of some lists how many are left in its list, itself included."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.repeat(ends, lengths) - np.arange(total)


def _with_room(values: np.ndarray, used: int, wanted: int) -> np.ndarray:
    if wanted <= len(values):
        return values
    grown = np.empty(max(wanted, 2 * len(values)), values.dtype)
    grown[:used] = values[:used]
    return grown
