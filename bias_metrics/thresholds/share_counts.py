"""Counts of rows with an event, by cluster where rows have one, for shares and their variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray
from bias_metrics._core.ranks import Floats, inner
from bias_metrics.estimate import Number
from bias_metrics.rows import Places


class Sums(NamedTuple):
    """Sums over clusters that the variance of a share needs; exact, since counts are whole."""

    n_clusters: int
    rows: float  # Of the squared numbers of rows
    events: tuple[float, ...]  # Of the squared numbers of events, under each model
    together: tuple[float, ...]  # Of rows times events, under each model
    both: float  # Of the events under two models, multiplied; 0 for any other number of models
    hit: tuple[int, ...]  # Clusters with an event, under each model
    spared: tuple[int, ...]  # Clusters with a row without one
    disagreeing: int  # Clusters with more events under one of two models

    def less(self, other: Sums) -> Sums:
        """Return the sums without those of some of the clusters."""
        return Sums(
            self.n_clusters - other.n_clusters,
            self.rows - other.rows,
            tuple(a - b for a, b in zip(self.events, other.events, strict=True)),
            tuple(a - b for a, b in zip(self.together, other.together, strict=True)),
            self.both - other.both,
            tuple(a - b for a, b in zip(self.hit, other.hit, strict=True)),
            tuple(a - b for a, b in zip(self.spared, other.spared, strict=True)),
            self.disagreeing - other.disagreeing,
        )

    def squares(self, model: int, share: float) -> float:
        """Sum the squares of each cluster's events, less the share of its rows."""
        found = self.events[model] - 2 * share * self.together[model] + share**2 * self.rows
        return max(found, 0.0)

    def squares_of_two(self, sign: int, share: float) -> float:
        """Return the same of the first model's events plus or minus the second's."""
        events = sum(self.events) + 2 * sign * self.both
        together = self.together[0] + sign * self.together[1]
        return max(events - 2 * share * together + share**2 * self.rows, 0.0)


@dataclass(frozen=True, eq=False)
class ByCluster:
    """The rows of each of some clusters, and those with the event under each model."""

    rows: Floats
    events: tuple[npt.NDArray[np.int32], ...]

    @classmethod
    def of(cls, codes: Places, n: int, happened: Sequence[BoolArray]) -> ByCluster:
        """Count rows, of which the clusters are given by number, and events."""
        events = (np.bincount(codes[of_model], minlength=n) for of_model in happened)
        return cls(
            np.bincount(codes, minlength=n).astype(np.float64),
            tuple(of_model.astype(np.int32) for of_model in events),
        )

    def at(self, clusters: Places) -> ByCluster:
        """Return some of the clusters."""
        return ByCluster(self.rows[clusters], tuple(each[clusters] for each in self.events))

    def less(self, other: ByCluster) -> ByCluster:
        """Return the same clusters without some of their rows."""
        events = zip(self.events, other.events, strict=True)
        return ByCluster(self.rows - other.rows, tuple(a - b for a, b in events))

    @cached_property
    def sums(self) -> Sums:
        """The sums over these clusters."""
        events = [each.astype(np.float64) for each in self.events]
        return Sums(
            int(np.count_nonzero(self.rows)),
            inner(self.rows, self.rows),
            tuple(inner(each, each) for each in events),
            tuple(inner(each, self.rows) for each in events),
            inner(*events) if len(events) == 2 else 0.0,
            tuple(int(np.count_nonzero(each)) for each in events),
            tuple(int(np.count_nonzero(self.rows - each)) for each in events),
            int(np.count_nonzero(events[0] - events[1])) if len(events) == 2 else 0,
        )


@dataclass(frozen=True, eq=False)
class Counts:
    """How often an event happens among some rows, under each model; with clusters, in each.

    Of a background, only the clusters that the subgroup has rows in are known one by one.
    """

    n: int  # Rows of the classes that the metric counts
    events: tuple[int, ...]  # Rows with the event, under each model
    both: int  # Rows with the event under every model
    near: ByCluster | None = None
    far: Sums | None = None  # Of the clusters that are not `near`

    def less(self, other: Counts) -> Counts:
        """Return the counts without those of `other`, which is part of them."""
        events = zip(self.events, other.events, strict=True)
        near = self.near
        if near is not None and other.near is not None:
            near = near.less(other.near)
        return Counts(
            self.n - other.n,
            tuple(a - b for a, b in events),
            self.both - other.both,
            near,
            self.far,
        )

    def around(self, clusters: Places | None) -> Counts:
        """Return the counts with some of the clusters one by one, and sums of the others."""
        if clusters is None or self.near is None:
            return self
        near = self.near.at(clusters)
        return replace(self, near=near, far=self.near.sums.less(near.sums))

    def influence(self, model: int) -> Floats:
        """Return how far each cluster that is near moves the share."""
        assert self.near is not None  # noqa: S101
        share = self.events[model] / self.n
        return (self.near.events[model] - share * self.near.rows) / self.n

    def rest(self, model: int) -> float:
        """Sum the squares of how far the other clusters move it."""
        return self.far.squares(model, self.events[model] / self.n) / self.n**2 if self.far else 0.0

    def rest_of_two(self, sign: int) -> float:
        """Return the same of the first model's share plus or minus the second's."""
        assert self.far is not None  # noqa: S101
        share = (self.events[0] + sign * self.events[1]) / self.n
        return self.far.squares_of_two(sign, share) / self.n**2

    @property
    def n_clusters(self) -> int:
        """Clusters with rows."""
        assert self.near is not None  # noqa: S101
        return int(np.count_nonzero(self.near.rows)) + (self.far.n_clusters if self.far else 0)

    def mixed(self) -> tuple[int, ...]:
        """Return the clusters with an event, or without one if they are fewer, by model."""
        assert self.near is not None  # noqa: S101
        parts = [self.near.sums, *([self.far] if self.far else [])]
        models = range(len(self.events))
        hit = [sum(part.hit[model] for part in parts) for model in models]
        spared = [sum(part.spared[model] for part in parts) for model in models]
        return tuple(map(min, hit, spared))

    @property
    def disagreeing(self) -> int:
        """Clusters with more events under one of two models."""
        assert self.near is not None  # noqa: S101
        return self.near.sums.disagreeing + (self.far.disagreeing if self.far else 0)

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom of the clustered error."""
        assert self.near is not None  # noqa: S101
        squares = inner(self.near.rows, self.near.rows) + (self.far.rows if self.far else 0.0)
        return max(float(self.n) ** 2 / squares - 1, 1.0)

    def numbers(self) -> tuple[Number, ...]:
        """Return each model's share with the error that allows for clusters; none without them."""
        if self.near is None or not self.n:
            return ()
        return tuple(
            number_of(
                events / self.n,
                [self.influence(model)],
                self.rest(model),
                [self],
                bounds=(0.0, 1.0),
            )
            for model, events in enumerate(self.events)
        )


def number_of(
    value: float,
    moved: Sequence[Floats],
    rest: float,
    counts: Sequence[Counts],
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Number:
    """Return a sum of numbers, of which each is moved by the same clusters and the rest."""
    together = moved[0] if len(moved) == 1 else np.sum(moved, axis=0)
    return Number(
        value,
        math.sqrt(inner(together, together) + rest),
        min(part.freedom for part in counts),
        min(part.n for part in counts),
        bounds,
        row_std_error=0.0,
        n_clusters=min(part.n_clusters for part in counts),
    )
