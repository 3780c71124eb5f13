"""Counts of rows with an event, by cluster where rows have one, for shares and their variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray
from bias_metrics._core.ranks import Floats, inner
from bias_metrics.estimate import Number
from bias_metrics.rows import Places

Mix = tuple[tuple[int, int], ...]
"""The models whose events count: each with 1, or with -1 if they count the other way round."""


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

    def flat(self) -> list[float]:
        """Return all as one list of numbers, which add up over clusters."""
        each = ([one] if isinstance(one, float | int) else one for one in self)
        return [float(number) for numbers in each for number in numbers]

    @classmethod
    def of_flat(cls, flat: Sequence[float], n_models: int) -> Sums:
        """Return what `flat` gave."""
        n, rows, *rest = flat
        events, together = tuple(rest[:n_models]), tuple(rest[n_models : 2 * n_models])
        both, *counts = rest[2 * n_models :]
        *found, disagreeing = map(int, counts)
        hit, spared = tuple(found[:n_models]), tuple(found[n_models:])
        return cls(int(n), rows, events, together, both, hit, spared, disagreeing)

    def less(self, other: Sums) -> Sums:
        """Return the sums without those of some of the clusters."""
        left = (a - b for a, b in zip(self.flat(), other.flat(), strict=True))
        return Sums.of_flat(list(left), len(self.events))

    def squares(self, mix: Mix, share: float) -> float:
        """Sum the squares of each cluster's mixed events, less the share of its rows."""
        events = sum(sign**2 * self.events[model] for model, sign in mix)
        if len(mix) == 2:
            events += 2 * math.prod(sign for _, sign in mix) * self.both
        together = sum(sign * self.together[model] for model, sign in mix)
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
            self.n_clusters,
            inner(self.rows, self.rows),
            tuple(inner(each, each) for each in events),
            tuple(inner(each, self.rows) for each in events),
            inner(*events) if len(events) == 2 else 0.0,
            self.hit,
            self.spared,
            self.disagreeing,
        )

    @cached_property
    def n_clusters(self) -> int:
        """Clusters with rows."""
        return int(np.count_nonzero(self.rows))

    @cached_property
    def hit(self) -> tuple[int, ...]:
        """Clusters with an event, under each model."""
        return tuple(int(np.count_nonzero(each)) for each in self.events)

    @cached_property
    def spared(self) -> tuple[int, ...]:
        """Clusters with a row without one."""
        return tuple(int(np.count_nonzero(self.rows != each)) for each in self.events)

    @cached_property
    def disagreeing(self) -> int:
        """Clusters with more events under one of two models."""
        if len(self.events) != 2:
            return 0
        return int(np.count_nonzero(self.events[0] != self.events[1]))


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

    @classmethod
    def of_rows(cls, n: int, happened: Sequence[BoolArray]) -> Counts:
        """Count events among `n` rows, given the rows with the event under each model."""
        events = tuple(int(np.count_nonzero(of_model)) for of_model in happened)
        return cls(n, events, int(np.count_nonzero(reduce(np.logical_and, happened))))

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

    def share(self, mix: Mix) -> float:
        """Return the share of the rows with the mixed events."""
        return sum(sign * self.events[model] for model, sign in mix) / self.n

    def influence(self, mix: Mix) -> Floats:
        """Return how far each cluster that is near moves the share."""
        if mix not in self._moved:
            assert self.near is not None  # noqa: S101
            events = [sign * self.near.events[model] for model, sign in mix]
            known = sum(events[1:], events[0]) - self.share(mix) * self.near.rows
            self._moved[mix] = known / self.n
        return self._moved[mix]

    @cached_property
    def _moved(self) -> dict[Mix, Floats]:
        return {}

    def rest(self, mix: Mix) -> float:
        """Sum the squares of how far the other clusters move it."""
        return self.far.squares(mix, self.share(mix)) / self.n**2 if self.far else 0.0

    @property
    def n_clusters(self) -> int:
        """Clusters with rows."""
        assert self.near is not None  # noqa: S101
        return self.near.n_clusters + (self.far.n_clusters if self.far else 0)

    def mixed(self) -> tuple[int, ...]:
        """Return the clusters with an event, or without one if they are fewer, by model."""
        assert self.near is not None  # noqa: S101
        parts: list[ByCluster | Sums] = [self.near, *([self.far] if self.far else [])]
        models = range(len(self.events))
        hit = [sum(part.hit[model] for part in parts) for model in models]
        spared = [sum(part.spared[model] for part in parts) for model in models]
        return tuple(map(min, hit, spared))

    @property
    def disagreeing(self) -> int:
        """Clusters with more events under one of two models."""
        assert self.near is not None  # noqa: S101
        return self.near.disagreeing + (self.far.disagreeing if self.far else 0)

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
                self.share(mix), self.influence(mix), self.rest(mix), [self], bounds=(0.0, 1.0)
            )
            for mix in alone(len(self.events))
        )


def alone(n_models: int) -> list[Mix]:
    """Return the mixes of each model's own events."""
    return [((model, 1),) for model in range(n_models)]


def number_of(
    value: float,
    moved: Floats,
    rest: float,
    counts: Sequence[Counts],
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Number:
    """Return a number that some clusters move one by one, and the rest in a sum of squares."""
    return Number(
        value,
        math.sqrt(max(inner(moved, moved) + rest, 0.0)),
        min(part.freedom for part in counts),
        min(part.n for part in counts),
        bounds,
        row_std_error=0.0,
        n_clusters=min(part.n_clusters for part in counts),
    )
