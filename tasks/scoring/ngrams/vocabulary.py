"""The vocabulary that a vectoriser learns from a corpus, exactly as scikit-learn chooses it.

First the n-grams that occur often enough are found, from the short ones to the long ones: an n-gram
cannot be more frequent than its beginning, so the ends of rare beginnings are never counted. Those
within words are counted once for each different word, times the word's frequency. Then the
comments that hold each one are counted, in one pass over the corpus.
"""

from __future__ import annotations

from collections import Counter as Totals
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.ngrams.corpus import Corpus
from biasgate.tasks.scoring.ngrams.counting import code_points, counter_by_words
from biasgate.tasks.scoring.ngrams.reading import Lists, left_of, starts_of
from biasgate.tasks.scoring.ngrams.trie import Nodes, Slots

_WORDS_A_STEP, _TEXTS_A_STEP = 200_000, 5_000
_MOST_KEYS = 20_000_000  # kept before equal ones are added up


@dataclass(frozen=True)
class _Sequences:
    """Some sequences of symbols, one after the other, and how often each occurs."""

    symbols: np.ndarray
    lengths: np.ndarray
    times: np.ndarray


@dataclass(frozen=True)
class Learned:
    """A vocabulary in alphabetical order, and how many texts hold each n-gram."""

    vocabulary: dict[str, int]
    n_texts_with: np.ndarray


def learned(vectorizer: Any, corpus: Corpus) -> Learned:
    """Choose the n-grams that `fit` of a vectoriser would choose.

    Parameters
    ----------
    vectorizer : TfidfVectorizer
        With `analyzer` word or char_wb, whole numbers as `min_df` and `max_features`, and the
        default of `max_df`.
    corpus : Corpus
        The texts.

    Raises
    ------
    InputError
        If no n-gram is in `min_df` texts.
    """
    grams = sorted(_frequent(vectorizer, corpus))
    vocabulary = {gram: number for number, gram in enumerate(grams)}
    n_texts_with = np.zeros(len(grams), np.int64)
    totals = np.zeros(len(grams))
    if grams:
        counter = counter_by_words(vectorizer, vocabulary)
        for texts in corpus.steps(_TEXTS_A_STEP):
            counts = counter.counts(texts)
            n_texts_with += np.bincount(counts.indices, minlength=len(grams))
            totals += np.bincount(counts.indices, counts.data, minlength=len(grams))
    kept = np.flatnonzero(n_texts_with >= vectorizer.min_df)
    if not kept.size:
        msg = (
            f"the training set must have n-grams in at least `min_df` = {vectorizer.min_df} "
            f"comments; none is in so many of its {len(corpus):,} comments. Train on more comments."
        )
        raise InputError(msg)
    if len(kept) > vectorizer.max_features:
        # The same call as scikit-learn's, so that of equally frequent ones the same are kept.
        kept = np.sort(kept[(-totals[kept]).argsort()[: vectorizer.max_features]])
    chosen = {grams[number]: place for place, number in enumerate(kept.tolist())}
    return Learned(chosen, n_texts_with[kept])


def _frequent(vectorizer: Any, corpus: Corpus) -> Iterator[str]:
    """Yield the n-grams that occur at least `min_df` times, each once."""
    shortest, longest = vectorizer.ngram_range
    least = vectorizer.min_df
    if vectorizer.analyzer == "word":
        tokens, sequences = _of_tokens(vectorizer.build_tokenizer(), corpus)
        yield from _grown(sequences, tokens, " ", shortest, longest, least)
        return
    alphabet = sorted({" "}.union(*corpus.words))
    sequences = _of_characters(alphabet, corpus)
    found = list(_grown(sequences, alphabet, "", shortest, longest, least))
    yield from found
    # A word that is shorter than the shortest n-grams is one n-gram.
    short: Totals[str] = Totals()
    for word, times in zip(corpus.words, corpus.word_counts.tolist(), strict=True):
        if len(word) + 2 < shortest:
            short[f" {word} "] += times
    yield from (gram for gram, times in short.items() if times >= least)


def _of_characters(alphabet: list[str], corpus: Corpus) -> Callable[[], Iterable[_Sequences]]:
    """Return the different words as sequences of characters."""
    codes = code_points("".join(alphabet))
    words, times = corpus.words, corpus.word_counts

    def sequences() -> Iterator[_Sequences]:
        for at in range(0, len(words), _WORDS_A_STEP):
            some = words[at : at + _WORDS_A_STEP]
            symbols = np.searchsorted(codes, code_points(" " + "  ".join(some) + " "))
            lengths = np.fromiter(map(len, some), np.int64, len(some)) + 2
            yield _Sequences(symbols, lengths, times[at : at + _WORDS_A_STEP])

    return sequences


def _of_tokens(
    tokenize: Callable[[str], list[str]], corpus: Corpus
) -> tuple[list[str], Callable[[], Iterable[_Sequences]]]:
    """Return all tokens, and the texts as sequences of them."""
    numbers: dict[str, int] = {}
    of_words = Lists()
    for at in range(0, len(corpus.words), _WORDS_A_STEP):
        found = [
            [numbers.setdefault(token, len(numbers)) for token in tokenize(word)]
            for word in corpus.words[at : at + _WORDS_A_STEP]
        ]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        flat = (number for one in found for number in one)
        of_words.append(lengths, np.fromiter(flat, np.int32, int(lengths.sum())))

    def sequences() -> Iterator[_Sequences]:
        for texts in corpus.steps(_TEXTS_A_STEP):
            n_tokens, symbols = of_words.joined(texts.words.numbers)
            lengths = np.diff(starts_of(n_tokens)[texts.words.starts])
            yield _Sequences(symbols, lengths, np.ones(len(lengths), np.int64))

    return list(numbers), sequences


def _grown(
    sequences: Callable[[], Iterable[_Sequences]],
    names: list[str],
    between: str,
    shortest: int,
    longest: int,
    least: int,
) -> Iterator[str]:
    """Yield the n-grams of sequences that occur at least so often, length by length."""
    tables: list[Slots] = []
    above = [""]
    place_of_slot = np.zeros(1, np.int64)
    for length in range(1, longest + 1):
        keys, totals = _counted(sequences(), tables, len(names))
        keys = keys[totals >= least]
        if not keys.size:
            return
        parents = place_of_slot[keys // len(names)].tolist()
        last = (keys % len(names)).tolist()
        joint = between if length > 1 else ""
        above = [
            above[parent] + joint + names[symbol]
            for parent, symbol in zip(parents, last, strict=True)
        ]
        if length >= shortest:
            yield from above
        table = Slots(keys)
        place_of_slot = np.zeros(table.n_slots, np.int64)
        place_of_slot[table.of_keys] = np.arange(len(keys))
        tables.append(table)


def _counted(
    sequences: Iterable[_Sequences], tables: list[Slots], n_symbols: int
) -> tuple[np.ndarray, np.ndarray]:
    """Count the n-grams that are one symbol longer than those of the last table."""
    keys, totals = [np.empty(0, np.int64)], [np.empty(0)]
    for some in sequences:
        nodes = Nodes(some.symbols, left_of(some.lengths), n_symbols)
        for table in tables:
            nodes.descend(table)
        found = nodes.keys()
        times = np.repeat(some.times, some.lengths)[nodes.at]
        new = _added(found, times)
        keys.append(new[0])
        totals.append(new[1])
        if sum(map(len, keys)) > _MOST_KEYS:
            merged = _added(np.concatenate(keys), np.concatenate(totals))
            keys, totals = [merged[0]], [merged[1]]
    return _added(np.concatenate(keys), np.concatenate(totals))


def _added(keys: np.ndarray, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    different, places = np.unique(keys, return_inverse=True)
    return different, np.bincount(places, totals, minlength=len(different))
