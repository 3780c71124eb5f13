"""TF-IDF and logistic regression for training sets that are too large for scikit-learn's `fit`.

The result is a plain scikit-learn pipeline. N-grams and inverse document frequencies are those of
its own `fit`, and coefficients have the same objective, solver (L-BFGS), start and stopping rule.
Texts are read in blocks. An entry of the matrix (n-gram and count) takes 5 bytes; scikit-learn's
takes at least 12 and is copied. Coefficients differ only because each iteration amplifies rounding:
with many iterations the solver may stop elsewhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
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
"""Size of the cache of words with their n-grams of characters: less than 100 MiB."""
# Gradients are summed in this many parts for any number of cores: a model does not depend on the
# machine.
_PARTS = 8

Texts = Callable[[], Iterable[str]]


def fit(pipeline: Any, texts: Texts, labels: np.ndarray, weights: np.ndarray | None = None) -> Any:
    """Fit a pipeline, and return it.

    `pipeline`: a `FeatureUnion` of `TfidfVectorizer` with `sublinear_tf`, and a
    `LogisticRegression`. `texts`: returns the texts; it is called several times. `labels`: True for
    positive texts, shape (n,). `weights`: at least 0, shape (n,), for the regression, not for
    n-grams and their inverse document frequencies. Default: 1.
    """
    features, classifier = pipeline[0], pipeline[-1]
    vectorizers = [vectorizer for _, vectorizer in features.transformer_list]
    for vectorizer in vectorizers:
        _learn_vocabulary(vectorizer, texts())
    counters = [_make_counter(vectorizer) for vectorizer in vectorizers]
    idf = [vectorizer.idf_ for vectorizer in vectorizers]
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, float)
    blocks, start = [], 0
    for block in _iterate_blocks(texts()):
        packed = [
            Packed.from_counts(counter.transform(block), feature_idf)
            for counter, feature_idf in zip(counters, idf, strict=True)
        ]
        rows = slice(start, start + len(block))
        blocks.append(Block(packed, labels[rows], weights[rows]))
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
    """Set the attributes of scikit-learn's `fit`: vocabulary and inverse document frequencies."""
    count = _count_characters if vectorizer.analyzer == "char_wb" else _count_words
    totals, document_counts, n_texts = count(vectorizer, texts)
    grams = sorted(gram for gram, n in document_counts.items() if n >= vectorizer.min_df)
    if not grams:
        msg = (
            f"the training set must have n-grams in at least `min_df` = {vectorizer.min_df} "
            f"comments; no n-gram is in that many of its {n_texts:,} comments. Train on more "
            "comments."
        )
        raise InputError(msg)
    if len(grams) > vectorizer.max_features:
        # The same call as scikit-learn's, so that among equally frequent grams the same are kept.
        by_frequency = np.array([-totals[gram] for gram in grams], float).argsort()
        grams = [grams[at] for at in np.sort(by_frequency[: vectorizer.max_features])]
    vectorizer.vocabulary_ = {gram: column for column, gram in enumerate(grams)}
    smoothing = float(vectorizer.smooth_idf)
    smoothed_counts = np.array([document_counts[gram] for gram in grams]) + smoothing
    vectorizer.idf_ = np.log((n_texts + smoothing) / smoothed_counts) + 1
    vectorizer._tfidf.n_features_in_ = len(grams)  # noqa: SLF001 - as its `fit` does


Counts = tuple[Mapping[str, int], Mapping[str, int], int]
"""Occurrences by n-gram, numbers of texts by n-gram, and the number of all texts."""


def _count_words(vectorizer: Any, texts: Iterable[str]) -> Counts:
    analyze = vectorizer.build_analyzer()
    totals: Counter[str] = Counter()
    document_counts: Counter[str] = Counter()
    n_texts = 0
    for text in texts:
        grams = analyze(text)
        totals.update(grams)
        document_counts.update(set(grams))
        n_texts += 1
    return totals, document_counts, n_texts


def _count_characters(vectorizer: Any, texts: Iterable[str]) -> Counts:
    columns: defaultdict[str, int] = defaultdict()
    columns.default_factory = columns.__len__
    counter = CharacterCounter(vectorizer, columns, columns.__getitem__)
    totals = document_counts = np.zeros(0, np.int64)
    n_texts = 0
    for block in _iterate_blocks(texts):
        counts = counter.transform(block)
        if len(columns) > len(totals):
            padding = (0, 2 * len(columns) - len(totals))
            totals, document_counts = np.pad(totals, padding), np.pad(document_counts, padding)
        indices = counts.indices.astype(np.intp)
        np.add.at(totals, indices, counts.data.astype(np.int64))
        np.add.at(document_counts, indices, np.int64(1))
        n_texts += len(block)
    # Not strict, to leave out the padding.
    totals_by_gram = dict(zip(columns, totals.tolist(), strict=False))
    return totals_by_gram, dict(zip(columns, document_counts.tolist(), strict=False)), n_texts


class CharacterCounter:
    """A counter of n-grams of characters within words, at least three times scikit-learn's speed.

    Most words occur repeatedly: the n-grams of a word are found once, and then multiplied.

    `columns`: columns by n-gram. `find_column`: returns the column of an n-gram, or None
    if it is not counted; it may add a column.
    """

    def __init__(
        self, vectorizer: Any, columns: Mapping[str, int], find_column: Callable[[str], int | None]
    ) -> None:
        self._prepare = vectorizer.build_preprocessor()
        self._analyze = vectorizer.build_analyzer()
        self._columns, self._find_column = columns, find_column
        self._columns_by_word: dict[str, np.ndarray] = {}

    def transform(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Return the counts, shape (texts, columns), each row in the order of columns."""
        numbers: dict[str, int] = {}
        word_lists = [self._prepare(text).split() for text in texts]
        text_words = [
            [numbers.setdefault(word, len(numbers)) for word in words] for words in word_lists
        ]
        word_columns = [self._find_columns(word) for word in numbers]
        words_by_text = _count_columns(text_words, (len(texts), len(numbers)))
        counts = words_by_text @ _count_columns(word_columns, (len(numbers), len(self._columns)))
        counts.sort_indices()
        return counts

    def _find_columns(self, word: str) -> np.ndarray:
        columns = self._columns_by_word.get(word)
        if columns is None:
            candidates = map(self._find_column, self._analyze(word))
            columns = np.array([column for column in candidates if column is not None], np.int32)
            if len(self._columns_by_word) >= _WORDS_KEPT:
                self._columns_by_word.clear()
            self._columns_by_word[word] = columns
        return columns


def _count_columns(columns: Sequence[Sequence[int] | np.ndarray], shape: tuple[int, int]) -> Any:
    """Return a sparse matrix that counts the column numbers in each row."""
    starts = np.cumsum([0, *map(len, columns)])
    indices = np.concatenate([np.zeros(0, np.int32), *columns], dtype=np.int32, casting="unsafe")
    return sparse.csr_matrix((np.ones(len(indices), np.int32), indices, starts), shape=shape)


def _make_counter(vectorizer: Any) -> CountVectorizer | CharacterCounter:
    """Return a counter of the n-grams of a fitted vectoriser."""
    if vectorizer.analyzer == "char_wb":
        return CharacterCounter(vectorizer, vectorizer.vocabulary_, vectorizer.vocabulary_.get)
    params, unset = vectorizer.get_params(), ("max_features", "min_df", "vocabulary", "dtype")
    options = {name: params[name] for name in CountVectorizer().get_params() if name not in unset}
    return CountVectorizer(**options, vocabulary=vectorizer.vocabulary_, dtype=np.int32)


def _iterate_blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(texts)
    while block := list(islice(rest, _TEXTS_A_BLOCK)):
        yield block


@dataclass(frozen=True)
class Packed:
    """Counts of n-grams in some texts; `scale` is the reciprocal of the norms of their TF-IDF."""

    counts: np.ndarray
    indices: np.ndarray
    starts: np.ndarray
    scale: np.ndarray
    n_features: int

    @classmethod
    def from_counts(cls, counts: sparse.csr_matrix, idf: np.ndarray) -> Packed:
        """Pack counts in the smallest integer type that holds the largest count."""
        largest = counts.data.max(initial=0)
        small = counts.data.astype(np.min_scalar_type(largest))
        squares = (_tabulate_frequencies(largest)[counts.data] * idf[counts.indices]) ** 2
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        norms = np.sqrt(np.bincount(rows, squares, counts.shape[0]))
        norms[norms == 0] = 1.0
        return cls(small, counts.indices, counts.indptr, 1 / norms, counts.shape[1])

    def fill_matrix(self, frequencies: np.ndarray, buffer: np.ndarray) -> sparse.csr_array:
        """Return the term frequencies in a reused buffer, given a frequency for every count.

        New memory for every matrix would take longer than the arithmetic.
        """
        shape = len(self.starts) - 1, self.n_features
        data = np.take(frequencies, self.counts, out=buffer[: self.counts.size], mode="clip")
        return sparse.csr_array((data, self.indices, self.starts), shape=shape)


@dataclass(frozen=True)
class Block:
    """Texts of a training set: packed counts for each vectoriser, labels and weights."""

    packed: Sequence[Packed]
    labels: np.ndarray
    weights: np.ndarray


def _tabulate_frequencies(largest: int) -> np.ndarray:
    """Return the sublinear term frequencies for all counts up to the largest."""
    table = np.arange(int(largest) + 1, dtype=float)
    table[1:] = 1 + np.log(table[1:])
    return table


def _solve(blocks: Sequence[Block], idf: Sequence[np.ndarray], classifier: Any) -> Any:
    """Minimise the objective of a `LogisticRegression` with L2 penalty."""
    positive = sum(float(block.weights @ block.labels) for block in blocks)
    total = float(sum(block.weights.sum() for block in blocks))
    class_weights = np.ones(2)
    if classifier.class_weight == "balanced":
        class_weights = total / (2 * np.array([total - positive, positive]))
    total_weight = float(class_weights @ [total - positive, positive])
    penalty = 1 / (classifier.C * total_weight)
    bounds = np.unique(np.arange(_PARTS + 1) * len(blocks) // _PARTS).tolist()
    parts = [blocks[start:end] for start, end in pairwise(bounds)]

    # `LOKY_MAX_CPU_COUNT` lowers the number of cores.
    with ThreadPoolExecutor(int(joblib.cpu_count())) as pool:

        def compute_objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            compute = partial(_compute_loss, parameters, idf=idf, class_weights=class_weights)
            results = list(pool.map(compute, parts))
            loss = sum(loss for loss, _ in results) / total_weight
            gradient = np.sum([gradient for _, gradient in results], axis=0) / total_weight
            weights = parameters[:-1]
            gradient[:-1] += penalty * weights
            return float(loss + 0.5 * penalty * (weights @ weights)), gradient

        return optimize.minimize(
            compute_objective,
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


def _compute_loss(
    parameters: np.ndarray,
    blocks: Sequence[Block],
    idf: Sequence[np.ndarray],
    class_weights: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Return the loss of some blocks without the penalty, and its gradient."""
    split = np.split(parameters[:-1], np.cumsum([len(values) for values in idf])[:-1])
    coefficients = [part * values for part, values in zip(split, idf, strict=True)]
    gradients = [np.zeros(len(values)) for values in idf]
    by_vectorizer = list(zip(*(block.packed for block in blocks), strict=True))
    frequencies = [
        _tabulate_frequencies(max(int(packed.counts.max(initial=0)) for packed in parts))
        for parts in by_vectorizer
    ]
    buffers = [np.empty(max(packed.counts.size for packed in parts)) for parts in by_vectorizer]
    loss, intercept_gradient = 0.0, 0.0
    for block in blocks:
        matrices = [
            packed.fill_matrix(table, buffer)
            for packed, table, buffer in zip(block.packed, frequencies, buffers, strict=True)
        ]
        raw = np.full(len(block.labels), parameters[-1])
        for matrix, packed, part in zip(matrices, block.packed, coefficients, strict=True):
            raw += packed.scale * (matrix @ part)
        row_weights = class_weights[block.labels.astype(np.intp)] * block.weights
        loss += float(row_weights @ (np.logaddexp(0, raw) - block.labels * raw))
        residuals = row_weights * (np.exp(-np.logaddexp(0, -raw)) - block.labels)
        intercept_gradient += float(residuals.sum())
        for matrix, packed, gradient in zip(matrices, block.packed, gradients, strict=True):
            np.add(gradient, matrix.T @ (packed.scale * residuals), out=gradient)
    scaled = [gradient * values for gradient, values in zip(gradients, idf, strict=True)]
    return loss, np.append(np.concatenate(scaled), intercept_gradient)
