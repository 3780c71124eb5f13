"""Populations whose AUCs are known exactly, and the cases in which intervals are tried.

Scores are normal within each class. Tied scores are the same ones rounded to a grid of about 20
values, and their true values are those of the rounded distribution.
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

Floats = npt.NDArray[np.float64]

MARGIN = 0.02
# With this many rows and errors in both classes, coverage must not exceed the maximum either.
LARGE, MANY_ERRORS = 500, 25
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
        AUC of the untied scores; in a comparison, of the second model.
    n_positive, n_negative : int
        Rows of each class; for the final score, of each class of each group.
    tied : bool
        Whether scores are rounded.
    replicates : int
        Samples to draw.
    correlation : float, default=0
        Correlation of the two models' scores within a class.
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
        """Whether both classes are large, with enough errors."""
        fewer = min(self.n_positive, self.n_negative)
        return fewer >= LARGE and fewer * (1 - self.auc) >= MANY_ERRORS

    @property
    def step(self) -> float:
        """Width of the grid that scores are rounded to; 0 for none."""
        return (shift_of(self.auc) + 6) / LEVELS if self.tied else 0.0

    @property
    def labels(self) -> npt.NDArray[np.bool_]:
        """Labels of one sample: the positives first."""
        return np.arange(self.n_positive + self.n_negative) < self.n_positive

    def generator(self) -> np.random.Generator:
        """Return the case's own generator, so that its figures do not depend on other cases."""
        return np.random.default_rng(zlib.crc32(repr(self).encode()))


def shift_of(auc: float) -> float:
    """Return the distance between the means of two unit normals with this AUC."""
    return math.sqrt(2) * _NORMAL.inv_cdf(auc)


def true_auc(lower: Sequence[float], upper: Sequence[float], step: float) -> float:
    """Return P(upper > lower) + P(equal) / 2 for two even mixtures of rounded unit normals.

    Parameters
    ----------
    lower, upper : sequence of float
        Means of each mixture's components.
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
    """Round scores to a grid; a step of 0 leaves them unchanged."""
    return np.rint(scores / step) * step if step else scores


def cell_cases(replicates: int, replicates_large: int) -> Iterator[Case]:
    """Yield the cases of one cell; `replicates_large` is for classes of 5,000 rows or more."""
    for tied, sizes, auc in product((False, True), SIZES, AUCS):
        yield Case(auc, *sizes, tied, replicates_large if max(sizes) >= 5_000 else replicates)


def paired_cases(
    replicates: int, replicates_large: int, kinds: Iterable[tuple[float, float]]
) -> Iterator[Case]:
    """Yield the cells' cases for two models, for each correlation and drop in `kinds`."""
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


def true_final_score(mean: float, step: float) -> float:
    """Return the final score of the population that `cover_final_score` samples."""
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


def true_difference(case: Case) -> float:
    """Return the two models' difference in the population."""
    first, second = (
        true_auc([0.0], [shift_of(auc)], case.step) for auc in (case.auc - case.drop, case.auc)
    )
    return first - second
