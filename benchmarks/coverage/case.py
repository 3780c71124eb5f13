"""Populations to draw, the coverage of a number over many samples, and its requirements."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from benchmarks.coverage.populations import find_step
from bias_metrics import Difference, MetricValue

LEAST, MOST, ALPHA, WIDEST = 0.93, 0.98, 0.05, 1.3
MANY_ERRORS = 25
# A case may miss a requirement by chance, by this number of Monte Carlo errors.
ALLOWED = 2.0
CONFIDENCES = (0.95, 0.9)
_Z = NormalDist().inv_cdf(0.975)
Number = MetricValue | Difference


class Sample(NamedTuple):
    """A number, the ends of its 95 % interval, and the lower end of the 90 % interval."""

    value: float
    low: float
    high: float
    floor: float


Samples = Mapping[str, Sample | None]


def make_samples(wide: Mapping[str, Number], narrow: Mapping[str, Number]) -> Samples:
    """Return the samples of numbers at `CONFIDENCES`; None for a number without an interval."""
    samples: dict[str, Sample | None] = {}
    for name, number in wide.items():
        ends = (number.value, number.low, number.high, narrow[name].low)
        samples[name] = None if None in ends else Sample(*ends)  # type: ignore[arg-type]
    return samples


class Case(ABC):
    """A population with known numbers, and a generator of its samples.

    A case is a frozen dataclass: its figures depend only on its own fields. Its representation is
    the seed, and the key of its results.
    """

    @abstractmethod
    def truths(self) -> Mapping[str, float]:
        """Return the true values by number."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Samples:
        """Draw a sample."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Return the first cells of the case's line in the table."""

    @property
    def errors(self) -> float:
        """Expected errors in the smallest class; the width is judged if there are many."""
        return 0.0

    @property
    def limit(self) -> float | None:
        """The floor; None for a floor at the truth."""
        return None

    def measure_coverage(self, draws: int) -> dict[str, Coverage]:
        """Draw samples and return the coverage by number."""
        rng = np.random.default_rng(zlib.crc32(repr(self).encode()))
        samples = [self.sample(rng) for _ in range(draws)]
        return {
            name: Coverage.from_samples(
                truth,
                truth if self.limit is None else self.limit,
                [sample[name] for sample in samples],
            )
            for name, truth in self.truths().items()
        }


class TwoClasses(Case):
    """A case with independent rows of two classes; scores may be rounded."""

    auc: float
    n_positive: int
    n_negative: int
    tied: bool

    @property
    def errors(self) -> float:
        """Expected errors in the smaller class."""
        return min(self.n_positive, self.n_negative) * (1 - self.auc)

    def describe(self) -> list[str]:
        """Return AUC, sizes and kind of scores."""
        kind = "tied" if self.tied else "distinct"
        return [f"{self.auc:g}", f"{self.n_positive:,}", f"{self.n_negative:,}", kind]

    @property
    def _step(self) -> float:
        """Width of the grid of scores; 0 if they are not rounded."""
        return find_step(self.auc) if self.tied else 0.0


TWO_CLASSES_HEAD = ["AUC", "positives", "negatives", "scores"]


@dataclass(frozen=True)
class Coverage:
    """Coverage of the intervals of a number; shares leave out samples without an interval."""

    below: float
    """Share of 95 % intervals that are entirely below the truth."""
    above: float
    """Share of 95 % intervals that are entirely above the truth."""
    passed: float
    """Share of samples in which a floor at the truth passes with bounds at 90 %."""
    width: float
    """Mean width of the 95 % intervals."""
    ratio: float
    """The width over that of an interval from the estimates' own standard deviation."""
    missing: float
    """Share of samples without an interval."""
    draws: int

    @classmethod
    def from_samples(cls, truth: float, limit: float, samples: list[Sample | None]) -> Coverage:
        """Summarise the samples of a number."""
        ends = np.array([sample for sample in samples if sample is not None], dtype=np.float64)
        missing = 1 - len(ends) / len(samples)
        if len(ends) < 2:
            return cls(math.nan, math.nan, math.nan, math.nan, math.nan, missing, len(samples))
        value, low, high, floor = ends.T
        slack, width = 1e-12, float(np.mean(high - low))  # an interval contains its ends
        spread = 2 * _Z * float(np.std(value))
        return cls(
            float(np.mean(high < truth - slack)),
            float(np.mean(low > truth + slack)),
            float(np.mean(floor > limit + slack)),
            width,
            width / spread if spread > 0 else math.nan,
            missing,
            len(samples),
        )

    @property
    def covered(self) -> float:
        """Share of intervals that contain the truth."""
        return 1 - self.below - self.above

    def find_faults(self, errors: float, allowed: float = ALLOWED) -> Iterator[str]:
        """Yield missed requirements, given the errors in the smallest class."""
        if self.missing > 0.5:
            return

        def slack(share: float) -> float:
            drawn = self.draws * (1 - self.missing)
            return allowed * math.sqrt(share * (1 - share) / drawn)

        if self.covered < LEAST - slack(LEAST):
            yield f"covered {self.covered:.1%}"
        if self.passed > ALPHA + slack(ALPHA):
            yield f"floor passes {self.passed:.1%}"
        if errors < MANY_ERRORS:
            return
        if self.covered > MOST + slack(MOST):
            yield f"covered {self.covered:.1%}"
        if self.ratio > WIDEST:
            yield f"{self.ratio:.2f} times as wide"
