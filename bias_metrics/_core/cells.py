r"""The five Borkan metrics of a subgroup, from shared pair counts.

Each metric is P(x > y), or P(y > x), for a class x of the subgroup and a class y of the
subgroup or the background. Let D be all rows, Dg the subgroup's rows and D \\ Dg the
background. The insertion points of x in D+ \\ Dg+ are those in D+ minus those in Dg+. So only
the subgroup's scores are searched, and the background is never sorted. In the same way, a
background without identities is D minus the rows of all subgroups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.intervals import (
    auc_interval,
    compute_effective_size,
    compute_unseen_reach,
    explain_few_clusters,
    student_quantile,
)
from bias_metrics._core.ranks import (
    Floats,
    Placements,
    Runs,
    SortedClasses,
    SortedScores,
    count_doubled_wins,
    delong_variance,
    find_runs,
    inner_product,
    place_runs,
    sum_squares,
)
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.metrics import CLASSES, METRICS, PAIRS, SUBGROUP_METRICS, find_subgroup_metric


@dataclass(frozen=True)
class ClusterError:
    """Inputs of the interval of an AUC from clustered rows."""

    std_error: float  # The standard error that allows for correlation within clusters
    freedom: float  # Its degrees of freedom
    n_clusters: int  # Clusters with rows of the compared class that is in fewer clusters
    sizes: tuple[float, float]  # Effective number of independent rows in each class
    cross_cluster_auc: float  # The AUC of pairs from different clusters
    # Satterthwaite's degrees of freedom, from the clusters' influences
    satterthwaite_freedom: float = 0.0
    n_effective_clusters: float = 0.0  # Effective number of clusters of that class


@dataclass(frozen=True)
class Auc:
    """A measured AUC or AEG; intervals at any confidence are computed without the rows."""

    value: float | None  # Share of pairs in the right order
    reason: str | None = None  # Why the value, or its standard error, is undefined
    std_error: float | None = None  # The standard error for independent rows
    freedom: float = math.inf  # Its degrees of freedom
    sizes: tuple[float, float] = (0.0, 0.0)  # Effective number of rows in each class
    centre: float = 0.0  # Subtracted from the value: 1/2 for an AEG
    cluster_error: ClusterError | None = None  # Set if rows are clustered
    n_tied: float = math.inf  # Size of the smaller class whose rows nearly all share a score

    @property
    def n_drawn(self) -> float:
        """Effective number of rows, or clusters, of the smaller class."""
        if self.cluster_error is None:
            return min(self.sizes)
        return min(self.cluster_error.n_clusters, *self.cluster_error.sizes)

    def compute_value(self, confidence: float | None) -> MetricValue:
        """Return the number with its interval, or without an interval if `confidence` is None."""
        value = self.compute_row_value(confidence)
        clustered = self.cluster_error
        if clustered is None or confidence is None or self.value is None:
            return value
        reason = explain_few_clusters(clustered.n_clusters)
        low = high = None
        if reason is None:
            z, n = student_quantile(confidence, clustered.freedom), clustered.n_clusters
            freedom, effective = clustered.satterthwaite_freedom, clustered.n_effective_clusters
            inputs = clustered.cross_cluster_auc, clustered.std_error, *clustered.sizes
            low, high = auc_interval(*inputs, z, freedom=freedom, n_clusters=n, effective=effective)
            low, high = self._widen_for_ties(low, high, clustered.std_error, n, confidence)
            low, high = min(low, self.value) - self.centre, max(high, self.value) - self.centre
        return replace(
            value,
            reason=reason,
            std_error=clustered.std_error,
            low=low,
            high=high,
            row_std_error=self.std_error,
            n_clusters=clustered.n_clusters,
        )

    def compute_row_value(self, confidence: float | None) -> MetricValue:
        """Return the number with an interval that ignores clusters."""
        if self.value is None:
            return make_undefined(self.reason or "")
        value = self.value - self.centre
        if confidence is None:
            return MetricValue(value)
        if self.std_error is None:
            return MetricValue(value, self.reason)
        z = student_quantile(confidence)
        low, high = auc_interval(self.value, self.std_error, *self.sizes, z, freedom=self.freedom)
        low, high = self._widen_for_ties(low, high, self.std_error, math.inf, confidence)
        return MetricValue(
            value, std_error=self.std_error, low=low - self.centre, high=high - self.centre
        )

    def _widen_for_ties(
        self, low: float, high: float, std_error: float, most: float, confidence: float
    ) -> tuple[float, float]:
        """Widen an interval for undrawn rows whose score differs from a tie.

        If all rows of a class share a score, their placements do not vary in the sample. A row
        with another score shifts its placement by 1/2 if scores are binary. The shift is limited
        by the distance to 0 or 1.
        """
        if self.n_tied == math.inf:
            return low, high
        assert self.value is not None  # noqa: S101
        n = min(self.n_tied, most)
        down, up = (
            compute_unseen_reach(min(room, 0.5), std_error, n, confidence)
            for room in (self.value, 1 - self.value)
        )
        return max(min(low, self.value - down), 0.0), min(max(high, self.value + up), 1.0)


@dataclass(frozen=True, eq=False)
class Comparison:
    """P(x > y), or P(y > x), for a class x of the subgroup and another class y."""

    base: SortedScores  # The class y, including the rows of `excluded`
    excluded: SortedScores | None  # Rows to remove from `base`
    searched: SortedScores  # The class x
    base_name: str  # base_name, searched_name: names of the classes in the reason if one is empty
    searched_name: str
    flip: bool = False  # Whether the metric is P(y > x)

    @property
    def n_base(self) -> int:
        """Number of rows y."""
        return self.base.n - (0 if self.excluded is None else self.excluded.n)

    @property
    def sizes(self) -> tuple[float, float]:
        """Effective number of rows y and x."""
        is_weighted = self.base.weight is not None
        return self.weighted_pair.sizes if is_weighted else (self.n_base, self.searched.n)

    @cached_property
    def runs(self) -> Runs:
        """The distinct scores x."""
        return find_runs(self.searched.scores)

    @cached_property
    def base_placements(self) -> Placements:
        """Placements of x among y and the rows to remove."""
        return place_runs(self.base.scores, self.runs)

    @cached_property
    def placements(self) -> Placements:
        """Placements of x among y."""
        placed = self.base_placements
        if self.excluded is None:
            return placed
        # The scores are placed in their own class without a search.
        starts = self.runs.starts
        excluded = Placements(starts[:-1], starts[1:], self.runs.n)
        if self.excluded is not self.searched:
            excluded = place_runs(self.excluded.scores, self.runs)
        return Placements(
            placed.left - excluded.left, placed.right - excluded.right, placed.n - excluded.n
        )

    @property
    def weighted_pair(self) -> WeightedPair:
        """The weighted rows of y and x; not cached, since they need as much memory as all rows."""
        base = self.base if self.excluded is None else self.base.remove_rows(self.excluded)
        return WeightedPair(base, self.searched)

    def measure_auc(self, *, centre: float = 0.0, uncertain: bool = True) -> Auc:
        """Return the AUC minus `centre`; if `uncertain`, with the inputs of an interval."""
        sizes = {self.base_name: self.n_base, self.searched_name: self.searched.n}
        if lack := describe_empty_classes(**sizes):
            return Auc(None, lack)
        if self.base.weight is None:
            return measure_placed_auc(
                self.runs, self.placements, flip=self.flip, centre=centre, uncertain=uncertain
            )
        pair = self.weighted_pair
        value = pair.compute_auc(flip=self.flip)
        if uncertain and min(pair.weights[0].size, pair.weights[1].size) < LEAST_EFFECTIVE:
            lack = "fewer than 2 rows in a class"
        elif uncertain and min(pair.sizes) < LEAST_EFFECTIVE - _ROUNDING:
            lack = "weights leave fewer than 2 effective rows in a class"
        if lack or not uncertain:
            return Auc(value, lack, centre=centre)
        std_error, freedom = pair.error
        counts = (find_runs(rows.scores).counts for rows in (pair.y, pair.x))
        tied = count_tied_rows(*zip(counts, pair.sizes, strict=True))
        return Auc(value, None, std_error, freedom, pair.sizes, centre, n_tied=tied)


def measure_placed_auc(
    runs: Runs, placed: Placements, *, flip: bool, centre: float = 0.0, uncertain: bool = True
) -> Auc:
    """Measure P(x > y), or P(y > x), from placements; each class must have a row."""
    pairs = placed.n * runs.n
    wins = int(runs.counts @ (placed.left + placed.right))
    value = (2 * pairs - wins if flip else wins) / (2 * pairs)
    if not uncertain:
        return Auc(value, centre=centre)
    if min(placed.n, runs.n) < _LEAST:
        return Auc(value, "fewer than 2 rows in a class", centre=centre)
    variance, freedom = delong_variance(placed, runs)
    tied = count_tied_rows((placed.right - placed.left, placed.n), (runs.counts, runs.n))
    sizes = placed.n, runs.n
    return Auc(value, None, math.sqrt(variance), freedom, sizes, centre, n_tied=tied)


def count_tied_rows(*classes: tuple[npt.NDArray[np.integer[Any]], float]) -> float:
    """Return the size of the smallest class in which nearly all rows share a score.

    The result is infinite if no class is tied like that. Each class is given as the number of rows
    per score, and its effective number of rows.
    """
    smallest = math.inf
    for counts, n in classes:
        n_untied = int(counts.sum()) - int(counts.max(initial=0))
        n_largest = int(counts.max(initial=0))
        if n_untied < FEW_UNTIED and n_untied < n_largest:
            smallest = min(smallest, n)
    return smallest


def compare_classes(
    everyone: SortedClasses, subgroup: SortedClasses, excluded: SortedClasses | None = None
) -> dict[str, Comparison]:
    """Return the classes compared by each of the five metrics.

    The background is all rows except `excluded`, by default the subgroup.
    """
    compared = {}
    for name in SUBGROUP_METRICS:
        pair = PAIRS[name]
        rows, side = (subgroup, "subgroup") if pair.inside else (everyone, "background")
        y_positive = pair.y == "positive"
        compared[name] = Comparison(
            rows.select_class(positive=y_positive),
            None if pair.inside else (excluded or subgroup).select_class(positive=y_positive),
            subgroup.select_class(positive=pair.x == "positive"),
            f"{side}_{pair.y}s",
            f"subgroup_{pair.x}s",
            flip=pair.flip,
        )
    return compared


def count_effective_rows(compared: Mapping[str, Comparison]) -> dict[str, float] | None:
    """Return the effective number of rows in each compared class; None without weights."""
    sizes = {}
    for name in CLASSES:
        comparison = compared[find_subgroup_metric(name, name)]
        if comparison.base.weight is None:
            return None
        sizes[f"background_{name}"], sizes[name] = comparison.sizes
    return sizes


def compare_all_rows(everyone: SortedClasses) -> Comparison:
    """Return the classes compared by the overall AUC."""
    return Comparison(everyone.negative, None, everyone.positive, "negatives", "positives")


def measure_cells(compared: Mapping[str, Comparison], *, uncertain: bool = True) -> dict[str, Auc]:
    """Measure the metrics of a subgroup; an undefined metric has a reason."""
    return {
        name: comparison.measure_auc(centre=METRICS[name].centre, uncertain=uncertain)
        for name, comparison in compared.items()
    }


def measure_pair_auc(
    negative: SortedScores, positive: SortedScores, *, uncertain: bool = True
) -> Auc:
    """Measure AUC(negative, positive) = P(positive > negative) + P(equal) / 2."""
    # Searching the smaller class in the larger class takes fewer searches.
    if positive.n <= negative.n:
        comparison = Comparison(negative, None, positive, "negatives", "positives")
        return comparison.measure_auc(uncertain=uncertain)
    comparison = Comparison(positive, None, negative, "positives", "negatives", flip=True)
    auc = comparison.measure_auc(uncertain=uncertain)
    return replace(auc, sizes=auc.sizes[::-1])


def describe_empty_classes(**counts: int) -> str | None:
    """Return which counts are 0, such as "no background positives"; None if all are positive."""
    empty = [name.replace("_", " ") for name, count in counts.items() if count == 0]
    return f"no {' and no '.join(empty)}" if empty else None


# ---- Weighted rows: an AUC, its standard error by linearisation, and effective sample sizes.
#
# A sampling weight is the number of rows of the population that a row represents. The weighted AUC
# is a ratio of sums. The influence of a row is its weight times the distance of its placement from
# the weighted mean. Background rows are selected, not computed by subtraction: that would lose
# digits if a subgroup outweighs its background.
#
# References
# ----------
# Binder (1983), International Statistical Review 51 (linearisation). Kish (1965), Survey Sampling,
# section 11.7 (effective sample size)


FEW_UNTIED = 10  # the share of untied rows is reliable from this number of them
LEAST_EFFECTIVE = 2.0
_LEAST = 2
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class WeightedPair:
    """P(x > y) over two classes of weighted rows."""

    # y, x: rows of the two classes, with their weights. Only `sizes` is defined if a class is
    # empty.
    y: SortedScores
    x: SortedScores

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """The weights of y and x, in score order."""
        assert self.y.weight is not None  # noqa: S101
        assert self.x.weight is not None  # noqa: S101
        return self.y.weight.astype(np.float64), self.x.weight.astype(np.float64)

    @cached_property
    def shares(self) -> tuple[Floats, Floats]:
        """The share of x below each y, and of y below each x; ties count one half."""
        return _compute_share_below(self.y, self.x), _compute_share_below(self.x, self.y)

    def compute_auc(self, *, flip: bool) -> float:
        """Return the AUC, or P(y > x); exact for whole weights."""
        pairs = self.y.total * self.x.total
        wins = count_doubled_wins(self.y, self.x)
        # Rounding of fractional weights may exceed the range.
        share = (2 * pairs - wins if flip else wins) / (2 * pairs)
        return min(max(share, 0.0), 1.0)

    @cached_property
    def deviations(self) -> tuple[Floats, Floats]:
        """The shares minus their weighted means."""
        y_deviations, x_deviations = (
            shares - inner_product(shares, weight) / float(weight.sum())
            for shares, weight in zip(self.shares, self.weights, strict=True)
        )
        return y_deviations, x_deviations

    @cached_property
    def error(self) -> tuple[float, float]:
        """Standard error for independent rows, and its degrees of freedom."""
        parts = zip(self.deviations, self.weights, strict=True)
        squares, freedom = sum_squares(
            [correct_leverage(deviations * weight, weight) for deviations, weight in parts]
        )
        return math.sqrt(squares), freedom

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """Effective number of rows y and x."""
        y, x = (compute_effective_size(weight) if weight.size else 0.0 for weight in self.weights)
        return y, x


def correct_leverage(sums: Floats, rows: Floats, least: float = _ROUNDING) -> Floats:
    """Correct the influences of a class's rows or clusters for leverage."""
    return sums / compute_leverage_divisors(rows, least)


def compute_leverage_divisors(
    rows: Floats, least: float = _ROUNDING, n: float | None = None
) -> Floats:
    """Return the divisors that turn sums of deviations into influences.

    A row or cluster with much of the weight pulls the mean towards itself, so its deviation is too
    small. The sum is divided by the total weight and by sqrt(1 - its share of the weight). A
    cluster with all but `least` of the weight has influence 0. `n` is the total weight, if `rows`
    are only a part.
    """
    n = rows.sum() if n is None else n
    rest = 1 - rows / n
    rest[~(rest > least)] = np.inf
    return np.asarray(n * np.sqrt(rest, out=rest))


def _compute_share_below(of: SortedScores, others: SortedScores) -> Floats:
    assert others.cumulative_weight is not None  # noqa: S101
    left = np.searchsorted(others.scores, of.scores, side="left")
    right = np.searchsorted(others.scores, of.scores, side="right")
    below = others.cumulative_weight[left] + others.cumulative_weight[right]
    return np.asarray(below / (2 * others.total))
