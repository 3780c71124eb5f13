"""Differences of error rates between a subgroup and its background, for one model or two.

A metric at a threshold is the share of rows with an event (a harmless row flagged, a toxic row
not flagged) in the subgroup, minus that in the background. The two consist of different rows, so
the variance is the sum of two binomial variances. Two models on the same rows are correlated
through the rows on which both have the event. Rows of one cluster are correlated too: with
clusters, the variance is the sum of squares of the clusters' influences, as for the AUCs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import lacks
from bias_metrics._core.checks import BoolArray, check_threshold
from bias_metrics._core.covariance import Joint
from bias_metrics._core.differences import Difference, less, negated, paired, sized, symmetric
from bias_metrics._core.differences import undefined_difference as without_uncertainty
from bias_metrics._core.intervals import few_clusters, quantile, two_sided_p
from bias_metrics._core.proportions import paired_change, share_difference_interval
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.estimate import Estimate
from bias_metrics.metrics import threshold_metrics
from bias_metrics.rows import Rows
from bias_metrics.thresholds.errors import flagged
from bias_metrics.thresholds.rate_sides import Events, Side, inflated_error


@dataclass(frozen=True, eq=False)
class Gap:
    """A subgroup and its background."""

    own: Side  # own, background: the counts of each
    background: Side
    name: str  # Name of the counted rows, such as "negatives"
    confidence: float  # Confidence of each interval
    # For each model whose threshold is an estimate: the gap at the ends of its range.
    moved: tuple[tuple[float, ...], ...] = ()

    def value(self, model: int = 0) -> float | None:
        """Return the subgroup's share minus the background's."""
        if not self.own.n or not self.background.n:
            return None
        return self.own.share(model) - self.background.share(model)

    def allowance(self, model: int) -> float:
        """Return how far the gap changes as an estimated threshold moves within its range."""
        value = self.value(model) or 0.0
        ends = self.moved[model] if self.moved else ()
        return max((abs(end - value) for end in ends), default=0.0)

    def measure(self, model: int = 0) -> MetricValue:
        """Return the subgroup's share minus the background's, with its interval."""
        own, other = self.own, self.background
        counts = {f"subgroup_{self.name}": own.n, f"background_{self.name}": other.n}
        if lack := lacks(**counts):
            return undefined(lack)
        value = own.share(model) - other.share(model)
        if min(own.n, other.n) < 2:
            return MetricValue(value, "fewer than 2 rows in a class")
        allowance, z = self.allowance(model), quantile(self.confidence)
        std_error = math.hypot(math.sqrt(self._covariance(model, model)), allowance / z)
        ends = own.events[model], own.n, other.events[model], other.n
        low, high = share_difference_interval(*ends, z)
        low = max(value - math.hypot(value - low, allowance), -1.0)
        high = min(value + math.hypot(high - value, allowance), 1.0)
        found = MetricValue(value, std_error=std_error, low=low, high=high)
        if own.rows_by_cluster is None:
            return found
        estimate = self._estimate(model)
        n_clusters = estimate.n_clusters
        wider = math.hypot(inflated_error(estimate), allowance / z)
        found = replace(found, std_error=wider, row_std_error=std_error, n_clusters=n_clusters)
        if reason := few_clusters(n_clusters):
            return replace(found, low=None, high=None, reason=reason)
        reach = wider * quantile(self.confidence, estimate.freedom)
        low, high = min(low, value - reach), max(high, value + reach)
        return replace(found, low=max(low, -1.0), high=min(high, 1.0))

    def difference(self) -> Difference:
        """Return the first model's gap minus the second's, on the same rows.

        The interval is computed from the two gaps' own intervals and their covariance (see
        `bias_metrics._core.differences`), and has zero width if both models decide alike. With
        clusters it reaches at least as far as the clustered error requires.
        """
        a, b = self.measure(0), self.measure(1)
        if a.std_error is None or b.std_error is None:
            return without_uncertainty(a, b)
        if self.own.rows_by_cluster is None:
            return self._paired(a, b)
        apart = self._estimate(0).minus(self._estimate(1))
        n_clusters = apart.n_clusters
        if reason := few_clusters(n_clusters):
            error = inflated_error(apart)
            found = Difference(a.value, b.value, less(a, b), error, reason=reason)
        else:
            found = self._paired(*(replace(one, std_error=one.row_std_error) for one in (a, b)))
        return replace(found, n_clusters=n_clusters)

    def _paired(self, a: MetricValue, b: MetricValue) -> Difference:
        z = quantile(self.confidence)
        together = Joint(self._covariance(0, 1), (0.0, 0.0, 0.0, 0.0))
        found = paired(a, b, together, self.confidence, small=True)
        if self._decide_alike():
            found = symmetric(a, b, 0.0, self.confidence)
        else:
            low, high = self._by_disagreements(z)
            assert found.low is not None  # noqa: S101
            assert found.high is not None  # noqa: S101
            found = replace(found, low=min(found.low, low), high=max(found.high, high))
        total = paired(a, negated(b), together.negated(), self.confidence, small=True)
        if self.own.rows_by_cluster is not None:
            first, second = self._estimate(0), self._estimate(1)
            found = self._stretched(found, first.minus(second))
            total = self._stretched(total, first.minus(second.negated()))
        return sized(found, total, b, self.confidence)

    def _by_disagreements(self, z: float) -> tuple[float, float]:
        """Return the interval computed only from the rows on which the models disagree.

        If they nearly always agree, the correlation behind the other interval is itself estimated
        from few rows; the caller takes the union of the two.
        """
        changes = [
            paired_change(one.events[0] - one.both, one.events[1] - one.both, one.n)
            for one in (self.own, self.background)
        ]
        value = changes[0][0] - changes[1][0]
        reach = math.hypot(
            z * math.sqrt(changes[0][1] + changes[1][1]), self.allowance(0), self.allowance(1)
        )
        return value - reach, value + reach

    def _stretched(self, found: Difference, apart: Estimate) -> Difference:
        """Return a difference whose interval reaches at least as far as its clustered error."""
        error = inflated_error(apart)
        if not self._decide_alike():
            z = quantile(self.confidence)
            error = math.hypot(error, self.allowance(0) / z, self.allowance(1) / z)
        assert found.value is not None  # noqa: S101
        assert found.low is not None  # noqa: S101
        assert found.high is not None  # noqa: S101
        reach = error * quantile(self.confidence, apart.freedom)
        low, high = min(found.low, found.value - reach), max(found.high, found.value + reach)
        p_value = two_sided_p(found.value, error, apart.freedom)
        return replace(found, std_error=error, low=low, high=high, p_value=p_value)

    def _decide_alike(self) -> bool:
        sides = self.own, self.background
        if self.moved and self.moved[0] != self.moved[1]:
            return False
        return all(side.events[0] == side.events[1] == side.both for side in sides)

    def _covariance(self, a: int, b: int) -> float:
        return self.own.covariance(a, b) + self.background.covariance(a, b)

    def _estimate(self, model: int) -> Estimate:
        return self.own.estimate(model).minus(self.background.estimate(model))


def decisions(
    rows: Rows,
    name: str,
    y_score: npt.ArrayLike,
    threshold: float,
    threshold_range: tuple[float, float] | None = None,
) -> list[BoolArray]:
    """Say which rows a model flags at its threshold, and at the ends of the range."""
    scores = rows.scores(name, y_score)
    return [flagged(scores, check_threshold(at)) for at in (threshold, *(threshold_range or ()))]


def rate_cells(
    rows: Rows,
    models: Sequence[list[BoolArray]],
    confidence: float,
    names: Iterable[str] | None = None,
) -> Iterator[tuple[str, str, Gap]]:
    """Yield each subgroup (or each of these names) with its background, for each metric.

    `models` are the decisions of each model, see `decisions`.
    """
    shown = list(rows.subgroups if names is None else names)
    decided, *ends = zip(*models, strict=True)
    at_ends = [_cells(rows, flags, confidence, shown) for flags in ends]
    of_groups = _cells(rows, decided, confidence, shown)
    for (name, metric, gap), *others in zip(of_groups, *at_ends, strict=True):
        moved = (
            tuple(end.value(model) or 0.0 for _, _, end in others) for model in range(len(models))
        )
        yield name, metric, replace(gap, moved=tuple(moved) if ends else ())


def _cells(
    rows: Rows, models: Sequence[BoolArray], confidence: float, names: Iterable[str]
) -> Iterator[tuple[str, str, Gap]]:
    for metric, rate in threshold_metrics().items():
        events = Events.of(rate, rows.y_true, models, rows.clusters)
        total = events.among(np.arange(rows.n))
        counted = f"{rate.of[0]}s" if len(rate.of) == 1 else "rows"
        for name, gap in gaps_of(events, rows, total, counted, confidence, names):
            yield name, metric, gap


def gaps_of(
    events: Events,
    rows: Rows,
    total: Side,
    counted: str,
    confidence: float,
    names: Iterable[str] | None = None,
) -> Iterator[tuple[str, Gap]]:
    """Yield each subgroup with its background, of one kind of event; `total` is of all rows."""
    shared = None if rows.excluded is None else events.among(rows.excluded)
    for name in rows.subgroups if names is None else names:
        own = events.among(np.flatnonzero(rows.subgroups[name]))
        yield name, Gap(own, total.less(shared or own), counted, confidence)
