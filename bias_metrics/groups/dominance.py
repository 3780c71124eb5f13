"""Clusters, or rows of large weight, that dominate the numbers of a subgroup.

An interval assumes that the sample represents the variation of the population. This fails if a
single cluster contains much of a class, or if a few rows have much of its weight. Another sample
might then give another number, and the interval cannot reflect that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.intervals import MIN_CLUSTERS
from bias_metrics._core.wording import format_count
from bias_metrics.rows import Places, Rows

LARGEST, FEW, HEAVY, NEGLIGIBLE = 0.2, 10, 4.0, 0.05
"""A cluster dominates if it has at least `LARGEST` of a class. A row is heavy if it weighs at least
half of the largest weight. Heavy rows dominate a class if all of them have at least `NEGLIGIBLE` of
the total weight, fewer than `FEW` are in the class, and the largest weight is at least `HEAVY`
times its median weight."""
LABELS = ("negative", "positive")


@dataclass(frozen=True)
class DominantUnits:
    """A cluster, or a few rows, that dominate the numbers of a class."""

    subgroup: str | None
    """Name of the subgroup; None for all rows."""
    label: str
    """`positive` or `negative`."""
    n: int
    """Number of the class's rows in the largest cluster, or number of heavy rows."""
    share: float
    """Share of the class's weight."""
    weight: float | None = None
    """Least weight of heavy rows; None for a cluster."""

    def __str__(self) -> str:
        if self.weight is None:
            return f"one cluster has {self.share:.0%} ({format_count(self.n, 'row')})"
        rows = "no row has" if not self.n else format_count(self.n, "row has", "rows have")
        share = f" ({self.share:.0%} of its weight)" if self.n else ""
        return f"{rows} a weight of {self.weight:.3g} or more{share}"


def find_dominant_units(rows: Rows) -> list[DominantUnits]:
    """Find the clusters and rows that dominate the numbers of all rows, or of a subgroup.

    All rows come first. A class in fewer than 20 clusters is left out, since its numbers have no
    interval. Frequencies do not count as weights.

    Examples
    --------
    >>> threads = [0] * 10 + list(range(1, 20))
    >>> rows = Rows([1] * 29, {"gay": [1] * 29}, clusters=threads)
    >>> [(units.subgroup, str(units)) for units in find_dominant_units(rows)]
    [(None, 'one cluster has 34% (10 rows)'), ('gay', 'one cluster has 34% (10 rows)')]
    """
    counted = rows.select_counted()[0]
    weights, clusters = counted.sample_weight, counted.clusters
    classes = [np.flatnonzero(counted.y_true == positive) for positive in (False, True)]
    heavy: float | None = None
    # If weights depend only on the label, or heavy rows have a negligible share, none are heavy.
    if weights is not None and any(np.ptp(weights[places]) for places in classes if places.size):
        limit = float(weights.max()) / 2
        if weights[weights >= limit].sum() / weights.sum() >= NEGLIGIBLE:
            heavy = limit
    dominant = []
    for subgroup in (None, *counted.subgroups):
        member = None if subgroup is None else counted.subgroups[subgroup]
        for label, class_places in zip(LABELS, classes, strict=True):
            places = class_places if member is None else class_places[member[class_places]]
            if clusters is not None and (
                largest := _find_largest_cluster(clusters, weights, places)
            ):
                dominant.append(DominantUnits(subgroup, label, *largest))
            if weights is None or heavy is None or not places.size:
                continue
            own = weights[places]
            n = int(np.count_nonzero(own >= heavy))
            if n < FEW and HEAVY * float(np.median(own)) <= 2 * heavy:
                share = float(own[own >= heavy].sum() / own.sum())
                dominant.append(DominantUnits(subgroup, label, n, share, heavy))
    return dominant


def _find_largest_cluster(
    clusters: Places, weights: FloatArray | None, places: Places
) -> tuple[int, float] | None:
    """Return the number and share of rows in a class's largest cluster, if it dominates."""
    sizes = np.bincount(clusters[places])
    if np.count_nonzero(sizes) < MIN_CLUSTERS:
        return None
    weight_by_cluster = sizes if weights is None else np.bincount(clusters[places], weights[places])
    largest = int(weight_by_cluster.argmax())
    share = float(weight_by_cluster[largest] / weight_by_cluster.sum())
    return (int(sizes[largest]), share) if share >= LARGEST else None
