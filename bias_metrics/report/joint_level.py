"""The confidence level of simultaneous intervals, from the correlations of the numbers.

Bonferroni's level ignores correlations. The numbers of an evaluation set are correlated: the five
cells of a subgroup compare the same rows, and subgroups overlap. The correlations follow from
influence functions. The maximum of correlated normal deviates is smaller than Bonferroni's level
assumes.

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
from bias_metrics._core.influence import Influence, RankedRows, rank_rows
from bias_metrics.families import bonferroni_level
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.report.steps import rank_members
from bias_metrics.rows import Rows

MOST_NUMBERS = 20_000_000
_DRAWS, _SEED, _JITTER = 20_000, 20081, 1e-6
# Below this share of the influences, the difference of two models is rounding error.
_ROUNDED = 1e-9
# The level is simulated only if at least this many draws are expected beyond the quantile.
_BEYOND = 20
_NORMAL = NormalDist()


def compute_joint_level(
    rows: Rows,
    scores: Sequence[FloatArray],
    groups: Iterable[str],
    *,
    alpha: float = 0.05,
    metrics: Mapping[str, Iterable[str]] | None = None,
) -> float:
    """Return the confidence of single intervals for which all one-sided bounds hold jointly.

    The family has the cells of `groups`, by default in all five metrics: those of a model, or the
    differences of two models, given their `scores`. `alpha` is the probability that any one-sided
    bound of the family is wrong. Weights of `rows` are ignored.

    The two-sided confidence is between `1 - 2 * alpha` and Bonferroni's level. It is Bonferroni's
    level if `alpha` is below .001, or if rows times cells exceed 20 million, since computing the
    correlations would take too long.
    """
    all_five = SUBGROUP_METRICS
    cells = [(name, x) for name in groups for x in (all_five if metrics is None else metrics[name])]
    most = bonferroni_level(len(cells), alpha)
    if rows.n * len(cells) > MOST_NUMBERS or alpha * _DRAWS < _BEYOND:
        return most
    models = [
        _CellInfluences(rank_rows(rows.y_true, model_scores), rows) for model_scores in scores
    ]
    standardised = []
    for name, metric in cells:
        model_influences = [influences.get_influences(name, metric) for influences in models]
        if any(model is None for model in model_influences):
            continue
        first, *others = model_influences
        difference = first - others[0] if others else first
        size, *whole = (
            math.sqrt(float(np.dot(influences, influences)))
            for influences in (difference, *model_influences)
        )
        if size > _ROUNDED * max(whole):
            standardised.append(difference / size)
    if not standardised:
        return 1 - 2 * alpha
    stacked = np.stack(standardised)
    return min(max(_simulate_level(stacked @ stacked.T, alpha), 1 - 2 * alpha), most)


class _CellInfluences:
    """Influences of rows, or clusters, on the cells of a model."""

    def __init__(self, ranked: RankedRows, rows: Rows) -> None:
        self._ranked = ranked
        self._members = rank_members(ranked, rows)
        self._within = {}
        if rows.clusters is not None:
            clustering = Clustering.from_codes(ranked, rows.clusters)
            self._within = {
                name: clustering.select_members(members) for name, members in self._members.items()
            }

    def get_influences(self, name: str, metric: str) -> Any:
        """Return the influences on a cell; None if a compared class has fewer than two rows."""
        members = self._members[name]
        compared = members.comparisons[metric]
        if min(compared.n_base, compared.searched.n) < 2:
            return None
        if self._within:
            return self._within[name].measure_influences(metric).influences
        influence = Influence.make_empty(self._ranked)
        influence.add_auc(metric, compared, members, 1.0)
        influence.sum_differences()
        return influence.expand_rows(self._ranked)


def _simulate_level(correlations: npt.NDArray[np.float64], alpha: float) -> float:
    """Return the two-sided confidence at the quantile of the maximum of correlated deviates."""
    n = len(correlations)
    # Unlike eigenvectors, Cholesky factors are stable under small changes of a correlation. Rounded
    # to three digits, the level is the same on every machine.
    root = np.linalg.cholesky(correlations + _JITTER * np.eye(n))
    draws = np.random.default_rng(_SEED).standard_normal((_DRAWS, n))
    largest = (draws @ root.T).max(axis=1)
    # Two Monte Carlo errors higher, so that no seed makes the bounds too narrow.
    share = 1 - alpha + 2 * math.sqrt(alpha * (1 - alpha) / _DRAWS)
    error = _NORMAL.cdf(-float(np.quantile(largest, share)))
    digits = 2 - math.floor(math.log10(error))
    return 1 - 2 * math.floor(error * float(10**digits)) / float(10**digits)
