"""A fitted pipeline of vectorisers and a linear model, and its answers for texts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgate.tasks.scoring.ngrams.counting import Counter, counter_of
from biasgate.tasks.scoring.ngrams.reading import Reader, preparing
from biasgate.tasks.scoring.ngrams.recognised import taken_apart
from biasgate.tasks.scoring.ngrams.weighing import Weights

# Texts at a time: their counts fit into a core's cache.
TEXTS_A_STEP = 500


@dataclass(frozen=True)
class _Part:
    """One vectoriser: how it reads texts, its counts, its weights, and its coefficients."""

    prepared_as: tuple[bool, str | None]
    counter: Counter
    weights: Weights
    coefficients: np.ndarray


class NgramModel:
    """A fitted pipeline from texts to the answers of a linear model.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        The fitted pipeline.

    Raises
    ------
    NotFastError
        If only scikit-learn can score it.
    """

    def __init__(self, pipeline: Any) -> None:
        vectorizers, linear = taken_apart(pipeline)
        coefficients = np.atleast_2d(linear.coef_).T
        self._parts: list[_Part] = []
        self._readers: dict[tuple[bool, str | None], Reader] = {}
        start = 0
        for vectorizer, weights in vectorizers:
            prepared_as = vectorizer.lowercase, vectorizer.strip_accents
            if prepared_as not in self._readers:
                self._readers[prepared_as] = Reader(preparing(vectorizer))
            own = coefficients[start : start + weights.idf.size]
            self._parts.append(
                _Part(prepared_as, counter_of(vectorizer, vectorizer.vocabulary_), weights, own)
            )
            start += weights.idf.size
        self._linear = _of_products(linear, coefficients.shape[1])

    def answer(self, method: str, texts: Sequence[str]) -> np.ndarray:
        """Return what a method of the pipeline returns for some texts.

        Parameters
        ----------
        method : {"predict", "predict_proba", "predict_log_proba", "decision_function"}
            The method.
        texts : sequence of str
            At least one text.
        """
        steps = range(0, len(texts), TEXTS_A_STEP)
        products = [self._products(texts[at : at + TEXTS_A_STEP]) for at in steps]
        answers: np.ndarray = getattr(self._linear, method)(np.concatenate(products))
        return answers

    def _products(self, texts: Sequence[str]) -> np.ndarray:
        """Return the products of features and coefficients, shape (n, n_outputs)."""
        read = {key: reader.read(texts) for key, reader in self._readers.items()}
        of_parts = [
            one.weights.products(one.counter.counts(read[one.prepared_as]), one.coefficients)
            for one in self._parts
        ]
        return np.asarray(sum(of_parts))


def _of_products(linear: Any, n_outputs: int) -> Any:
    """Return the linear model that takes products with its coefficients instead of features."""
    found = copy.copy(linear)
    found.n_features_in_ = n_outputs
    found.coef_ = np.ones(1) if linear.coef_.ndim == 1 else np.eye(n_outputs)
    return found
