"""Populations whose AUCs are known exactly.

Scores are normal within each class. Tied scores are the same ones rounded to a grid of about 20
values, and their true values are those of the rounded distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVELS = 20
POWER = -5.0
# The subgroups' negatives and positives are moved by these; the last is in no subgroup.
OFFSETS = ((0.3, 0.0), (0.0, -0.3), (0.15, 0.15), (0.0, 0.0))
_NORMAL = NormalDist()


def shift_of(auc: float) -> float:
    """Return the distance between the means of two unit normals with this AUC."""
    return math.sqrt(2) * _NORMAL.inv_cdf(auc)


def levels_of(auc: float) -> float:
    """Return the width of a grid that leaves about 20 values of two such classes."""
    return (shift_of(auc) + 6) / LEVELS


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
    return float((true_auc(negative, positive, step) + sum(means)) / 4)
