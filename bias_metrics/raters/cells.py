"""Comments with the same votes, about the same score and the same subgroups, counted together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray
from bias_metrics._core.placements import Floats
from bias_metrics.raters.soft import SortedRows

LEVELS = 200  # of scores: by rank, about equally many rows each
_EXACT = 1e6  # fractions are told apart to this many parts
_FREQUENT, _MOST_NUMBERS = 0.01, 8  # numbers of raters with terms of their own

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class VoteCells:
    """The distinct combinations of votes, score level and subgroups."""

    of_row: npt.NDArray[np.intp]  # The cell of each row
    count: Floats  # (c,): Rows in each cell
    toxic: Floats  # toxic, harmless, (c,): votes on each comment of the cell
    harmless: Floats
    # (c, 4): Hermite polynomials of degree 0 to 3 of the normal score of the cell's level, each
    # with mean 0 and variance 1 over normal scores.
    common: Floats
    # (c, k): 1 in the cells of each frequent number of raters but the most frequent one, 0 in
    # others.
    kinds: Floats
    # (c, 2 (G + k)): For each subgroup and each of these numbers, 1 and the normal score in its
    # cells, 0 in others.
    own: Floats

    @classmethod
    def of(
        cls,
        fraction: Floats,
        n_raters: Counts,
        rows: SortedRows,
        masks: Mapping[str, BoolArray],
    ) -> VoteCells:
        """Find the cells."""
        n = fraction.size
        place = np.empty(n)
        place[rows.order] = (rows.left + rows.right) / (2 * n)
        level = np.floor(place * min(LEVELS, n)).astype(np.int64)
        columns = [np.rint(fraction * _EXACT).astype(np.int64), n_raters, level, *masks.values()]
        first, of_row = _distinct(columns)
        count = np.bincount(of_row).astype(np.float64)
        normal = _normal_scores((level[first] + 0.5) / min(LEVELS, n))
        common = _polynomials(normal)
        kinds = _by_number(n_raters, n_raters[first])
        parts = [*(mask[first] for mask in masks.values()), *kinds]
        own = [common[:, :2] * inside[:, None] for inside in parts]
        nothing = common[:, :0]
        toxic = fraction[first] * n_raters[first]
        harmless = n_raters[first] - toxic
        return cls(
            of_row,
            count,
            toxic,
            harmless,
            common,
            np.hstack([nothing, *(one[:, None] for one in kinds)]),
            np.hstack([nothing, *own]),
        )


def _by_number(n_raters: Counts, of_cell: Counts) -> list[BoolArray]:
    """Return which cells have each frequent number of raters, and which a rare one.

    The most frequent number is left out: others are compared with it.
    """
    numbers, counts = np.unique(n_raters, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    frequent = [one for one in order[:_MOST_NUMBERS] if counts[one] >= _FREQUENT * n_raters.size]
    rare = ~np.isin(of_cell, numbers[frequent])
    found = [of_cell == numbers[one] for one in frequent[1:]]
    return [*found, rare] if rare.any() else found


def _distinct(
    columns: list[npt.NDArray[np.generic]],
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first row of each distinct combination, and the combination of each row."""
    codes = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        codes = np.unique(codes * values.size + code, return_inverse=True)[1]
    first, of_row = np.unique(codes, return_index=True, return_inverse=True)[1:]
    return first, of_row


def _polynomials(x: Floats) -> Floats:
    return np.stack([x**0, x, (x**2 - 1) / 2**0.5, (x**3 - 3 * x) / 6**0.5], axis=1)


def _normal_scores(shares: Floats) -> Floats:
    inverse = NormalDist().inv_cdf
    levels, of = np.unique(shares, return_inverse=True)
    return np.array([inverse(float(one)) for one in levels])[of]
