"""One AUC: few rows, near 1, tied, and classes that are spread unequally."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from benchmarks.coverage.case import (
    CONFIDENCES,
    TWO_CLASSES_HEAD,
    Samples,
    TwoClasses,
    make_samples,
)
from benchmarks.coverage.populations import compute_auc, find_shift, round_scores
from bias_metrics import roc_auc

MISSED = 0.2
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Cell(TwoClasses):
    """Two classes of normal scores."""

    auc: float
    """Of the population, before rounding."""
    n_positive: int
    n_negative: int
    tied: bool = False
    spread: float = 1.0
    """Standard deviation of the positives; that of the negatives is 1."""
    missed: float = 0.0
    """Standard deviations by which a fifth of the positives are lower than the others."""

    def truths(self) -> Mapping[str, float]:
        """Return the AUC of the rounded scores; only scores of equal spread are rounded."""
        return {"auc": compute_auc([0.0], [self._mean], self._step) if self.tied else self.auc}

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw both classes."""
        labels = np.arange(self.n_positive + self.n_negative) < self.n_positive
        scores = rng.standard_normal(labels.size)
        lower = self.missed * (rng.random(self.n_positive) < MISSED)
        scores[labels] = self._mean - lower + self.spread * scores[labels]
        scores = round_scores(scores, self._step)
        return make_samples(
            *({"auc": roc_auc(labels, scores, confidence=level)} for level in CONFIDENCES)
        )

    def describe(self) -> list[str]:
        """Return AUC, sizes and kind."""
        kinds = {"tied": self.tied, "a fifth missed": self.missed > 0}
        kinds[f"spread {self.spread:g}"] = self.spread != 1
        kind = " and ".join(name for name, is_so in kinds.items() if is_so)
        *before, distinct = super().describe()
        return [*before, kind or distinct]

    @property
    def _mean(self) -> float:
        """Mean of the positives that are not lower; that of the negatives is 0."""
        if self.spread == 1 and not self.missed:
            return find_shift(self.auc)
        scale = math.hypot(1, self.spread)
        low, high = -10.0 * scale, 10.0 * scale + self.missed
        for _ in range(80):
            middle = (low + high) / 2
            share = (1 - MISSED) * _NORMAL.cdf(middle / scale)
            share += MISSED * _NORMAL.cdf((middle - self.missed) / scale)
            low, high = (middle, high) if share < self.auc else (low, middle)
        return low


HEAD = TWO_CLASSES_HEAD
AUCS = (0.7, 0.9, 0.95, 0.98, 0.99, 0.999)
POSITIVES = (5, 10, 20, 25, 50, 100, 199, 200, 201, 500, 1_000)
CELLS = [
    *(Cell(auc, n, 4_200) for n, auc in product(POSITIVES, AUCS)),
    *(Cell(auc, n, n) for n, auc in product((20, 50, 500), AUCS)),
    *(Cell(auc, n, 4_200, tied=True) for n, auc in product((20, 50, 200, 500), AUCS)),
]
SPREADS = [
    Cell(auc, *sizes, spread=spread, missed=missed)
    for sizes, (spread, missed), auc in product(
        ((25, 60), (25, 1_000), (60, 1_000), (200, 4_000)),
        ((0.2, 0.0), (3.0, 0.0), (5.0, 0.0), (1.0, 4.0)),
        (0.8, 0.95, 0.98),
    )
]
