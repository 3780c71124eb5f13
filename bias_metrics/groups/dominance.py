"""Clusters, or rows of large weight, that the numbers of a subgroup depend on heavily.

An interval trusts that what was drawn shows how far the unseen may be. It cannot, if one cluster
has much of a class, or if few drawn rows stand for much of it: had others been drawn, the number
might be another, and nothing in the sample says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.counted import counted
from bias_metrics._core.intervals import MIN_CLUSTERS
from bias_metrics.rows import Places, Rows

LARGEST, FEW, HEAVY, NEGLIGIBLE = 0.2, 10, 4.0, 0.05
"""A cluster dominates with such a share of a class. Rows do if fewer than so many of a class weigh
half of the largest weight or more, though this is so many times what its rows usually weigh, and
such rows have such a share of all weight."""
CLASSES = ("negative", "positive")


@dataclass(frozen=True)
class DominantUnits:
    """One cluster, or few rows, that the numbers of a class depend on heavily."""

    subgroup: str | None
    """None: of all rows."""
    label: str
    """`positive` or `negative`."""
    n: int
    """Rows of the class in the largest cluster, or rows of large weight."""
    share: float
    """Their share of the class's weight."""
    weight: float | None = None
    """Which weight, or more, the rows have; None for a cluster."""

    def __str__(self) -> str:
        if self.weight is None:
            return f"one cluster has {self.share:.0%} ({counted(self.n, 'row')})"
        rows = "no row has" if not self.n else counted(self.n, "row has", "rows have")
        share = f" ({self.share:.0%} of its weight)" if self.n else ""
        return f"{rows} a weight of {self.weight:.3g} or more{share}"


def dominant_units(rows: Rows) -> list[DominantUnits]:
    """Return the clusters and rows that numbers depend on heavily, of all rows and by subgroup.

    Parameters
    ----------
    rows : Rows
        Labels, subgroups, clusters and weights of n rows. Frequencies are no large weights.

    Returns
    -------
    list of DominantUnits
        First those of all rows. Of a class in fewer than 20 clusters nothing is said, since no
        number of it has an interval.

    Examples
    --------
    >>> threads = [0] * 10 + list(range(1, 20))
    >>> rows = Rows([1] * 29, {"gay": [1] * 29}, clusters=threads)
    >>> [(one.subgroup, str(one)) for one in dominant_units(rows)]
    [(None, 'one cluster has 34% (10 rows)'), ('gay', 'one cluster has 34% (10 rows)')]
    """
    return list(_dominant(rows.counted()[0]))


def _dominant(rows: Rows) -> Iterator[DominantUnits]:
    weights, clusters = rows.sample_weight, rows.clusters
    classes = [np.flatnonzero(rows.y_true == positive) for positive in (False, True)]
    heavy = None if weights is None else _heavy(weights, classes)
    for subgroup in (None, *rows.subgroups):
        member = None if subgroup is None else rows.subgroups[subgroup]
        for label, of_class in zip(CLASSES, classes, strict=True):
            places = of_class if member is None else of_class[member[of_class]]
            if clusters is not None and (found := _largest(clusters, weights, places)):
                yield DominantUnits(subgroup, label, *found)
            if weights is None or heavy is None or not places.size:
                continue
            if few := _few(weights[places], heavy):
                yield DominantUnits(subgroup, label, *few, heavy)


def _largest(
    clusters: Places, weights: FloatArray | None, places: Places
) -> tuple[int, float] | None:
    """Return rows and share of a class's largest cluster, if it dominates."""
    sizes = np.bincount(clusters[places])
    if np.count_nonzero(sizes) < MIN_CLUSTERS:
        return None
    worth = sizes if weights is None else np.bincount(clusters[places], weights[places])
    largest = int(worth.argmax())
    share = float(worth[largest] / worth.sum())
    return (int(sizes[largest]), share) if share >= LARGEST else None


def _heavy(weights: FloatArray, classes: list[Places]) -> float | None:
    """Return the weight from which rows are heavy; None if such rows do not matter.

    Nor do they if all rows of a class weigh the same, as where only the label decided.
    """
    if all(np.ptp(weights[of_class]) == 0 for of_class in classes if of_class.size):
        return None
    limit = float(weights.max()) / 2
    share = weights[weights >= limit].sum() / weights.sum()
    return limit if share >= NEGLIGIBLE else None


def _few(weights: FloatArray, heavy: float) -> tuple[int, float] | None:
    """Return number and share of a class's heavy rows, if they are few, and others lighter."""
    above = weights >= heavy
    n = int(np.count_nonzero(above))
    if n >= FEW or HEAVY * float(np.median(weights)) > 2 * heavy:
        return None
    return n, float(weights[above].sum() / weights.sum())
