"""The calibration gap of a small group: scores are probabilities, so that it is 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.coverage.case import CONFIDENCES, Case, Samples, make_samples
from bias_metrics import Rows
from bias_metrics.calibration import MeasuredCalibration
from bias_metrics.metrics import CALIBRATION_GAP

OTHERS = 1000


@dataclass(frozen=True)
class Calibrated(Case):
    """A group and 1,000 other rows; log-odds of scores are `sharpness` times those of the truth."""

    n: int
    """Rows of the group."""
    prevalence: float
    """Of toxic rows."""
    spread: float
    """Total of the chances' beta distribution: the smaller, the more they differ."""
    sharpness: float = 1.0
    n_clusters: int = 0
    """Clusters of the group, with the same chance for all rows; 0 for independent rows."""

    def truths(self) -> Mapping[str, float]:
        """Return the gap."""
        return {CALIBRATION_GAP: 0.0}

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw chances, labels and scores."""
        n = self.n + OTHERS
        a, b = self.prevalence * self.spread, (1 - self.prevalence) * self.spread
        chance = rng.beta(a, b, n)
        clusters = None
        if self.n_clusters:
            per_cluster = self.n // self.n_clusters
            clusters = np.arange(n) // per_cluster
            chance = chance[clusters * per_cluster]
        chance = np.clip(chance, 1e-9, 1 - 1e-9)
        odds = self.sharpness * (np.log(chance) - np.log1p(-chance))
        rows = Rows(rng.random(n) < chance, {"group": np.arange(n) < self.n}, clusters=clusters)
        measured = MeasuredCalibration(rows, {"score": 1 / (1 + np.exp(-odds))})
        return make_samples(
            *({CALIBRATION_GAP: measured.report(level).gaps["group"]} for level in CONFIDENCES)
        )

    def describe(self) -> list[str]:
        """Return rows, clusters, share, spread and sharpness."""
        kind = f"{self.n_clusters} clusters" if self.n_clusters else "independent"
        numbers = (f"{number:g}" for number in (self.prevalence, self.spread, self.sharpness))
        return [str(self.n), kind, *numbers]


HEAD = ["rows", "kind", "toxic", "spread", "sharpness", "number"]
CALIBRATED = [
    *(
        Calibrated(n, prevalence, spread=5)
        for n, prevalence in product((30, 100, 300), (0.01, 0.05, 0.2))
    ),
    Calibrated(100, 0.05, spread=1),
    Calibrated(100, 0.05, spread=50),
    Calibrated(100, 0.05, spread=5, sharpness=0.6),
    Calibrated(100, 0.05, spread=5, sharpness=1.6),
    *(Calibrated(200, prevalence, spread=5, n_clusters=50) for prevalence in (0.02, 0.1)),
]
