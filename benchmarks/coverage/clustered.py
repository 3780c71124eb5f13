"""Rows in clusters: a score is an effect of its cluster plus an effect of its row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.coverage.aggregates import iter_reports
from benchmarks.coverage.case import CONFIDENCES, Case, Number, Samples, make_samples
from benchmarks.coverage.populations import POWER, Floats, find_shift
from bias_metrics import BiasTable, Rows, power_mean
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import ReportOptions

GROUPS = 3


@dataclass(frozen=True)
class Clustered(Case):
    """Three groups and rows of no group, in clusters."""

    n_clusters: int
    auc: float
    """Of every cell, and so of every aggregate."""
    correlation: float = 0.3
    """Of two rows in the same cluster."""
    unequal: bool = True
    """True if sizes are lognormal with standard deviation 1."""
    nested: bool = False
    """True if a cluster has rows of a single group."""
    few: int = 0
    """Number of clusters with positives of the first group; 0 for all."""
    rows: int = 20
    """Rows of a cluster, on average."""
    models: int = 1
    """With 2, the numbers are differences of two equal models."""

    def truths(self) -> Mapping[str, float]:
        """Return two cells of the first group, a power mean and the final score."""
        return dict.fromkeys(NUMBERS, self.auc if self.models == 1 else 0.0)

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw clusters, rows and scores."""
        n = self.n_clusters * self.rows
        sizes = np.exp(rng.normal(size=self.n_clusters)) if self.unequal else None
        chances = None if sizes is None else sizes / sizes.sum()
        codes = rng.choice(self.n_clusters, n, p=chances)
        group = rng.integers(0, GROUPS + 1, self.n_clusters if self.nested else n)
        group = group[codes] if self.nested else group
        y_true = rng.random(n) < 0.3
        if self.few:
            codes = np.where(y_true & (group == 0), codes % self.few, codes)
        effect = math.sqrt(self.correlation) * rng.normal(size=self.n_clusters)
        own = math.sqrt(1 - self.correlation) * rng.normal(size=n)
        base, shift = effect[codes] + own, self._shifts[group] * y_true
        masks = {str(number): group == number for number in range(GROUPS)}
        rows = Rows(y_true, masks, clusters=codes)
        if self.models == 1:
            return make_samples(*map(_select_numbers, iter_reports(rows, base + shift)))
        noise = rng.normal(size=(2, n))
        first, second = math.sqrt(0.8) * base + math.sqrt(0.2) * noise + shift
        pairing = Pairing(Measurement(rows, first), Measurement(rows, second))
        options = (ReportOptions.from_arguments(rows, confidence=level) for level in CONFIDENCES)
        return make_samples(*map(_select_numbers, map(pairing.compare_models, options)))

    @property
    def errors(self) -> float:
        """Expected errors in the smallest class: the first group's positives."""
        return self.n_clusters * self.rows / (GROUPS + 1) * 0.3 * (1 - self.auc)

    def describe(self) -> list[str]:
        """Return clusters, rows, kind, correlation and AUC."""
        kind = "unequal" if self.unequal else "equal"
        kind += ", nested" if self.nested else ""
        kind += f", positives in {self.few}" if self.few else ""
        numbers = (f"{n:,}" for n in (self.n_clusters, self.n_clusters * self.rows))
        return [*numbers, kind, f"{self.correlation:g}", f"{self.auc:g}"]

    @property
    def _shifts(self) -> Floats:
        """Distance of the positives from the negatives, by group, last for rows of no group."""
        return np.full(GROUPS + 1, find_shift(self.auc))


@dataclass(frozen=True)
class Apart(Clustered):
    """Groups for which the model is not equally good; `auc` is that of the first."""

    others: tuple[float, ...] = ()
    """Subgroup and BNSP AUC of the other groups, and of the rows of no group."""

    def truths(self) -> Mapping[str, float]:
        """Return two cells of the first group, a power mean and the final score."""
        aucs = [self.auc, *self.others]
        # Positives outside of a group are equally often in each other group and in no group.
        bpsn = [(sum(aucs) - auc) / GROUPS for auc in aucs[:GROUPS]]
        own, outside = power_mean(aucs[:GROUPS], POWER), power_mean(bpsn, POWER)
        final = (sum(aucs) / len(aucs) + 2 * own + outside) / 4
        return dict(zip(NUMBERS, (self.auc, self.auc, own, final), strict=True))

    def describe(self) -> list[str]:
        """Return clusters, rows, kind, correlation and AUC."""
        *before, auc = super().describe()
        return [*before, f"{auc}; {', '.join(f'{other:g}' for other in self.others)}"]

    @property
    def _shifts(self) -> Floats:
        return np.array([find_shift(auc) for auc in (self.auc, *self.others)])


@dataclass(frozen=True)
class OneAuc(Case):
    """One AUC in clusters."""

    n_clusters: int
    auc: float
    correlation: float
    """Of two rows in the same cluster."""
    unequal: bool
    """True if sizes are lognormal with standard deviation 1."""
    rows: int = 6
    """Rows of a cluster, on average."""

    def truths(self) -> Mapping[str, float]:
        """Return the AUC."""
        return {"auc": self.auc}

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw clusters, rows and scores."""
        n = self.n_clusters * self.rows
        sizes = np.exp(rng.normal(size=self.n_clusters) * self.unequal)
        codes = rng.choice(self.n_clusters, n, p=sizes / sizes.sum())
        y_true = rng.random(n) < 0.3
        effect = math.sqrt(self.correlation) * rng.normal(size=self.n_clusters)
        own = math.sqrt(1 - self.correlation) * rng.normal(size=n)
        scores = effect[codes] + own + find_shift(self.auc) * y_true
        auc = Measurement(Rows(y_true, {}, clusters=codes), scores).overall
        return make_samples(*({"auc": auc.compute_value(level)} for level in CONFIDENCES))

    @property
    def errors(self) -> float:
        """Expected errors in the smaller class."""
        return self.n_clusters * self.rows * 0.3 * (1 - self.auc)

    def describe(self) -> list[str]:
        """Return clusters, rows, kind, correlation and AUC."""
        rows, kind = f"{self.n_clusters * self.rows:,}", "unequal" if self.unequal else "equal"
        return [f"{self.n_clusters:,}", rows, kind, f"{self.correlation:g}", f"{self.auc:g}"]


NUMBERS = ("subgroup AUC", "BNSP AUC", "bnsp power mean", "final score")


def _select_numbers(report: BiasTable) -> dict[str, Number]:
    cells, overall = report.subgroups["0"], report.overall
    numbers = (cells.subgroup_auc, cells.bnsp_auc, overall.bnsp_auc, overall.final_score)
    return dict(zip(NUMBERS, numbers, strict=True))


HEAD = ["clusters", "rows", "kind", "correlation", "AUC", "number"]
CORRELATIONS = (0.3, 0.7)
ROWS = {20: 50, 25: 40, 50: 30, 200: 20}
CROSSING = [
    Clustered(n, auc, correlation, unequal, rows=ROWS[n])
    for n, unequal, (correlation, auc) in product(
        (20, 25, 50, 200),
        (False, True),
        ((0.3, 0.7), (0.3, 0.9), (0.3, 0.99), (0.3, 0.999), (0.7, 0.7), (0.7, 0.9)),
    )
]
NESTED = [
    Clustered(n, auc, correlation, unequal, nested=True)
    for n, unequal, correlation, auc in product(
        (200, 400), (False, True), CORRELATIONS, (0.7, 0.9, 0.99)
    )
]
APART = [
    Apart(200, auc, correlation, unequal, nested=True, others=others)
    for unequal, correlation, (auc, others) in product(
        (False, True), CORRELATIONS, ((0.6, (0.8, 0.9, 0.8)), (0.8, (0.9, 0.95, 0.9)))
    )
]
FEW = [
    *(Clustered(200, 0.9, unequal=False, few=few) for few in (5, 10)),
    *(
        Clustered(200, auc, correlation, unequal=False, few=20)
        for correlation, auc in product(CORRELATIONS, (0.7, 0.9, 0.99))
    ),
]
LARGE = [
    Clustered(n, auc, rows=rows) for (n, rows), auc in product(((50, 120), (200, 120)), (0.9, 0.99))
]
TWO_MODELS = [
    Clustered(n, auc, unequal=unequal, rows=ROWS[n], models=2)
    for (n, unequal), auc in product(
        ((25, False), (50, False), (50, True), (200, True)), (0.9, 0.97)
    )
]
MANY = [
    OneAuc(n, auc, correlation, unequal, rows=rows)
    for (n, rows), auc, correlation, unequal in product(
        ((20, 40), (38, 40), (50, 40), (100, 40), (200, 20), (1000, 6)),
        (0.7, 0.9, 0.97, 0.99),
        (0.1, 0.3, 0.7, 0.95),
        (False, True),
    )
]
# The cases of `MANY` whose width is near the limit, with more samples.
WIDE = [
    OneAuc(100, 0.97, 0.7, unequal=True, rows=40),
    OneAuc(1000, 0.97, 0.1, unequal=True),
    OneAuc(1000, 0.97, 0.3, unequal=False),
    OneAuc(1000, 0.97, 0.3, unequal=True),
    OneAuc(1000, 0.97, 0.7, unequal=False),
]
