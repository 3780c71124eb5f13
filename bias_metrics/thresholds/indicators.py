"""Shares of right and wrong decisions at a threshold, by subgroup, with intervals.

Accuracy, precision, negative predictive value, recall and true negative rate, and their
complements. Each is a `LinearEstimate`, a mean over the counted rows, which also covers weights and
clusters. Its interval is Wilson's for the effective sample size that its variance implies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, check_threshold
from bias_metrics._core.cuts import reaches_cut
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence, compute_effective_size, student_quantile
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.proportions import share_difference_interval, wilson_interval
from bias_metrics._core.ranks import Floats
from bias_metrics._core.tables import Row, Tabular, label_rows
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.estimate import LinearEstimate
from bias_metrics.rows import Places, RowOptions, Rows
from bias_metrics.thresholds.errors import FN, FP, RATES, TN, TP

_MEASURED = {name: RATES[name] for name in ("accuracy", "precision", "recall")} | {
    "negative_predictive_value": ((TN,), (TN, FN), "no rows that are not flagged"),
    "true_negative_rate": ((TN,), (TN, FP), "no negatives"),
}
COMPLEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "false_discovery_rate": "precision",
        "false_omission_rate": "negative_predictive_value",
        "false_positive_rate": "true_negative_rate",
        "false_negative_rate": "recall",
    }
)
"""By share of wrong decisions, the share of right decisions that it complements to 1."""
INDICATORS = (*_MEASURED, *COMPLEMENTS)
"""All indicators: five shares of right decisions, and four of wrong decisions."""
_FLAGGED = frozenset({TP, FP})
_FEW_CLUSTERS = 10


@dataclass(frozen=True)
class GroupIndicators(Tabular):
    """The indicators of some rows."""

    n: int
    n_positive: int
    n_flagged: int
    """n, n_positive, n_flagged: numbers of rows; frequency weights repeat rows, and other weights
    only exclude rows of weight 0."""
    shares: dict[str, MetricValue]
    """Shares by indicator; undefined without counted rows."""
    gaps: dict[str, MetricValue]
    """Each share of right decisions minus that of the background; empty for all rows."""

    def rows(self) -> list[Row]:
        """Return a record per indicator, with its gap if it has a gap."""
        missing = MetricValue(None, "no gap")
        ends = ("value", "low", "high")
        return [
            {"indicator": name, "n": self.n}
            | {key: getattr(share, key) for key in ends}
            | {f"gap_{key}": getattr(self.gaps.get(name, missing), key) for key in ends}
            | {"reason": share.reason}
            for name, share in self.shares.items()
        ]


@dataclass(frozen=True)
class Indicators(Tabular):
    """The indicators at a threshold, overall and by subgroup."""

    threshold: float
    """Decision threshold; scores at or above it are flagged."""
    overall: GroupIndicators
    subgroups: dict[str, GroupIndicators]
    """overall, subgroups: indicators of all rows, and by subgroup in the order given."""
    confidence: float
    """Confidence of a share's interval, and joint confidence of all intervals of gaps."""
    n_gaps: int
    """Number of gaps with joint intervals."""

    def rows(self) -> list[Row]:
        """Return a record per subgroup and indicator; all rows are first, without a name."""
        records: dict[str | None, list[Row]] = {None: self.overall.rows()}
        records |= {name: indicators.rows() for name, indicators in self.subgroups.items()}
        return label_rows("subgroup", records)


@require_aligned
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
    and `false_omission_rate` are shares of the flagged, or of the other, rows. They depend on the
    share of positives, so that they hold for a service only in a random sample of its comments.
    `recall`, `true_negative_rate`, `false_positive_rate` and `false_negative_rate` are shares of a
    class. `accuracy` mixes both classes: with few positives, flagging no row is accurate. Do not
    confuse them with `rate_gaps`, whose two gaps the gate can judge.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`.
    y_score : float array of shape (n,)
        Finite scores, or decisions as 0 and 1 with a threshold of 0.5.
    threshold : float
        Finite; a score at or above it is flagged. The intervals take it as given: with a threshold
        chosen on these rows, decisions look better than they are.
    confidence : float, default=0.95
        Confidence of an interval of a share, and joint confidence of the intervals of all gaps
        (Bonferroni). Counted rows in fewer than 20 clusters give no interval.
    **options
        As in `evaluate_bias`; not with `Rows`.

    Returns
    -------
    Indicators
        Shares in [0, 1]: five of right decisions (ideal 1) and four of wrong decisions (ideal 0);
        gaps of the first five in [-1, 1] (ideal 0), subgroup minus background. A share without
        counted rows has the value None and a reason.

    Raises
    ------
    ValueError, TypeError
        If the number of scores or rows differs, or a value is not finite or out of range.

    Notes
    -----
    The variance is that of a ratio of weighted sums, over clusters if rows come in clusters.
    Wilson's interval is computed for the number of independent rows with this variance, with
    Student's quantile. If errors, or right decisions, have an effective number of clusters below
    ten, the effective number of clusters replaces that of rows. With unequal weights, a kind of
    decision that the sample lacks may have the weight of the heaviest row. The interval therefore
    covers the shares after one more right, and after one more wrong, decision of that weight.

    Coverage falls if whole clusters are wrong, but so rarely that a sample may lack such clusters.
    For 100 clusters of 20 rows with two such clusters expected, intervals cover 83 to 94 %; with
    six, 94 to 98 %. For 40 clusters of 20 rows with two expected, the interval of accuracy covers
    88 %; the rule of `rate_gaps` would cover 86 %.

    References
    ----------
    Wilson (1927), JASA 22. Korn and Graubard (1998), Survey Methodology 24 (shares from complex
    samples). Fay and Feuer (1997), Statistics in Medicine 16 (the heaviest row).

    Examples
    --------
    >>> rows = Rows([0, 0, 0, 0, 1, 1], {"gay": [1, 1, 0, 0, 0, 1]})
    >>> indicators = decision_indicators(rows, [0.9, 0.2, 0.3, 0.1, 0.8, 0.4], threshold=0.5)
    >>> indicators.overall.shares["precision"].value, indicators.overall.shares["recall"].value
    (0.5, 0.5)
    >>> indicators.subgroups["gay"].shares["accuracy"].value  # 1 of 3
    0.3333333333333333
    """
    rows = Rows.from_arguments(y_true, subgroups, **options)
    level = check_confidence(confidence)
    threshold = check_threshold(threshold)
    scores = rows.check_scores("y_score", y_score)
    counted, (scores,) = rows.select_counted(scores)
    decisions = _Decisions(counted, reaches_cut(scores, threshold))
    n_gaps = len(_MEASURED) * len(counted.subgroups)
    joint = 1 - (1 - level) / max(n_gaps, 1)
    everywhere = np.arange(counted.n)
    overall = decisions.measure_group(decisions.find_shares(everywhere), everywhere, level)
    shared = None
    if counted.excluded is not None:
        shared = decisions.find_shares(np.setdiff1d(everywhere, counted.excluded))
    subgroup_indicators = {}
    for name, mask in counted.subgroups.items():
        members = np.flatnonzero(mask)
        others = decisions.find_shares(np.flatnonzero(~mask)) if shared is None else shared
        own = decisions.find_shares(members)
        gaps = {
            indicator: _measure_gap(own[indicator], others[indicator], joint) for indicator in own
        }
        subgroup_indicators[name] = replace(decisions.measure_group(own, members, level), gaps=gaps)
    return Indicators(threshold, overall, subgroup_indicators, level, n_gaps)


@dataclass(frozen=True, eq=False)
class _EventShare:
    """A share of rows with an event as an estimate, with the inputs of its interval."""

    estimate: LinearEstimate
    k: int  # Rows with the event
    n: int  # Counted rows
    # The largest weight of one more row, or cluster, with and without the event, as a share of the
    # total weight; None for equal weights.
    heaviest: tuple[float, float] | None
    # Upper limit of the effective sample size, for few clusters or errors; None for independent
    # rows of equal weight.
    most_rows: float | None

    def compute_interval(self, confidence: float) -> tuple[float, float]:
        """Return Wilson's interval for the effective sample size."""
        share = self.estimate.value
        assert share is not None  # noqa: S101
        if self.most_rows is None:
            return _clip_interval(wilson_interval(share, self.n, student_quantile(confidence)))
        t = student_quantile(confidence, self.estimate.freedom)
        variance = self.estimate.std_error**2
        n_effective = share * (1 - share) / variance if variance else self.estimate.n_effective
        intervals = [wilson_interval(share, min(n_effective, self.most_rows), t)]
        for event, added in zip((1.0, 0.0), self.heaviest or (), strict=False):
            moved = (share + event * added) / (1 + added)
            moved_variance = (variance + (added * (event - moved)) ** 2) / (1 + added) ** 2
            if moved_variance:
                n_moved = min(moved * (1 - moved) / moved_variance, self.n)
                intervals.append(wilson_interval(moved, n_moved, t))
        return _clip_interval(
            (min(low for low, _ in intervals), max(high for _, high in intervals))
        )

    def measure(self, confidence: float) -> MetricValue:
        """Return the share with its interval, or with the reason why it is undefined."""
        if self.estimate.value is None:
            return make_undefined(self.estimate.reason or "")
        return _replace_interval(self.estimate, *self.compute_interval(confidence), confidence)


def _replace_interval(
    estimate: LinearEstimate, low: float, high: float, confidence: float
) -> MetricValue:
    """Return an estimate with another interval, unless it has too few clusters for any."""
    value = estimate.compute_value(confidence)
    return value if value.low is None else replace(value, low=low, high=high)


def _measure_gap(own: _EventShare, other: _EventShare, confidence: float) -> MetricValue:
    """Return the difference of two shares of different rows, with an interval.

    Its ends are computed from those of the shares (Newcombe 1998, method 10). It is widened for
    clusters with rows of both.
    """
    gap = own.estimate.subtract(other.estimate, (-1.0, 1.0))
    value, a, b = gap.value, own.estimate.value, other.estimate.value
    if value is None or a is None or b is None:
        return make_undefined(gap.reason or "")
    if own.most_rows is None and other.most_rows is None:
        low, high = share_difference_interval(
            own.k, own.n, other.k, other.n, student_quantile(confidence)
        )
        return _replace_interval(gap, low, high, confidence)
    a_low, a_high = own.compute_interval(confidence)
    b_low, b_high = other.compute_interval(confidence)
    reach = student_quantile(confidence, gap.freedom) * gap.std_error
    low = min(value - math.hypot(a - a_low, b_high - b), value - reach)
    high = max(value + math.hypot(a_high - a, b - b_low), value + reach)
    return _replace_interval(gap, max(low, -1.0), min(high, 1.0), confidence)


class _Decisions:
    """The counted rows, grouped by kind of decision."""

    def __init__(self, rows: Rows, flagged: BoolArray) -> None:
        labels, weights = rows.y_true, rows.sample_weight
        self.rows = rows
        self.kinds = {
            TP: labels & flagged,
            FP: ~labels & flagged,
            TN: ~labels & ~flagged,
            FN: labels & ~flagged,
        }
        self.weight: Floats = np.ones(rows.n) if weights is None else weights.astype(np.float64)
        self.is_weighted = bool(self.weight.size and (self.weight != self.weight[0]).any())
        # Largest weight of a flagged row, and of any other row.
        self.heaviest = {
            is_flagged: float(self.weight[flagged == is_flagged].max(initial=0.0))
            for is_flagged in (True, False)
        }

    def measure_group(
        self, shares: Mapping[str, _EventShare], members: Places, confidence: float
    ) -> GroupIndicators:
        """Return the indicators of some rows, given their shares, without gaps."""
        right = {name: share.measure(confidence) for name, share in shares.items()}
        wrong = {}
        for name, other in COMPLEMENTS.items():
            share = right[other]
            low, high = (None if end is None else 1 - end for end in (share.high, share.low))
            if share.value is not None:
                share = replace(share, value=1 - share.value, low=low, high=high)
            wrong[name] = share
        n_flagged = sum(int(self.kinds[kind][members].sum()) for kind in _FLAGGED)
        n_positive = int(self.rows.y_true[members].sum())
        return GroupIndicators(members.size, n_positive, n_flagged, right | wrong, {})

    def find_shares(self, members: Places) -> dict[str, _EventShare]:
        """Return the shares of right decisions among some rows."""
        return {name: self._find_share(members, *counts) for name, counts in _MEASURED.items()}

    def _find_share(
        self, members: Places, parts: tuple[str, ...], wholes: tuple[str, ...], reason: str
    ) -> _EventShare:
        """Return the share of the kinds `parts` among the kinds `wholes`."""
        n, clusters = self.rows.n, self.rows.clusters
        is_counted = np.logical_or.reduce([self.kinds[kind][members] for kind in wholes])
        counted = members[is_counted]
        if not counted.size:
            return _EventShare(LinearEstimate.undefined(reason, n), 0, 0, None, None)
        events = np.logical_or.reduce([self.kinds[kind][counted] for kind in parts])
        weight = self.weight[counted]
        whole = float(weight.sum())
        share = float(weight[events].sum()) / whole
        estimate = LinearEstimate.from_influence(
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
            others = [kind for kind in wholes if kind not in parts]
            with_event, without = (self._find_heaviest(members, kinds) for kinds in (parts, others))
            heaviest = with_event / whole, without / whole
        own_clusters = None if clusters is None else clusters[counted]
        most_rows = self._limit_rows(events, weight, own_clusters)
        return _EventShare(estimate, int(events.sum()), counted.size, heaviest, most_rows)

    def _find_heaviest(self, members: Places, kinds: Iterable[str]) -> float:
        """Return the largest weight of a further decision, of any row or cluster of `members`.

        Only rows with a decision (flagged or not) of these kinds are compared.
        """
        weights = [0.0]
        for is_flagged in {kind in _FLAGGED for kind in kinds}:
            weights.append(self.heaviest[is_flagged])
            if self.rows.clusters is not None:
                flagged = np.logical_or.reduce([self.kinds[kind][members] for kind in _FLAGGED])
                own = members[flagged == is_flagged]
                sums = np.bincount(self.rows.clusters[own], self.weight[own])
                weights.append(float(sums.max(initial=0.0)))
        return max(weights)

    def _limit_rows(
        self, events: BoolArray, weight: Floats, clusters: Places | None
    ) -> float | None:
        """Return the upper limit of the effective sample size; None for independent equal rows."""
        if clusters is not None:
            sums = np.bincount(clusters, weight).astype(np.float64)
            event_sums = np.bincount(clusters, weight * events, sums.size).astype(np.float64)
            present = [kind for kind in (event_sums, sums - event_sums) if kind.any()]
            few = len(present) < 2 or min(map(compute_effective_size, present)) < _FEW_CLUSTERS
            return compute_effective_size(sums) if few else float(events.size)
        return float(events.size) if self.is_weighted else None


def _clip_interval(ends: tuple[float, float]) -> tuple[float, float]:
    return max(ends[0], 0.0), min(ends[1], 1.0)
