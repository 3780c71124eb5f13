"""How often an event happens among the rows of a subgroup or of its background, by model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray
from bias_metrics._core.intervals import effective_number, few_clusters, quantile
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.estimate import Estimate
from bias_metrics.metrics import Class, Rate

Rows = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Side:
    """How often an event happens among the rows of a subgroup, or of a background."""

    n: int  # Rows of the classes that the metric counts
    events: tuple[int, ...]  # Rows with the event, under each model
    both: int  # Rows with the event under every model
    # (number of clusters,): The rows by cluster, if there are clusters.
    rows_by_cluster: Floats | None = None
    events_by_cluster: tuple[Floats, ...] = ()  # Rows with the event by cluster, under each model

    def less(self, other: Side) -> Side:
        """Return the counts without those of `other`, which is part of them."""
        by_cluster = None
        if self.rows_by_cluster is not None and other.rows_by_cluster is not None:
            by_cluster = self.rows_by_cluster - other.rows_by_cluster
        events = zip(self.events, other.events, strict=True)
        each = zip(self.events_by_cluster, other.events_by_cluster, strict=True)
        return Side(
            self.n - other.n,
            tuple(a - b for a, b in events),
            self.both - other.both,
            by_cluster,
            tuple(a - b for a, b in each),
        )

    def share(self, model: int) -> float:
        """Return the share of the rows with the event."""
        return self.events[model] / self.n

    def covariance(self, a: int, b: int) -> float:
        """Return the covariance of two models' shares; for a model with itself, the variance."""
        together = self.events[a] if a == b else self.both
        return (together / self.n - self.share(a) * self.share(b)) / (self.n - 1)

    def estimate(self, model: int) -> Estimate:
        """Return the share with the influence of each cluster on it; rows must have clusters."""
        rows, share = self.rows_by_cluster, self.share(model)
        assert rows is not None  # noqa: S101
        return Estimate(
            share,
            np.empty(0),
            freedom=max(effective_number(rows) - 1, 1.0),
            n_effective=self.n,
            bounds=(0.0, 1.0),
            by_cluster=(self.events_by_cluster[model] - share * rows) / self.n,
            n_clusters=int(np.count_nonzero(rows)),
        )

    def measure(self, model: int, confidence: float) -> MetricValue:
        """Return the share with its interval, for a threshold that is given.

        The interval is Wilson's. With clusters it reaches at least as far as the clustered error
        requires, and there is none from too few clusters.
        """
        if not self.n:
            return undefined("no rows")
        share = self.share(model)
        low, high = wilson_interval(share, self.n, quantile(confidence))
        n_clusters = None
        if self.rows_by_cluster is not None:
            estimate = self.estimate(model)
            n_clusters = estimate.n_clusters
            if reason := few_clusters(n_clusters):
                return MetricValue(share, reason, n_clusters=n_clusters)
            reach = inflated_error(estimate) * quantile(confidence, estimate.freedom)
            low, high = min(low, share - reach), max(high, share + reach)
        low, high = max(low, 0.0), min(high, 1.0)
        return MetricValue(share, low=low, high=high, n_clusters=n_clusters)


def inflated_error(estimate: Estimate) -> float:
    """Return the clustered error of a share, or of a difference of shares, G / (G - 1) inflated."""
    n_clusters = estimate.n_clusters
    return math.sqrt(n_clusters / max(n_clusters - 1, 1)) * estimate.std_error


@dataclass(frozen=True, eq=False)
class Events:
    """The rows that a metric counts, and which have the event, under one model or two."""

    rate: Rate  # What the metric counts
    counted: BoolArray  # Rows of its classes
    happened: Sequence[BoolArray]  # Which rows have the event, under each model
    clusters: Rows | None  # Codes 0, 1, ... of the clusters.

    @classmethod
    def of(
        cls, rate: Rate, labels: BoolArray, decisions: Sequence[BoolArray], clusters: Rows | None
    ) -> Events:
        """Return what the metric counts, given which rows each model flags."""
        of_class: dict[Class, BoolArray] = {"positive": labels, "negative": ~labels}
        counted = np.logical_or.reduce([of_class[one] for one in rate.of])
        wanted = rate.event == "flagged"
        return cls(rate, counted, [one == wanted for one in decisions], clusters)

    def among(self, rows: Rows) -> Side:
        """Count events among some rows."""
        rows = rows[self.counted[rows]]
        happened = [one[rows] for one in self.happened]
        side = Side(
            rows.size,
            tuple(int(one.sum()) for one in happened),
            int(np.logical_and.reduce(happened).sum()),
        )
        if self.clusters is None:
            return side
        codes, n = self.clusters[rows], int(self.clusters.max()) + 1
        return replace(
            side,
            rows_by_cluster=np.bincount(codes, minlength=n).astype(np.float64),
            events_by_cluster=tuple(
                np.bincount(codes[one], minlength=n).astype(np.float64) for one in happened
            ),
        )
