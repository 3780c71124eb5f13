"""How the intervals of one number did over many samples, and what is required of them."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

LEAST, MOST, ALPHA, WIDEST = 0.93, 0.98, 0.05, 1.3
MANY_ERRORS = 25
# A case may miss a requirement by chance, by so many Monte Carlo errors.
ALLOWED = 2.0
_Z = NormalDist().inv_cdf(0.975)

# The number, the ends of its 95% interval, and the lower end of the 90 % interval.
Sample = tuple[float, float, float, float]


class Case(ABC):
    """A population whose numbers are known, and how to draw a sample from it.

    A case is a frozen dataclass: its figures depend on its own fields alone.
    """

    @abstractmethod
    def truths(self) -> Mapping[str, float]:
        """Return the true value of each number."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Mapping[str, Sample | None]:
        """Draw a sample and return each number's interval; None if it has none."""

    @abstractmethod
    def described(self) -> list[str]:
        """Return the first cells of the case's line in the table."""

    @property
    def errors(self) -> float:
        """Expected errors in the smaller class; the width is judged if there are many."""
        return 0.0

    @property
    def limit(self) -> float | None:
        """The floor that is tried; None for one at the truth."""
        return None

    def hold(self, draws: int) -> dict[str, Held]:
        """Draw samples and return how the intervals of each number did."""
        rng = np.random.default_rng(zlib.crc32(repr(self).encode()))
        samples = [self.sample(rng) for _ in range(draws)]
        return {
            name: Held.of(
                truth,
                truth if self.limit is None else self.limit,
                [one[name] for one in samples],
            )
            for name, truth in self.truths().items()
        }


@dataclass(frozen=True)
class Held:
    """How the intervals of one number did; shares leave out samples without an interval.

    Attributes
    ----------
    below, above : float
        Share of 95% intervals that are entirely below the truth, or above it.
    passed : float
        Share of samples in which a floor at the truth passes with bounds at 90 %.
    width : float
        Mean width of the 95% intervals.
    ratio : float
        The width over that of an interval from the estimates' own standard deviation.
    missing : float
        Share of samples without an interval.
    draws : int
        Samples.
    """

    below: float
    above: float
    passed: float
    width: float
    ratio: float
    missing: float
    draws: int

    @classmethod
    def of(cls, truth: float, limit: float, samples: list[Sample | None]) -> Held:
        """Summarise the samples of one number."""
        ends = np.array([one for one in samples if one is not None], dtype=np.float64)
        missing = 1 - len(ends) / len(samples)
        if len(ends) < 2:
            return cls(math.nan, math.nan, math.nan, math.nan, math.nan, missing, len(samples))
        value, low, high, floor = ends.T
        slack, width = 1e-12, float(np.mean(high - low))  # an end at the truth holds it
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
        """Share of intervals that hold the truth."""
        return 1 - self.below - self.above

    @property
    def drawn(self) -> float:
        """Samples with an interval."""
        return self.draws * (1 - self.missing)

    def faults(self, errors: float, allowed: float = ALLOWED) -> Iterator[str]:
        """Yield what is required and does not hold, given the errors in the smaller class."""
        if self.missing > 0.5:
            return

        def slack(share: float) -> float:
            return allowed * monte_carlo_error(share, self.drawn)

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


def monte_carlo_error(share: float, draws: float) -> float:
    """Return the standard error of a share estimated from so many samples."""
    return math.sqrt(share * (1 - share) / draws)


def both(wide: tuple[float, float | None, float | None], low: float | None) -> Sample | None:
    """Return a number with its interval at 95 % and the lower end at 90 %; None without one."""
    value, first, last = wide
    return None if first is None or last is None or low is None else (value, first, last, low)
