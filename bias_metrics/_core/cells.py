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

from bias_metrics._core.intervals import auc_interval, quantile
from bias_metrics._core.placements import Placed, Runs, delong_variance, place, runs_of
from bias_metrics._core.ranks import SortedClasses, SortedScores
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics._core.weighted import WeightedPair
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
class Cells:
    """The five metrics of one subgroup."""

    subgroup_auc: MetricValue
    bpsn_auc: MetricValue
    bnsp_auc: MetricValue
    positive_aeg: MetricValue
    negative_aeg: MetricValue


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

    def measure(self, z: float | None) -> MetricValue:
        """Return the AUC, with its interval where `z` is given."""
        if lack := self.lack():
            return undefined(lack)
        if self.base.weight is not None:
            return _of_weighted(self.weighted, z, flip=self.flip)
        runs, placed = self.runs, self.placed
        pairs = placed.n * runs.n
        wins = placed.doubled_wins(runs)
        value = (2 * pairs - wins if self.flip else wins) / (2 * pairs)
        return MetricValue(value) if z is None else _with_interval(value, placed, runs, z)


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


def measure_cells(compared: Mapping[str, Comparison], confidence: float | None = None) -> Cells:
    """Compute the five metrics of one subgroup; undefined cells carry their reason."""
    z = None if confidence is None else quantile(confidence)
    return Cells(
        **{name: _centred(one.measure(z), METRICS[name].centre) for name, one in compared.items()}
    )


def pair_auc(
    negative: SortedScores, positive: SortedScores, confidence: float | None = None
) -> MetricValue:
    """Compute AUC(negative, positive) = P(positive > negative) + P(equal) / 2."""
    z = None if confidence is None else quantile(confidence)
    # Fewer searches: the smaller class is searched in the larger one.
    if positive.n <= negative.n:
        return Comparison(negative, None, positive, "negatives", "positives").measure(z)
    return Comparison(positive, None, negative, "positives", "negatives", flip=True).measure(z)


def lacks(**counts: int) -> str | None:
    """Say which of the named counts are 0, as in `no background positives`; None if none are."""
    empty = [name.replace("_", " ") for name, count in counts.items() if count == 0]
    return f"no {' and no '.join(empty)}" if empty else None


def _with_interval(value: float, placed: Placed, runs: Runs, z: float) -> MetricValue:
    if min(placed.n, runs.n) < 2:
        return MetricValue(value, "fewer than 2 rows in a class")
    variance, freedom = delong_variance(placed, runs)
    std_error = math.sqrt(variance)
    low, high = auc_interval(value, std_error, placed.n, runs.n, z, freedom=freedom)
    return MetricValue(value, std_error=std_error, low=low, high=high)


def _of_weighted(pair: WeightedPair, z: float | None, *, flip: bool) -> MetricValue:
    value = pair.value(flip=flip)
    if z is None:
        return MetricValue(value)
    if lack := pair.lack():
        return MetricValue(value, lack)
    std_error, freedom = pair.error
    low, high = auc_interval(value, std_error, *pair.sizes, z, freedom=freedom)
    return MetricValue(value, std_error=std_error, low=low, high=high)


def _centred(share: MetricValue, centre: float) -> MetricValue:
    """Turn a probability and its interval into a gap around 0, if the metric is one."""
    value, low, high = (
        None if one is None else one - centre for one in (share.value, share.low, share.high)
    )
    return replace(share, value=value, low=low, high=high)
