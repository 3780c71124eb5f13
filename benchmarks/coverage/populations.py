"""Populations with exactly known AUCs.

Scores are normal within each class. Tied scores are rounded to a grid of about 20 values, and their
true values are those of the rounded distribution.
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
# Shifts of the subgroups' negatives and positives; the last rows are in no subgroup.
OFFSETS = ((0.3, 0.0), (0.0, -0.3), (0.15, 0.15), (0.0, 0.0))
_NORMAL = NormalDist()


def find_shift(auc: float) -> float:
    """Return the distance between the means of two unit normals with this AUC."""
    return math.sqrt(2) * _NORMAL.inv_cdf(auc)


def find_step(auc: float) -> float:
    """Return the width of a grid that leaves about 20 values of two such classes."""
    return (find_shift(auc) + 6) / LEVELS


def compute_auc(lower: Sequence[float], upper: Sequence[float], step: float) -> float:
    """Return P(upper > lower) + P(equal) / 2 for two even mixtures of rounded unit normals.

    `lower` and `upper` are the means of the mixtures' components, `step` is the width of the grid
    that both are rounded to; 0 for none.
    """
    pairs = list(product(lower, upper))
    if step == 0:
        return math.fsum(_NORMAL.cdf((b - a) / math.sqrt(2)) for a, b in pairs) / len(pairs)
    return math.fsum(_compute_rounded_auc(a, b, step) for a, b in pairs) / len(pairs)


def _compute_rounded_auc(lower: float, upper: float, step: float) -> float:
    first = math.floor((min(lower, upper) - 9) / step)
    last = math.ceil((max(lower, upper) + 9) / step)
    edges = [(level + 0.5) * step for level in range(first - 1, last + 1)]
    below, below_upper = ([_NORMAL.cdf(edge - mean) for edge in edges] for mean in (lower, upper))
    return math.fsum(
        (below_upper[i + 1] - below_upper[i]) * (below[i] + below[i + 1]) / 2
        for i in range(len(edges) - 1)
    )


def round_scores(scores: Floats, step: float) -> Floats:
    """Round scores to a grid; a step of 0 leaves them unchanged."""
    return np.rint(scores / step) * step if step else scores


def compute_final_score(mean: float, step: float) -> float:
    """Return the final score of the population that `aggregates.Differing` samples."""
    negative = [low for low, _ in OFFSETS]
    positive = [mean + high for _, high in OFFSETS]
    cells: list[list[float]] = [[], [], []]
    for i in range(len(OFFSETS) - 1):
        own_negative, own_positive = [negative[i]], [positive[i]]
        other_negative = negative[:i] + negative[i + 1 :]
        other_positive = positive[:i] + positive[i + 1 :]
        cells[0].append(compute_auc(own_negative, own_positive, step))
        cells[1].append(compute_auc(own_negative, other_positive, step))
        cells[2].append(compute_auc(other_negative, own_positive, step))
    means = [(sum(auc**POWER for auc in aucs) / len(aucs)) ** (1 / POWER) for aucs in cells]
    return float((compute_auc(negative, positive, step) + sum(means)) / 4)
