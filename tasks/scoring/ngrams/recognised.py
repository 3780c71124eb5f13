"""Whether a fitted scikit-learn pipeline can be scored here, and its parts.

A pipeline fits if it has a `TfidfVectorizer` or `CountVectorizer`, or a `FeatureUnion` of several,
perhaps a `TfidfTransformer`, and a linear model. What is not computed exactly as scikit-learn does
it (own tokenizers, analyzers and preprocessors, rare token patterns, float32) is refused.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import numpy as np
from sklearn import linear_model, svm
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.pipeline import FeatureUnion, Pipeline

from biasgate.tasks.scoring.ngrams.weighing import Weights

# Tokens that are made of letters, digits and underscores. They depend on nothing beyond white
# space, since \b sees the same at white space and at the end of a text.
_TOKENS = re.compile(r"(\(\?u\))?(\\b)?(\\w)+(\+|\{\d+,\d*\})?(\\b)?")
_LINEAR = {
    linear_model.LinearRegression,
    linear_model.LogisticRegression,
    linear_model.LogisticRegressionCV,
    linear_model.Perceptron,
    linear_model.Ridge,
    linear_model.RidgeClassifier,
    linear_model.RidgeClassifierCV,
    linear_model.SGDClassifier,
    linear_model.SGDRegressor,
    svm.LinearSVC,
}


class NotFastError(ValueError):
    """A pipeline that only scikit-learn can score; the text says why."""


def taken_apart(pipeline: Any) -> tuple[list[tuple[Any, Weights]], Any]:
    """Return the vectorisers of a pipeline with their weights, and its linear model.

    Raises
    ------
    NotFastError
        If the pipeline has another shape.
    """
    if type(pipeline) is not Pipeline:
        _refuse(f"it is a {_name(pipeline)}, not a Pipeline")
    first, *between, last = [step for _, step in pipeline.steps]
    found = _of_union(first) if type(first) is FeatureUnion else [_vectorizer(first)]
    if type(first) is CountVectorizer and between and type(between[0]) is TfidfTransformer:
        found = [(first, _weights(between.pop(0), first))]
    if between:
        _refuse(f"it has a step {_name(between[0])} after its vectoriser")
    if type(last) not in _LINEAR:
        _refuse(f"its last step {_name(last)} is not a known linear model")
    coefficients = getattr(last, "coef_", None)
    if not isinstance(coefficients, np.ndarray) or coefficients.dtype != np.float64:
        _refuse("its coefficients are not an array of float64")
    if coefficients.shape[-1] != sum(weights.idf.size for _, weights in found):
        _refuse("its vocabularies and coefficients are not of one size")
    return found, last


def _of_union(union: FeatureUnion) -> list[tuple[Any, Weights]]:
    factors = union.transformer_weights or {}
    found = []
    for name, part in union.transformer_list:
        if part != "drop":
            vectorizer, weights = _vectorizer(part)
            found.append((vectorizer, weights.times(factors.get(name, 1.0))))
    return found


def _vectorizer(step: Any) -> tuple[Any, Weights]:
    if type(step) not in {CountVectorizer, TfidfVectorizer}:
        _refuse(f"it has a step {_name(step)}")
    own = {
        "a tokenizer": step.tokenizer is not None,
        "a preprocessor": step.preprocessor is not None,
        "an analyzer": step.analyzer not in {"word", "char", "char_wb"},
        "a way to read texts": step.input != "content" or callable(step.strip_accents),
        "a token_pattern": step.analyzer == "word"
        and not _TOKENS.fullmatch(step.token_pattern or ""),
    }
    for what, is_own in own.items():
        if is_own:
            _refuse(f"its {_name(step)} has {what} of its own")
    if np.dtype(step.dtype) == np.float32:
        _refuse(f"its {_name(step)} computes in float32")
    vocabulary = getattr(step, "vocabulary_", None)
    if not vocabulary or set(map(type, vocabulary)) != {str}:
        _refuse(f"its {_name(step)} is not fitted to a vocabulary of texts")
    numbers = np.fromiter(vocabulary.values(), np.int64, len(vocabulary))
    if not np.array_equal(np.sort(numbers), np.arange(len(vocabulary))):
        _refuse(f"the n-grams of its {_name(step)} are not numbered from 0 on")
    if type(step) is TfidfVectorizer:
        return step, weights_of(step)
    return step, Weights(np.ones(len(vocabulary)), None, is_binary=step.binary)


def weights_of(vectorizer: TfidfVectorizer) -> Weights:
    """Return the weights of a fitted vectoriser."""
    return _weights(vectorizer._tfidf, vectorizer)  # noqa: SLF001 - only `idf_` is public


def _weights(tfidf: TfidfTransformer, vectorizer: Any) -> Weights:
    n_features = len(vectorizer.vocabulary_)
    idf = tfidf.idf_ if tfidf.use_idf else np.ones(n_features)
    if idf.shape != (n_features,):
        _refuse("its idf is not one number for each n-gram")
    return Weights(idf, tfidf.norm, is_binary=vectorizer.binary, is_sublinear=tfidf.sublinear_tf)


def _refuse(why: str) -> NoReturn:
    raise NotFastError(why)


def _name(step: Any) -> str:
    return type(step).__name__
