"""One AUC: few rows, near 1, tied, and classes that are spread unequally."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from benchmarks.coverage.held import Case, Sample, both
from benchmarks.coverage.populations import levels_of, rounded, shift_of, true_auc
from bias_metrics import roc_auc

MISSED = 0.2
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Cell(Case):
    """Two classes of normal scores.

    Attributes
    ----------
    auc : float
        Of the population, before rounding.
    n_positive, n_negative : int
        Rows of each class.
    tied : bool
        Whether scores are rounded to about 20 values.
    spread : float
        Standard deviation of the positives; that of the negatives is 1.
    missed : float
        A fifth of the positives are so many standard deviations lower than the others.
    """

    auc: float
    n_positive: int
    n_negative: int
    tied: bool = False
    spread: float = 1.0
    missed: float = 0.0

    def truths(self) -> Mapping[str, float]:
        """Return the AUC of the rounded scores; only scores of equal spread are rounded."""
        return {"auc": true_auc([0.0], [self._mean()], self._step) if self.tied else self.auc}

    def sample(self, rng: np.random.Generator) -> Mapping[str, Sample | None]:
        """Draw both classes."""
        labels = np.arange(self.n_positive + self.n_negative) < self.n_positive
        scores = rng.standard_normal(labels.size)
        lower = self.missed * (rng.random(self.n_positive) < MISSED)
        scores[labels] = self._mean() - lower + self.spread * scores[labels]
        scores = rounded(scores, self._step)
        one, wide = (roc_auc(labels, scores, confidence=level) for level in (0.95, 0.9))
        return {"auc": both((float(one), one.low, one.high), wide.low)}

    @property
    def errors(self) -> float:
        """Expected errors in the smaller class."""
        return min(self.n_positive, self.n_negative) * (1 - self.auc)

    def described(self) -> list[str]:
        """Return AUC, sizes and kind."""
        kinds = {"tied": self.tied, "a fifth missed": self.missed > 0}
        kinds[f"spread {self.spread:g}"] = self.spread != 1
        kind = " and ".join(name for name, holds in kinds.items() if holds) or "distinct"
        return [f"{self.auc:g}", f"{self.n_positive:,}", f"{self.n_negative:,}", kind]

    @property
    def _step(self) -> float:
        return levels_of(self.auc) if self.tied else 0.0

    def _mean(self) -> float:
        """Return the mean of the positives that are not lower; that of the negatives is 0."""
        if self.spread == 1 and not self.missed:
            return shift_of(self.auc)
        scale = math.hypot(1, self.spread)
        low, high = -10.0 * scale, 10.0 * scale + self.missed
        for _ in range(80):
            middle = (low + high) / 2
            share = (1 - MISSED) * _NORMAL.cdf(middle / scale)
            share += MISSED * _NORMAL.cdf((middle - self.missed) / scale)
            low, high = (middle, high) if share < self.auc else (low, middle)
        return low


HEAD = ["AUC", "positives", "negatives", "scores"]
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
