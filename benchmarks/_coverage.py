"""How often the intervals hold the true value, and how often not-worse is said in error.

Scores are normal within each class, so that every population value is known exactly; tied
scores are the same ones rounded to a grid of about 20 values, and their population value is
that of the rounded distribution. `python -m benchmarks.coverage` prints docs/evidence/coverage.md.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics import BiasReport, Difference, compare_bias, evaluate_bias, roc_auc

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
ALPHA = 0.05
MARGIN = 0.02
LEAST, MOST = 0.93, 0.97
LARGE = 500  # rows of both classes from which coverage must not exceed `MOST` either
AUCS = (0.7, 0.9, 0.95, 0.99)
SIZES = ((50, 50), (50, 5_000), (500, 5_000))
CORRELATIONS = (0.5, 0.9)
BETTER_MODELS = (0.92, 0.97)
LEVELS = 20
POWER = -5.0
# The subgroups' negatives and positives are moved by these; the last is in no subgroup.
OFFSETS = ((0.3, 0.0), (0.0, -0.3), (0.15, 0.15), (0.0, 0.0))
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Case:
    """A population, the sizes of a sample from it, and the replicates to draw.

    Attributes
    ----------
    auc : float
        Of the untied scores; in a comparison, of the second model.
    n_positive, n_negative : int
        Rows of each class; for the final score, of each class of each group.
    tied : bool
        Whether scores are rounded.
    replicates : int
        Samples to draw.
    correlation : float, default=0
        Between the two models' scores within a class.
    drop : float, default=0
        How much lower the first model's AUC is.
    """

    auc: float
    n_positive: int
    n_negative: int
    tied: bool
    replicates: int
    correlation: float = 0.0
    drop: float = 0.0

    @property
    def large(self) -> bool:
        """Whether both classes are large."""
        return min(self.n_positive, self.n_negative) >= LARGE

    @property
    def step(self) -> float:
        """Width of the grid that scores are rounded to; 0 for none."""
        return (shift_of(self.auc) + 6) / LEVELS if self.tied else 0.0

    @property
    def labels(self) -> npt.NDArray[np.bool_]:
        """Labels of one sample: the positives first."""
        return np.arange(self.n_positive + self.n_negative) < self.n_positive

    def generator(self) -> np.random.Generator:
        """Return the case's own generator: a case gives the same figures in any company."""
        return np.random.default_rng(zlib.crc32(repr(self).encode()))


@dataclass(frozen=True)
class Coverage:
    """What became of the intervals of one case.

    Attributes
    ----------
    case : Case
        The case.
    truth : float
        The population value.
    below, above : float
        Share of intervals that lie wholly below the truth, or above it.
    width : float
        Their mean width.
    missing : int
        Samples in which there was no interval; they are in none of the shares.
    """

    case: Case
    truth: float
    below: float
    above: float
    width: float
    missing: int = 0

    @property
    def covered(self) -> float:
        """Share of intervals that hold the truth."""
        return 1 - self.below - self.above

    @property
    def error(self) -> float:
        """Monte Carlo standard error of a share at the least coverage demanded."""
        return monte_carlo_error(LEAST, self.case.replicates - self.missing)

    @property
    def as_demanded(self) -> bool:
        """Whether the coverage is as demanded, but for two Monte Carlo errors."""
        if self.covered < LEAST - 2 * self.error:
            return False
        allowed = 2 * monte_carlo_error(MOST, self.case.replicates - self.missing)
        return not self.case.large or self.covered <= MOST + allowed


@dataclass(frozen=True)
class NonInferiority:
    """How often the first model was shown not to be worse by `MARGIN`.

    Attributes
    ----------
    case : Case
        The case; its first model is worse by exactly the margin.
    in_error : float
        Share of samples in which it was shown nevertheless.
    power : float
        Share in which it is shown when the two models are equally good.
    """

    case: Case
    in_error: float
    power: float

    @property
    def as_demanded(self) -> bool:
        """Whether it is shown in error no more often than `ALPHA`, but for two errors."""
        return self.in_error <= ALPHA + 2 * monte_carlo_error(ALPHA, self.case.replicates)


def monte_carlo_error(share: float, replicates: int) -> float:
    """Return the standard error of a share that was estimated from replicates."""
    return math.sqrt(share * (1 - share) / replicates)


def shift_of(auc: float) -> float:
    """Return the distance of two unit normals' means at which the AUC is this."""
    return math.sqrt(2) * _NORMAL.inv_cdf(auc)


def true_auc(lower: Sequence[float], upper: Sequence[float], step: float) -> float:
    """Return P(upper > lower) + P(equal) / 2 of two even mixtures of rounded unit normals.

    Parameters
    ----------
    lower, upper : sequence of float
        Means of the mixtures' parts.
    step : float
        Width of the grid that both are rounded to; 0 for none.

    Returns
    -------
    float
        The AUC of the population.
    """
    pairs = list(product(lower, upper))
    if step == 0:
        return math.fsum(_NORMAL.cdf((b - a) / math.sqrt(2)) for a, b in pairs) / len(pairs)
    return math.fsum(_rounded_auc(a, b, step) for a, b in pairs) / len(pairs)


def _rounded_auc(lower: float, upper: float, step: float) -> float:
    first, last = (
        math.floor((min(lower, upper) - 9) / step),
        math.ceil((max(lower, upper) + 9) / step),
    )
    edges = [(level + 0.5) * step for level in range(first - 1, last + 1)]
    below, of_upper = ([_NORMAL.cdf(edge - mean) for edge in edges] for mean in (lower, upper))
    levels = range(len(edges) - 1)
    return math.fsum(
        (of_upper[i + 1] - of_upper[i]) * (below[i] + below[i + 1]) / 2 for i in levels
    )


def rounded(scores: Floats, step: float) -> Floats:
    """Round scores to a grid; a step of 0 leaves them."""
    return np.rint(scores / step) * step if step else scores


def cell_cases(replicates: int, replicates_large: int) -> Iterator[Case]:
    """Yield the AUCs, sizes and ties of one cell; the latter replicates from 5,000 rows on."""
    for tied, sizes, auc in product((False, True), SIZES, AUCS):
        yield Case(auc, *sizes, tied, replicates_large if max(sizes) >= 5_000 else replicates)


def paired_cases(
    replicates: int, replicates_large: int, kinds: Iterable[tuple[float, float]]
) -> Iterator[Case]:
    """Yield the cells' cases for two models, at each correlation and drop of `kinds`."""
    for (correlation, drop), case in product(kinds, list(cell_cases(replicates, replicates_large))):
        yield Case(
            case.auc,
            case.n_positive,
            case.n_negative,
            case.tied,
            case.replicates,
            correlation,
            drop,
        )


def non_inferiority_cases(replicates: int) -> Iterator[Case]:
    """Yield cases whose first model is worse by exactly the margin."""
    for tied, sizes, auc, correlation in product((False, True), SIZES, BETTER_MODELS, CORRELATIONS):
        yield Case(auc, *sizes, tied, replicates, correlation, MARGIN)


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


def true_final_score(mean: float, step: float) -> float:
    """Return the final score of the population that `cover_final_score` draws from."""
    negative = [one for one, _ in OFFSETS]
    positive = [mean + one for _, one in OFFSETS]
    cells: list[list[float]] = [[], [], []]
    for i in range(len(OFFSETS) - 1):
        own_negative, own_positive = [negative[i]], [positive[i]]
        other_negative = negative[:i] + negative[i + 1 :]
        other_positive = positive[:i] + positive[i + 1 :]
        cells[0].append(true_auc(own_negative, own_positive, step))
        cells[1].append(true_auc(own_negative, other_positive, step))
        cells[2].append(true_auc(other_negative, own_positive, step))
    means = [(sum(one**POWER for one in of) / len(of)) ** (1 / POWER) for of in cells]
    return (true_auc(negative, positive, step) + sum(means)) / 4


def compare_samples(case: Case, confidence: float) -> Iterator[Difference]:
    """Yield the two models' difference in one cell, for each sample."""
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


def true_difference(case: Case) -> float:
    """Return the two models' difference in the population."""
    first, second = (
        true_auc([0.0], [shift_of(auc)], case.step) for auc in (case.auc - case.drop, case.auc)
    )
    return first - second


def cover_difference(case: Case) -> Coverage:
    """Return the coverage of a paired difference's interval in one cell."""
    found = [(one.low, one.high) for one in compare_samples(case, CONFIDENCE)]
    return _summarise(case, true_difference(case), found)


def show_not_worse(case: Case, *, with_power: bool = True) -> NonInferiority:
    """Return how often the first model is shown not to be worse by the margin.

    Rounding moves the true difference, and the margin is then moved with it.
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
    slack = 1e-12  # an interval that ends at the truth holds it
    return Coverage(
        case,
        truth,
        float(np.mean(ends[:, 1] < truth - slack)),
        float(np.mean(ends[:, 0] > truth + slack)),
        float(np.mean(ends[:, 1] - ends[:, 0])),
        len(found) - len(ends),
    )
