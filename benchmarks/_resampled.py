"""How often bootstrap intervals cover the true value: few rows, AUCs near 1, few clusters."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks._populations import shift_of
from bias_metrics import bootstrap_bias, bootstrap_comparison
from bias_metrics.report.resampled import BootstrapReport

Drawn = tuple[npt.NDArray[np.float64], npt.NDArray[np.intp] | None]


@dataclass(frozen=True)
class ResampledCase:
    """A population whose BNSP AUC and whose difference between two equal models are known.

    Attributes
    ----------
    auc : float
        Of the subgroup's positives among the background's negatives.
    n_positive, n_negative : int
        The subgroup's positives and the background's negatives; the other classes have 200 rows.
    beta : bool
        Whether scores are those of beta distributions, otherwise normal.
    few : int
        The subgroup's positives come from so many of 200 clusters; 0 if rows are independent.
    replicates, samples : int
        Replicates of a bootstrap, and samples to draw.
    """

    auc: float
    n_positive: int
    n_negative: int
    beta: bool = False
    few: int = 0
    replicates: int = 200
    samples: int = 200

    @property
    def labels(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Labels and membership."""
        sizes = self.n_positive, self.n_negative, 200, 200
        return np.repeat([True, False, True, False], sizes), np.repeat(
            [True, False, False, True], sizes
        )

    def scores(self, rng: np.random.Generator, y_true: npt.NDArray[np.bool_]) -> Drawn:
        """Draw the scores of one model, and the cluster of each row."""
        if self.beta:  # P(x > y) = a / (a + 1) for x of Beta(a, 1) and a uniform y
            power = self.auc / (1 - self.auc)
            return rng.random(y_true.size) ** np.where(y_true, 1 / power, 1.0), None
        own, shift = rng.normal(size=y_true.size), shift_of(self.auc) * y_true
        if not self.few:
            return own + shift, None
        codes = rng.integers(0, 200, y_true.size)
        codes[: self.n_positive] %= self.few
        effect = rng.normal(size=200)[codes]
        return math.sqrt(0.3) * effect + math.sqrt(0.7) * own + shift, codes


Resample = Callable[[ResampledCase, np.random.Generator], BootstrapReport]


def one_model(case: ResampledCase, rng: np.random.Generator) -> BootstrapReport:
    """Resample one model."""
    y_true, members = case.labels
    scores, codes = case.scores(rng, y_true)
    return bootstrap_bias(
        y_true, scores, {"g": members}, rng=rng, n_replicates=case.replicates, clusters=codes
    )


def two_models(case: ResampledCase, rng: np.random.Generator) -> BootstrapReport:
    """Resample two models that are equally good and agree about half of what is hard."""
    y_true, members = case.labels
    shared, codes = case.scores(rng, y_true)
    both = [shared + 0.5 * rng.normal(size=y_true.size) for _ in range(2)]
    return bootstrap_comparison(
        y_true, *both, {"g": members}, rng=rng, n_replicates=case.replicates, clusters=codes
    )


@dataclass(frozen=True)
class ResampledCoverage:
    """Share of 95 % intervals that hold the truth, their mean width, and samples without one."""

    covered: float
    width: float
    missing: float


def cover_resampled(case: ResampledCase, resample: Resample = one_model) -> ResampledCoverage:
    """Return how the intervals of the BNSP AUC, or of its difference, did."""
    rng = np.random.default_rng(zlib.crc32(repr(case).encode()))
    truth = case.auc if resample is one_model else 0.0
    found = [resample(case, rng).subgroups["g"].bnsp_auc for _ in range(case.samples)]
    ends = np.array([(one.low, one.high) for one in found if one.low is not None])
    missing = 1 - len(ends) / case.samples
    if not len(ends):
        return ResampledCoverage(math.nan, math.nan, missing)
    low, high = ends.T
    covered = float(np.mean((low <= truth) & (truth <= high)))
    return ResampledCoverage(covered, float(np.mean(high - low)), missing)


CASES = (
    ResampledCase(0.9, 20, 80, beta=True),
    ResampledCase(0.99, 50, 200),
    ResampledCase(0.9, 200, 500),
    ResampledCase(0.9, 200, 500, few=25),
    ResampledCase(0.9, 200, 500, few=100),
)
