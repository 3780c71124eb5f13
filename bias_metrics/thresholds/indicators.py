"""Shares of decisions at a threshold that are right or wrong, by subgroup, with intervals.

Accuracy, precision, negative predictive value, recall and true negative rate, and what each lacks
to 1. Each is a `LinearEstimate`: a mean over the rows that it counts: weights and clusters need
no formula of their own. Its interval is Wilson's, for as many rows as its variance is worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, check_threshold
from bias_metrics._core.cuts import reaches
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence, effective_number, quantile
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.proportions import share_difference_interval, wilson_interval
from bias_metrics._core.ranks import Floats
from bias_metrics._core.tables import Row, Tabular, labelled
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.estimate import LinearEstimate
from bias_metrics.rows import Places, RowOptions, Rows
from bias_metrics.thresholds.errors import RATES

_MEASURED = {name: RATES[name] for name in ("accuracy", "precision", "recall")} | {
    "negative_predictive_value": (
        ("n_true_negative",),
        ("n_true_negative", "n_false_negative"),
        "no rows that are not flagged",
    ),
    "true_negative_rate": (
        ("n_true_negative",),
        ("n_true_negative", "n_false_positive"),
        "no negatives",
    ),
}
COMPLEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "false_discovery_rate": "precision",
        "false_omission_rate": "negative_predictive_value",
        "false_positive_rate": "true_negative_rate",
        "false_negative_rate": "recall",
    }
)
"""Each share of wrong decisions is 1 minus one of right decisions."""
INDICATORS = (*_MEASURED, *COMPLEMENTS)
"""Every indicator: five shares of right decisions, and four of wrong ones."""
_FLAGGED = frozenset({"n_true_positive", "n_false_positive"})
_FEW_CLUSTERS = 10


@dataclass(frozen=True)
class GroupIndicators(Tabular):
    """The indicators of some rows."""

    n: int
    n_positive: int
    n_flagged: int
    """n, n_positive, n_flagged: rows that count, whatever their weight."""
    shares: dict[str, MetricValue]
    """By indicator; None with a reason without rows to count."""
    gaps: dict[str, MetricValue]
    """Each share of right decisions minus that of the background; empty for all rows."""

    def rows(self) -> list[Row]:
        """Return one record per indicator, with the gap where there is one."""
        missing = MetricValue(None, "no gap")
        return [
            {"indicator": name, "n": self.n, "value": one.value, "low": one.low, "high": one.high}
            | {f"gap_{key}": getattr(gap, key) for key in ("value", "low", "high")}
            | {"reason": one.reason}
            for name, one in self.shares.items()
            for gap in [self.gaps.get(name, missing)]
        ]


@dataclass(frozen=True)
class Indicators(Tabular):
    """The indicators at one threshold, of all rows and of each subgroup."""

    threshold: float
    """Scores at or above it are flagged."""
    overall: GroupIndicators
    subgroups: dict[str, GroupIndicators]
    """overall, subgroups: of all rows, and by subgroup in the order given."""
    confidence: float
    """Confidence of each share's interval, and of all intervals of gaps together."""
    n_gaps: int
    """Gaps whose intervals hold together."""

    def rows(self) -> list[Row]:
        """Return one record per subgroup and indicator; all rows are first, without a name."""
        return labelled(
            "subgroup",
            {None: self.overall.rows()} | {x: one.rows() for x, one in self.subgroups.items()},
        )


@aligned
def decision_indicators(
    y_true: npt.ArrayLike | Rows,
    y_score: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    threshold: float,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> Indicators:
    """Measure how often decisions at a threshold are right, overall and by subgroup.

    `precision` (positive predictive value), `negative_predictive_value`, `false_discovery_rate`
    and `false_omission_rate` are shares of the flagged, or of the other, rows: they depend on how
    many rows are positive, so they are those of a service only in a random sample of it. `recall`,
    `true_negative_rate`, `false_positive_rate` and `false_negative_rate` are shares of a class.
    `accuracy` mixes both: where few rows are positive, flagging nothing is accurate. Not to be
    confused with `rate_gaps`, whose two gaps the gate can judge.

    Parameters
    ----------
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. `Rows` have the subgroups too.
    y_score : float array of shape (n,)
        Finite scores, or decisions as 0 and 1 with a threshold of 0.5.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        As in `evaluate_bias`; not with `Rows`.
    threshold : float
        Finite; a score at or above it is flagged. The intervals take it as given: one that was
        chosen on these rows makes decisions look better than they are.
    confidence : float, default=0.95
        Confidence of each interval of a share. The intervals of all gaps hold together with it
        (Bonferroni). There is none if the rows that count fall into fewer than 20 clusters.
    **options
        `sample_weight`, `weight_kind`, `clusters`, `background` as in `evaluate_bias`; not with
        `Rows`.

    Returns
    -------
    Indicators
        Shares in [0, 1]: five of right decisions (ideal 1), four of wrong ones (ideal 0); and gaps
        in [-1, 1] (ideal 0), subgroup minus background, of the five. A share without rows to count
        has the value None and a reason.

    Raises
    ------
    ValueError, TypeError
        If scores are of another number or not finite, or a threshold or confidence is out of range.

    Notes
    -----
    The variance is that of a ratio of weighted sums, over clusters if there are any; Wilson's
    interval is computed for the number of independent rows that has this variance, with Student's
    quantile. While errors, or right decisions, are spread over fewer than ten clusters' worth, rows
    count as clusters. With unequal weights a decision of a kind that the sample lacks may stand for
    the heaviest row: the interval covers the share after one more right, and after one more wrong,
    decision of that weight. Where whole clusters are wrong, but so rarely that the sample may have
    none of them, no sample can tell: of 100 clusters of 20 rows, with two such clusters expected,
    intervals cover 83 to 94 %, and with six 94 to 98 %. Of 40 clusters of 20 rows, again with two
    expected, those of accuracy cover 88 %; by the rule of `rate_gaps` it would be 86 %.

    References
    ----------
    Wilson (1927), JASA 22. Korn and Graubard (1998), Survey Methodology 24 (shares from complex
    samples). Fay and Feuer (1997), Statistics in Medicine 16 (the heaviest row).

    Examples
    --------
    >>> rows = Rows([0, 0, 0, 0, 1, 1], {"gay": [1, 1, 0, 0, 0, 1]})
    >>> found = decision_indicators(rows, [0.9, 0.2, 0.3, 0.1, 0.8, 0.4], threshold=0.5)
    >>> found.overall.shares["precision"].value, found.overall.shares["recall"].value
    (0.5, 0.5)
    >>> found.subgroups["gay"].shares["accuracy"].value  # 1 of 3
    0.3333333333333333
    """
    rows = Rows.of(y_true, subgroups, **options)
    level = check_confidence(confidence)
    at = check_threshold(threshold)
    scores = rows.scores("y_score", y_score)
    counted, (scores,) = rows.counted(scores)
    decided = _Decided.of(counted, reaches(scores, at))
    n_gaps = len(_MEASURED) * len(counted.subgroups)
    jointly = 1 - (1 - level) / max(n_gaps, 1)
    everyone = decided.group(np.arange(counted.n), level)
    shared = None
    if counted.excluded is not None:
        shared = decided.shares(np.setdiff1d(np.arange(counted.n), counted.excluded))
    found = {}
    for name, mask in counted.subgroups.items():
        members = np.flatnonzero(mask)
        others = decided.shares(np.flatnonzero(~mask)) if shared is None else shared
        own = decided.shares(members)
        gaps = {one: _gap(own[one], others[one], jointly) for one in own}
        found[name] = replace(decided.group(members, level, own), gaps=gaps)
    return Indicators(at, everyone, found, level, n_gaps)


@dataclass(frozen=True, eq=False)
class _Share:
    """A share of some rows as an estimate, and what its interval needs."""

    estimate: LinearEstimate
    k: int  # Rows with the event
    n: int  # Rows that it counts
    # The largest share of the weight that one more row, or cluster, with and without the event may
    # have; None if all rows weigh the same.
    heaviest: tuple[float, float] | None
    # The number of independent rows where the variance says too little; None without clusters and
    # weights.
    worth: float | None

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return Wilson's interval for as many rows as the estimate is worth."""
        share = self.estimate.value
        assert share is not None  # noqa: S101
        if self.worth is None:
            return _within(wilson_interval(share, self.n, quantile(confidence)))
        t = quantile(confidence, self.estimate.freedom)
        variance = self.estimate.std_error**2
        worth = share * (1 - share) / variance if variance else self.estimate.n_effective
        ends = [wilson_interval(share, min(worth, self.worth), t)]
        for event, more in zip((1.0, 0.0), self.heaviest or (), strict=False):
            moved = (share + event * more) / (1 + more)
            spread = (variance + (more * (event - moved)) ** 2) / (1 + more) ** 2
            if spread:
                ends.append(wilson_interval(moved, min(moved * (1 - moved) / spread, self.n), t))
        return _within((min(low for low, _ in ends), max(high for _, high in ends)))

    def measured(self, confidence: float) -> MetricValue:
        """Return the share with its interval, or the reason why it has none."""
        estimate = self.estimate
        if estimate.value is None:
            return undefined(estimate.reason or "")
        low, high = self.interval(confidence)
        return _with_ends(estimate, low, high, confidence)


def _with_ends(estimate: LinearEstimate, low: float, high: float, confidence: float) -> MetricValue:
    """Return an estimate with an interval of its own, unless it has none."""
    found = estimate.measured(confidence)
    return found if found.low is None else replace(found, low=low, high=high)


def _gap(own: _Share, other: _Share, confidence: float) -> MetricValue:
    """Return the difference of two shares of different rows, with an interval.

    Its ends are computed from those of the shares (Newcombe 1998, method 10); clusters that have
    rows of both are allowed for.
    """
    apart = own.estimate.minus(other.estimate, (-1.0, 1.0))
    value, a, b = apart.value, own.estimate.value, other.estimate.value
    if value is None or a is None or b is None:
        return undefined(apart.reason or "")
    if own.worth is None and other.worth is None:
        low, high = share_difference_interval(own.k, own.n, other.k, other.n, quantile(confidence))
        return _with_ends(apart, low, high, confidence)
    (a_low, a_high), (b_low, b_high) = own.interval(confidence), other.interval(confidence)
    reach = quantile(confidence, apart.freedom) * apart.std_error
    low = min(value - math.hypot(a - a_low, b_high - b), value - reach)
    high = max(value + math.hypot(a_high - a, b - b_low), value + reach)
    return _with_ends(apart, max(low, -1.0), min(high, 1.0), confidence)


@dataclass(frozen=True, eq=False)
class _Decided:
    """Rows that count, and which kind of decision each got."""

    rows: Rows
    kinds: Mapping[str, BoolArray]
    weight: Floats  # All 1 without weights
    is_weighted: bool  # Whether weights differ
    # Of flagged rows and of the others: the heaviest row, or cluster
    heaviest: Mapping[bool, float]

    @classmethod
    def of(cls, rows: Rows, decided: BoolArray) -> _Decided:
        """Sort the decisions by kind."""
        labels, weight = rows.y_true, rows.sample_weight
        each = np.ones(rows.n) if weight is None else weight.astype(np.float64)
        return cls(
            rows,
            {
                "n_true_positive": labels & decided,
                "n_false_positive": ~labels & decided,
                "n_true_negative": ~labels & ~decided,
                "n_false_negative": labels & ~decided,
            },
            each,
            bool(each.size and (each != each[0]).any()),
            {kind: float(each[mask].max(initial=0.0)) for kind, mask in _either(decided)},
        )

    def group(
        self, members: Places, confidence: float, shares: Mapping[str, _Share] | None = None
    ) -> GroupIndicators:
        """Measure the indicators of some rows, without gaps."""
        found = self.shares(members) if shares is None else shares
        right = {name: one.measured(confidence) for name, one in found.items()}
        wrong = {name: _complement(right[of]) for name, of in COMPLEMENTS.items()}
        n_flagged = sum(int(self.kinds[one][members].sum()) for one in _FLAGGED)
        n_positive = int(self.rows.y_true[members].sum())
        return GroupIndicators(members.size, n_positive, n_flagged, right | wrong, {})

    def shares(self, members: Places) -> dict[str, _Share]:
        """Return the shares of right decisions among some rows."""
        return {name: self._share(members, *of) for name, of in _MEASURED.items()}

    def _share(
        self, members: Places, parts: tuple[str, ...], wholes: tuple[str, ...], lack: str
    ) -> _Share:
        n, clusters = self.rows.n, self.rows.clusters
        counts = np.logical_or.reduce([self.kinds[one][members] for one in wholes])
        counted = members[counts]
        if not counted.size:
            return _Share(LinearEstimate.undefined(lack, n), 0, 0, None, None)
        events = np.logical_or.reduce([self.kinds[part][counted] for part in parts])
        weight = self.weight[counted]
        whole = float(weight.sum())
        share = float(weight[events].sum()) / whole
        estimate = LinearEstimate.of(
            share,
            weight * (events - share) / whole,
            counted,
            weight,
            n,
            clusters=clusters,
            bounds=(0.0, 1.0),
        )
        heaviest = None
        if self.is_weighted:
            rest = [one for one in wholes if one not in parts]
            with_, without = (self._one_more(members, kinds) for kinds in (parts, rest))
            heaviest = with_ / whole, without / whole
        worth = self._worth(events, weight, None if clusters is None else clusters[counted])
        return _Share(estimate, int(events.sum()), counted.size, heaviest, worth)

    def _one_more(self, members: Places, kinds: Iterable[str]) -> float:
        """Return the weight of one more decision: any row's, or that of one of these clusters."""
        found = [0.0]
        for is_flagged in {kind in _FLAGGED for kind in kinds}:
            found.append(self.heaviest[is_flagged])
            if self.rows.clusters is not None:
                flagged = np.logical_or.reduce([self.kinds[kind][members] for kind in _FLAGGED])
                own = members[flagged == is_flagged]
                sums = np.bincount(self.rows.clusters[own], self.weight[own])
                found.append(float(sums.max(initial=0.0)))
        return max(found)

    def _worth(self, events: BoolArray, weight: Floats, clusters: Places | None) -> float | None:
        """Return the most independent rows that some rows are worth; None if they are."""
        if clusters is not None:
            sums = np.bincount(clusters, weight).astype(np.float64)
            with_event = np.bincount(clusters, weight * events, sums.size).astype(np.float64)
            each = [one for one in (with_event, sums - with_event) if one.any()]
            few = len(each) < 2 or min(map(effective_number, each)) < _FEW_CLUSTERS
            return effective_number(sums) if few else float(events.size)
        return float(events.size) if self.is_weighted else None


def _either(decided: BoolArray) -> Iterator[tuple[bool, BoolArray]]:
    yield True, decided
    yield False, ~decided


def _complement(value: MetricValue) -> MetricValue:
    """Return 1 minus a share."""
    if value.value is None:
        return value
    low = None if value.high is None else 1 - value.high
    high = None if value.low is None else 1 - value.low
    return replace(value, value=1 - value.value, low=low, high=high)


def _within(ends: tuple[float, float]) -> tuple[float, float]:
    return max(ends[0], 0.0), min(ends[1], 1.0)
