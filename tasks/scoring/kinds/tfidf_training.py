"""Fitting TF-IDF and logistic regression to a training set that does not fit scikit-learn's memory.

The result is a plain scikit-learn pipeline: the n-grams and inverse document frequencies that its
own `fit` gives, and coefficients by the same objective, solver (L-BFGS), start and stopping rule.
But texts are read some at a time, and an entry of the matrix takes 5 bytes, the number of the
n-gram and its count, where scikit-learn's takes 12 or more and is copied. Coefficients differ only
because each iteration amplifies rounding: with many iterations the solver may stop elsewhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import joblib
import numpy as np
from scipy import optimize, sparse
from sklearn.feature_extraction.text import CountVectorizer

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import log_message

_TEXTS_A_BLOCK = 2_000
_WORDS_KEPT = 200_000
"""Words whose n-grams of characters are kept: fewer than 100 MiB."""
# Sums of gradients are formed in so many parts, whatever the number of cores: a model does not
# depend on the machine.
_PARTS = 8

Texts = Callable[[], Iterable[str]]


def fit(pipeline: Any, texts: Texts, labels: np.ndarray, weights: np.ndarray | None = None) -> Any:
    """Fit a pipeline, and return it.

    `pipeline`: a `FeatureUnion` of `TfidfVectorizer` with `sublinear_tf`, and a
    `LogisticRegression`. `texts`: returns the texts; it is called several times. `labels`: whether
    each one is positive, bool, shape (n,). `weights`: how much each one counts in the regression,
    at least 0, shape (n,). Default: 1 each. The n-grams and their inverse document frequencies do
    not depend on weights.
    """
    features, classifier = pipeline[0], pipeline[-1]
    vectorizers = [vectorizer for _, vectorizer in features.transformer_list]
    for vectorizer in vectorizers:
        _learn_vocabulary(vectorizer, texts())
    counters = [_counter(vectorizer) for vectorizer in vectorizers]
    idf = [vectorizer.idf_ for vectorizer in vectorizers]
    counted = np.ones(len(labels)) if weights is None else np.asarray(weights, float)
    blocks, start = [], 0
    for block in _steps(texts()):
        packed = [
            Packed.from_counts(counter.transform(block), own)
            for counter, own in zip(counters, idf, strict=True)
        ]
        rows = slice(start, start + len(block))
        blocks.append(Block(packed, labels[rows], counted[rows]))
        start += len(block)
    solution = _solve(blocks, idf, classifier)
    if not solution.success:
        log_message(f"training stopped after {solution.nit} iterations, before it converged")
    classifier.coef_ = solution.x[np.newaxis, :-1]
    classifier.intercept_ = solution.x[-1:]
    classifier.classes_ = np.array([False, True])
    classifier.n_iter_ = np.array([solution.nit], np.int32)
    classifier.n_features_in_ = solution.x.size - 1
    return pipeline


def _learn_vocabulary(vectorizer: Any, texts: Iterable[str]) -> None:
    """Set what `fit` of scikit-learn sets: vocabulary and inverse document frequencies."""
    count = _count_characters if vectorizer.analyzer == "char_wb" else _count_words
    totals, n_texts_with, n_texts = count(vectorizer, texts)
    grams = sorted(gram for gram, n in n_texts_with.items() if n >= vectorizer.min_df)
    if not grams:
        msg = (
            f"the training set must have n-grams in at least `min_df` = {vectorizer.min_df} "
            f"comments; no n-gram is in that many of its {n_texts:,} comments. Train on more "
            "comments."
        )
        raise InputError(msg)
    if len(grams) > vectorizer.max_features:
        # The same call as scikit-learn's, so that among equally frequent grams the same are kept.
        frequent = np.array([-totals[gram] for gram in grams], float).argsort()
        grams = [grams[at] for at in np.sort(frequent[: vectorizer.max_features])]
    vectorizer.vocabulary_ = {gram: place for place, gram in enumerate(grams)}
    smooth = float(vectorizer.smooth_idf)
    with_each = np.array([n_texts_with[gram] for gram in grams]) + smooth
    vectorizer.idf_ = np.log((n_texts + smooth) / with_each) + 1
    vectorizer._tfidf.n_features_in_ = len(grams)  # noqa: SLF001 - as its `fit` does


Counts = tuple[Mapping[str, int], Mapping[str, int], int]
"""How often each n-gram occurs, in how many texts, and how many texts there are."""


def _count_words(vectorizer: Any, texts: Iterable[str]) -> Counts:
    analyze = vectorizer.build_analyzer()
    totals: Counter[str] = Counter()
    n_texts_with: Counter[str] = Counter()
    n_texts = 0
    for text in texts:
        grams = analyze(text)
        totals.update(grams)
        n_texts_with.update(set(grams))
        n_texts += 1
    return totals, n_texts_with, n_texts


def _count_characters(vectorizer: Any, texts: Iterable[str]) -> Counts:
    columns: defaultdict[str, int] = defaultdict()
    columns.default_factory = columns.__len__
    counter = CharacterCounter(vectorizer, columns, columns.__getitem__)
    totals = n_texts_with = np.zeros(0, np.int64)
    n_texts = 0
    for some in _steps(texts):
        counts = counter.transform(some)
        if len(columns) > len(totals):
            room = (0, 2 * len(columns) - len(totals))
            totals, n_texts_with = np.pad(totals, room), np.pad(n_texts_with, room)
        at = counts.indices.astype(np.intp)
        np.add.at(totals, at, counts.data.astype(np.int64))
        np.add.at(n_texts_with, at, np.int64(1))
        n_texts += len(some)
    # Without the room for more.
    by_gram = dict(zip(columns, totals.tolist(), strict=False))
    return by_gram, dict(zip(columns, n_texts_with.tolist(), strict=False)), n_texts


class CharacterCounter:
    """Counts n-grams of characters within words as scikit-learn does, at least three times faster.

    Most words were in earlier texts: the n-grams of a word are found once, and then multiplied.

    `columns`: the column of each n-gram. `column`: returns the column of an n-gram, or None if it
    is not counted; it may add a column.
    """

    def __init__(
        self, vectorizer: Any, columns: Mapping[str, int], column: Callable[[str], int | None]
    ) -> None:
        self._prepare = vectorizer.build_preprocessor()
        self._analyze = vectorizer.build_analyzer()
        self._columns, self._column = columns, column
        self._words: dict[str, np.ndarray] = {}

    def transform(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Return the counts, shape (texts, columns), each row in the order of columns."""
        numbers: dict[str, int] = {}
        words = [self._prepare(text).split() for text in texts]
        of_texts = [[numbers.setdefault(one, len(numbers)) for one in some] for some in words]
        of_words = [self._columns_of(word) for word in numbers]
        shape = (len(numbers), len(self._columns))
        counts = _matrix(of_texts, (len(texts), len(numbers))) @ _matrix(of_words, shape)
        counts.sort_indices()
        return counts

    def _columns_of(self, word: str) -> np.ndarray:
        known = self._words.get(word)
        if known is None:
            columns = (self._column(gram) for gram in self._analyze(word))
            known = np.array([column for column in columns if column is not None], np.int32)
            if len(self._words) >= _WORDS_KEPT:
                self._words.clear()
            self._words[word] = known
        return known


def _matrix(columns: Sequence[Sequence[int] | np.ndarray], shape: tuple[int, int]) -> Any:
    """Return how often each row has each column."""
    starts = np.cumsum([0, *map(len, columns)])
    indices = np.concatenate([np.zeros(0, np.int32), *columns], dtype=np.int32, casting="unsafe")
    return sparse.csr_matrix((np.ones(len(indices), np.int32), indices, starts), shape=shape)


def _counter(vectorizer: Any) -> CountVectorizer | CharacterCounter:
    """Return what counts the n-grams of a fitted vectoriser."""
    if vectorizer.analyzer == "char_wb":
        return CharacterCounter(vectorizer, vectorizer.vocabulary_, vectorizer.vocabulary_.get)
    own, unset = vectorizer.get_params(), ("max_features", "min_df", "vocabulary", "dtype")
    options = {name: own[name] for name in CountVectorizer().get_params() if name not in unset}
    return CountVectorizer(**options, vocabulary=vectorizer.vocabulary_, dtype=np.int32)


def _steps(texts: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(texts)
    while step := list(islice(rest, _TEXTS_A_BLOCK)):
        yield step


@dataclass(frozen=True)
class Packed:
    """Counts of n-grams in some texts, and one divided by the norms of their TF-IDF."""

    counts: np.ndarray
    indices: np.ndarray
    starts: np.ndarray
    scale: np.ndarray
    n_features: int

    @classmethod
    def from_counts(cls, counts: sparse.csr_matrix, idf: np.ndarray) -> Packed:
        """Pack counts, each in as few bytes as the largest needs."""
        largest = counts.data.max(initial=0)
        small = counts.data.astype(np.min_scalar_type(largest))
        squares = (_frequencies(largest)[counts.data] * idf[counts.indices]) ** 2
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        norms = np.sqrt(np.bincount(rows, squares, counts.shape[0]))
        norms[norms == 0] = 1.0
        return cls(small, counts.indices, counts.indptr, 1 / norms, counts.shape[1])

    def matrix(self, frequencies: np.ndarray, room: np.ndarray) -> sparse.csr_array:
        """Return the term frequencies, given those of each count, in room that is there already.

        New memory for every matrix would take longer than the arithmetic.
        """
        shape = len(self.starts) - 1, self.n_features
        data = np.take(frequencies, self.counts, out=room[: self.counts.size], mode="clip")
        return sparse.csr_array((data, self.indices, self.starts), shape=shape)


@dataclass(frozen=True)
class Block:
    """Texts of a training set: packed counts of each vectoriser, labels, and what each counts."""

    packed: Sequence[Packed]
    labels: np.ndarray
    counted: np.ndarray


def _frequencies(largest: int) -> np.ndarray:
    """Return what becomes of each count up to the largest, sublinearly."""
    table = np.arange(int(largest) + 1, dtype=float)
    table[1:] = 1 + np.log(table[1:])
    return table


def _solve(blocks: Sequence[Block], idf: Sequence[np.ndarray], classifier: Any) -> Any:
    """Minimise the objective of a `LogisticRegression` with L2 penalty."""
    positive = sum(float(block.counted @ block.labels) for block in blocks)
    total = float(sum(block.counted.sum() for block in blocks))
    of_class = np.ones(2)
    if classifier.class_weight == "balanced":
        of_class = total / (2 * np.array([total - positive, positive]))
    total_weight = float(of_class @ [total - positive, positive])
    penalty = 1 / (classifier.C * total_weight)
    bounds = np.unique(np.arange(_PARTS + 1) * len(blocks) // _PARTS).tolist()
    parts = [blocks[start:end] for start, end in pairwise(bounds)]

    with ThreadPoolExecutor(_cores()) as pool:

        def objective(at: np.ndarray) -> tuple[float, np.ndarray]:
            of_parts = list(
                pool.map(lambda part: _loss_and_gradient(at, part, idf, of_class), parts)
            )
            loss = sum(loss for loss, _ in of_parts) / total_weight
            gradient = np.sum([gradient for _, gradient in of_parts], axis=0) / total_weight
            gradient[:-1] += penalty * at[:-1]
            return float(loss + 0.5 * penalty * (at[:-1] @ at[:-1])), gradient

        return optimize.minimize(
            objective,
            np.zeros(sum(map(len, idf)) + 1),
            method="L-BFGS-B",
            jac=True,
            options={
                "maxiter": classifier.max_iter,
                "maxls": 50,
                "gtol": classifier.tol,
                "ftol": 64 * np.finfo(float).eps,
            },
        )


def _loss_and_gradient(
    at: np.ndarray, blocks: Sequence[Block], idf: Sequence[np.ndarray], of_class: np.ndarray
) -> tuple[float, np.ndarray]:
    split = np.split(at[:-1], np.cumsum([len(one) for one in idf])[:-1])
    coefficients = [own * one for own, one in zip(split, idf, strict=True)]
    gradients = [np.zeros(len(one)) for one in idf]
    of_vectorizers = list(zip(*(block.packed for block in blocks), strict=True))
    frequencies = [
        _frequencies(max(int(p.counts.max(initial=0)) for p in packed)) for packed in of_vectorizers
    ]
    rooms = [np.empty(max(p.counts.size for p in packed)) for packed in of_vectorizers]
    loss, of_intercept = 0.0, 0.0
    for block in blocks:
        matrices = [
            one.matrix(of_counts, room)
            for one, of_counts, room in zip(block.packed, frequencies, rooms, strict=True)
        ]
        raw = np.full(len(block.labels), at[-1])
        for matrix, packed, own in zip(matrices, block.packed, coefficients, strict=True):
            raw += packed.scale * (matrix @ own)
        of_rows = of_class[block.labels.astype(np.intp)] * block.counted
        loss += float(of_rows @ (np.logaddexp(0, raw) - block.labels * raw))
        residuals = of_rows * (np.exp(-np.logaddexp(0, -raw)) - block.labels)
        of_intercept += float(residuals.sum())
        for matrix, packed, gradient in zip(matrices, block.packed, gradients, strict=True):
            np.add(gradient, matrix.T @ (packed.scale * residuals), out=gradient)
    summed = [gradient * one for gradient, one in zip(gradients, idf, strict=True)]
    return loss, np.append(np.concatenate(summed), of_intercept)


def _cores() -> int:
    return int(joblib.cpu_count())  # `LOKY_MAX_CPU_COUNT` lowers it
