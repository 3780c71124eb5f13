"""How often each n-gram of a vocabulary is in each text, as sparse matrices of whole numbers.

There is one class for each `analyzer` of scikit-learn. All of them give scikit-learn's counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from biasgate.tasks.scoring.ngrams.reading import (
    HasWords,
    Lists,
    Texts,
    left_of,
    starts_of,
)
from biasgate.tasks.scoring.ngrams.trie import Trie

_CODE_POINTS = 0x110000
_WORDS_A_STEP = 100_000
_WHITE_SPACE = re.compile(r"\s\s+")  # what scikit-learn replaces by one space

Vocabulary = Mapping[str, int]


class Counter(Protocol):
    """Counts n-grams of one vocabulary."""

    def counts(self, texts: Texts) -> sparse.csr_array:
        """Return the counts, texts by n-grams, shape (n, size of the vocabulary)."""


class WordCharacters:
    """Counts n-grams of characters within words (`char_wb`): those of each word once for all.

    A word has a space at both ends. A word that is shorter than the shortest n-grams counts as
    one n-gram.

    Parameters
    ----------
    vocabulary : mapping
        Numbers of n-grams, from 0 on.
    shortest, longest : int
        Lengths of n-grams.
    """

    def __init__(self, vocabulary: Vocabulary, shortest: int, longest: int) -> None:
        self._characters = _Characters(vocabulary)
        self._lengths = shortest, longest
        self._size = len(vocabulary)
        self._known = Lists()
        self._ones = np.ones(0, np.int32)

    def counts(self, texts: HasWords) -> sparse.csr_array:
        """Multiply counts of words in texts by counts of n-grams in words."""
        words = texts.words
        self._known.cut_to(words.first_new)
        for at in range(0, len(words.new), _WORDS_A_STEP):
            self._known.append(*self._of_words(words.new[at : at + _WORDS_A_STEP]))
        n_values = len(self._known.values)
        if n_values > len(self._ones):
            self._ones = np.ones(2 * n_values, np.int32)
        in_texts = _matrix(words.numbers, words.starts, len(self._known))
        in_words = sparse.csr_array(
            (self._ones[:n_values], self._known.values, self._known.starts),
            shape=(len(self._known), self._size),
        )
        return in_texts @ in_words

    def _of_words(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        shortest, longest = self._lengths
        lengths = np.fromiter(map(len, words), np.int64, len(words)) + 2
        symbols = self._characters.symbols(" " + "  ".join(words) + " ")
        at, features = self._characters.trie.find(symbols, left_of(lengths), shortest, longest)
        rows = np.repeat(np.arange(len(words)), lengths)[at]
        short = np.flatnonzero(lengths < shortest)
        if short.size:
            of_short = self._characters.symbols("".join(f" {words[at]} " for at in short.tolist()))
            whole = self._characters.trie.whole(of_short, lengths[short])
            rows = np.concatenate([rows, short[whole >= 0]])
            features = np.concatenate([features, whole[whole >= 0]])
        return _by_row(rows, features, len(words))


class TextCharacters:
    """Counts n-grams of characters (`char`): two or more white spaces count as one space.

    Parameters
    ----------
    vocabulary : mapping
        Numbers of n-grams, from 0 on.
    shortest, longest : int
        Lengths of n-grams.
    """

    def __init__(self, vocabulary: Vocabulary, shortest: int, longest: int) -> None:
        self._characters = _Characters(vocabulary)
        self._lengths = shortest, longest
        self._sum = _summing(len(vocabulary))

    def counts(self, texts: Texts) -> sparse.csr_array:
        """Look up the n-grams at all positions of the texts."""
        contents = [_WHITE_SPACE.sub(" ", text) for text in texts.prepared]
        lengths = np.fromiter(map(len, contents), np.int64, len(contents))
        symbols = self._characters.symbols("".join(contents))
        at, features = self._characters.trie.find(symbols, left_of(lengths), *self._lengths)
        rows = np.repeat(np.arange(len(contents)), lengths)[at]
        return self._sum(rows, features, len(contents))


class Words:
    """Counts n-grams of tokens (`word`): tokens of each word are found once for all.

    Parameters
    ----------
    vocabulary : mapping
        Numbers of n-grams (tokens with single spaces between them), from 0 on.
    shortest, longest : int
        How many tokens an n-gram has.
    tokenize : callable
        Returns the tokens of a text. No token may depend on anything beyond white space.
    stop_words : collection of str
        Tokens that are left out.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        shortest: int,
        longest: int,
        tokenize: Callable[[str], list[str]],
        stop_words: Collection[str] = (),
    ) -> None:
        grams = [gram.split(" ") for gram in vocabulary]
        tokens = dict.fromkeys(chain.from_iterable(grams))
        self._numbers = {token: number for number, token in enumerate(tokens)}
        self._tokenize = _without(frozenset(stop_words), tokenize) if stop_words else tokenize
        self._lengths = shortest, longest
        self._trie = Trie(
            np.array([self._numbers[token] for gram in grams for token in gram], np.int64),
            np.fromiter(map(len, grams), np.int64, len(grams)),
            _features(vocabulary),
            len(tokens) + 1,
        )
        self._sum = _summing(len(vocabulary))
        self._known = Lists()

    def counts(self, texts: HasWords) -> sparse.csr_array:
        """Look up the n-grams that begin at each token of the texts."""
        words = texts.words
        self._known.cut_to(words.first_new)
        if words.new:
            get, unknown, tokenize = self._numbers.get, len(self._numbers), self._tokenize
            found = [[get(token, unknown) for token in tokenize(word)] for word in words.new]
            numbers = np.fromiter(chain.from_iterable(found), np.int32)
            self._known.append(np.fromiter(map(len, found), np.int64, len(found)), numbers)
        of_words, symbols = self._known.joined(words.numbers)
        lengths = np.diff(starts_of(of_words)[words.starts])
        at, features = self._trie.find(symbols, left_of(lengths), *self._lengths)
        rows = np.repeat(np.arange(len(texts)), lengths)[at]
        return self._sum(rows, features, len(texts))


def _without(
    stop_words: frozenset[str], tokenize: Callable[[str], list[str]]
) -> Callable[[str], list[str]]:
    return lambda text: [token for token in tokenize(text) if token not in stop_words]


def counter_of(vectorizer: Any, vocabulary: Vocabulary) -> Counter:
    """Return what counts the n-grams of a vocabulary as a vectoriser of scikit-learn does."""
    if vectorizer.analyzer == "char":
        return TextCharacters(vocabulary, *vectorizer.ngram_range)
    return counter_by_words(vectorizer, vocabulary)


def counter_by_words(vectorizer: Any, vocabulary: Vocabulary) -> WordCharacters | Words:
    """Return the same for a vectoriser whose `analyzer` is not `char`: it needs words alone."""
    shortest, longest = vectorizer.ngram_range
    if vectorizer.analyzer == "char_wb":
        return WordCharacters(vocabulary, shortest, longest)
    stop_words = vectorizer.get_stop_words() or ()
    return Words(vocabulary, shortest, longest, vectorizer.build_tokenizer(), stop_words)


class _Characters:
    """The characters of a vocabulary as symbols, and its trie."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        codes = code_points("".join(vocabulary))
        known = np.unique(codes)
        self._symbols = np.full(_CODE_POINTS, len(known), np.int32)
        self._symbols[known] = np.arange(len(known))
        lengths = np.fromiter(map(len, vocabulary), np.int64, len(vocabulary))
        self.trie = Trie(self._symbols[codes], lengths, _features(vocabulary), len(known) + 1)

    def symbols(self, text: str) -> np.ndarray:
        """Return the symbol of each character."""
        found: np.ndarray = self._symbols[code_points(text)]
        return found


def _features(vocabulary: Vocabulary) -> np.ndarray:
    return np.fromiter(vocabulary.values(), np.int32, len(vocabulary))


def code_points(text: str) -> np.ndarray:
    """Return the code point of each character."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _by_row(rows: np.ndarray, features: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many features each row has, and the features row after row."""
    return np.bincount(rows, minlength=n_rows), features[np.argsort(rows, kind="stable")]


def _matrix(columns: np.ndarray, starts: np.ndarray, n_columns: int) -> sparse.csr_array:
    """Return a matrix of ones, of which two at the same place count as two."""
    ones = np.ones(len(columns), np.int32)
    shape = len(starts) - 1, n_columns
    return sparse.csr_array((ones, columns, starts.astype(np.int32)), shape=shape)


def _summing(
    n_features: int,
) -> Callable[[np.ndarray, np.ndarray, int], sparse.csr_array]:
    """Return a function that counts how often each feature is in each row.

    A product with the identity adds up what is at the same place, and needs no sort.
    """
    identity = sparse.eye_array(n_features, dtype=np.int32, format="csr")

    def count(rows: np.ndarray, features: np.ndarray, n_rows: int) -> sparse.csr_array:
        lengths, in_order = _by_row(rows, features, n_rows)
        return _matrix(in_order, starts_of(lengths), n_features) @ identity

    return count
