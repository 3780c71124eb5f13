"""One AUC that depends on few clusters, or few rows, which a sample may lack."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from benchmarks.coverage.case import CONFIDENCES, Case, Samples, make_samples
from bias_metrics import Rows, evaluate_bias
from bias_metrics.parts import find_dominant_units

FAILING, LOW, GOOD = 0.1, 0.3, 2.6  # Share of clusters in which positives score LOW, not GOOD
LIMIT = 1.3  # With weights, scores below it are drawn more rarely
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Rare(Case):
    """Threads of 8 to 25 rows; in a tenth the model mistakes toxic rows for harmless rows."""

    n_clusters: int
    largest: float = 0.0
    """Share of all rows in the largest thread; 0 for threads of equal size."""
    one_in: int = 1
    """Inverse of the chance that a row with a low score is drawn, and its weight."""

    def truths(self) -> Mapping[str, float]:
        """Return the AUC, which is the same for pairs from one thread and from two."""
        low, good = (_NORMAL.cdf(mean / math.sqrt(2)) for mean in (LOW, GOOD))
        return dict.fromkeys(NUMBERS, FAILING * low + (1 - FAILING) * good)

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw threads and their rated rows."""
        sizes = rng.integers(8, 26, self.n_clusters)
        if self.largest:
            sizes[0] = sizes[1:].sum() * self.largest / (1 - self.largest)
        clusters = np.repeat(np.arange(self.n_clusters), sizes)
        y_true = rng.random(clusters.size) < rng.beta(1.5, 4.5, self.n_clusters)[clusters]
        fails = (rng.random(self.n_clusters) < FAILING)[clusters]
        scores = rng.normal(size=clusters.size) + y_true * np.where(fails, LOW, GOOD)
        weights = np.where(scores < LIMIT, self.one_in, 1.0)
        drawn = rng.random(clusters.size) * weights < 1
        weighted = {} if self.one_in == 1 else {"sample_weight": weights[drawn]}
        rows = Rows(y_true[drawn], {}, clusters=clusters[drawn], **weighted)
        [auc] = make_samples(
            *(
                {"auc": evaluate_bias(rows, scores[drawn], confidence=level).overall.auc}
                for level in CONFIDENCES
            )
        ).values()
        return dict(zip(NUMBERS, (auc, None if find_dominant_units(rows) else auc), strict=True))

    def describe(self) -> list[str]:
        """Return threads, and the kind of rare rows."""
        kinds = {
            f"one has {self.largest:.0%} of all rows": self.largest,
            f"low scores weigh {self.one_in}": self.one_in > 1,
        }
        kind = " and ".join(name for name, is_so in kinds.items() if is_so)
        return [f"{self.n_clusters}", kind or "equal"]


HEAD = ["threads", "rows", "number"]
NUMBERS = ("AUC", "AUC of samples without a warning")
RARE = [
    *(Rare(n) for n in (40, 100, 200, 1_000)),
    *(Rare(n, largest=share) for n, share in product((100, 1_000), (0.1, 0.33))),
    *(Rare(n, one_in=one_in) for n, one_in in product((50, 200, 1_000), (8, 20))),
]
