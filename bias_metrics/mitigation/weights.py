"""Weights of training rows that make labels independent of identities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, check_choice, check_mask, check_subgroups
from bias_metrics._core.index import require_aligned
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue, make_undefined

SCHEMES = ("prior", "equal")
_ROUNDS = 200
_CLOSE = 1e-10
REST = "none of them"


@dataclass(frozen=True)
class BalancingWeights(Tabular):
    """Weights of training rows, and the shares of toxic rows that result."""

    weights: FloatArray
    """(n,): weights of mean 1."""
    prior: float
    """Share of toxic rows among all rows, without weights."""
    before: dict[str, MetricValue]
    after: dict[str, MetricValue]
    """before, after: share of toxic rows by identity, without and with weights; also for the rows
    without any identity."""
    effective_rows: float
    """Kish effective sample size, (sum of weights)^2 / (sum of squared weights): at most n, and
    lower for more uneven weights."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the weights."""
        return {
            "prior": self.prior,
            "largest_weight": float(self.weights.max()),
            "effective_rows": self.effective_rows,
            "identities": self.rows(),
        }

    def rows(self) -> list[Row]:
        """Return a record per identity."""
        return [
            {
                "identity": name,
                "before": before.value,
                "after": self.after[name].value,
                "reason": before.reason,
            }
            for name, before in self.before.items()
        ]


@require_aligned
def balancing_weights(
    y_true: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    scheme: str = "prior",
    most: float = 20.0,
) -> BalancingWeights:
    """Weight rows so that toxic comments are as frequent with each identity as without it.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`, without `Rows`; both classes must occur.
    scheme : {"prior", "equal"}
        `prior` gives each identity, and the rows without identities, the overall share of toxic
        rows, and keeps its total weight. For identities that do not overlap these are the weights
        of Kamiran and Calders; otherwise they are found by raking. `equal` gives each pair of
        identity and label the same total weight, like the group weights of WILDS; a row with
        several identities gets the mean of its weights.
    most : float
        Largest weight of a row before scaling to mean 1, above 1; the smallest is 1 / most.

    Returns
    -------
    BalancingWeights
        Weights of mean 1. An identity that lacks a class is not balanced, as its share `after`
        shows. The limit `most` and overlaps of identities may keep shares away from the prior.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if a class is missing, the scheme is unknown or `most` is not above
        1.

    References
    ----------
    Kamiran and Calders (2012), Data Preprocessing Techniques for Classification without
    Discrimination. Koh et al. (2021), WILDS. Deming and Stephan (1940) for raking.

    Examples
    --------
    >>> balancing = balancing_weights([1, 1, 1, 0, 1, 0, 0, 0], {"gay": [1, 1, 1, 1, 0, 0, 0, 0]})
    >>> balancing.weights.round(3).tolist()
    [0.667, 0.667, 0.667, 2.0, 2.0, 0.667, 0.667, 0.667]
    """
    labels = check_mask("y_true", y_true)
    identities = check_subgroups(subgroups, labels.size)
    check_choice("scheme", scheme, SCHEMES)
    if not most > 1:
        msg = f"`most` must be above 1; got {most}."
        raise ValueError(msg)
    if labels.all() or not labels.any():
        msg = f"`y_true` must have both classes; all {labels.size} rows are of one."
        raise ValueError(msg)
    groups = dict(identities)
    groups[REST] = ~np.any([*groups.values(), np.zeros(labels.size, bool)], axis=0)
    balanced = [
        mask for mask in groups.values() if (mask & labels).any() and (mask & ~labels).any()
    ]
    compute = _rake_weights if scheme == "prior" else _equalise_cells
    weights = compute(labels, balanced, most)
    weights = weights / weights.mean()
    unweighted = np.ones(labels.size)
    return BalancingWeights(
        weights,
        float(labels.mean()),
        {name: _measure_share(labels, mask, unweighted) for name, mask in groups.items()},
        {name: _measure_share(labels, mask, weights) for name, mask in groups.items()},
        float(weights.sum() ** 2 / (weights**2).sum()),
    )


def _rake_weights(
    labels: npt.NDArray[np.bool_], groups: list[npt.NDArray[np.bool_]], most: float
) -> FloatArray:
    """Scale the groups' cells in turn until all have the prior and their own total weight."""
    prior = float(labels.mean())
    weights = np.ones(labels.size)
    cells = [(mask & labels, mask & ~labels, float(mask.sum())) for mask in groups]
    for _ in range(_ROUNDS):
        before = weights.copy()
        for positive, negative, total in cells:
            weights[positive] *= prior * total / weights[positive].sum()
            weights[negative] *= (1 - prior) * total / weights[negative].sum()
        np.clip(weights, 1 / most, most, out=weights)
        if np.abs(weights - before).max() < _CLOSE:
            break
    return weights


def _equalise_cells(
    labels: npt.NDArray[np.bool_], groups: list[npt.NDArray[np.bool_]], most: float
) -> FloatArray:
    """Give all cells of group and label the same total weight; rows get the mean of their cells."""
    total, count = np.zeros(labels.size), np.zeros(labels.size)
    for mask in groups:
        for cell in (mask & labels, mask & ~labels):
            total[cell] += labels.size / (2 * len(groups)) / cell.sum()
            count[cell] += 1
    weights = np.where(count > 0, total / np.maximum(count, 1), 1.0)
    return np.clip(weights, 1 / most, most)


def _measure_share(
    labels: npt.NDArray[np.bool_], mask: npt.NDArray[np.bool_], weights: FloatArray
) -> MetricValue:
    if not mask.any():
        return make_undefined("no rows")
    return MetricValue(float(weights[mask & labels].sum() / weights[mask].sum()))
