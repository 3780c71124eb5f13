"""A year of nightly decisions, by simulation: wrong promotions, delays, and a set that is reused.

Each night new candidates are judged. What a rule measures is how many standard errors a number
lies on the good side of the limit. That is normal with variance 1; its mean is 0 for a bad
candidate (worse than the champion by exactly the margin) and larger for a good one. The best of
those that pass in a night is promoted.

The set that is reused judges one change of the champion each night by the same rows. What is
measured is its true change plus an error of standard deviation 1 that belongs to the set: whoever
keeps a change keeps its error.

    python -m benchmarks._year --years 1000
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics import (
    always_valid_confidence,
    lord_share,
    selection_flattery,
    spending_share,
)
from bias_metrics._core.intervals import quantile

NIGHTS, ALPHA = 365, 0.05
BETTER_SINCE = 100  # the night before which the truly better model does not exist
METHODS = ("none", "bonferroni", "any_wrong", "share_wrong")
_NORMAL = NormalDist()
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Year:
    """What happened in each of many years.

    Attributes
    ----------
    wrong, promoted : ndarray of int, shape (n_years,)
        Promotions of bad candidates, and all promotions.
    """

    wrong: npt.NDArray[np.int64]
    promoted: npt.NDArray[np.int64]

    @property
    def any_wrong(self) -> float:
        """The share of years with any wrong promotion."""
        return float((self.wrong > 0).mean())

    @property
    def share_wrong(self) -> float:
        """The mean share of promotions that are wrong; 0 in a year without any."""
        return float((self.wrong / np.maximum(self.promoted, 1)).mean())


class Levels:
    """The level of the next decision in each of many years."""

    def __init__(self, method: str, n_years: int, a_night: int, nights: int = NIGHTS) -> None:
        self.method, self.a_night = method, a_night
        self.number, total = 0, nights * a_night
        self._spent = [spending_share(one, planned=total) for one in range(1, total + 1)]
        self._weights = 2 * np.array([lord_share(one, []) for one in range(1, total + 1)])
        self._shares = np.tile(self._weights / 2, (n_years, 1))  # with what promotions earned
        self._any = np.zeros(n_years, dtype=np.bool_)

    def next(self) -> Floats | float:
        """Return the level of one decision, by year."""
        self.number += 1
        if self.method == "any_wrong":
            return ALPHA * self._spent[self.number - 1]
        if self.method == "share_wrong":
            return ALPHA * np.minimum(self._shares[:, self.number - 1], 1)
        return ALPHA / (self.a_night if self.method == "bonferroni" else 1)

    def promote(self, years: Bools) -> None:
        """Note which years had a promotion after the decisions so far."""
        if self.method == "share_wrong":
            left = self._shares.shape[1] - self.number
            earned = np.where(self._any[years], 1.0, 0.5)[:, None] * self._weights[:left]
            self._shares[years, self.number :] += earned
            self._any |= years


def passing(levels: Floats | float) -> Floats | float:
    """Return how many standard errors a number must be on the good side."""
    if isinstance(levels, float):
        return -_NORMAL.inv_cdf(levels)
    known = {one: -_NORMAL.inv_cdf(one) for one in np.unique(levels)}
    return np.array([known[one] for one in levels])


def simulate_year(method: str, good: float, a_night: int, n_years: int, *, by: float = 5.0) -> Year:
    """Judge candidates every night of many years.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    good : float
        Share of good candidates.
    a_night : int
        Candidates of a night.
    n_years : int
        Years.
    by : float, default=5
        How many standard errors good candidates are away from bad ones.
    """
    rng = _rng("year", good, a_night)
    levels = Levels(method, n_years, a_night)
    wrong, promoted = np.zeros(n_years, np.int64), np.zeros(n_years, np.int64)
    for _ in range(NIGHTS):
        is_good = rng.random((a_night, n_years)) < good
        z = rng.standard_normal((a_night, n_years)) + by * is_good
        passed = np.array([one > passing(levels.next()) for one in z])
        best = np.where(passed, z, -np.inf).argmax(axis=0)
        moved = passed.any(axis=0)
        levels.promote(moved)
        promoted += moved
        wrong += moved & ~is_good[best, np.arange(n_years)]
    return Year(wrong, promoted)


def delays(method: str, by: float, good: float, n_years: int) -> Floats:
    """Return after how many nights a truly better model is promoted; infinite if it never is.

    Until night 100 candidates come as in `simulate_year`; then the better model is judged every
    night by new rows, each time as another decision. `pooled` is `any_wrong` with `pool_nights`:
    one decision, which the rows of all nights so far make together.
    """
    rng = _rng("delay", by, good)
    levels = Levels("any_wrong" if method == "pooled" else method, n_years, 1)
    found = np.full(n_years, np.inf)
    for _ in range(BETTER_SINCE - 1):
        z = rng.standard_normal(n_years) + 5.0 * (rng.random(n_years) < good)
        levels.promote(z > passing(levels.next()))
    total, level = np.zeros(n_years), 0.0
    for night in range(1, NIGHTS - BETTER_SINCE + 2):
        z = rng.standard_normal(n_years) + by
        if method == "pooled":
            level = level or float(levels.next())
            total += z
            confidence = always_valid_confidence(1 - 2 * level, night, planned_rows=5)
            passed = total / np.sqrt(night) > quantile(confidence)
        else:
            passed = z > passing(levels.next())
        found[passed & np.isinf(found)] = night
    return found


def simulate_reuse(
    accepted: Callable[[Levels, Floats], Bools], method: str, good: float, n_years: int
) -> tuple[float, float]:
    """Return the mean flattery of the last champion on the set, and its true gain.

    Parameters
    ----------
    accepted : callable
        Which measured changes are kept.
    method : str
        One of `METHODS`.
    good : float
        Share of changes that are truly better, by 4 standard errors; all others are as good.
    n_years : int
        Years.
    """
    rng = _rng("reuse", good)
    levels, flattery, gain = Levels(method, n_years, 1), np.zeros(n_years), np.zeros(n_years)
    for _ in range(NIGHTS):
        true = 4.0 * (rng.random(n_years) < good)
        error = rng.standard_normal(n_years)
        kept = accepted(levels, true + error)
        levels.promote(kept)
        flattery += error * kept
        gain += true * kept
    return float(flattery.mean()), float(gain.mean())


def higher(_: Levels, change: Floats) -> Bools:
    """Keep whatever is higher on the set: no guard."""
    return change > 0


def shown_higher(levels: Levels, change: Floats) -> Bools:
    """Keep what is shown to be higher: the Ladder, whose step is the distance of the bound."""
    return np.asarray(change > passing(levels.next()))


GUARDS = (
    ("none: whatever is higher on the set", higher, "none"),
    ("`promote: better`", shown_higher, "none"),
    ("`promote: better`, `share_wrong`", shown_higher, "share_wrong"),
    ("`promote: better`, `any_wrong`", shown_higher, "any_wrong"),
)


def _rng(*names: object) -> np.random.Generator:
    """Return the same random numbers for every method."""
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def _nights(value: float) -> str:
    return "never" if np.isinf(value) else f"{value:.0f}"


def main() -> None:
    """Print the tables of docs/evidence/gate.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=1000)
    n_years = parser.parse_args().years
    print("| candidates | correction | promotions | wrong ones | any wrong | share wrong |")
    print("|---|---|--:|--:|--:|--:|")
    for a_night, good in ((1, 0.0), (1, 0.1), (1, 0.5), (3, 0.1)):
        for method in METHODS:
            if method == "bonferroni" and a_night == 1:
                continue  # the same as none
            year = simulate_year(method, good, a_night, n_years)
            print(
                f"| {a_night} a night, {good:.0%} good | {method} | {year.promoted.mean():.1f} | "
                f"{year.wrong.mean():.2f} | {year.any_wrong:.1%} | {year.share_wrong:.1%} |",
                flush=True,
            )
    print("\n| correction | earlier candidates | 3 errors | 4 errors | 5 errors | 6 errors |")
    print("|---|---|--:|--:|--:|--:|")
    for method in ("none", "any_wrong", "pooled", "share_wrong"):
        for good in (0.0, 0.1):
            cells = [
                " / ".join(_nights(one) for one in np.sort(found)[_ranks(n_years)])
                for found in (delays(method, by, good, n_years) for by in (3.0, 4.0, 5.0, 6.0))
            ]
            print(f"| {method} | {good:.0%} good | {' | '.join(cells)} |", flush=True)
    print("\n| guard | flattery, no change better | 2 % better | true gain, 2 % better |")
    print("|---|--:|--:|--:|")
    for name, accepted, method in GUARDS:
        alone, _ = simulate_reuse(accepted, method, 0.0, n_years)
        flattery, gain = simulate_reuse(accepted, method, 0.02, n_years)
        print(f"| {name} | {alone:.2f} | {flattery:.2f} | {gain:.1f} |", flush=True)
    best = selection_flattery(1.0, NIGHTS)
    print(f"\nThe best of {NIGHTS} equal candidates is flattered by {best:.2f} errors.")


def _ranks(n: int) -> list[int]:
    """Return where the median and the ninth of ten are in a sorted array."""
    return [n // 2, n * 9 // 10]


if __name__ == "__main__":
    main()
