"""How often intervals cover where the two classes are spread unequally.

Toxic mentions may be spread far more widely than harmless ones, or a fifth of them may be missed:
then a few rows decide how large the standard error is. Or they are spread far less, so that they
rank almost alike.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from benchmarks._coverage import monte_carlo_error
from bias_metrics import roc_auc

SIZES = ((25, 60), (25, 1_000), (60, 1_000), (200, 4_000))
SPREADS = (0.2, 1.0, 3.0, 5.0)
AUCS = (0.8, 0.95, 0.98)
MISSED = 0.2
_NORMAL = NormalDist()


@dataclass(frozen=True)
class SpreadCase:
    """A population and the samples to draw.

    Attributes
    ----------
    auc : float
        Of the population.
    n_positive, n_negative : int
        Rows of each class.
    spread : float
        Standard deviation of the positives; that of the negatives is 1.
    missed : float
        Share of the positives that are `missed` standard deviations lower than the others.
    replicates : int
        Samples to draw.
    """

    auc: float
    n_positive: int
    n_negative: int
    spread: float = 1.0
    missed: float = 0.0
    replicates: int = 2_000

    def mean(self) -> float:
        """Return the mean of the positives that are not lower; that of the negatives is 0."""
        scale = math.hypot(1, self.spread)
        low, high = -10.0 * scale, 10.0 * scale + self.missed
        for _ in range(80):
            middle = (low + high) / 2
            share = (1 - MISSED) * _NORMAL.cdf(middle / scale)
            share += MISSED * _NORMAL.cdf((middle - self.missed) / scale)
            low, high = (middle, high) if share < self.auc else (low, middle)
        return low


@dataclass(frozen=True)
class SpreadCoverage:
    """How the intervals of one case did.

    Attributes
    ----------
    covered, passed : float
        Share of 95 % intervals that hold the truth, and of lower bounds of 90 % intervals above it:
        a floor at the truth passes.
    width : float
        Mean width over that of the estimates' own spread, 2 * 1.96 standard deviations.
    """

    covered: float
    passed: float
    width: float

    def holds(self, replicates: int) -> bool:
        """Say whether it covers in 93 %, and passes in 5, allowing for two Monte Carlo errors."""
        return self.covered >= 0.93 - 2 * monte_carlo_error(
            0.93, replicates
        ) and self.passed <= 0.05 + 2 * monte_carlo_error(0.05, replicates)


def cover_spread(case: SpreadCase) -> SpreadCoverage:
    """Draw the samples of a case."""
    rng = np.random.default_rng(zlib.crc32(repr(case).encode()))
    labels = np.arange(case.n_positive + case.n_negative) < case.n_positive
    mean, found = case.mean(), []
    for _ in range(case.replicates):
        scores = rng.standard_normal(labels.size)
        lower = case.missed * (rng.random(case.n_positive) < MISSED)
        scores[labels] = mean - lower + case.spread * scores[labels]
        one, wide = (roc_auc(labels, scores, confidence=level) for level in (0.95, 0.9))
        found.append((one.value, one.low, one.high, wide.low))
    value, low, high, floor = np.array(found, dtype=np.float64).T
    return SpreadCoverage(
        float(np.mean((low <= case.auc) & (case.auc <= high))),
        float(np.mean(floor > case.auc)),
        float(np.mean(high - low) / (2 * _NORMAL.inv_cdf(0.975) * np.std(value))),
    )


CASES = tuple(
    SpreadCase(auc, *sizes, spread, missed)
    for sizes, (spread, missed), auc in product(
        SIZES, [*((one, 0.0) for one in SPREADS), (1.0, 4.0)], AUCS
    )
)


def spread_rows(found: Iterable[tuple[SpreadCase, SpreadCoverage]]) -> list[list[str]]:
    """Return the lines of the page's table."""
    return [
        [
            f"{case.auc:g}",
            *(f"{size:,}" for size in (case.n_positive, case.n_negative)),
            "a fifth missed" if case.missed else f"{case.spread:g}",
            f"{one.covered:.1%}",
            f"{one.passed:.1%}",
            f"{one.width:.2f}",
        ]
        for case, one in found
    ]
