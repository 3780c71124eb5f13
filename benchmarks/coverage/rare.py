"""One AUC where few clusters, or few rows, decide it: what a sample may not have seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from benchmarks.coverage.held import Case, Sample, both
from bias_metrics import Rows, evaluate_bias
from bias_metrics.parts import find_dominant_units

FAILING, LOW, GOOD = 0.1, 0.3, 2.6  # Clusters in which positives score as low as this, not as high
LIMIT = 1.3  # Scores below it are drawn more rarely, if rows have weights
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Rare(Case):
    """Threads of 8 to 25 rows; in a tenth of them the model takes toxic rows for harmless ones.

    Attributes
    ----------
    n_clusters : int
        Threads.
    largest : float
        Share of all rows that one of them has; 0: as many as another.
    one_in : int
        Of rows with a low score one in so many is drawn, and weighs so much.
    """

    n_clusters: int
    largest: float = 0.0
    one_in: int = 1

    def truths(self) -> Mapping[str, float]:
        """Return the AUC, which is the same of pairs from one thread and from two."""
        low, good = (_NORMAL.cdf(mean / math.sqrt(2)) for mean in (LOW, GOOD))
        return dict.fromkeys(NUMBERS, FAILING * low + (1 - FAILING) * good)

    def sample(self, rng: np.random.Generator) -> Mapping[str, Sample | None]:
        """Draw threads, and of their rows those that are rated."""
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
        one, wide = (
            evaluate_bias(
                rows.y_true, scores[drawn], {}, clusters=rows.clusters, confidence=level, **weighted
            ).overall.auc
            for level in (0.95, 0.9)
        )
        found = both((float(one), one.low, one.high), wide.low)
        return dict(
            zip(NUMBERS, (found, None if find_dominant_units(rows) else found), strict=True)
        )

    def described(self) -> list[str]:
        """Return threads, and what is rare."""
        rare = {
            f"one has {self.largest:.0%} of all rows": self.largest,
            f"low scores weigh {self.one_in}": self.one_in > 1,
        }
        return [
            f"{self.n_clusters}",
            " and ".join(one for one, is_so in rare.items() if is_so) or "equal",
        ]


HEAD = ["threads", "rows", "number"]
NUMBERS = ("AUC", "AUC of samples without a warning")
RARE = [
    *(Rare(n) for n in (40, 100, 200, 1_000)),
    *(Rare(n, largest=share) for n, share in product((100, 1_000), (0.1, 0.33))),
    *(Rare(n, one_in=one_in) for n, one_in in product((50, 200, 1_000), (8, 20))),
]
