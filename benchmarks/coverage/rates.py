"""Gaps of error rates of rows in clusters, each with its own chance of an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from benchmarks.coverage.case import Case, Sample, Samples
from bias_metrics.thresholds.share_counts import EventCounts, EventsByCluster
from bias_metrics.thresholds.shares import ShareGap

BACKGROUND = 4  # times as many rows


@dataclass(frozen=True)
class Rates(Case):
    """A subgroup and its background with the same rate.

    The chances of clusters have a beta distribution.
    """

    n_clusters: int
    """Of the subgroup."""
    rate: float
    correlation: float
    """Of two rows in the same cluster."""
    unequal: bool = False
    """True if sizes are lognormal with standard deviation 1."""
    crossing: bool = False
    """True if the background's rows are in the same clusters, not in four times as many others."""
    rows: int = 20
    """Rows of a cluster, on average."""

    def truths(self) -> Mapping[str, float]:
        """Return the gap."""
        return {"gap": 0.0}

    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw events; the gap is negated, so that a floor for it is a ceiling for the gap."""
        own_rows = self._draw_sizes(rng, self.n_clusters)
        chances = self._draw_chances(rng, self.n_clusters)
        own = rng.binomial(own_rows, chances)
        if self.crossing:
            rows = BACKGROUND * own_rows
        else:
            rows = self._draw_sizes(rng, BACKGROUND * self.n_clusters)
            chances = self._draw_chances(rng, rows.size)
        other = rng.binomial(rows, chances)
        if not self.crossing:  # clusters of both, in one list
            empty, none = np.zeros_like(rows), np.zeros_like(own_rows)
            own_rows, own = np.append(own_rows, empty), np.append(own, empty)
            rows, other = np.append(none, rows), np.append(none, other)
        gap = ShareGap.from_counts(_count(own_rows, own), _count(rows, other), "rows")
        wide, narrow = gap.measure(0.95), gap.measure(0.9)
        ends = [wide.high, wide.low, narrow.high]
        if None in ends:
            return {"gap": None}
        return {"gap": Sample(-float(wide), *(-end for end in ends))}  # type: ignore[operator]

    def _draw_sizes(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
        if not self.unequal:
            return np.full(n, self.rows)
        drawn = rng.lognormal(-0.5, 1, n) * self.rows
        return np.maximum(drawn.round(), 1).astype(np.int64)

    def _draw_chances(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
        total = 1 / self.correlation - 1
        return rng.beta(self.rate * total, (1 - self.rate) * total, n)

    @property
    def errors(self) -> float:
        """Equivalent number of independent errors."""
        effect = 1 + (self.rows - 1) * self.correlation
        return self.n_clusters * self.rows / effect * min(self.rate, 1 - self.rate)

    def describe(self) -> list[str]:
        """Return clusters, rows, kind, correlation and rate."""
        kind = "unequal" if self.unequal else "equal"
        kind += ", crossing" if self.crossing else ", nested"
        rows = f"{self.n_clusters * self.rows:,}"
        return [f"{self.n_clusters:,}", rows, kind, f"{self.correlation:g}", f"{self.rate:g}"]


def _count(rows: npt.NDArray[np.int64], events: npt.NDArray[np.int64]) -> EventCounts:
    k = int(events.sum())
    each = EventsByCluster(rows.astype(np.float64), (events.astype(np.int32),))
    return EventCounts(int(rows.sum()), (k,), k, each)


HEAD = ["clusters", "rows", "kind", "correlation", "rate"]
SIZES = ((20, 40), (38, 40), (50, 40), (100, 40), (200, 20), (1000, 20))
GRID = tuple(product(SIZES, (0.02, 0.1, 0.5), (0.1, 0.3, 0.7, 0.95), (False, True)))
RATES = [
    Rates(n, rate, correlation, unequal, rows=rows)
    for (n, rows), rate, correlation, unequal in GRID
]
SHARED = [
    Rates(n, rate, correlation, unequal, crossing=True, rows=rows)
    for (n, rows), rate, correlation, unequal in GRID
]
