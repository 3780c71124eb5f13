"""How often intervals contain the true value, and how often a claim of "not worse" is false.

`python -m benchmarks.coverage` writes docs/evidence/coverage.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks._populations import (
    OFFSETS,
    POWER,
    Case,
    rounded,
    shift_of,
    true_auc,
    true_difference,
    true_final_score,
)
from bias_metrics import BiasReport, Difference, compare_bias, evaluate_bias, roc_auc

CONFIDENCE = 0.95
ALPHA = 0.05
LEAST, MOST = 0.93, 0.97


@dataclass(frozen=True)
class Coverage:
    """How the intervals of one case did.

    Attributes
    ----------
    case : Case
        The case.
    truth : float
        The population value.
    below, above : float
        Share of intervals that are entirely below the truth, or above it.
    width : float
        Their mean width.
    missing : int
        Samples without an interval; the shares leave them out.
    """

    case: Case
    truth: float
    below: float
    above: float
    width: float
    missing: int = 0

    @property
    def covered(self) -> float:
        """Share of intervals that contain the truth."""
        return 1 - self.below - self.above

    @property
    def error(self) -> float:
        """Monte Carlo standard error of a share at the smallest coverage allowed."""
        return monte_carlo_error(LEAST, self.case.replicates - self.missing)

    @property
    def as_demanded(self) -> bool:
        """Whether the coverage is as required, allowing for two Monte Carlo errors."""
        if self.covered < LEAST - 2 * self.error:
            return False
        allowed = 2 * monte_carlo_error(MOST, self.case.replicates - self.missing)
        return not self.case.large or self.covered <= MOST + allowed


@dataclass(frozen=True)
class NonInferiority:
    """How often the first model is shown not to be worse by `MARGIN`.

    Attributes
    ----------
    case : Case
        The case; its first model is worse by exactly the margin.
    in_error : float
        Share of samples in which it is shown although it is false.
    power : float
        Share of samples in which it is shown when the two models are equally good.
    """

    case: Case
    in_error: float
    power: float

    @property
    def as_demanded(self) -> bool:
        """Whether `in_error` is at most `ALPHA`, allowing for two Monte Carlo errors."""
        return self.in_error <= ALPHA + 2 * monte_carlo_error(ALPHA, self.case.replicates)


def monte_carlo_error(share: float, replicates: int) -> float:
    """Return the standard error of a share estimated from replicates."""
    return math.sqrt(share * (1 - share) / replicates)


def cover_cell(case: Case) -> Coverage:
    """Return the coverage of one AUC's interval."""
    rng, labels, mean = case.generator(), case.labels, shift_of(case.auc)
    found = []
    for _ in range(case.replicates):
        scores = rng.standard_normal(labels.size) + mean * labels
        one = roc_auc(labels, rounded(scores, case.step), confidence=CONFIDENCE)
        found.append((one.low, one.high))
    return _summarise(case, true_auc([0.0], [mean], case.step), found)


def cover_final_score(case: Case) -> Coverage:
    """Return the coverage of the final score's interval over three subgroups."""
    rng, mean = case.generator(), shift_of(case.auc)
    labels = np.tile(case.labels, len(OFFSETS))
    group = np.repeat(np.arange(len(OFFSETS)), case.labels.size)
    means = np.array([[negative, mean + positive] for negative, positive in OFFSETS])
    means_by_row = means[group, labels.astype(int)]
    subgroups = {str(one): group == one for one in range(len(OFFSETS) - 1)}
    found = []
    for _ in range(case.replicates):
        scores = rounded(rng.standard_normal(labels.size) + means_by_row, case.step)
        report: BiasReport = evaluate_bias(
            labels, scores, subgroups, power=POWER, confidence=CONFIDENCE
        )
        found.append((report.final_score.low, report.final_score.high))
    return _summarise(case, true_final_score(mean, case.step), found)


def compare_samples(case: Case, confidence: float) -> Iterator[Difference]:
    """Yield the two models' difference in one cell for each sample."""
    rng, labels = case.generator(), case.labels
    means = shift_of(case.auc - case.drop), shift_of(case.auc)
    everyone = {"all": np.ones(labels.size, dtype=bool)}
    shared, own = math.sqrt(case.correlation), math.sqrt(1 - case.correlation)
    for _ in range(case.replicates):
        common = shared * rng.standard_normal(labels.size)
        first, second = (
            rounded(common + own * rng.standard_normal(labels.size) + mean * labels, case.step)
            for mean in means
        )
        found = compare_bias(labels, first, second, everyone, confidence=confidence)
        yield found.subgroups["all"]["subgroup_auc"]


def cover_difference(case: Case) -> Coverage:
    """Return the coverage of a paired difference's interval in one cell."""
    found = [(one.low, one.high) for one in compare_samples(case, CONFIDENCE)]
    return _summarise(case, true_difference(case), found)


def show_not_worse(case: Case, *, with_power: bool = True) -> NonInferiority:
    """Return how often the first model is shown not to be worse by the margin.

    Rounding changes the true difference, and the margin is then changed with it.
    """
    margin = -true_difference(case)
    shares = []
    equal = Case(
        case.auc, case.n_positive, case.n_negative, case.tied, case.replicates, case.correlation
    )
    for one in (case, equal) if with_power else (case,):
        said = [d.not_worse_by(margin) for d in compare_samples(one, 1 - 2 * ALPHA)]
        shares.append(said.count(True) / len(said))
    return NonInferiority(case, shares[0], shares[1] if with_power else math.nan)


def _summarise(
    case: Case, truth: float, found: Sequence[tuple[float | None, float | None]]
) -> Coverage:
    ends = np.array([one for one in found if None not in one], dtype=np.float64)
    slack = 1e-12  # an interval that ends at the truth contains it
    return Coverage(
        case,
        truth,
        float(np.mean(ends[:, 1] < truth - slack)),
        float(np.mean(ends[:, 0] > truth + slack)),
        float(np.mean(ends[:, 1] - ends[:, 0])),
        len(found) - len(ends),
    )
