"""Influences of clusters on an AUC, and the effective sample size of clustered rows.

An AUC compares two classes of rows. The influence of a cluster is the sum of its rows'
influences, and the variance is the sum of squared influences over clusters. Three things differ
from independent rows:

- The sample size is the number of clusters with rows of a *compared* class, for the class with
  fewer clusters: toxic mentions from 5 of 200 threads are a sample of 5.
- A few large clusters may determine an AUC. Student's degrees of freedom are the effective number
  of clusters, (sum of n)^2 / (sum of n^2), less 1.
- A large cluster pulls the mean towards itself, so its deviation is too small. The deviation is
  divided by sqrt(1 - its share of the class), which is exact for clusters of one row.

References
----------
Carter, Schnepel and Steigerwald (2017), Review of Economics and Statistics 99 (effective number
of clusters). Bell and McCaffrey (2002), Survey Methodology 28 (large clusters). Obuchowski
(1997), Biometrics 53 (an AUC from clustered rows).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import (
    Auc,
    ClusterError,
    Comparison,
    compare_all_rows,
    compute_leverage_divisors,
)
from bias_metrics._core.covariance import PlacementDeviations
from bias_metrics._core.influence import PAIR_LABELS, Members, RankedRows
from bias_metrics._core.intervals import compute_effective_size, count_independent_rows
from bias_metrics._core.ranks import Floats, SortedClasses, inner_product, sum_squares
from bias_metrics._core.same_cluster import ClassRows, ClusterOrder, Codes, SamePairs
from bias_metrics.metrics import PAIRS

NEGLIGIBLE = 0.05
_TwoClasses = tuple[Floats, Floats]


class ClusterSummary(NamedTuple):
    """Standard error of a number from clustered rows, without the influences."""

    std_error: float
    freedom: float
    n_clusters: int
    is_unclustered: bool


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Influences of the clusters on a number, and the effective sample size."""

    influences: Floats  # (number of clusters,): Influence of each cluster; the sum is about 0
    n_by_class: tuple[int, int]  # Number of clusters with rows of each compared class
    n_effective_clusters: float  # Effective number of clusters, the smaller of the two classes
    # Lower limit of the independent rows in each compared class: its number of clusters or, if rows
    # are weighted, its effective number of clusters.
    min_sizes: tuple[float, float]
    is_unclustered: bool = (
        False  # True for weighted rows without clusters: each row is its own cluster
    )
    same_pairs: SamePairs | None = None  # Pairs within a cluster, if the number is an AUC
    is_counted: npt.NDArray[np.bool_] | None = None  # Clusters with compared rows; None: all

    @property
    def n_clusters(self) -> int:
        """Number of clusters with rows of the compared class that is in fewer clusters."""
        return min(self.n_by_class)

    @cached_property
    def std_error(self) -> float:
        """Standard error that allows for correlation within clusters."""
        return math.sqrt(inner_product(self.influences, self.influences))

    def compute_error(self) -> tuple[float, float]:
        """Return the standard error and its degrees of freedom."""
        return self.std_error, self.freedom

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard error."""
        return (
            self.satterthwaite_freedom
            if self.is_unclustered
            else max(self.n_effective_clusters - 1, 1.0)
        )

    @property
    def satterthwaite_freedom(self) -> float:
        """Satterthwaite's degrees of freedom, from the influences of clusters with rows."""
        return sum_squares(
            [self.influences if self.is_counted is None else self.influences[self.is_counted]]
        )[1]

    @property
    def summary(self) -> ClusterSummary:
        """The standard error and sample size, without the influences."""
        return ClusterSummary(self.std_error, self.freedom, self.n_clusters, self.is_unclustered)

    def scale(self, weight: float) -> ClusterSums:
        """Return the influences on `weight` times the number."""
        return replace(self, influences=weight * self.influences, same_pairs=None)

    def add(self, other: ClusterSums) -> ClusterSums:
        """Return the influences on the sum of two numbers, with the smaller sample size."""
        a, b = self.is_counted, other.is_counted
        return replace(
            self,
            influences=self.influences + other.influences,
            n_by_class=min(self.n_by_class, other.n_by_class, key=min),
            n_effective_clusters=min(self.n_effective_clusters, other.n_effective_clusters),
            same_pairs=None,
            is_counted=None if a is None or b is None else a | b,
        )

    def subtract(self, other: ClusterSums) -> ClusterSums:
        """Return the influences on the difference of two numbers."""
        return self.add(other.scale(-1.0))

    @property
    def cluster_count(self) -> int | None:
        """Number of clusters; None for weighted rows without clusters."""
        return None if self.is_unclustered else self.n_clusters

    def add_cluster_error(self, auc: Auc) -> Auc:
        """Add the standard error that allows for clusters to an AUC that has a standard error."""
        if auc.value is None or auc.std_error is None or self.is_unclustered:
            return auc
        error = ClusterError(
            self.std_error,
            self.freedom,
            self.n_clusters,
            self.count_independent_rows(auc.sizes, auc.std_error),
            auc.value if self.same_pairs is None else self.same_pairs.remove_from(auc.value),
            self.satterthwaite_freedom,
            self.n_effective_clusters,
        )
        return replace(auc, cluster_error=error)

    def count_independent_rows(
        self, sizes: tuple[float, float], row_error: float
    ) -> tuple[float, float]:
        """Return the effective number of independent rows in both classes.

        It is the number of clusters if all pairs are alike, since the design effect is undefined.
        """
        if row_error == 0:
            return self.min_sizes
        effect = (self.std_error / row_error) ** 2
        base, searched = (
            count_independent_rows(n, effect, least)
            for n, least in zip(sizes, self.min_sizes, strict=True)
        )
        return base, searched


@dataclass(frozen=True, eq=False)
class Clustering:
    """The clusters of ranked rows."""

    # By class (True for positives): the cluster of each row, in score order.
    codes: Mapping[bool, Codes]
    n_clusters: int  # Number of clusters
    everyone: SortedClasses
    is_unclustered: bool  # Each row is its own cluster

    @classmethod
    def from_codes(cls, ranked: RankedRows, codes: Codes | None) -> Clustering:
        """Sort the codes 0, 1, ... of rows by score; None makes each row a cluster."""
        in_order, is_unclustered = {}, codes is None
        codes = np.arange(ranked.y_true.size) if codes is None else codes
        for label in (True, False):
            rows = np.flatnonzero(ranked.y_true == label)
            in_order[label] = np.empty(rows.size, dtype=np.intp)
            in_order[label][ranked.position[rows]] = codes[rows]
        n = int(codes.max(initial=-1)) + 1
        return cls(in_order, n, ranked.everyone, is_unclustered)

    def select_members(
        self, members: Members | None, counted: ClassCounts | None = None
    ) -> MemberClusters:
        """Return the clusters of a subgroup and of the rows that it is compared with.

        `counted` caches counts that other rankings of the same rows can reuse.
        """
        return MemberClusters(self, members, {} if counted is None else counted)

    @cached_property
    def class_counts(self) -> dict[bool, _ClusterCounts]:
        """Rows per cluster, by class."""
        return {
            label: _ClusterCounts(self.count_rows(codes)) for label, codes in self.codes.items()
        }

    @cached_property
    def same_cluster(self) -> ClusterOrder:
        """All rows, ordered by cluster and score."""
        return ClusterOrder(self.codes, self.everyone)

    def count_rows(self, codes: Codes, weights: Floats | None = None) -> Floats:
        """Count rows, or sum weights, per cluster."""
        return np.bincount(codes, weights, self.n_clusters).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class _ClusterCounts:
    """Number, or weight, of a class's rows in each cluster."""

    rows: Floats

    @cached_property
    def has_rows(self) -> npt.NDArray[np.bool_]:
        return self.rows > 0

    @cached_property
    def n_clusters(self) -> int:
        return int(np.count_nonzero(self.has_rows))

    @cached_property
    def n_effective(self) -> float:
        return compute_effective_size(self.rows)

    @cached_property
    def divisor(self) -> Floats:
        return compute_leverage_divisors(self.rows)


_Pair = tuple[_ClusterCounts, _ClusterCounts]
# By class, and by membership of the subgroup.
ClassCounts = dict[tuple[bool, bool], _ClusterCounts]


@dataclass(frozen=True, eq=False)
class MemberClusters:
    """The clusters of a subgroup's rows and of the rows that they are compared with.

    Each class is counted once for all metrics.
    """

    clustering: Clustering
    members: Members | None
    """The subgroup; None for the overall AUC of all rows."""
    class_counts: ClassCounts = field(repr=False)

    def get_comparison(self, metric: str) -> Comparison:
        """Return the classes compared by a metric."""
        if self.members is None:
            return compare_all_rows(self.clustering.everyone)
        return self.members.comparisons[metric]

    def measure_sums(self, metric: str) -> ClusterSums:
        """Return the influences of clusters on an AUC; both classes must have two rows.

        Pairs within clusters are counted if they may move the AUC by `NEGLIGIBLE` standard errors.
        """
        comparison = self.get_comparison(metric)
        sums, (y, x) = self._measure_with_rows(metric, comparison)
        if self.clustering.is_unclustered:
            return sums
        n_same, n = inner_product(y.rows, x.rows), float(y.rows.sum()) * float(x.rows.sum())
        if not NEGLIGIBLE * sums.std_error * n < n_same < n:
            return sums
        auc = self.count_wins(metric) / n_same
        return replace(sums, same_pairs=SamePairs(n_same / n, 1 - auc if comparison.flip else auc))

    def measure_influences(self, metric: str) -> ClusterSums:
        """Return the influences without the pairs within clusters, which take longer to count."""
        return self._measure_with_rows(metric, self.get_comparison(metric))[0]

    def _measure_with_rows(self, metric: str, comparison: Comparison) -> tuple[ClusterSums, _Pair]:
        """Return the influences, and the number or weight of rows y and x in each cluster."""
        if comparison.base.weight is not None:
            return self._measure_weighted(metric, comparison)
        count = self.clustering.count_rows
        x_positive, y_positive = PAIR_LABELS[metric]
        deviations = PlacementDeviations.from_comparison(comparison)
        inside = self.members is not None and PAIRS[metric].inside
        x_sums = count(
            self._select_codes(self.members, positive=x_positive), deviations.x_deviations
        )
        in_y = self._select_codes(self.members if inside else None, positive=y_positive)
        y_sums = count(in_y, np.repeat(deviations.y_deviations, np.diff(deviations.bounds)))
        if self.members is not None and not inside:
            excluded = self._select_codes(self.members.excluded, positive=y_positive)
            y_sums -= count(excluded, deviations.expand_excluded())
        rows = (
            self._count_class(y_positive, inside=inside),
            self._count_class(x_positive, inside=True),
        )
        return self._make_sums((y_sums, x_sums), rows, flip=comparison.flip), rows

    def _measure_weighted(self, metric: str, comparison: Comparison) -> tuple[ClusterSums, _Pair]:
        count, members = self.clustering.count_rows, self.members
        x_positive, y_positive = PAIR_LABELS[metric]
        pair = comparison.weighted_pair
        inside = members is not None and PAIRS[metric].inside
        in_x = self._select_codes(members, positive=x_positive)
        in_y = self._select_codes(members if inside else None, positive=y_positive)
        if members is not None and not inside:
            in_y = np.delete(in_y, members.excluded.select_class(positive=y_positive).position)
        classes = list(zip((in_y, in_x), pair.weights, pair.deviations, strict=True))
        y_sums, x_sums = (
            count(codes, weight * deviations) for codes, weight, deviations in classes
        )
        y_rows, x_rows = (_ClusterCounts(count(codes, weight)) for codes, weight, _ in classes)
        sums = self._make_sums((y_sums, x_sums), (y_rows, x_rows), flip=comparison.flip)
        return replace(sums, min_sizes=(y_rows.n_effective, x_rows.n_effective)), (y_rows, x_rows)

    def _make_sums(self, sums: _TwoClasses, rows: _Pair, *, flip: bool) -> ClusterSums:
        """Combine the sums over y and x into influences."""
        y_influences, x_influences = (
            class_sums / counts.divisor for class_sums, counts in zip(sums, rows, strict=True)
        )
        clusters = rows[0].n_clusters, rows[1].n_clusters
        return ClusterSums(
            y_influences - x_influences if flip else x_influences - y_influences,
            clusters,
            min(rows[0].n_effective, rows[1].n_effective),
            clusters,
            is_unclustered=self.clustering.is_unclustered,
            is_counted=rows[0].has_rows | rows[1].has_rows,
        )

    def _count_class(self, positive: bool, *, inside: bool) -> _ClusterCounts:  # noqa: FBT001 - a class
        """Return the rows per cluster of a class in the subgroup, or in its background."""
        whole = self.clustering.class_counts[positive]
        if self.members is None:
            return whole
        if (positive, inside) not in self.class_counts:
            members = self.members if inside else self.members.excluded
            rows = self.clustering.count_rows(self._select_codes(members, positive=positive))
            self.class_counts[positive, inside] = _ClusterCounts(
                rows if inside else whole.rows - rows
            )
        return self.class_counts[positive, inside]

    def count_wins(self, metric: str) -> float:
        """Return the number, or weight, of pairs within clusters in which x scores above y."""
        same_cluster, members = self.clustering.same_cluster, self.members
        x_positive, y_positive = PAIR_LABELS[metric]
        if members is None:
            return same_cluster.count_wins(ClassRows(x_positive), ClassRows(y_positive))
        x = ClassRows(x_positive, members.select_class(positive=x_positive).position)
        removed = members if PAIRS[metric].inside else members.excluded
        alike = removed is members and x_positive == y_positive
        y = (
            x
            if alike
            else ClassRows(y_positive, removed.select_class(positive=y_positive).position)
        )
        wins = same_cluster.count_wins(x, y)
        if not PAIRS[metric].inside:
            wins = same_cluster.count_wins(x, ClassRows(y_positive)) - wins
        return wins

    def _select_codes(self, members: Members | None, *, positive: bool) -> Codes:
        codes = self.clustering.codes[positive]
        return codes if members is None else codes[members.select_class(positive=positive).position]
