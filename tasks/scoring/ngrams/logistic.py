"""Logistic regression on counts that stay packed: the same solver as scikit-learn's, on a stream.

The matrix of TF-IDF of a large training set does not fit into memory: 12 bytes for each entry.
Here an entry takes 5, the number of the n-gram and its count. Each evaluation of the objective goes
through the matrix in small blocks and makes each one's weights anew. Objective, solver (L-BFGS),
start and stopping rule are those of scikit-learn's `LogisticRegression`. Coefficients differ only
because each iteration amplifies rounding: with many iterations the solver may stop elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import joblib
import numpy as np
from scipy import optimize, sparse

from biasgate.tasks.scoring.ngrams.weighing import Weights

# Sums of gradients are formed in so many parts, whatever the number of cores: a model does not
# depend on the machine.
_PARTS = 8


@dataclass(frozen=True)
class Packed:
    """Counts of n-grams in some texts, and one divided by the norms of their TF-IDF."""

    counts: np.ndarray
    indices: np.ndarray
    starts: np.ndarray
    scale: np.ndarray
    n_features: int

    @classmethod
    def of(cls, counts: sparse.csr_array, weights: Weights) -> Packed:
        """Pack counts, each in as few bytes as the largest needs."""
        small = counts.data.astype(np.min_scalar_type(counts.data.max(initial=0)))
        scale = 1 / weights.norms(counts)
        return cls(small, counts.indices, counts.indptr, scale, counts.shape[1])

    def matrix(self, frequencies: np.ndarray, room: np.ndarray) -> sparse.csr_array:
        """Return the term frequencies, given those of each count, in room that is there already.

        New memory for every matrix would take longer than the arithmetic.
        """
        shape = len(self.starts) - 1, self.n_features
        data = np.take(frequencies, self.counts, out=room[: self.counts.size], mode="clip")
        return sparse.csr_array((data, self.indices, self.starts), shape=shape)


@dataclass(frozen=True)
class Block:
    """Texts of a training set: packed counts of each vectoriser, labels, and weights if any."""

    packed: Sequence[Packed]
    labels: np.ndarray
    weights: np.ndarray | None = None

    @property
    def counted(self) -> np.ndarray:
        """How much each text counts."""
        return np.ones(len(self.labels)) if self.weights is None else self.weights


@dataclass(frozen=True)
class Solution:
    """Coefficients, intercept, and iterations of the solver."""

    coefficients: np.ndarray
    intercept: float
    n_iterations: int
    has_converged: bool


def solve(blocks: Sequence[Block], weights: Sequence[Weights], classifier: Any) -> Solution:
    """Minimise the objective of a `LogisticRegression` with L2 penalty.

    Parameters
    ----------
    blocks : sequence of Block
        The training set.
    weights : sequence of Weights
        Of each vectoriser.
    classifier : LogisticRegression
        Its `C`, `class_weight`, `max_iter` and `tol` are used.
    """
    n_features = sum(len(one.idf) for one in weights)
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
                pool.map(lambda part: _loss_and_gradient(at, part, weights, of_class), parts)
            )
            loss = sum(loss for loss, _ in of_parts) / total_weight
            gradient = np.sum([gradient for _, gradient in of_parts], axis=0) / total_weight
            gradient[:-1] += penalty * at[:-1]
            return float(loss + 0.5 * penalty * (at[:-1] @ at[:-1])), gradient

        found = optimize.minimize(
            objective,
            np.zeros(n_features + 1),
            method="L-BFGS-B",
            jac=True,
            options={
                "maxiter": classifier.max_iter,
                "maxls": 50,
                "gtol": classifier.tol,
                "ftol": 64 * np.finfo(float).eps,
            },
        )
    return Solution(found.x[:-1], float(found.x[-1]), int(found.nit), bool(found.success))


def _loss_and_gradient(
    at: np.ndarray, blocks: Sequence[Block], weights: Sequence[Weights], of_class: np.ndarray
) -> tuple[float, np.ndarray]:
    ends = np.cumsum([len(one.idf) for one in weights])
    split = np.split(at[:-1], ends[:-1])
    coefficients = [own * one.idf for own, one in zip(split, weights, strict=True)]
    gradients = [np.zeros(len(one.idf)) for one in weights]
    of_vectorizers = list(zip(*(block.packed for block in blocks), strict=True))
    frequencies = [
        one.frequencies(np.arange(1 + max(int(p.counts.max(initial=0)) for p in packed)))
        for one, packed in zip(weights, of_vectorizers, strict=True)
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
        of_rows = of_class[block.labels.astype(np.intp)]
        if block.weights is not None:
            of_rows = of_rows * block.weights
        loss += float(of_rows @ (np.logaddexp(0, raw) - block.labels * raw))
        residuals = of_rows * (_sigmoid(raw) - block.labels)
        of_intercept += float(residuals.sum())
        for matrix, packed, gradient in zip(matrices, block.packed, gradients, strict=True):
            np.add(gradient, matrix.T @ (packed.scale * residuals), out=gradient)
    summed = [gradient * one.idf for gradient, one in zip(gradients, weights, strict=True)]
    return loss, np.append(np.concatenate(summed), of_intercept)


def _sigmoid(raw: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-np.logaddexp(0, -raw)))


def _cores() -> int:
    return int(joblib.cpu_count())  # `LOKY_MAX_CPU_COUNT` lowers it
