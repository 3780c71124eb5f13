"""Power means and the final score: groups that differ, and a tiny group among others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.coverage.case import (
    CONFIDENCES,
    TWO_CLASSES_HEAD,
    Case,
    Number,
    Samples,
    TwoClasses,
    make_samples,
)
from benchmarks.coverage.populations import (
    OFFSETS,
    POWER,
    Floats,
    compute_final_score,
    find_shift,
    round_scores,
)
from bias_metrics import BiasTable, Rows
from bias_metrics.report.measurement import Measurement
from bias_metrics.report.steps import ReportOptions


def iter_reports(rows: Rows, scores: Floats, *, power: float = POWER) -> Iterator[BiasTable]:
    """Yield the tables of `evaluate_bias` at `CONFIDENCES`; rows are measured once."""
    measured = Measurement(rows, scores)
    for confidence in CONFIDENCES:
        yield measured.report(
            ReportOptions.from_arguments(rows, power=power, confidence=confidence)
        )


def select_aggregates(report: BiasTable) -> dict[str, Number]:
    """Return the aggregates of a report."""
    means = {
        f"{name} power mean": report.overall[f"{name}_auc"] for name in ("subgroup", "bpsn", "bnsp")
    }
    return {**means, "final score": report.overall.final_score}


@dataclass(frozen=True)
class Differing(TwoClasses):
    """The final score of three groups with shifted scores, and rows of no group."""

    auc: float
    """Of rows that are not shifted."""
    n_positive: int
    """Rows per group."""
    n_negative: int
    tied: bool = False

    def truths(self) -> Mapping[str, float]:
        """Return the final score."""
        return {"final score": compute_final_score(find_shift(self.auc), self._step)}

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw every group."""
        labels = np.arange(self.n_positive + self.n_negative) < self.n_positive
        group = np.repeat(np.arange(len(OFFSETS)), labels.size)
        labels = np.tile(labels, len(OFFSETS))
        means = np.array([[low, find_shift(self.auc) + high] for low, high in OFFSETS])
        scores = rng.standard_normal(labels.size) + means[group, labels.astype(int)]
        masks = {str(number): group == number for number in range(len(OFFSETS) - 1)}
        reports = iter_reports(Rows(labels, masks), round_scores(scores, self._step))
        return make_samples(*map(select_aggregates, reports))


@dataclass(frozen=True)
class OneTiny(Case):
    """Five groups for which the model is equally good; the first is tiny."""

    auc: float
    """Of every cell, and so of every aggregate."""
    smallest: int
    """Positives of the tiny group; the others have 60. All groups have 400 negatives."""

    def truths(self) -> Mapping[str, float]:
        """Return the power means and the final score."""
        means = (f"{name} power mean" for name in ("subgroup", "bpsn", "bnsp"))
        return dict.fromkeys((*means, "final score"), self.auc)

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw every group."""
        positives = np.array([self.smallest, 60, 60, 60, 60, 300])
        group = np.repeat(np.tile(np.arange(6), 2), [*positives, *[400] * 5, 2_000])
        labels = np.arange(group.size) < positives.sum()
        scores = rng.standard_normal(group.size) + find_shift(self.auc) * labels
        masks = {str(number): group == number for number in range(5)}
        return make_samples(*map(select_aggregates, iter_reports(Rows(labels, masks), scores)))

    def describe(self) -> list[str]:
        """Return AUC and size."""
        return [f"{self.auc:g}", f"{self.smallest:,}"]


HEAD = TWO_CLASSES_HEAD
TINY_HEAD = ["AUC", "positives of the tiny group", "number"]
DIFFERING = [
    Differing(auc, *sizes, tied)
    for tied, sizes, auc in product(
        (False, True), ((50, 50), (50, 1_000), (500, 2_000)), (0.7, 0.9, 0.95, 0.99)
    )
]
TINY = [OneTiny(auc, size) for size, auc in product((2, 4, 8, 20, 50), (0.8, 0.9, 0.97))]
