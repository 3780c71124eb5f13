"""The normal scores of two published tables, as quantiles, without random draws."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
NORMAL = NormalDist()
# Two normal classes of deviation 1 that far apart have an AUC of .93.
DISTANCE = 2**0.5 * NORMAL.inv_cdf(0.93)


def list_truncated(mean: float, deviation: float, n: int) -> np.ndarray:
    """Return `n` quantiles of a normal distribution truncated to [0, 1]."""
    normal = NormalDist(mean, deviation)
    low, high = normal.cdf(0), normal.cdf(1)
    return np.array([normal.inv_cdf(low + (high - low) * (i + 0.5) / n) for i in range(n)])


def column_of_table_2(column: Mapping[str, Any], times: int = 1) -> Rows:
    """Return labels, scores and membership of a column of Borkan et al. (2019), Table 2.

    It has as many rows as in the paper (1,000 per background cell), or `times` as many.
    """
    cells = [
        ("bg_pos", True, False, 1000),
        ("bg_neg", False, False, 1000),
        ("sub_pos", True, True, column["sub_pos_n"]),
        ("sub_neg", False, True, column["sub_neg_n"]),
    ]
    sizes = [times * n for *_, n in cells]
    labels, members = (np.repeat([cell[i] for cell in cells], sizes) for i in (1, 2))
    scores = [
        list_truncated(*column["params"][cell[0]], size)
        for cell, size in zip(cells, sizes, strict=True)
    ]
    return labels, np.concatenate(scores), members


def heights(n: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return labels, scores and groups of Dixon et al. (2018), Table 3, `n` rows a class.

    Each group has an AUC of .93; the scores of "short" are shifted up, so that the AUC of all three
    together is .79.
    """
    quantiles = np.array([NORMAL.inv_cdf((i + 0.5) / n) for i in range(n)])
    shifts = (0.0, 0.0, _find_shift())
    scores = np.concatenate([quantiles + s + d for s in shifts for d in (0, DISTANCE)])
    group = np.repeat(np.arange(3), 2 * n)
    names = ("tall", "average", "short")
    return np.tile(np.repeat([0, 1], n), 3), scores, {g: group == i for i, g in enumerate(names)}


def _find_shift() -> float:
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _compute_combined_auc(middle) > 0.79 else (low, middle)
    return low


def _compute_combined_auc(shift: float) -> float:
    """Return the AUC over all pairs of the three groups' classes."""
    shifts = (0.0, 0.0, shift)
    pairs = [NORMAL.cdf((DISTANCE + own - other) / 2**0.5) for own in shifts for other in shifts]
    return sum(pairs) / 9
