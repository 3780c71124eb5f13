"""One confidence for many numbers, so that all their intervals hold together.

Bonferroni's level divides the error by the number of intervals as if they had nothing to do with
each other. The numbers of one set do: the five cells of a subgroup compare the same rows, and
subgroups overlap. Their correlations follow from their influence functions, and the largest of
correlated normal deviates is smaller than Bonferroni allows for.

References
----------
Hothorn, Bretz and Westfall (2008), Biometrical Journal 50 (max-t from a joint covariance).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.clusters import Clustering
from bias_metrics._core.influence import RankedRows, rank_rows
from bias_metrics.families import bonferroni_level
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.report.steps import ranked_members
from bias_metrics.report.uncertainty import Spread
from bias_metrics.rows import Rows

MOST_NUMBERS = 20_000_000
_DRAWS, _SEED, _JITTER = 20_000, 20081, 1e-6
# What two models that move a cell alike differ by is rounding, and no number of its own.
_ROUNDED = 1e-9
# A smaller error is not estimated from the draws: fewer than this many of them would be beyond it.
_BEYOND = 20
_NORMAL = NormalDist()


def joint_level(
    rows: Rows,
    scores: Sequence[FloatArray],
    of: Iterable[str],
    *,
    alpha: float = 0.05,
    metrics: Mapping[str, Iterable[str]] | None = None,
) -> float:
    """Return the confidence of each interval with which all of them hold on one side together.

    Parameters
    ----------
    rows : Rows
        All rows; the weights do not count.
    scores : one or two float arrays of shape (n,)
        One model's scores, for its cells; two models', for the differences of their cells.
    of : iterable of str
        The subgroups whose cells form the family.
    alpha : float, default=0.05
        Chance that any one-sided bound of the family is wrong.
    metrics : mapping of str to iterable of str, optional
        Which of its five cells are in the family, by subgroup; default all.

    Returns
    -------
    float
        A two-sided confidence for `evaluate_bias` or `compare_bias`; never below
        `1 - 2 * alpha`, nor above Bonferroni's. It is Bonferroni's where `alpha` is below .001, or
        rows times cells are more than 20 million, so that correlations would take long to compute.
    """
    all_five = SUBGROUP_METRICS
    cells = [(name, x) for name in of for x in (all_five if metrics is None else metrics[name])]
    most = bonferroni_level(len(cells), alpha)
    if rows.n * len(cells) > MOST_NUMBERS or alpha * _DRAWS < _BEYOND:
        return most
    moves = [_Moves(rank_rows(rows.y_true, of_model), rows) for of_model in scores]
    standardised = []
    for name, metric in cells:
        each = [one.of(name, metric) for one in moves]
        if any(one is None for one in each):
            continue
        apart = each[0] if len(each) == 1 else each[0] - each[1]
        size, *whole = (math.sqrt(float(np.dot(one, one))) for one in (apart, *each))
        if size > _ROUNDED * max(whole):
            standardised.append(apart / size)
    if not standardised:
        return 1 - 2 * alpha
    stacked = np.stack(standardised)
    return min(max(_level(stacked @ stacked.T, alpha), 1 - 2 * alpha), most)


class _Moves:
    """How each row, or cluster, of one model moves each cell."""

    def __init__(self, ranked: RankedRows, rows: Rows) -> None:
        self._ranked = ranked
        self._members = ranked_members(ranked, rows)
        self._within = {}
        if rows.clusters is not None:
            clustering = Clustering.of(ranked, rows.clusters)
            self._within = {name: clustering.within(one) for name, one in self._members.items()}
        self._spread = Spread(ranked, 0.95)

    def of(self, name: str, metric: str) -> Any:
        """Return the influences on a cell; None if a compared class has fewer than two rows."""
        members = self._members[name]
        compared = members.compared[metric]
        if min(compared.n_base, compared.searched.n) < 2:
            return None
        if self._within:
            return self._within[name].moves(metric).each
        return self._spread.of_auc(metric, compared, members).by_row(self._ranked)


def _level(correlations: npt.NDArray[np.float64], alpha: float) -> float:
    """Return the two-sided confidence at the quantile of the largest of correlated deviates."""
    n = len(correlations)
    # Unlike eigenvectors, these factors change little if a correlation does: the same on every
    # machine. So is the level, once it has three digits.
    root = np.linalg.cholesky(correlations + _JITTER * np.eye(n))
    draws = np.random.default_rng(_SEED).standard_normal((_DRAWS, n))
    largest = (draws @ root.T).max(axis=1)
    # Two Monte Carlo errors up, so that the seed never makes the bounds too tight.
    share = 1 - alpha + 2 * math.sqrt(alpha * (1 - alpha) / _DRAWS)
    error = _NORMAL.cdf(-float(np.quantile(largest, share)))
    digits = 2 - math.floor(math.log10(error))
    return 1 - 2 * math.floor(error * float(10**digits)) / float(10**digits)
