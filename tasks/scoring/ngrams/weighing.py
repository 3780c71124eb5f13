"""From counts of n-grams to what a linear model makes of them.

A linear model adds up TF-IDF times coefficient. So the matrix of TF-IDF is never made: counts
become term frequencies, these are multiplied by (idf times coefficient), and the sum of each text
is divided by the norm of its TF-IDF.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Weights:
    """What a vectoriser does with counts.

    Attributes
    ----------
    idf : numpy.ndarray
        Factor of each n-gram, shape (n_features,).
    norm : {"l1", "l2"} or None
        What each text's weights are divided by.
    is_binary : bool
        Whether an n-gram counts only once in a text.
    is_sublinear : bool
        Whether a count c becomes 1 + ln(c).
    factor : float
        Of all weights, after the division.
    """

    idf: np.ndarray
    norm: Literal["l1", "l2"] | None
    is_binary: bool = False
    is_sublinear: bool = False
    factor: float = 1.0

    def times(self, factor: float) -> Self:
        """Return the same weights times a factor."""
        return replace(self, factor=self.factor * factor)

    def frequencies(self, counts: np.ndarray) -> np.ndarray:
        """Return what becomes of counts before they are multiplied by `idf`."""
        if self.is_binary or not counts.size:
            return np.ones(counts.size)
        if not self.is_sublinear:
            return counts.astype(float)
        table = np.arange(int(counts.max()) + 1, dtype=float)
        table[1:] = 1 + np.log(table[1:])
        return np.asarray(table[counts])

    def norms(self, counts: sparse.csr_array) -> np.ndarray:
        """Return what each text's weights are divided by; 1 for a text without n-grams."""
        frequencies = self.frequencies(counts.data)
        if self.norm == "l2":
            found = np.sqrt(_with(counts, frequencies**2) @ self.idf**2)
        elif self.norm == "l1":
            found = _with(counts, frequencies) @ np.abs(self.idf)
        else:
            return np.ones(counts.shape[0])
        return np.where(found == 0, 1.0, found)

    def products(self, counts: sparse.csr_array, coefficients: np.ndarray) -> np.ndarray:
        """Multiply each text's weights by coefficients.

        Parameters
        ----------
        counts : scipy.sparse.csr_array
            Of n-grams in texts, shape (n, n_features).
        coefficients : numpy.ndarray
            Shape (n_features, n_outputs).

        Returns
        -------
        numpy.ndarray
            Shape (n, n_outputs).
        """
        weighted = _with(counts, self.frequencies(counts.data))
        factors = np.ascontiguousarray((self.factor * self.idf) * coefficients.T)
        products = np.column_stack([weighted @ column for column in factors])
        return np.asarray(products / self.norms(counts)[:, np.newaxis])


def _with(counts: sparse.csr_array, values: np.ndarray) -> sparse.csr_array:
    return sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
