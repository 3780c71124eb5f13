"""Shares of rows with an event, and their differences between a subgroup and its background.

An event is an error at a threshold (a harmless row flagged, a toxic row not flagged), a missing
score or a truncated text. Subgroup and background consist of different rows, so the variance of a
gap is the sum of two binomial variances. Two models on the same rows are correlated through rows
with the event under both. With clusters, rows within a cluster are correlated; the variance is then
the sum of squared influences of the clusters, as for the AUCs. Only counts are kept, so that
intervals of any confidence can be computed later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bias_metrics._core.cells import describe_empty_classes
from bias_metrics._core.checks import BoolArray
from bias_metrics._core.covariance import JointMoments
from bias_metrics._core.differences import (
    Difference,
    bound_size_change,
    compute_paired_difference,
    negate_value,
    subtract_values,
)
from bias_metrics._core.differences import make_undefined_difference as without_uncertainty
from bias_metrics._core.intervals import (
    FEW_MIXED,
    compute_p_value,
    count_independent_rows,
    explain_few_clusters,
    student_quantile,
)
from bias_metrics._core.proportions import (
    clopper_pearson_interval,
    paired_change_interval,
    share_difference_interval,
    wilson_interval,
)
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.estimate import LinearSummary
from bias_metrics.metrics import Class, Rate
from bias_metrics.rows import Places, Rows
from bias_metrics.thresholds.share_counts import (
    EventCounts,
    EventsByCluster,
    Mix,
    build_summary,
    list_single_mixes,
)

_MOST_GAIN = 1e6  # beyond it, clusters have no influence on the gap


@dataclass(frozen=True)
class Share:
    """The share of rows with an event, by model."""

    n: int
    events: tuple[int, ...]
    both: int
    """As in `Counts`."""
    numbers: tuple[LinearSummary, ...] = ()
    """With clusters: each model's share with its clustered standard error."""
    n_mixed: tuple[int, ...] = ()
    """With clusters: the smaller of the numbers of clusters with and without an event, by model."""
    n_disagreeing: int = 0
    """With clusters and two models: clusters with different numbers of events."""

    @classmethod
    def from_counts(cls, counts: EventCounts) -> Share:
        """Return the share without its counts by cluster."""
        numbers, totals = counts.summarize_shares(), (counts.n, counts.events, counts.both)
        if not numbers:
            return cls(*totals)
        return cls(*totals, numbers, counts.count_smaller_clusters(), counts.n_disagreeing)

    def get_value(self, model: int) -> float:
        """Return a model's share."""
        return self.events[model] / self.n

    def compute_covariance(self, a: int, b: int) -> float:
        """Return the covariance of two models' shares; the variance if `a` equals `b`."""
        together = self.events[a] if a == b else self.both
        return (together / self.n - self.get_value(a) * self.get_value(b)) / (self.n - 1)

    def count_effective(self, model: int) -> float:
        """Return the effective sample size; at least the effective number of clusters."""
        if not self.numbers:
            return self.n
        number = self.numbers[model]
        variance = self.compute_covariance(model, model) if self.n > 1 else 0.0
        effect = _inflate_error(number) ** 2 / variance if variance > 0 else math.inf
        return count_independent_rows(self.n, effect, number.freedom + 1, self.n_mixed[model])

    def bound_change(self, effect: float, z: float) -> tuple[float, float]:
        """Return an interval of the difference of two models' shares.

        It is computed only from rows on which the models disagree; `effect` is the design effect.
        """
        n = float(self.n)
        if self.numbers:
            n = count_independent_rows(n, effect, self.numbers[0].freedom + 1, self.n_disagreeing)
        first_only, second_only = ((events - self.both) * n / self.n for events in self.events)
        return paired_change_interval(first_only, second_only, n, z)

    def measure(self, confidence: float, model: int = 0) -> MetricValue:
        """Return a model's share with Wilson's interval, widened for clusters."""
        if not self.n:
            return make_undefined("no rows")
        share = self.get_value(model)
        low, high = wilson_interval(
            share, self.count_effective(model), student_quantile(confidence)
        )
        n_clusters = None
        if self.numbers:
            number = self.numbers[model]
            n_clusters = number.n_clusters
            if reason := explain_few_clusters(n_clusters):
                return MetricValue(share, reason, n_clusters=n_clusters)
            reach = _inflate_error(number) * student_quantile(confidence, number.freedom)
            low, high = min(low, share - reach), max(high, share + reach)
        low, high = max(low, 0.0), min(high, 1.0)
        return MetricValue(share, low=low, high=high, n_clusters=n_clusters)


@dataclass(frozen=True)
class ShareGap:
    """A subgroup's share minus that of its background, for a model or two."""

    own: Share
    background: Share
    name: str
    """Name of the counted rows, such as "negatives"."""
    numbers: tuple[LinearSummary, ...] = ()
    """With clusters: each model's gap with its clustered standard error."""
    contrasts: tuple[LinearSummary, ...] = ()
    """With clusters and two models: the difference and the sum of the two gaps."""
    range_values: tuple[tuple[float, ...], ...] = ()
    """With estimated thresholds: each model's gap at the ends of its threshold's range."""

    @classmethod
    def from_counts(cls, own: EventCounts, background: EventCounts, name: str) -> ShareGap:
        """Return the gap without its counts by cluster."""
        if own.by_cluster is None or not own.n or not background.n:
            return cls(Share.from_counts(own), Share.from_counts(background), name)
        counts = [own, background]

        def contrast_models(mix: Mix) -> LinearSummary:
            squares = own.sum_remaining_squares(mix) + background.sum_remaining_squares(mix)
            influence = own.compute_influence(mix) - background.compute_influence(mix)
            return build_summary(
                own.compute_share(mix) - background.compute_share(mix), influence, squares, counts
            )

        n_models = len(own.events)
        pairs: list[Mix] = [((0, 1), (1, -1)), ((0, 1), (1, 1))] if n_models == 2 else []
        return cls(
            Share.from_counts(own),
            Share.from_counts(background),
            name,
            tuple(map(contrast_models, list_single_mixes(n_models))),
            tuple(map(contrast_models, pairs)),
        )

    def get_value(self, model: int = 0) -> float | None:
        """Return a model's gap; None without rows in the subgroup or background."""
        if not self.own.n or not self.background.n:
            return None
        return self.own.get_value(model) - self.background.get_value(model)

    def allow_ranges(self, ends: Sequence[ShareGap]) -> ShareGap:
        """Return the gap with an allowance for estimated thresholds.

        `ends` are the same gaps at the ends of the thresholds' ranges.
        """
        models = range(len(self.own.events))
        values = (tuple(end.get_value(model) or 0.0 for end in ends) for model in models)
        return replace(self, range_values=tuple(values) if ends else ())

    def measure(self, confidence: float, model: int = 0) -> MetricValue:
        """Return a model's gap with its interval."""
        own, other = self.own, self.background
        counts = {f"subgroup_{self.name}": own.n, f"background_{self.name}": other.n}
        if lack := describe_empty_classes(**counts):
            return make_undefined(lack)
        value = own.get_value(model) - other.get_value(model)
        if min(own.n, other.n) < 2:
            return MetricValue(value, "fewer than 2 rows in a class")
        allowance, z = self._compute_allowance(model), student_quantile(confidence)
        std_error = math.hypot(math.sqrt(self._covariance(model, model)), allowance / z)
        gain = self._compute_gain(model)
        most = math.inf if self._has_reliable_gain(model) else 1.0
        n_own, n_other = (
            min(gain * side.count_effective(model), most * side.n) for side in (own, other)
        )
        k_own, k_other = own.get_value(model) * n_own, other.get_value(model) * n_other
        low, high = share_difference_interval(k_own, n_own, k_other, n_other, z)
        low = max(value - math.hypot(value - low, allowance), -1.0)
        high = min(value + math.hypot(high - value, allowance), 1.0)
        gap = MetricValue(value, std_error=std_error, low=low, high=high)
        if not self.numbers:
            return gap
        number = self.numbers[model]
        clustered_error = math.hypot(_inflate_error(number), allowance / z)
        gap = replace(
            gap,
            std_error=clustered_error,
            row_std_error=std_error,
            n_clusters=number.n_clusters,
        )
        if reason := explain_few_clusters(number.n_clusters):
            return replace(gap, low=None, high=None, reason=reason)
        reach = clustered_error * student_quantile(confidence, number.freedom)
        low, high = min(low, value - reach), max(high, value + reach)
        return replace(gap, low=max(low, -1.0), high=min(high, 1.0))

    def compare_models(self, confidence: float) -> Difference:
        """Return the first model's gap minus the second's, on the same rows.

        Its interval combines the gaps' intervals with their covariance, and is at least as wide as
        the interval from disagreements. With clusters it also covers the clustered error.
        """
        a, b = self.measure(confidence, 0), self.measure(confidence, 1)
        if a.std_error is None or b.std_error is None:
            return without_uncertainty(a, b)
        if not self.contrasts:
            return self._pair_gaps(a, b, confidence)
        number = self.contrasts[0]
        if reason := explain_few_clusters(number.n_clusters):
            error = _inflate_error(number)
            difference = Difference(a.value, b.value, subtract_values(a, b), error, reason=reason)
        else:
            a, b = (replace(gap, std_error=gap.row_std_error) for gap in (a, b))
            difference = self._pair_gaps(a, b, confidence)
        return replace(difference, n_clusters=number.n_clusters)

    def _pair_gaps(self, a: MetricValue, b: MetricValue, confidence: float) -> Difference:
        """Return the difference of two measured gaps, with the union of all its intervals."""
        joint = JointMoments(self._covariance(0, 1))
        difference = compute_paired_difference(a, b, joint, confidence, small=True)
        difference = _widen_interval(
            difference, *self._bound_by_disagreements(student_quantile(confidence))
        )
        total = compute_paired_difference(
            a, negate_value(b), joint.negate_second(), confidence, small=True
        )
        if self.contrasts:
            clustered_difference, clustered_sum = self.contrasts
            difference = self._cover_clusters(difference, clustered_difference, confidence)
            total = self._cover_clusters(total, clustered_sum, confidence)
        return bound_size_change(difference, total, b, confidence)

    def _bound_by_disagreements(self, z: float) -> tuple[float, float]:
        """Return the interval computed only from rows on which the models disagree.

        If they nearly always agree, the correlation in the other interval is itself estimated from
        few rows; the caller takes the union of the two.
        """
        effect = 1.0
        if self.contrasts:
            variance = self._covariance(0, 0) + self._covariance(1, 1) - 2 * self._covariance(0, 1)
            effect = _inflate_error(self.contrasts[0]) ** 2 / variance if variance > 0 else math.inf
        (low, high), (other_low, other_high) = (
            share.bound_change(effect, z) for share in (self.own, self.background)
        )
        own, other = (
            share.get_value(0) - share.get_value(1) for share in (self.own, self.background)
        )
        allowance = math.hypot(self._compute_allowance(0), self._compute_allowance(1))
        down = math.hypot(own - low, other_high - other, allowance)
        up = math.hypot(high - own, other - other_low, allowance)
        return own - other - down, own - other + up

    def _cover_clusters(
        self, difference: Difference, number: LinearSummary, confidence: float
    ) -> Difference:
        """Return a difference with an interval at least as wide as the clustered error requires."""
        z = student_quantile(confidence)
        allowances = (self._compute_allowance(model) / z for model in (0, 1))
        error = math.hypot(_inflate_error(number), *allowances)
        value = difference.value
        assert value is not None  # noqa: S101
        reach = error * student_quantile(confidence, number.freedom)
        p_value = compute_p_value(value, error, number.freedom)
        difference = replace(difference, std_error=error, p_value=p_value)
        return _widen_interval(difference, value - reach, value + reach)

    def _compute_allowance(self, model: int) -> float:
        """Return the largest change of the gap within the range of an estimated threshold."""
        value = self.get_value(model) or 0.0
        ends = self.range_values[model] if self.range_values else ()
        return max((abs(end - value) for end in ends), default=0.0)

    def _compute_gain(self, model: int) -> float:
        """Return the factor in precision from clusters that influence both shares alike."""
        if not self.numbers:
            return 1.0
        parts = (share.numbers[model].std_error ** 2 for share in (self.own, self.background))
        separate, error = sum(parts), self.numbers[model].std_error ** 2
        return max(separate / error, 1.0) if error > 0 else math.inf if separate > 0 else 1.0

    def _has_reliable_gain(self, model: int) -> bool:
        """Return True if enough clusters support a gain beyond the number of rows."""
        if not self.numbers or self.numbers[model].freedom < FEW_MIXED:
            return False
        if self._compute_gain(model) > _MOST_GAIN:
            return False
        return min(share.n_mixed[model] for share in (self.own, self.background)) >= FEW_MIXED

    def _covariance(self, a: int, b: int) -> float:
        return self.own.compute_covariance(a, b) + self.background.compute_covariance(a, b)


def _inflate_error(number: LinearSummary) -> float:
    """Return the clustered standard error, with its variance multiplied by G / (G - 1)."""
    n_clusters = number.n_clusters
    return math.sqrt(n_clusters / max(n_clusters - 1, 1)) * number.std_error


def _widen_interval(difference: Difference, low: float, high: float) -> Difference:
    """Return a difference with the union of its interval and another interval."""
    assert difference.low is not None  # noqa: S101
    assert difference.high is not None  # noqa: S101
    return replace(difference, low=min(difference.low, low), high=max(difference.high, high))


@dataclass(frozen=True, eq=False)
class Events:
    """The rows that a metric counts and the rows with the event, by model."""

    rows: Rows
    counted: BoolArray  # Rows of the classes that the metric counts
    event_masks: Sequence[BoolArray]  # Rows with the event, by model
    name: str = "rows"  # Name of the counted rows

    @classmethod
    def from_rate(cls, rate: Rate, rows: Rows, flags: Sequence[BoolArray]) -> Events:
        """Return the events of a metric at a threshold, given the rows that each model flags."""
        classes: dict[Class, BoolArray] = {"positive": rows.y_true, "negative": ~rows.y_true}
        counted = np.logical_or.reduce([classes[label] for label in rate.classes])
        return cls(rows, counted, [flagged == rate.counts_flagged for flagged in flags], rate.rows)

    def count_all(self) -> EventCounts:
        """Count events among all rows."""
        if self.rows.clusters is not None:
            return self.count_among(np.arange(self.rows.n))
        event_masks = [self.counted & has_event for has_event in self.event_masks]
        return EventCounts.count_events(int(self.counted.sum()), event_masks)

    def count_among(self, places: Places, own_clusters: Places | None = None) -> EventCounts:
        """Count events among some rows.

        `own_clusters` are their sorted clusters, for counts by these clusters only.
        """
        places = places[self.counted[places]]
        event_masks = [has_event[places] for has_event in self.event_masks]
        counts = EventCounts.count_events(places.size, event_masks)
        clusters = self.rows.clusters
        if clusters is None:
            return counts
        codes, n = clusters[places], int(clusters.max()) + 1
        if own_clusters is not None:
            position = np.zeros(n, np.intp)
            position[own_clusters] = np.arange(own_clusters.size)
            codes, n = position[codes], own_clusters.size
        return replace(counts, by_cluster=EventsByCluster.count_events(codes, n, event_masks))

    def list_gaps(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, ShareGap]]:
        """Yield the gaps by subgroup; `names` selects subgroups."""
        rows, everywhere = self.rows, self.count_all()
        if rows.excluded is not None:
            everywhere = everywhere.subtract_rows(self.count_among(rows.excluded))
        for name in rows.subgroups if names is None else names:
            places = np.flatnonzero(rows.subgroups[name])
            clusters = None
            if rows.clusters is not None:
                clusters = np.flatnonzero(np.bincount(rows.clusters[places]))
            own = self.count_among(places, clusters)
            background = everywhere.split_clusters(clusters)
            if rows.excluded is None:
                background = background.subtract_rows(own)
            yield name, ShareGap.from_counts(own, background, self.name)


@dataclass(frozen=True)
class CountedShare(Tabular):
    """The number of rows with an event, and the exact interval of their share."""

    count: int
    n: int
    low: float | None = None
    high: float | None = None
    """Exact interval of the share; None with the reason without interval."""
    reason: str | None = None
    n_clusters: int | None = None
    """Clusters with counted rows, if rows come in clusters."""

    @classmethod
    def from_share(cls, share: Share, confidence: float | None) -> CountedShare:
        """Return the counts with an interval; `confidence` is None if rows are not a sample.

        With clusters, the interval uses the effective sample size.
        """
        count = share.events[0] if share.events else 0
        if confidence is None:
            return cls(count, share.n)
        wilson = share.measure(confidence)
        low, high = wilson.low, wilson.high
        if low is not None:
            n = min(share.count_effective(0), share.n)
            k = share.get_value(0) * n  # exactly n if all rows have the event
            low, high = clopper_pearson_interval(k, n, student_quantile(confidence))
        return cls(count, share.n, low, high, wilson.reason, wilson.n_clusters)

    @property
    def value(self) -> float | None:
        """The share of rows with the event; None without rows."""
        return self.count / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def rows(self) -> list[Row]:
        """Return a single record."""
        return [self.to_dict() | {"share": self.value}]


def measure_changed_share(share: Share, confidence: float) -> Difference:
    """Return the share of changed decisions as a difference from 0, the rival's own share."""
    changed = CountedShare.from_share(share, confidence)
    if changed.value is None or changed.low is None or changed.high is None:
        return Difference(changed.value, 0.0, changed.value, reason=changed.reason)
    return Difference(
        changed.value,
        0.0,
        changed.value,
        low=changed.low,
        high=changed.high,
        n_clusters=changed.n_clusters,
        size_low=changed.low,
        size_high=changed.high,
    )
