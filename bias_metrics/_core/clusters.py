"""Rows that come in clusters: how far each cluster moves one AUC, and what its rows are worth.

An AUC compares two classes of rows. The influence of a cluster is the sum of its rows'
influences, and the variance is the sum over clusters of their squares. Three things differ from
independent rows:

- What counts is the number of clusters that hold rows of a *compared* class, of the class with
  fewer: toxic mentions from 5 of 200 threads are 5 pieces of evidence.
- A few large clusters determine an AUC. Student's degrees of freedom are those of the effective
  number of clusters, (sum of n)^2 / (sum of n^2), less 1.
- A large cluster pulls the mean towards itself, so its own deviation is too small. It is divided
  by sqrt(1 - its share of the class), which is exact for clusters of one row.

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
    ClusteredError,
    Comparison,
    overall_comparison,
    unshrinking,
)
from bias_metrics._core.covariance import Deviations
from bias_metrics._core.influence import CLASSES, Members, RankedRows
from bias_metrics._core.intervals import effective_number, independent_rows
from bias_metrics._core.ranks import Floats, SortedClasses, inner, squares_of
from bias_metrics._core.same_cluster import ClassRows, Codes, SameCluster, SamePairs
from bias_metrics.metrics import PAIRS

Both = tuple[Floats, Floats]


class ClusterTotal(NamedTuple):
    """The standard error of a number of clustered rows, and how much evidence they are."""

    std_error: float
    freedom: float
    n_clusters: int
    alone: bool


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """How far each cluster moves one number, and how much evidence the clusters are."""

    each: Floats  # (number of clusters,): The clusters' influences, which sum to about 0
    clusters: tuple[int, int]  # Clusters with rows of each compared class
    effective: float  # The effective number of clusters, of the class with the smaller one
    # How many independent rows each compared class is worth at least: its clusters or, if rows have
    # weights, the effective number of these.
    least: tuple[float, float]
    alone: bool = False  # Whether each row is a cluster of its own: weighted rows without clusters
    same: SamePairs | None = None  # The pairs of one cluster, if the number is one AUC
    counted: npt.NDArray[np.bool_] | None = None  # Which clusters have rows behind it; None: all

    @property
    def n_clusters(self) -> int:
        """Clusters with rows of a compared class, of the class with fewer."""
        return min(self.clusters)

    @cached_property
    def std_error(self) -> float:
        """The standard error that allows for correlation within clusters."""
        return math.sqrt(inner(self.each, self.each))

    def error(self) -> tuple[float, float]:
        """Return the standard error and its degrees of freedom."""
        return self.std_error, self.freedom

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard error."""
        return self.freedom_by_fourths if self.alone else max(self.effective - 1, 1.0)

    @property
    def freedom_by_fourths(self) -> float:
        """Degrees of freedom by the fourth powers of the influences of clusters with rows."""
        return squares_of([self.each if self.counted is None else self.each[self.counted]])[1]

    @property
    def total(self) -> ClusterTotal:
        """What is kept if the influences are not."""
        return ClusterTotal(self.std_error, self.freedom, self.n_clusters, self.alone)

    def across(self, auc: float) -> float:
        """Return the AUC of pairs from different clusters, given that of all pairs."""
        return auc if self.same is None else self.same.removed_from(auc)

    def times(self, weight: float) -> ClusterSums:
        """Return the influences on `weight` times the number."""
        return replace(self, each=weight * self.each, same=None)

    def plus(self, other: ClusterSums) -> ClusterSums:
        """Return the influences on the sum of two numbers, with the evidence of the weaker."""
        fewer = min(self.clusters, other.clusters, key=min)
        each, effective = self.each + other.each, min(self.effective, other.effective)
        a, b = self.counted, other.counted
        counted = None if a is None or b is None else a | b
        found = replace(self, each=each, clusters=fewer, effective=effective, same=None)
        return replace(found, counted=counted)

    def minus(self, other: ClusterSums) -> ClusterSums:
        """Return the influences on the difference of two numbers."""
        return self.plus(other.times(-1.0))

    @property
    def in_clusters(self) -> int | None:
        """The same as `n_clusters`; None if each row is alone."""
        return None if self.alone else self.n_clusters

    def clustered(self, auc: Auc) -> Auc:
        """Return an AUC as measured, which has a standard error, that allows for the clusters."""
        if auc.value is None or auc.std_error is None or self.alone:
            return auc
        error = ClusteredError(
            self.std_error,
            self.freedom,
            self.n_clusters,
            self.worth(auc.sizes, auc.std_error),
            self.across(auc.value),
            self.freedom_by_fourths,
            self.effective,
        )
        return replace(auc, clustered=error)

    def worth(self, sizes: tuple[float, float], row_error: float) -> tuple[float, float]:
        """Return how many independent rows two classes are worth.

        No more than clusters if all pairs are alike, so that there is no variance to compare.
        """
        if row_error == 0:
            return self.least
        effect = (self.std_error / row_error) ** 2
        base, searched = (
            independent_rows(n, effect, least) for n, least in zip(sizes, self.least, strict=True)
        )
        return base, searched


@dataclass(frozen=True, eq=False)
class Clustering:
    """The clusters of ranked rows."""

    # By class (True for the positives): the cluster of each row, in score order.
    codes: Mapping[bool, Codes]
    n: int  # Number of clusters
    everyone: SortedClasses
    alone: bool  # Whether each row is a cluster of its own

    @property
    def overall(self) -> Comparison:
        """What the overall AUC compares."""
        return overall_comparison(self.everyone)

    @classmethod
    def of(cls, ranked: RankedRows, codes: Codes | None) -> Clustering:
        """Put codes 0, 1, ... of the rows in score order; None: each row is a cluster."""
        in_order, alone = {}, codes is None
        codes = np.arange(ranked.y_true.size) if codes is None else codes
        for label in (True, False):
            rows = np.flatnonzero(ranked.y_true == label)
            in_order[label] = np.empty(rows.size, dtype=np.intp)
            in_order[label][ranked.position[rows]] = codes[rows]
        n = int(codes.max(initial=-1)) + 1
        return cls(in_order, n, ranked.everyone, alone)

    def within(self, members: Members | None, counted: RowsOfClasses | None = None) -> Within:
        """Return the clusters of a subgroup, and of those that it is compared with.

        What is counted goes to `counted`, for other rankings of the same rows.
        """
        return Within(self, members, {} if counted is None else counted)

    @cached_property
    def rows(self) -> dict[bool, _InClusters]:
        """The rows of each class."""
        return {label: _InClusters(self.count(codes)) for label, codes in self.codes.items()}

    @cached_property
    def same_cluster(self) -> SameCluster:
        """All rows, ordered by cluster and score."""
        return SameCluster(self.codes, self.everyone)

    def count(self, codes: Codes, weights: Floats | None = None) -> Floats:
        """Count rows, or sum weights, by cluster."""
        return np.bincount(codes, weights, self.n).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class _InClusters:
    """How many rows of one class each cluster has, or their weight."""

    rows: Floats

    @cached_property
    def held(self) -> npt.NDArray[np.bool_]:
        return self.rows > 0

    @cached_property
    def n_clusters(self) -> int:
        return int(np.count_nonzero(self.held))

    @cached_property
    def effective(self) -> float:
        return effective_number(self.rows)

    @cached_property
    def divisor(self) -> Floats:
        return unshrinking(self.rows)


_Pair = tuple[_InClusters, _InClusters]
# By class, and by whether they are the subgroup's.
RowsOfClasses = dict[tuple[bool, bool], _InClusters]


@dataclass(frozen=True, eq=False)
class Within:
    """The clusters of one subgroup's rows, and of those that they are compared with.

    Each class is counted once, for all metrics.
    """

    clustering: Clustering
    members: Members | None
    """The subgroup; None for the overall AUC of all rows."""
    counted: RowsOfClasses = field(repr=False)
    """What is counted already."""

    def compared(self, metric: str) -> Comparison:
        """Return what a metric compares."""
        return self.clustering.overall if self.members is None else self.members.compared[metric]

    def sums(self, metric: str) -> ClusterSums:
        """Return the clusters' influences on one AUC; both classes must have two rows."""
        comparison = self.compared(metric)
        found, rows = self._moves(metric, comparison)
        same = self._same_pairs(metric, comparison, rows, found.std_error)
        return replace(found, same=same)

    def moves(self, metric: str) -> ClusterSums:
        """Return the same, without looking at the pairs of one cluster."""
        return self._moves(metric, self.compared(metric))[0]

    def _moves(self, metric: str, comparison: Comparison) -> tuple[ClusterSums, _Pair]:
        """Return the influences, and the rows, or weight, of y and x in each cluster."""
        if comparison.base.weight is not None:
            return self._weighted_moves(metric, comparison)
        count = self.clustering.count
        x_positive, y_positive = CLASSES[metric]
        found = Deviations.of(comparison)
        inside = self.members is not None and PAIRS[metric].inside
        x_sums = count(self._codes_of(self.members, positive=x_positive), found.of_x)
        in_y = self._codes_of(self.members if inside else None, positive=y_positive)
        y_sums = count(in_y, np.repeat(found.of_y, np.diff(found.bounds)))
        if self.members is not None and not inside:
            excluded = self._codes_of(self.members.excluded, positive=y_positive)
            y_sums -= count(excluded, found.of_excluded())
        rows = self._rows(y_positive, inside=inside), self._rows(x_positive, inside=True)
        return self._of((y_sums, x_sums), rows, flip=comparison.flip), rows

    def _weighted_moves(self, metric: str, comparison: Comparison) -> tuple[ClusterSums, _Pair]:
        count, members = self.clustering.count, self.members
        x_positive, y_positive = CLASSES[metric]
        pair = comparison.weighted
        inside = members is not None and PAIRS[metric].inside
        in_x = self._codes_of(members, positive=x_positive)
        in_y = self._codes_of(members if inside else None, positive=y_positive)
        if members is not None and not inside:
            in_y = np.delete(in_y, members.excluded.of_class(positive=y_positive).position)
        known = list(zip((in_y, in_x), pair.weights, pair.deviations, strict=True))
        y_sums, x_sums = (count(codes, weight * of) for codes, weight, of in known)
        y_rows, x_rows = (_InClusters(count(codes, weight)) for codes, weight, _ in known)
        found = self._of((y_sums, x_sums), (y_rows, x_rows), flip=comparison.flip)
        return replace(found, least=(y_rows.effective, x_rows.effective)), (y_rows, x_rows)

    def _of(self, sums: Both, rows: _Pair, *, flip: bool) -> ClusterSums:
        """Return the influences, given those on y and x and the rows, or weight, of each."""
        of_y, of_x = (one / held.divisor for one, held in zip(sums, rows, strict=True))
        clusters = rows[0].n_clusters, rows[1].n_clusters
        return ClusterSums(
            of_y - of_x if flip else of_x - of_y,
            clusters,
            min(rows[0].effective, rows[1].effective),
            clusters,
            alone=self.clustering.alone,
            counted=rows[0].held | rows[1].held,
        )

    def _rows(self, positive: bool, *, inside: bool) -> _InClusters:  # noqa: FBT001 - a class
        """Return the rows of a class: the subgroup's, or its background's."""
        whole = self.clustering.rows[positive]
        if self.members is None:
            return whole
        if (positive, inside) not in self.counted:
            members = self.members if inside else self.members.excluded
            rows = self.clustering.count(self._codes_of(members, positive=positive))
            self.counted[positive, inside] = _InClusters(rows if inside else whole.rows - rows)
        return self.counted[positive, inside]

    def _same_pairs(
        self, metric: str, comparison: Comparison, rows: _Pair, std_error: float
    ) -> SamePairs | None:
        """Return the pairs of one cluster, given the rows, or weight, of y and x in each.

        None if they are too few to move the AUC by more than `NEGLIGIBLE` standard errors.
        """
        if self.clustering.alone:
            return None
        y_rows, x_rows = rows[0].rows, rows[1].rows
        pairs, n = inner(y_rows, x_rows), float(y_rows.sum()) * float(x_rows.sum())
        if not SamePairs.matter(pairs, n, std_error):
            return None
        return SamePairs.of(self.wins(metric), pairs, n, flip=comparison.flip)

    def wins(self, metric: str) -> float:
        """Return the number, or weight, of pairs of one cluster in which x is above y."""
        same_cluster, members = self.clustering.same_cluster, self.members
        x_positive, y_positive = CLASSES[metric]
        if members is None:
            return same_cluster.wins(ClassRows(x_positive), ClassRows(y_positive))
        x = ClassRows(x_positive, members.of_class(positive=x_positive).position)
        removed = members if PAIRS[metric].inside else members.excluded
        alike = removed is members and x_positive == y_positive
        y = x if alike else ClassRows(y_positive, removed.of_class(positive=y_positive).position)
        wins = same_cluster.wins(x, y)
        if not PAIRS[metric].inside:
            wins = same_cluster.wins(x, ClassRows(y_positive)) - wins
        return wins

    def _codes_of(self, members: Members | None, *, positive: bool) -> Codes:
        codes = self.clustering.codes[positive]
        return codes if members is None else codes[members.of_class(positive=positive).position]
