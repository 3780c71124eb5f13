"""A test that exchanges rows between two nights: if nothing changed, it is exact.

If nothing changed, it is chance alone which rows are new, which are gone and which stay. So these
roles are dealt out anew, and the largest of all standardised differences is compared with the
largest after each deal (Westfall and Young 1993): that corrects for their number, however they
depend on each other, and no difference needs to be normal. A cluster keeps together. Where a
row, or a cluster, is in both nights with other values, its two versions are exchanged instead.

The deals end as soon as they say enough (Besag and Clifford 1991). On most nights that is
after a few dozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from bias_metrics.drift.nights import Union

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
# How many deals must show a larger difference before the rest is left out.
ENOUGH = 10
# How fine p-values are, relative to the chance of a wrong alarm.
FINENESS = 10
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Exchange:
    """What each unit adds to the differences, as it is and as it would be after an exchange."""

    role: Floats  # (u,): Of units that are dealt: what their influence is multiplied with
    influence: Floats  # (u, k): Of the same units on each number
    # (s, k): Of units in both nights: half of how much an exchange changes each difference.
    swapped: Floats
    std_error: Floats  # (k,): Of each difference, over all deals

    @classmethod
    def of(cls, union: Union, influence: Floats) -> Exchange:
        """Add up the influences by unit, from those of the rows, shape (n, k)."""
        weights, units = union.rows.weights, int(union.unit.max()) + 1
        n_before = float(weights[union.in_before].sum())
        n_now = float(weights[union.in_now].sum())
        roles = union.in_now / n_now - union.in_before / n_before
        first = np.full(units, np.nan)
        first[union.unit] = roles
        mixed = np.zeros(units, dtype=np.bool_)
        mixed[union.unit[roles != first[union.unit]]] = True
        before = _by_unit(influence * union.in_before[:, None], union.unit, units) / n_before
        now = _by_unit(influence * union.in_now[:, None], union.unit, units) / n_now
        ratio = n_before / n_now
        half = (now - before)[mixed] - (before * ratio - now / ratio)[mixed]
        dealt = _by_unit(influence, union.unit, units)[~mixed]
        role = first[~mixed]
        dealt -= dealt.mean(axis=0) if dealt.size else 0.0
        role = role - (role.mean() if role.size else 0.0)
        swapped = half / 2
        variance = (swapped**2).sum(axis=0)
        if role.size > 1:
            variance = variance + (role @ role) * (dealt**2).sum(axis=0) / (role.size - 1)
        return cls(role, dealt, swapped, np.sqrt(variance))

    @property
    def moving(self) -> float:
        """The share of units that are not in the most frequent role."""
        units = self.role.size + len(self.swapped)
        _, counts = np.unique(self.role, return_counts=True)
        return (units - int(max(counts, default=0))) / units

    def observed(self) -> Floats:
        """Return the standardised differences, shape (k,); 0 where nothing can differ."""
        return self._standardised(self.role @ self.influence + self.swapped.sum(axis=0))

    def deals(self, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield the standardised differences of one deal after the other, without end."""
        roles, counts = np.unique(self.role, return_counts=True)
        most = int(np.argmax(counts)) if counts.size else 0
        others = np.flatnonzero(np.arange(roles.size) != most)  # the sum over all units is 0
        ends = np.cumsum(counts[others])
        n_moved = int(counts[others].sum())
        while True:
            difference = rng.choice([-1.0, 1.0], len(self.swapped)) @ self.swapped
            drawn = rng.choice(self.role.size, n_moved, replace=False, shuffle=others.size > 1)
            for role, units in zip(roles[others], np.split(drawn, ends), strict=False):
                difference = difference + (role - roles[most]) * self.influence[units].sum(axis=0)
            yield self._standardised(difference)

    def _standardised(self, differences: Floats) -> Floats:
        known = self.std_error > 0
        scale = np.where(known, self.std_error, 1.0)
        return np.where(known, differences / scale, 0.0)


def _by_unit(values: Floats, unit: npt.NDArray[np.intp], n_units: int) -> Floats:
    if n_units == len(values):  # every row is a unit of its own
        found = np.empty_like(values)
        found[unit] = values
        return found
    return np.stack([np.bincount(unit, weights=one, minlength=n_units) for one in values.T], axis=1)


def p_values(
    exchange: Exchange, judged: Bools, alpha: float, rng: np.random.Generator
) -> tuple[Floats, int]:
    """Return the p-value of each difference, corrected for all that are judged.

    The p-value of a difference that is not judged is NaN; the others are finer than `alpha`. Also
    returns the number of deals.
    """
    found = np.full(judged.size, np.nan)
    sizes = np.abs(exchange.observed()[judged])
    if sizes.size == 0:
        return found, 0
    if sizes.max() == 0:
        found[judged] = 1.0
        return found, 0
    limits = sizes * (1 - _ROUNDING)
    larger, n_deals, most = np.zeros(sizes.size, dtype=np.intp), 0, round(FINENESS / alpha)
    for differences in islice(exchange.deals(rng), most):
        larger += np.abs(differences[judged]).max() >= limits
        n_deals += 1
        if larger.min() >= ENOUGH:
            break
    found[judged] = (larger + 1) / (n_deals + 1)
    return found, n_deals
