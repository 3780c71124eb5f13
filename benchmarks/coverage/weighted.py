"""Weighted rows: a sample drawn by unequal chances, with their inverses as weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from benchmarks.coverage.aggregates import iter_reports, select_aggregates
from benchmarks.coverage.case import Case, Samples, make_samples
from benchmarks.coverage.populations import Floats, find_shift
from bias_metrics import Rows

DESIGNS: dict[str, Callable[[Floats, np.random.Generator], Floats]] = {
    "high scores 5 times as often": lambda score, _: np.where(score > 0.5, 1.0, 0.2),
    "low scores 4 times as often": lambda score, _: np.where(score > 0, 0.25, 1.0),
    "unrelated, lognormal": lambda score, rng: np.minimum(
        np.exp(rng.normal(0, 0.6, score.size) - 1.5), 1
    ),
    "1 of 50 low scores": lambda score, _: np.where(score > 0, 1.0, 0.02),
}
GROUPS = 2


@dataclass(frozen=True)
class Weighted(Case):
    """Two groups and rows of no group, drawn by chances that depend on the score."""

    design: str
    """The chances: a key of `DESIGNS`."""
    auc: float
    """Of every cell, and so of every aggregate."""
    n: int
    """Rows of the sample."""
    n_clusters: int = 0
    """Clusters, which have an effect on scores; 0 if rows are independent."""

    def truths(self) -> Mapping[str, float]:
        """Return a cell, a power mean and the final score."""
        return dict.fromkeys(NUMBERS, self.auc)

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw rows until there are enough, and weight them."""
        own, codes, chance = self._draw_rows(rng)
        y_true = rng.random(self.n) < 0.3
        group = rng.integers(0, GROUPS + 1, self.n)
        scores = own + find_shift(self.auc) * y_true
        masks = {str(number): group == number for number in range(GROUPS)}
        rows = Rows(y_true, masks, sample_weight=1 / chance, clusters=codes)
        return make_samples(
            *(
                {"BNSP AUC": report.subgroups["0"].bnsp_auc, **select_aggregates(report)}
                for report in iter_reports(rows, scores)
            )
        )

    def describe(self) -> list[str]:
        """Return design, rows, clusters and AUC."""
        return [self.design, f"{self.n:,}", f"{self.n_clusters or 'none'}", f"{self.auc:g}"]

    def _draw_rows(
        self, rng: np.random.Generator
    ) -> tuple[Floats, npt.NDArray[np.intp] | None, Floats]:
        """Return the drawn rows' scores without the label's shift, clusters and chances."""
        n = 8 * self.n
        codes = rng.integers(0, self.n_clusters, n) if self.n_clusters else None
        own = rng.normal(size=n)
        if codes is not None:
            own = math.sqrt(0.3) * rng.normal(size=self.n_clusters)[codes] + math.sqrt(0.7) * own
        chance = DESIGNS[self.design](own, rng)
        taken = np.flatnonzero(rng.random(n) < chance)[: self.n]
        return own[taken], None if codes is None else codes[taken], chance[taken]


NUMBERS = ("BNSP AUC", "bnsp power mean", "final score")
HEAD = ["design", "rows", "clusters", "AUC", "number"]
WEIGHTED = [
    Weighted(design, auc, n, n_clusters)
    for design, n, n_clusters, auc in product(DESIGNS, (400, 2_000), (0, 50), (0.8, 0.9, 0.97))
]
