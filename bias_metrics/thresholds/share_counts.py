"""Counts of rows with an event, also by cluster, for shares and their variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import sub
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray
from bias_metrics._core.ranks import Floats, inner_product
from bias_metrics.estimate import LinearSummary
from bias_metrics.rows import Places

Mix = tuple[tuple[int, int], ...]
"""Linear combination of the models' events: each model's index with its sign, 1 or -1."""


class EventSums(NamedTuple):
    """Sums over clusters for the variance of a share; exact, because counts are integers."""

    n_clusters: int
    squared_rows: float  # Sum of squared numbers of rows
    squared_events: tuple[float, ...]  # Sums of squared numbers of events, by model
    row_event_products: tuple[float, ...]  # Sums of rows times events, by model
    event_products: float  # Sum of products of two models' events; 0 for any other number of models
    n_with_event: tuple[int, ...]  # Clusters with an event, by model
    n_without_event: tuple[int, ...]  # Clusters with a row without the event, by model
    n_disagreeing: int  # Clusters with different numbers of events under two models

    def subtract_clusters(self, other: EventSums) -> EventSums:
        """Return the sums without some of the clusters, whose sums are `other`."""
        pairs: list[tuple[Any, Any]] = list(zip(self, other, strict=True))
        rest: list[Any] = [
            tuple(map(sub, *pair)) if isinstance(pair[0], tuple) else sub(*pair) for pair in pairs
        ]
        return EventSums(*rest)

    def sum_squares(self, mix: Mix, share: float) -> float:
        """Return the sum over clusters of (combined events - share x rows)^2."""
        events = sum(sign**2 * self.squared_events[model] for model, sign in mix)
        if len(mix) == 2:
            events += 2 * math.prod(sign for _, sign in mix) * self.event_products
        together = sum(sign * self.row_event_products[model] for model, sign in mix)
        return max(events - 2 * share * together + share**2 * self.squared_rows, 0.0)


@dataclass(frozen=True, eq=False)
class EventsByCluster:
    """Numbers of rows and of events by cluster, the events also by model."""

    rows: Floats
    events: tuple[npt.NDArray[np.int32], ...]

    @classmethod
    def count_events(
        cls, codes: Places, n: int, event_masks: Sequence[BoolArray]
    ) -> EventsByCluster:
        """Count rows and events, given each row's cluster code below `n`.

        `event_masks` has a mask for each model: True for rows with the event.
        """
        events = (np.bincount(codes[has_event], minlength=n) for has_event in event_masks)
        return cls(
            np.bincount(codes, minlength=n).astype(np.float64),
            tuple(counts.astype(np.int32) for counts in events),
        )

    def subtract_rows(self, other: EventsByCluster) -> EventsByCluster:
        """Return the counts without some rows, whose counts in the same clusters are `other`."""
        events = zip(self.events, other.events, strict=True)
        return EventsByCluster(self.rows - other.rows, tuple(a - b for a, b in events))

    @cached_property
    def sums(self) -> EventSums:
        """The sums over these clusters."""
        events = [counts.astype(np.float64) for counts in self.events]
        are_paired = len(events) == 2
        return EventSums(
            int(np.count_nonzero(self.rows)),
            inner_product(self.rows, self.rows),
            tuple(inner_product(counts, counts) for counts in events),
            tuple(inner_product(counts, self.rows) for counts in events),
            inner_product(*events) if are_paired else 0.0,
            tuple(int(np.count_nonzero(counts)) for counts in events),
            tuple(int(np.count_nonzero(self.rows != counts)) for counts in events),
            int(np.count_nonzero(events[0] != events[1])) if are_paired else 0,
        )


@dataclass(frozen=True, eq=False)
class EventCounts:
    """Numbers of rows and events, also by cluster if rows come in clusters.

    A subgroup has the counts of all its clusters in `by_cluster`. A background has there only the
    clusters that also have rows of the subgroup; `remaining` has the sums over its other clusters.
    """

    n: int  # Rows of the classes that the metric counts
    events: tuple[int, ...]  # Rows with the event, by model
    both: int  # Rows with the event under all models
    by_cluster: EventsByCluster | None = None
    remaining: EventSums | None = None

    @classmethod
    def count_events(cls, n: int, event_masks: Sequence[BoolArray]) -> EventCounts:
        """Count events among `n` rows; `event_masks` has a mask for each model."""
        events = tuple(int(np.count_nonzero(has_event)) for has_event in event_masks)
        return cls(n, events, int(np.count_nonzero(reduce(np.logical_and, event_masks))))

    def subtract_rows(self, other: EventCounts) -> EventCounts:
        """Return the counts without some of the rows, whose counts are `other`."""
        events = zip(self.events, other.events, strict=True)
        by_cluster = self.by_cluster
        if by_cluster is not None and other.by_cluster is not None:
            by_cluster = by_cluster.subtract_rows(other.by_cluster)
        return EventCounts(
            self.n - other.n,
            tuple(a - b for a, b in events),
            self.both - other.both,
            by_cluster,
            self.remaining,
        )

    def split_clusters(self, clusters: Places | None) -> EventCounts:
        """Return the counts with only some clusters kept separate, and the others summed."""
        if clusters is None or self.by_cluster is None:
            return self
        by_cluster = EventsByCluster(
            self.by_cluster.rows[clusters],
            tuple(counts[clusters] for counts in self.by_cluster.events),
        )
        return replace(
            self,
            by_cluster=by_cluster,
            remaining=self.by_cluster.sums.subtract_clusters(by_cluster.sums),
        )

    def compute_share(self, mix: Mix) -> float:
        """Return a model's share of rows with the event, or a difference of two such shares."""
        return sum(sign * self.events[model] for model, sign in mix) / self.n

    def compute_influence(self, mix: Mix) -> Floats:
        """Return the influences of the clusters in `by_cluster` on the share."""
        if mix not in self._influences:
            assert self.by_cluster is not None  # noqa: S101
            events = [sign * self.by_cluster.events[model] for model, sign in mix]
            excess = sum(events[1:], events[0]) - self.compute_share(mix) * self.by_cluster.rows
            self._influences[mix] = excess / self.n
        return self._influences[mix]

    @cached_property
    def _influences(self) -> dict[Mix, Floats]:
        return {}

    def sum_remaining_squares(self, mix: Mix) -> float:
        """Return the sum of squared influences of the clusters in `remaining`."""
        return (
            self.remaining.sum_squares(mix, self.compute_share(mix)) / self.n**2
            if self.remaining
            else 0.0
        )

    @cached_property
    def _parts(self) -> list[EventSums]:
        """Sums over the clusters in `by_cluster`, and over those in `remaining`."""
        assert self.by_cluster is not None  # noqa: S101
        return [self.by_cluster.sums, *([] if self.remaining is None else [self.remaining])]

    @property
    def n_clusters(self) -> int:
        """Clusters with rows."""
        return sum(part.n_clusters for part in self._parts)

    def count_smaller_clusters(self) -> tuple[int, ...]:
        """Return the number of clusters with an event, or with a row without, if that is smaller.

        One number for each model. A cluster may count as both.
        """
        models = range(len(self.events))
        n_with = [sum(part.n_with_event[model] for part in self._parts) for model in models]
        n_without = [sum(part.n_without_event[model] for part in self._parts) for model in models]
        return tuple(map(min, n_with, n_without))

    @property
    def n_disagreeing(self) -> int:
        """Clusters with different numbers of events under two models."""
        return sum(part.n_disagreeing for part in self._parts)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the clustered standard error."""
        squares = sum(part.squared_rows for part in self._parts)
        return max(float(self.n) ** 2 / squares - 1, 1.0)

    def summarize_shares(self) -> tuple[LinearSummary, ...]:
        """Return each model's share with its clustered standard error; empty without clusters."""
        if self.by_cluster is None or not self.n:
            return ()
        return tuple(
            build_summary(
                self.compute_share(mix),
                self.compute_influence(mix),
                self.sum_remaining_squares(mix),
                [self],
                bounds=(0.0, 1.0),
            )
            for mix in list_single_mixes(len(self.events))
        )


def list_single_mixes(n_models: int) -> list[Mix]:
    """Return the combinations that consist of a single model."""
    return [((model, 1),) for model in range(n_models)]


def build_summary(
    value: float,
    influence: Floats,
    remaining_squares: float,
    counts: Sequence[EventCounts],
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> LinearSummary:
    """Return an estimate with its clustered standard error and degrees of freedom.

    `influence` has the influences of separate clusters, `remaining_squares` the sum of squared
    influences of all other clusters.
    """
    return LinearSummary(
        value,
        math.sqrt(max(inner_product(influence, influence) + remaining_squares, 0.0)),
        min(part.freedom for part in counts),
        min(part.n for part in counts),
        bounds,
        row_std_error=0.0,
        n_clusters=min(part.n_clusters for part in counts),
    )
