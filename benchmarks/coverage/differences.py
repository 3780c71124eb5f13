"""Two models on the same rows: intervals of differences, and false claims of "not worse"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.coverage.case import (
    CONFIDENCES,
    TWO_CLASSES_HEAD,
    Samples,
    TwoClasses,
    make_samples,
)
from benchmarks.coverage.populations import compute_auc, find_shift, round_scores
from bias_metrics import Rows
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import ReportOptions
from bias_metrics.table import Key

MARGIN = 0.02


@dataclass(frozen=True)
class Paired(TwoClasses):
    """Two models with correlated scores."""

    auc: float
    """Of the second model, before rounding."""
    n_positive: int
    n_negative: int
    correlation: float
    """Of the two models' scores within a class."""
    drop: float = 0.0
    """The second model's AUC minus the first's."""
    tied: bool = False
    power: bool = False
    """True if the floor is the margin, and not the truth."""

    def truths(self) -> Mapping[str, float]:
        """Return the first model's AUC minus the second's."""
        return {"difference": self._compute_difference(self.drop)}

    @property
    def limit(self) -> float | None:
        """The margin for a case of power."""
        return self._compute_difference(MARGIN) if self.power else None

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw the scores of both models."""
        labels = np.arange(self.n_positive + self.n_negative) < self.n_positive
        common = math.sqrt(self.correlation) * rng.standard_normal(labels.size)
        first, second = (
            round_scores(
                common
                + math.sqrt(1 - self.correlation) * rng.standard_normal(labels.size)
                + find_shift(auc) * labels,
                self._step,
            )
            for auc in (self.auc - self.drop, self.auc)
        )
        rows = Rows(labels, {"all": np.ones(labels.size, dtype=bool)})
        models = Pairing(Measurement(rows, first), Measurement(rows, second))
        options = (ReportOptions.from_arguments(rows, confidence=level) for level in CONFIDENCES)
        key = Key("subgroup_auc", "all")
        return make_samples(
            *({"difference": models.measure_differences(option)[key]} for option in options)
        )

    def describe(self) -> list[str]:
        """Return AUC, sizes, kind, correlation and drop."""
        return [*super().describe(), f"{self.correlation:g}", f"{self.drop:g}"]

    def _compute_difference(self, drop: float) -> float:
        first, second = (
            compute_auc([0.0], [find_shift(auc)], self._step) for auc in (self.auc - drop, self.auc)
        )
        return first - second


HEAD = [*TWO_CLASSES_HEAD, "correlation", "first is worse by"]
SIZES = ((50, 50), (50, 4_200), (199, 4_200), (201, 4_200), (500, 4_200))
PAIRED = [
    Paired(auc, *sizes, correlation, drop)
    for (correlation, drop), sizes, auc in product(
        ((0.9, 0.0), (0.5, MARGIN), (0.9, MARGIN)), SIZES, (0.7, 0.9, 0.97)
    )
] + [
    Paired(auc, *sizes, 0.5, MARGIN, tied=True)
    for sizes, auc in product(((50, 50), (500, 4_200)), (0.7, 0.9, 0.97, 0.99))
]
POWER = [
    Paired(auc, *sizes, correlation, power=True)
    for sizes, auc, correlation in product(SIZES, (0.92, 0.97), (0.5, 0.9))
]
