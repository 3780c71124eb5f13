r"""The five Borkan metrics of one subgroup, from pair counts that are shared between them.

Each metric is P(x > y), or P(y > x), for a class x of the subgroup and a class y of the
subgroup or the background. Let D be all rows, Dg the subgroup's rows and D \\ Dg the
background. The insertion points of x in D+ \\ Dg+ are those in D+ minus those in Dg+, so only
the subgroup's scores are ever searched, and the background is never sorted. In the same way,
a background without any identity is D minus the rows of all subgroups.
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
    effective_number,
    few_clusters,
    quantile,
    unseen_reach,
)
from bias_metrics._core.ranks import (
    Floats,
    Placed,
    Runs,
    SortedClasses,
    SortedScores,
    delong_variance,
    doubled_wins,
    inner,
    place,
    runs_of,
    squares_of,
)
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import (
    CLASSES,
    METRICS,
    PAIRS,
    SUBGROUP_METRICS,
    Class,
    Pair,
    subgroup_metric,
)


@dataclass(frozen=True)
class ClusteredError:
    """What the interval of an AUC needs if rows come in clusters."""

    std_error: float  # The standard error that allows for correlation within clusters
    freedom: float  # Its degrees of freedom
    n_clusters: int  # Clusters with rows of a compared class, of the class with fewer
    sizes: tuple[float, float]  # How many independent rows the two classes are worth
    across: float  # The AUC of pairs from different clusters
    fourths: float = 0.0  # The degrees of freedom by the fourth powers of the clusters' influences
    effective: float = 0.0  # How many clusters of equal size those of that class are worth


@dataclass(frozen=True)
class Auc:
    """An AUC or AEG as measured: its interval at any confidence needs no rows."""

    value: float | None  # The share of pairs
    reason: str | None = None  # Why there is no value, or no standard error
    std_error: float | None = None  # The standard error for independent rows
    freedom: float = math.inf  # Its degrees of freedom
    sizes: tuple[float, float] = (0.0, 0.0)  # How many rows of equal weight the classes are worth
    centre: float = 0.0  # What is subtracted: 1/2 for an AEG
    clustered: ClusteredError | None = None  # If rows come in clusters
    n_tied: float = math.inf  # Rows of the smaller class that nearly all have one score

    @property
    def n_drawn(self) -> float:
        """How many rows, or clusters, of equal weight the smaller class is worth."""
        if self.clustered is None:
            return min(self.sizes)
        return min(self.clustered.n_clusters, *self.clustered.sizes)

    def at(self, confidence: float | None) -> MetricValue:
        """Return the number with its interval; without one if there is no confidence."""
        found = self.of_rows(confidence)
        clustered = self.clustered
        if clustered is None or confidence is None or self.value is None:
            return found
        reason = few_clusters(clustered.n_clusters)
        low = high = None
        if reason is None:
            z = quantile(confidence, clustered.freedom)
            own = clustered.across, clustered.std_error, *clustered.sizes
            n, effective, freedom = clustered.n_clusters, clustered.effective, clustered.fourths
            low, high = auc_interval(*own, z, freedom=freedom, n_clusters=n, effective=effective)
            low, high = self._with_ties(low, high, clustered.std_error, n, confidence)
            low, high = min(low, self.value) - self.centre, max(high, self.value) - self.centre
        return replace(
            found,
            reason=reason,
            std_error=clustered.std_error,
            low=low,
            high=high,
            row_std_error=self.std_error,
            n_clusters=clustered.n_clusters,
        )

    def of_rows(self, confidence: float | None) -> MetricValue:
        """Return the same, with an interval for independent rows."""
        if self.value is None:
            return undefined(self.reason or "")
        value = self.value - self.centre
        if confidence is None:
            return MetricValue(value)
        if self.std_error is None:
            return MetricValue(value, self.reason)
        z = quantile(confidence)
        low, high = auc_interval(self.value, self.std_error, *self.sizes, z, freedom=self.freedom)
        low, high = self._with_ties(low, high, self.std_error, math.inf, confidence)
        return MetricValue(
            value, std_error=self.std_error, low=low - self.centre, high=high - self.centre
        )

    def _with_ties(
        self, low: float, high: float, std_error: float, most: float, confidence: float
    ) -> tuple[float, float]:
        """Return an interval that allows for rows off a tie of which few or none were drawn.

        Where the rows of a class have one score, their placements seem not to vary. A row with
        another score moves its placement by 1/2 where scores have two values, and by no more than
        there is room for.
        """
        if self.n_tied == math.inf:
            return low, high
        assert self.value is not None  # noqa: S101
        n = min(self.n_tied, most)
        down, up = (
            unseen_reach(min(room, 0.5), std_error, n, confidence)
            for room in (self.value, 1 - self.value)
        )
        return max(min(low, self.value - down), 0.0), min(max(high, self.value + up), 1.0)


@dataclass(frozen=True, eq=False)
class Comparison:
    """P(x > y), or P(y > x), for a class x of the subgroup and another class y."""

    base: SortedScores  # The class y, with the rows of `excluded` that do not belong to it
    excluded: SortedScores | None  # The rows in `base` that are to be removed
    searched: SortedScores  # The class x
    base_name: str  # base_name, searched_name: what they are called in the reason, if one is empty
    searched_name: str
    flip: bool = False  # Whether the metric is P(y > x)

    @property
    def n_base(self) -> int:
        """Number of y."""
        return self.base.n - (0 if self.excluded is None else self.excluded.n)

    @property
    def sizes(self) -> tuple[float, float]:
        """How many rows of equal weight y and x are worth."""
        is_weighted = self.base.weight is not None
        return self.weighted.sizes if is_weighted else (self.n_base, self.searched.n)

    def lack(self) -> str | None:
        """Say which class is empty."""
        return lacks(**{self.base_name: self.n_base, self.searched_name: self.searched.n})

    @cached_property
    def runs(self) -> Runs:
        """The distinct x."""
        return runs_of(self.searched.scores)

    @cached_property
    def among_all(self) -> Placed:
        """X among the y and the rows to be removed."""
        return place(self.base.scores, self.runs)

    @cached_property
    def placed(self) -> Placed:
        """X among the y."""
        if self.excluded is None:
            return self.among_all
        if self.excluded is self.searched:
            return self.among_all.without(self.runs.among_themselves())
        return self.among_all.without(place(self.excluded.scores, self.runs))

    @property
    def weighted(self) -> WeightedPair:
        """The weighted rows of y and x.

        They are not kept: they take as much memory as all rows.
        """
        base = self.base if self.excluded is None else self.base.without(self.excluded)
        return WeightedPair(base, self.searched)

    def measured(self, *, centre: float = 0.0, uncertain: bool = True) -> Auc:
        """Return the AUC minus `centre`; with what an interval needs, if it is `uncertain`."""
        if lack := self.lack():
            return Auc(None, lack)
        if self.base.weight is not None:
            found = _of_weighted(self.weighted, flip=self.flip, uncertain=uncertain)
            return replace(found, centre=centre)
        return placed_auc(
            self.runs, self.placed, flip=self.flip, centre=centre, uncertain=uncertain
        )


def placed_auc(
    runs: Runs, placed: Placed, *, flip: bool, centre: float = 0.0, uncertain: bool = True
) -> Auc:
    """Measure P(x > y), or P(y > x), of distinct x placed among the y; there is a row of each."""
    pairs = placed.n * runs.n
    wins = placed.doubled_wins(runs)
    value = (2 * pairs - wins if flip else wins) / (2 * pairs)
    if not uncertain:
        return Auc(value, centre=centre)
    if min(placed.n, runs.n) < _LEAST:
        return Auc(value, "fewer than 2 rows in a class", centre=centre)
    variance, freedom = delong_variance(placed, runs)
    tied = n_tied((placed.right - placed.left, placed.n), (runs.counts, runs.n))
    sizes = placed.n, runs.n
    return Auc(value, None, math.sqrt(variance), freedom, sizes, centre, n_tied=tied)


def n_tied(*classes: tuple[npt.NDArray[np.integer[Any]], float]) -> float:
    """Return the rows of the smaller class that nearly all have one score; infinite if none has.

    A class is given as how many rows have each score, and how many rows of equal weight it is
    worth.
    """
    found = math.inf
    for counts, n in classes:
        off = int(counts.sum()) - int(counts.max(initial=0))
        most = int(counts.max(initial=0))
        if off < FEW_OFF and off < most:
            found = min(found, n)
    return found


def comparisons(
    everyone: SortedClasses, subgroup: SortedClasses, excluded: SortedClasses | None = None
) -> dict[str, Comparison]:
    """Return what each of the five metrics compares.

    The background is everyone except the excluded rows; by default, except the subgroup's.
    """
    rows = everyone, excluded or subgroup, subgroup
    return {name: _comparison(PAIRS[name], *rows) for name in SUBGROUP_METRICS}


def _comparison(
    pair: Pair, everyone: SortedClasses, excluded: SortedClasses, subgroup: SortedClasses
) -> Comparison:
    def of(classes: SortedClasses, which: Class) -> SortedScores:
        return classes.positive if which == "positive" else classes.negative

    return Comparison(
        of(subgroup if pair.inside else everyone, pair.y),
        None if pair.inside else of(excluded, pair.y),
        of(subgroup, pair.x),
        f"{'subgroup' if pair.inside else 'background'}_{pair.y}s",
        f"subgroup_{pair.x}s",
        flip=pair.flip,
    )


def effective_rows(compared: Mapping[str, Comparison]) -> dict[str, float] | None:
    """Return how many rows of equal weight each compared class is worth; None without weights."""
    found = {}
    for name in CLASSES:
        comparison = compared[subgroup_metric(name, name)]
        if comparison.base.weight is None:
            return None
        found[f"background_{name}"], found[name] = comparison.sizes
    return found


def overall_comparison(everyone: SortedClasses) -> Comparison:
    """Return what the overall AUC compares."""
    return Comparison(everyone.negative, None, everyone.positive, "negatives", "positives")


def measure_cells(compared: Mapping[str, Comparison], *, uncertain: bool = True) -> dict[str, Auc]:
    """Measure the metrics of one subgroup; undefined cells carry their reason."""
    return {
        name: one.measured(centre=METRICS[name].centre, uncertain=uncertain)
        for name, one in compared.items()
    }


def pair_auc(negative: SortedScores, positive: SortedScores, *, uncertain: bool = True) -> Auc:
    """Measure AUC(negative, positive) = P(positive > negative) + P(equal) / 2."""
    # Fewer searches: the smaller class is searched in the larger one.
    if positive.n <= negative.n:
        one = Comparison(negative, None, positive, "negatives", "positives")
        return one.measured(uncertain=uncertain)
    one = Comparison(positive, None, negative, "positives", "negatives", flip=True)
    found = one.measured(uncertain=uncertain)
    return replace(found, sizes=found.sizes[::-1])


def lacks(**counts: int) -> str | None:
    """Say which of the named counts are 0, as in `no background positives`; None if none are."""
    empty = [name.replace("_", " ") for name, count in counts.items() if count == 0]
    return f"no {' and no '.join(empty)}" if empty else None


def _of_weighted(pair: WeightedPair, *, flip: bool, uncertain: bool) -> Auc:
    value = pair.value(flip=flip)
    lack = pair.lack() if uncertain else None
    if lack or not uncertain:
        return Auc(value, lack)
    std_error, freedom = pair.error
    counts = (runs_of(of_class.scores).counts for of_class in (pair.y, pair.x))
    tied = n_tied(*zip(counts, pair.sizes, strict=True))
    return Auc(value, std_error=std_error, freedom=freedom, sizes=pair.sizes, n_tied=tied)


# ---- Weighted rows: one AUC, its standard error by linearisation, and what the rows are worth.
#
# A sampling weight says how many rows of the population a row stands for. The weighted AUC is a
# ratio of sums, and the influence of a row is its weight times the distance of its placement from
# the weighted mean. The background is never computed by subtraction: its rows are picked out, so
# that no digits are lost where a subgroup outweighs it.
#
# References
# ----------
# Binder (1983), International Statistical Review 51 (linearisation). Kish (1965), Survey Sampling,
# section 11.7 (effective sample size)


FEW_OFF = 10  # rows off a tie from which their share is known
LEAST_EFFECTIVE = 2.0
_LEAST = 2
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class WeightedPair:
    """P(x > y) over two classes of weighted rows."""

    # y, x: rows of the two classes, with their weights. If one is empty there are only sizes.
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
        """The share of x below each y, and of y below each x; a tie counts one half."""
        return _share_below(self.y, self.x), _share_below(self.x, self.y)

    def value(self, *, flip: bool) -> float:
        """Return the AUC, or P(y > x); exact for whole weights."""
        pairs = self.y.total * self.x.total
        wins = doubled_wins(self.y, self.x)
        # Sums of fractional weights may exceed the range by a rounding error.
        share = (2 * pairs - wins if flip else wins) / (2 * pairs)
        return min(max(share, 0.0), 1.0)

    @cached_property
    def deviations(self) -> tuple[Floats, Floats]:
        """The shares minus their weighted means."""
        of_y, of_x = (
            shares - _mean(shares, weight)
            for shares, weight in zip(self.shares, self.weights, strict=True)
        )
        return of_y, of_x

    @cached_property
    def error(self) -> tuple[float, float]:
        """The standard error for independent rows, and its degrees of freedom."""
        parts = zip(self.deviations, self.weights, strict=True)
        squares, freedom = squares_of([unshrunk(of * weight, weight) for of, weight in parts])
        return math.sqrt(squares), freedom

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """How many rows of equal weight y and x are worth."""
        y, x = (effective_number(weight) if weight.size else 0.0 for weight in self.weights)
        return y, x

    def lack(self) -> str | None:
        """Say that the weights leave too few rows for an interval, if so."""
        if min(self.weights[0].size, self.weights[1].size) < LEAST_EFFECTIVE:
            return "fewer than 2 rows in a class"
        if min(self.sizes) < LEAST_EFFECTIVE - _ROUNDING:
            return "weights leave fewer than 2 effective rows in a class"
        return None


def unshrunk(sums: Floats, rows: Floats, least: float = _ROUNDING) -> Floats:
    """Return the influences of one class's rows or clusters, given their shares of its weight."""
    return sums / unshrinking(rows, least)


def unshrinking(rows: Floats, least: float = _ROUNDING, n: float | None = None) -> Floats:
    """Return what sums of deviations are divided by to be influences.

    A row or cluster with much of the weight pulls the mean towards itself, so its own deviation is
    too small. It is divided by sqrt(1 - its share), besides by the weight of all; one with all but
    `least` of the weight has no influence. `n` is the weight of all, if these are not all.
    """
    n = rows.sum() if n is None else n
    left = 1 - rows / n
    left[~(left > least)] = np.inf
    return np.asarray(n * np.sqrt(left, out=left))


def _share_below(of: SortedScores, others: SortedScores) -> Floats:
    assert others.cumulative_weight is not None  # noqa: S101
    left = np.searchsorted(others.scores, of.scores, side="left")
    right = np.searchsorted(others.scores, of.scores, side="right")
    below = others.cumulative_weight[left] + others.cumulative_weight[right]
    return np.asarray(below / (2 * others.total))


def _mean(values: Floats, weights: Floats) -> float:
    return inner(values, weights) / float(weights.sum())
