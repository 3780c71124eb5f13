"""Power means and the final score: groups that differ, and one tiny group among others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.coverage.held import Case, Sample, both
from benchmarks.coverage.populations import (
    OFFSETS,
    POWER,
    Floats,
    levels_of,
    rounded,
    shift_of,
    true_final_score,
)
from bias_metrics import BiasTable, Difference, MetricValue, Rows
from bias_metrics.report.measurement import Measurement
from bias_metrics.report.steps import ReportOptions

CONFIDENCES = (0.95, 0.9)


def reports_of(rows: Rows, scores: Floats, *, power: float = -5.0) -> Iterator[BiasTable]:
    """Yield what `evaluate_bias` returns at each of `CONFIDENCES`; rows are measured once."""
    measured = Measurement(rows, scores)
    for confidence in CONFIDENCES:
        yield measured.report(
            ReportOptions.from_arguments(rows, power=power, confidence=confidence)
        )


def numbers_of(report: BiasTable) -> dict[str, MetricValue | Difference]:
    """Return the aggregates of a report."""
    means = {
        f"{name} power mean": report.overall[f"{name}_auc"] for name in ("subgroup", "bpsn", "bnsp")
    }
    return {**means, "final score": report.overall.final_score}


Numbers = Mapping[str, MetricValue | Difference]


def samples_of(reports: Iterable[Numbers]) -> dict[str, Sample | None]:
    """Return the samples of numbers at each of `CONFIDENCES`."""
    first, second = reports
    return {
        name: None if one.value is None else both((one.value, one.low, one.high), second[name].low)
        for name, one in first.items()
    }


@dataclass(frozen=True)
class Differing(Case):
    """The final score of three groups whose scores are shifted, and rows of no group.

    Attributes
    ----------
    auc : float
        Of rows that are not shifted.
    n_positive, n_negative : int
        Rows of each group.
    tied : bool
        Whether scores are rounded.
    """

    auc: float
    n_positive: int
    n_negative: int
    tied: bool = False

    def truths(self) -> Mapping[str, float]:
        """Return the final score."""
        return {"final score": true_final_score(shift_of(self.auc), self._step)}

    def sample(self, rng: np.random.Generator) -> Mapping[str, Sample | None]:
        """Draw every group."""
        labels = np.arange(self.n_positive + self.n_negative) < self.n_positive
        group = np.repeat(np.arange(len(OFFSETS)), labels.size)
        labels = np.tile(labels, len(OFFSETS))
        means = np.array([[low, shift_of(self.auc) + high] for low, high in OFFSETS])
        scores = rng.standard_normal(labels.size) + means[group, labels.astype(int)]
        masks = {str(one): group == one for one in range(len(OFFSETS) - 1)}
        reports = reports_of(Rows(labels, masks), rounded(scores, self._step), power=POWER)
        return samples_of(map(numbers_of, reports))

    @property
    def errors(self) -> float:
        """Expected errors in the smallest class."""
        return min(self.n_positive, self.n_negative) * (1 - self.auc)

    def described(self) -> list[str]:
        """Return AUC, sizes and kind."""
        sizes = [f"{self.n_positive:,}", f"{self.n_negative:,}"]
        return [f"{self.auc:g}", *sizes, "tied" if self.tied else "distinct"]

    @property
    def _step(self) -> float:
        return levels_of(self.auc) if self.tied else 0.0


@dataclass(frozen=True)
class OneTiny(Case):
    """Five groups for which the model is equally good; one of them is tiny.

    Attributes
    ----------
    auc : float
        Of every cell, and so of every aggregate.
    smallest : int
        Positives of the tiny group; the others have 60 and 400 negatives, as has it.
    """

    auc: float
    smallest: int

    def truths(self) -> Mapping[str, float]:
        """Return the power means and the final score."""
        names = (*(f"{one} power mean" for one in ("subgroup", "bpsn", "bnsp")), "final score")
        return dict.fromkeys(names, self.auc)

    def sample(self, rng: np.random.Generator) -> Mapping[str, Sample | None]:
        """Draw every group."""
        positives = np.array([self.smallest, 60, 60, 60, 60, 300])
        group = np.repeat(np.tile(np.arange(6), 2), [*positives, *[400] * 5, 2_000])
        labels = np.arange(group.size) < positives.sum()
        scores = rng.standard_normal(group.size) + shift_of(self.auc) * labels
        masks = {str(one): group == one for one in range(5)}
        return samples_of(map(numbers_of, reports_of(Rows(labels, masks), scores)))

    def described(self) -> list[str]:
        """Return AUC and size."""
        return [f"{self.auc:g}", f"{self.smallest:,}"]


HEAD = ["AUC", "positives", "negatives", "scores"]
TINY_HEAD = ["AUC", "positives of the tiny group"]
DIFFERING = [
    Differing(auc, *sizes, tied)
    for tied, sizes, auc in product(
        (False, True), ((50, 50), (50, 1_000), (500, 2_000)), (0.7, 0.9, 0.95, 0.99)
    )
]
TINY = [OneTiny(auc, size) for size, auc in product((2, 4, 8, 20, 50), (0.8, 0.9, 0.97))]
