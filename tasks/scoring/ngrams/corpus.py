"""A training set as numbers of words: every different word is kept once, and no text is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from biasgate.tasks.scoring.ngrams.reading import Reader, WordNumbers, starts_of

_TEXTS_A_STEP = 10_000


@dataclass(frozen=True)
class NumberedTexts:
    """Some texts of a corpus."""

    words: WordNumbers

    def __len__(self) -> int:
        return len(self.words.starts) - 1


@dataclass(frozen=True)
class Corpus:
    """All texts of a training set.

    Attributes
    ----------
    words : list of str
        The different words.
    numbers : numpy.ndarray
        The number of each word of the texts, text after text, shape (m,).
    starts : numpy.ndarray
        Where each text begins, and where the last one ends, shape (n + 1,).
    """

    words: list[str]
    numbers: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[str], prepare: Callable[[str], str]) -> Corpus:
        """Read texts one by one; `prepare` is what is done before they are split."""
        reader = Reader(prepare, most_characters=None)
        words: list[str] = []
        numbers, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        rest = iter(texts)
        while step := list(islice(rest, _TEXTS_A_STEP)):
            read = reader.read(step).words
            words += read.new
            numbers.append(read.numbers)
            lengths.append(np.diff(read.starts))
        return cls(words, np.concatenate(numbers), starts_of(np.concatenate(lengths)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def word_counts(self) -> np.ndarray:
        """How often each word is in the texts, shape (number of words,)."""
        return np.bincount(self.numbers, minlength=len(self.words))

    def steps(self, texts_a_step: int) -> Iterator[NumberedTexts]:
        """Yield the texts, some at a time; all words are new to the first of them."""
        for at in range(0, len(self), texts_a_step):
            starts = self.starts[at : at + texts_a_step + 1]
            numbers = self.numbers[starts[0] : starts[-1]]
            new, known = (self.words, 0) if at == 0 else ([], len(self.words))
            yield NumberedTexts(WordNumbers(numbers, starts - starts[0], new, known))
