"""Shares of rows with an event, and their differences between a subgroup and its background.

An event is an error at a threshold (a harmless row flagged, a toxic row not flagged), a missing
score or a truncated text. Subgroup and background consist of different rows, so the variance of a
gap is the sum of two binomial ones. Two models on the same rows are correlated through the rows on
which both have the event. Rows of one cluster are correlated too: with clusters, the variance is
the sum of squares of the clusters' influences, as for the AUCs. Only counts are kept, so that any
confidence may be asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bias_metrics._core.cells import lacks
from bias_metrics._core.checks import BoolArray
from bias_metrics._core.covariance import Joint
from bias_metrics._core.differences import Difference, less, negated, paired, sized
from bias_metrics._core.differences import undefined_difference as without_uncertainty
from bias_metrics._core.intervals import (
    FEW_MIXED,
    few_clusters,
    independent_rows,
    quantile,
    two_sided_p,
)
from bias_metrics._core.proportions import (
    clopper_pearson,
    paired_change,
    share_difference_interval,
    wilson_interval,
)
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.estimate import Number
from bias_metrics.metrics import Class, Rate
from bias_metrics.rows import Places, Rows
from bias_metrics.thresholds.share_counts import ByCluster, Counts, Mix, alone, number_of

_UNKNOWN = (0.0, 0.0, 0.0, 0.0)  # third moments
_MOST_GAIN = 1e6  # where it is more, no cluster moves the two shares apart


@dataclass(frozen=True)
class Share:
    """How often an event happens among some rows, under each model."""

    n: int
    events: tuple[int, ...]
    both: int
    """As in `Counts`."""
    numbers: tuple[Number, ...] = ()
    """With clusters: each model's share, with the error that allows for them."""
    mixed: tuple[int, ...] = ()
    """With clusters: those with the event, or those without it, if they are fewer."""
    disagreeing: int = 0
    """With clusters and two models: those with more events under one of them."""

    @classmethod
    def of(cls, counts: Counts) -> Share:
        """Return what is kept of counts."""
        numbers, known = counts.numbers(), (counts.n, counts.events, counts.both)
        if not numbers:
            return cls(*known)
        return cls(*known, numbers, counts.mixed(), counts.disagreeing)

    def value(self, model: int) -> float:
        """Return the share of the rows with the event."""
        return self.events[model] / self.n

    def covariance(self, a: int, b: int) -> float:
        """Return the covariance of two models' shares; for a model with itself, the variance."""
        together = self.events[a] if a == b else self.both
        return (together / self.n - self.value(a) * self.value(b)) / (self.n - 1)

    def worth(self, model: int) -> float:
        """Return how many independent rows they are worth; at least the effective clusters."""
        if not self.numbers:
            return self.n
        number = self.numbers[model]
        variance = self.covariance(model, model) if self.n > 1 else 0.0
        effect = _inflated_error(number) ** 2 / variance if variance > 0 else math.inf
        return independent_rows(self.n, effect, number.freedom + 1, self.mixed[model])

    def change(self, effect: float, z: float) -> tuple[float, float]:
        """Return an interval of the difference of two models' shares.

        It is computed only from the rows on which they disagree, of which `effect` are worth one.
        """
        n = float(self.n)
        if self.numbers:
            n = independent_rows(n, effect, self.numbers[0].freedom + 1, self.disagreeing)
        first_only, second_only = ((events - self.both) * n / self.n for events in self.events)
        return paired_change(first_only, second_only, n, z)

    def measure(self, confidence: float, model: int = 0) -> MetricValue:
        """Return the share with its interval: Wilson's, with clusters as far as these require."""
        if not self.n:
            return undefined("no rows")
        share = self.value(model)
        low, high = wilson_interval(share, self.worth(model), quantile(confidence))
        n_clusters = None
        if self.numbers:
            number = self.numbers[model]
            n_clusters = number.n_clusters
            if reason := few_clusters(n_clusters):
                return MetricValue(share, reason, n_clusters=n_clusters)
            reach = _inflated_error(number) * quantile(confidence, number.freedom)
            low, high = min(low, share - reach), max(high, share + reach)
        low, high = max(low, 0.0), min(high, 1.0)
        return MetricValue(share, low=low, high=high, n_clusters=n_clusters)

    def exact(self, confidence: float) -> MetricValue:
        """Return the first model's share with its exact interval.

        With clusters it is that of as many independent rows as the rows are worth.
        """
        known = self.measure(confidence)
        if known.value is None or known.low is None:
            return known
        worth = min(self.worth(0), self.n)
        k = self.value(0) * worth  # exactly all of them if all rows have the event
        low, high = clopper_pearson(k, worth, quantile(confidence))
        return replace(known, low=low, high=high)


@dataclass(frozen=True)
class ShareGap:
    """A subgroup's share minus its background's, under one model or two."""

    own: Share
    background: Share
    name: str
    """Name of the counted rows, such as "negatives"."""
    numbers: tuple[Number, ...] = ()
    """With clusters: each model's gap."""
    apart: tuple[Number, ...] = ()
    """With clusters and two models: the first gap minus the second, and plus the second."""
    moved: tuple[tuple[float, ...], ...] = ()
    """For each model whose threshold is an estimate: the gap at the ends of its range."""

    @classmethod
    def of(cls, own: Counts, background: Counts, name: str) -> ShareGap:
        """Return what is kept of counts."""
        if own.near is None or not own.n or not background.n:
            return cls(Share.of(own), Share.of(background), name)
        counts = [own, background]

        def number(mix: Mix) -> Number:
            rest = own.rest(mix) + background.rest(mix)
            moved = own.influence(mix) - background.influence(mix)
            return number_of(own.share(mix) - background.share(mix), moved, rest, counts)

        n_models = len(own.events)
        apart: list[Mix] = [((0, 1), (1, -1)), ((0, 1), (1, 1))] if n_models == 2 else []
        return cls(
            Share.of(own),
            Share.of(background),
            name,
            tuple(map(number, alone(n_models))),
            tuple(map(number, apart)),
        )

    def value(self, model: int = 0) -> float | None:
        """Return the subgroup's share minus the background's."""
        if not self.own.n or not self.background.n:
            return None
        return self.own.value(model) - self.background.value(model)

    def allowing(self, ends: Sequence[ShareGap]) -> ShareGap:
        """Return the gap, given the same ones at the ends of the thresholds' ranges."""
        models = range(len(self.own.events))
        moved = (tuple(end.value(model) or 0.0 for end in ends) for model in models)
        return replace(self, moved=tuple(moved) if ends else ())

    def measure(self, confidence: float, model: int = 0) -> MetricValue:
        """Return the gap with its interval."""
        own, other = self.own, self.background
        counts = {f"subgroup_{self.name}": own.n, f"background_{self.name}": other.n}
        if lack := lacks(**counts):
            return undefined(lack)
        value = own.value(model) - other.value(model)
        if min(own.n, other.n) < 2:
            return MetricValue(value, "fewer than 2 rows in a class")
        allowance, z = self._allowance(model), quantile(confidence)
        std_error = math.hypot(math.sqrt(self._covariance(model, model)), allowance / z)
        gain = self._shared(model)
        most = math.inf if self._is_firm(model) else 1.0
        sizes = [min(gain * share.worth(model), most * share.n) for share in (own, other)]
        events = own.value(model) * sizes[0], other.value(model) * sizes[1]
        ends = events[0], sizes[0], events[1], sizes[1]
        low, high = share_difference_interval(*ends, z)
        low = max(value - math.hypot(value - low, allowance), -1.0)
        high = min(value + math.hypot(high - value, allowance), 1.0)
        found = MetricValue(value, std_error=std_error, low=low, high=high)
        if not self.numbers:
            return found
        number = self.numbers[model]
        wider = math.hypot(_inflated_error(number), allowance / z)
        n_clusters = number.n_clusters
        found = replace(found, std_error=wider, row_std_error=std_error, n_clusters=n_clusters)
        if reason := few_clusters(n_clusters):
            return replace(found, low=None, high=None, reason=reason)
        reach = wider * quantile(confidence, number.freedom)
        low, high = min(low, value - reach), max(high, value + reach)
        return replace(found, low=max(low, -1.0), high=min(high, 1.0))

    def difference(self, confidence: float) -> Difference:
        """Return the first model's gap minus the second's, on the same rows.

        Its interval comes from the gaps' own ones and their covariance; with clusters it reaches as
        far as their error requires, and as far as decisions may differ on rows that were not drawn.
        """
        a, b = self.measure(confidence, 0), self.measure(confidence, 1)
        if a.std_error is None or b.std_error is None:
            return without_uncertainty(a, b)
        if not self.apart:
            return self._paired(a, b, confidence)
        number = self.apart[0]
        if reason := few_clusters(number.n_clusters):
            error = _inflated_error(number)
            found = Difference(a.value, b.value, less(a, b), error, reason=reason)
        else:
            of_rows = [replace(gap, std_error=gap.row_std_error) for gap in (a, b)]
            found = self._paired(of_rows[0], of_rows[1], confidence)
        return replace(found, n_clusters=number.n_clusters)

    def _paired(self, a: MetricValue, b: MetricValue, confidence: float) -> Difference:
        together = Joint(self._covariance(0, 1), _UNKNOWN)
        found = paired(a, b, together, confidence, small=True)
        found = _reaching(found, *self._by_disagreements(quantile(confidence)))
        total = paired(a, negated(b), together.negated(), confidence, small=True)
        if self.apart:
            of_difference, of_sum = self.apart
            found = self._stretched(found, of_difference, confidence)
            total = self._stretched(total, of_sum, confidence)
        return sized(found, total, b, confidence)

    def _by_disagreements(self, z: float) -> tuple[float, float]:
        """Return the interval computed only from the rows on which the models disagree.

        If they nearly always agree, the correlation behind the other interval is itself estimated
        from few rows; the caller takes the union of the two.
        """
        effect = 1.0
        if self.apart:
            rows = self._covariance(0, 0) + self._covariance(1, 1) - 2 * self._covariance(0, 1)
            effect = _inflated_error(self.apart[0]) ** 2 / rows if rows > 0 else math.inf
        (low, high), (other_low, other_high) = (
            share.change(effect, z) for share in (self.own, self.background)
        )
        own, other = (share.value(0) - share.value(1) for share in (self.own, self.background))
        moved = math.hypot(self._allowance(0), self._allowance(1))
        down = math.hypot(own - low, other_high - other, moved)
        return own - other - down, own - other + math.hypot(high - own, other - other_low, moved)

    def _stretched(self, found: Difference, apart: Number, confidence: float) -> Difference:
        """Return a difference whose interval reaches at least as far as its clustered error."""
        error = _inflated_error(apart)
        z = quantile(confidence)
        error = math.hypot(error, self._allowance(0) / z, self._allowance(1) / z)
        value = found.value
        assert value is not None  # noqa: S101
        reach = error * quantile(confidence, apart.freedom)
        found = replace(found, std_error=error, p_value=two_sided_p(value, error, apart.freedom))
        return _reaching(found, value - reach, value + reach)

    def _allowance(self, model: int) -> float:
        """Return how far the gap changes as an estimated threshold moves within its range."""
        value = self.value(model) or 0.0
        ends = self.moved[model] if self.moved else ()
        return max((abs(end - value) for end in ends), default=0.0)

    def _shared(self, model: int) -> float:
        """Return how many times more precise the gap is because clusters move both shares alike."""
        if not self.numbers:
            return 1.0
        parts = (share.numbers[model].std_error ** 2 for share in (self.own, self.background))
        apart, error = sum(parts), self.numbers[model].std_error ** 2
        return max(apart / error, 1.0) if error > 0 else math.inf if apart > 0 else 1.0

    def _is_firm(self, model: int) -> bool:
        """Say whether enough clusters show how they move both shares, so that rows are no limit."""
        if not self.numbers or self.numbers[model].freedom < FEW_MIXED:
            return False
        if self._shared(model) > _MOST_GAIN:
            return False
        return min(share.mixed[model] for share in (self.own, self.background)) >= FEW_MIXED

    def _covariance(self, a: int, b: int) -> float:
        return self.own.covariance(a, b) + self.background.covariance(a, b)


def _inflated_error(number: Number) -> float:
    """Return the clustered error of a share, or of a difference of shares, G / (G - 1) inflated."""
    n_clusters = number.n_clusters
    return math.sqrt(n_clusters / max(n_clusters - 1, 1)) * number.std_error


def _reaching(found: Difference, low: float, high: float) -> Difference:
    """Return a difference whose interval reaches as far as another one, too."""
    assert found.low is not None  # noqa: S101
    assert found.high is not None  # noqa: S101
    return replace(found, low=min(found.low, low), high=max(found.high, high))


@dataclass(frozen=True, eq=False)
class Events:
    """The rows that a metric counts, and which have the event, under one model or two."""

    rows: Rows
    counted: BoolArray  # Rows of its classes
    happened: Sequence[BoolArray]  # Which rows have the event, under each model
    name: str = "rows"  # Name of the counted rows

    @classmethod
    def of_rate(cls, rate: Rate, rows: Rows, flags: Sequence[BoolArray]) -> Events:
        """Return what a metric at a threshold counts, given which rows each model flags."""
        of_class: dict[Class, BoolArray] = {"positive": rows.y_true, "negative": ~rows.y_true}
        counted = np.logical_or.reduce([of_class[label] for label in rate.of])
        wanted = rate.event == "flagged"
        return cls(rows, counted, [of_model == wanted for of_model in flags], rate.rows)

    def everywhere(self) -> Counts:
        """Count events among all rows."""
        if self.rows.clusters is not None:
            return self.among(np.arange(self.rows.n))
        happened = [self.counted & of_model for of_model in self.happened]
        return Counts.of_rows(int(self.counted.sum()), happened)

    def among(self, places: Places, among: Places | None = None) -> Counts:
        """Count events among some rows, in all clusters or among some, sorted."""
        places = places[self.counted[places]]
        happened = [of_model[places] for of_model in self.happened]
        counts = Counts.of_rows(places.size, happened)
        clusters = self.rows.clusters
        if clusters is None:
            return counts
        codes, n = clusters[places], int(clusters.max()) + 1
        if among is not None:
            position = np.zeros(n, np.intp)
            position[among] = np.arange(among.size)
            codes, n = position[codes], among.size
        return replace(counts, near=ByCluster.of(codes, n, happened))

    def gaps(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, ShareGap]]:
        """Yield the gap of each subgroup, or of each of these names."""
        for name, own, background in self.sides(names):
            yield name, ShareGap.of(own, background, self.name)

    def sides(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, Counts, Counts]]:
        """Yield each subgroup beside its background, with its own clusters one by one."""
        rows, everywhere = self.rows, self.everywhere()
        if rows.excluded is not None:
            everywhere = everywhere.less(self.among(rows.excluded))
        for name in rows.subgroups if names is None else names:
            places = np.flatnonzero(rows.subgroups[name])
            clusters = None
            if rows.clusters is not None:
                clusters = np.flatnonzero(np.bincount(rows.clusters[places]))
            own, background = self.among(places, clusters), everywhere.around(clusters)
            if rows.excluded is None:
                background = background.less(own)
            yield name, own, background


@dataclass(frozen=True)
class CountedShare(Tabular):
    """How many rows have an event, of how many, with the exact interval of their share."""

    count: int
    n: int
    low: float | None = None
    high: float | None = None
    """Interval of their share; None with the reason if there is none."""
    reason: str | None = None
    n_clusters: int | None = None
    """Clusters with such rows, if rows come in clusters."""

    @classmethod
    def of(cls, share: Share, confidence: float | None) -> CountedShare:
        """Return the counts, with an interval at a confidence; None for rows that are no sample."""
        count = share.events[0] if share.events else 0
        if confidence is None:
            return cls(count, share.n)
        known = share.exact(confidence)
        return cls(count, share.n, known.low, known.high, known.reason, known.n_clusters)

    @property
    def value(self) -> float | None:
        """Their share; None without rows."""
        return self.count / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def rows(self) -> list[Row]:
        """Return one record."""
        return [self.to_dict() | {"share": self.value}]


def changed_share(share: Share, confidence: float) -> Difference:
    """Return the share of changed decisions: a number of one model, of which its rival has none."""
    known = CountedShare.of(share, confidence)
    if known.value is None or known.low is None or known.high is None:
        return Difference(known.value, 0.0, known.value, reason=known.reason)
    return Difference(
        known.value,
        0.0,
        known.value,
        low=known.low,
        high=known.high,
        n_clusters=known.n_clusters,
        size_low=known.low,
        size_high=known.high,
    )
