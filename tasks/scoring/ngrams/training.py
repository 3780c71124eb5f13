"""Fitting a TF-IDF and logistic regression pipeline to a training set of any size.

The result is a plain scikit-learn pipeline: the n-grams and inverse document frequencies that its
own `fit` gives, and coefficients by the same objective, solver and stopping rule. Each text is read
once, n-grams are counted as in scoring, and the matrix of a training set stays packed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from biasgate.tasks.common.prefect_task import say
from biasgate.tasks.scoring.ngrams.corpus import Corpus
from biasgate.tasks.scoring.ngrams.counting import counter_by_words
from biasgate.tasks.scoring.ngrams.logistic import Block, Packed, solve
from biasgate.tasks.scoring.ngrams.reading import preparing
from biasgate.tasks.scoring.ngrams.recognised import weights_of
from biasgate.tasks.scoring.ngrams.vocabulary import Learned, learned

_TEXTS_A_BLOCK = 2_000


def fit(
    pipeline: Any, texts: Iterable[str], labels: np.ndarray, weights: np.ndarray | None = None
) -> Any:
    """Fit a pipeline, and return it.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        A `FeatureUnion` of vectorisers (`TfidfVectorizer`, of words or of characters within
        words, that prepare texts alike), and a `LogisticRegression`.
    texts : iterable of str
        The texts, which are read once.
    labels : numpy.ndarray
        Whether each one is positive, bool, shape (n,).
    weights : numpy.ndarray, optional
        How much each one counts in the regression, at least 0, shape (n,). Default: 1 each. The
        n-grams and their inverse document frequencies do not depend on weights.
    """
    features, classifier = pipeline[0], pipeline[-1]
    vectorizers = [vectorizer for _, vectorizer in features.transformer_list]
    corpus = Corpus.of(texts, preparing(vectorizers[0]))
    say(f"read {len(corpus):,} comments: {len(corpus.words):,} different words", aside=True)
    for vectorizer in vectorizers:
        _set_vocabulary(vectorizer, learned(vectorizer, corpus), len(corpus))
    of_grams = [weights_of(vectorizer) for vectorizer in vectorizers]
    counters = [counter_by_words(one, one.vocabulary_) for one in vectorizers]
    blocks, start = [], 0
    for some in corpus.steps(_TEXTS_A_BLOCK):
        packed = [
            Packed.of(counter.counts(some), one)
            for counter, one in zip(counters, of_grams, strict=True)
        ]
        here = slice(start, start + len(some))
        of_rows = None if weights is None else np.asarray(weights, float)[here]
        blocks.append(Block(packed, labels[here], of_rows))
        start += len(some)
    del corpus, counters
    solution = solve(blocks, of_grams, classifier)
    if not solution.has_converged:
        say(f"training stopped after {solution.n_iterations} iterations, before it converged")
    classifier.coef_ = solution.coefficients[np.newaxis]
    classifier.intercept_ = np.array([solution.intercept])
    classifier.classes_ = np.array([False, True])
    classifier.n_iter_ = np.array([solution.n_iterations], np.int32)
    classifier.n_features_in_ = solution.coefficients.size
    return pipeline


def _set_vocabulary(vectorizer: Any, found: Learned, n_texts: int) -> None:
    """Set what `fit` of scikit-learn sets: vocabulary and inverse document frequencies."""
    vectorizer.vocabulary_ = found.vocabulary
    smooth = float(vectorizer.smooth_idf)
    with_each = found.n_texts_with.astype(float) + smooth
    vectorizer.idf_ = np.log((n_texts + smooth) / with_each) + 1
    vectorizer._tfidf.n_features_in_ = len(found.vocabulary)  # noqa: SLF001 - as its `fit` does
