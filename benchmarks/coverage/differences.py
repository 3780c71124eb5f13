"""Two models on the same rows: intervals of differences, and false claims of "not worse"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.coverage.aggregates import CONFIDENCES, samples_of
from benchmarks.coverage.held import Case, Sample
from benchmarks.coverage.populations import levels_of, rounded, shift_of, true_auc
from bias_metrics import Rows
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import ReportOptions
from bias_metrics.table import Key

MARGIN = 0.02


@dataclass(frozen=True)
class Paired(Case):
    """Two models whose scores are correlated; the second has the AUC `auc`.

    Attributes
    ----------
    auc : float
        Of the second model, before rounding.
    n_positive, n_negative : int
        Rows of each class.
    correlation : float
        Of the two models' scores within a class.
    drop : float
        How much lower the first model's AUC is.
    tied : bool
        Whether scores are rounded.
    power : bool
        Whether the floor that is tried is the margin, and not the truth.
    """

    auc: float
    n_positive: int
    n_negative: int
    correlation: float
    drop: float = 0.0
    tied: bool = False
    power: bool = False

    def truths(self) -> Mapping[str, float]:
        """Return the first model's AUC minus the second's."""
        return {"difference": self._difference(self.drop)}

    @property
    def limit(self) -> float | None:
        """The margin, where power is asked for."""
        return self._difference(MARGIN) if self.power else None

    def sample(self, rng: np.random.Generator) -> Mapping[str, Sample | None]:
        """Draw the scores of both models."""
        labels = np.arange(self.n_positive + self.n_negative) < self.n_positive
        common = math.sqrt(self.correlation) * rng.standard_normal(labels.size)
        first, second = (
            rounded(
                common
                + math.sqrt(1 - self.correlation) * rng.standard_normal(labels.size)
                + shift_of(auc) * labels,
                self._step,
            )
            for auc in (self.auc - self.drop, self.auc)
        )
        rows = Rows(labels, {"all": np.ones(labels.size, dtype=bool)})
        models = Pairing(Measurement(rows, first), Measurement(rows, second))
        options = (
            ReportOptions.from_arguments(rows, confidence=confidence) for confidence in CONFIDENCES
        )
        return samples_of(
            {"difference": models.measure_differences(one)[Key("subgroup_auc", "all")]}
            for one in options
        )

    @property
    def errors(self) -> float:
        """Expected errors in the smaller class."""
        return min(self.n_positive, self.n_negative) * (1 - self.auc)

    def described(self) -> list[str]:
        """Return AUC, sizes, kind and how the models differ."""
        sizes = [f"{self.n_positive:,}", f"{self.n_negative:,}"]
        kind = "tied" if self.tied else "distinct"
        return [f"{self.auc:g}", *sizes, kind, f"{self.correlation:g}", f"{self.drop:g}"]

    @property
    def _step(self) -> float:
        return levels_of(self.auc) if self.tied else 0.0

    def _difference(self, drop: float) -> float:
        first, second = (
            true_auc([0.0], [shift_of(auc)], self._step) for auc in (self.auc - drop, self.auc)
        )
        return first - second


HEAD = ["AUC", "positives", "negatives", "scores", "correlation", "first is worse by"]
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
