"""The loss of fine-tuning; needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


class Loss:
    """Mean cross entropy of a batch, weighted by row and by class.

    The mean is over the weights of the classes alone: a batch of heavy rows counts more than one of
    light rows.

    Parameters
    ----------
    positive : numpy.ndarray of bool, shape (n,)
        Whether each row is positive.
    weights : numpy.ndarray of float, shape (n,)
        How much each row counts, at least 0. Only ratios matter.
    training : numpy.ndarray of int
        The rows to train on; their mean weight becomes 1.
    balanced : bool
        Whether each class is weighted by the inverse of its share of these rows.
    """

    def __init__(
        self, positive: np.ndarray, weights: np.ndarray, training: np.ndarray, *, balanced: bool
    ) -> None:
        self.positive = positive
        self.weights = weights / weights[training].mean()
        self._of_class = np.ones(len(positive))
        if balanced:
            share = np.average(positive[training], weights=weights[training])
            self._of_class = np.where(positive, 1 / (2 * share), 1 / (2 * (1 - share)))

    def __call__(self, logits: Any, rows: np.ndarray) -> Any:
        """Return the loss of some rows, from their logits of shape (rows, 2)."""
        target = torch.as_tensor(self.positive[rows], dtype=torch.long, device=logits.device)
        losses = torch.nn.functional.cross_entropy(logits, target, reduction="none")
        weights = self.weights[rows] * self._of_class[rows] / self._of_class[rows].sum()
        return losses @ torch.as_tensor(weights, dtype=losses.dtype, device=logits.device)
