"""A sample drawn by strata: what is left of the influences of its units.

A unit is what was drawn: a cluster, or a row if there are none. How many units a stratum gets is
fixed before they are drawn, so a number varies only as far as units differ from the mean of their
stratum. The variance is the sum over strata of n / (n - 1) times the squared differences from this
mean, as if units had been drawn with replacement. Units without a row of those that are measured
have the influence 0, and count.

One stratum is the same as none: n / (n - 1) is multiplied by (N - 1) / N for N units in all, since
influences are corrected for the share of each unit already.

References
----------
Särndal, Swensson and Wretman (1992), Model Assisted Survey Sampling, sections 2.9 and 3.7. Lumley
(2004), Journal of Statistical Software 9 (domains, and degrees of freedom).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_clusters
from bias_metrics._core.ranks import Floats

Codes = npt.NDArray[np.intp]
_LEAST_UNITS = 2


@dataclass(frozen=True, eq=False)
class Strata:
    """The stratum of each row, and the units that were drawn in each stratum."""

    of_rows: Codes
    drawn: Codes

    @classmethod
    def of(
        cls,
        names: npt.ArrayLike,
        n: int,
        clusters: Codes | None,
        counted: npt.NDArray[np.bool_] | slice = slice(None),
    ) -> Strata:
        """Return strata of any names, given the clusters of n rows and which rows count.

        Raises
        ------
        ValueError
            If a name is missing, a cluster is in two strata, or a stratum has a single unit.
        """
        codes = check_clusters(names, n, name="strata")
        assert codes is not None  # noqa: S101
        found = cls(codes, np.empty(0, np.intp)).within(counted)
        unit = "row" if clusters is None else "cluster"
        units = found.of_rows if clusters is None else _of_units(found.of_rows, clusters[counted])
        drawn = np.bincount(units[units >= 0], minlength=int(codes.max(initial=-1)) + 1)
        alone = np.flatnonzero(drawn == 1)
        if alone.size:
            name = str(np.asarray(names)[int(np.flatnonzero(codes == alone[0])[0])])
            msg = (
                f"`strata` must have at least {_LEAST_UNITS} {unit}s each; stratum "
                f"{name[:60]!r} has 1. Join it with a similar one."
            )
            raise ValueError(msg)
        return cls(codes, drawn)

    def within(self, which: Any) -> Strata:
        """Return the strata of some rows, of the same sample."""
        return Strata(self.of_rows[which], self.drawn)

    def can_hold(self, clusters: npt.ArrayLike | None) -> bool:
        """Say whether the rows, or their clusters, can be of the units that were drawn."""
        n, drawn = self.of_rows.size, self.drawn
        codes = check_clusters(clusters, n)
        if n and not 0 <= self.of_rows.min() <= self.of_rows.max() < drawn.size:
            return False
        try:
            units = self.units(codes).strata
        except ValueError:
            return False
        return bool((np.bincount(units, minlength=drawn.size) <= drawn).all())

    def units(self, clusters: Codes | None) -> Units:
        """Return the units: the clusters of the same rows, or the rows."""
        if clusters is None:
            return Units(self.of_rows, self.drawn)
        return Units(_of_units(self.of_rows, clusters), self.drawn)


@dataclass(frozen=True, eq=False)
class Units:
    """The stratum of each unit, and the units that were drawn in each stratum."""

    strata: Codes
    drawn: Codes

    def apart(self, each: Floats) -> Floats:
        """Return how far influences are from the mean of their stratum.

        The sum of squares is the variance, and sums and differences of numbers stay such. Units
        that have no row are one more value of each stratum, at the end.
        """
        n = self.drawn.size
        mean = np.bincount(self.strata, each, n) / np.maximum(self.drawn, 1)
        absent = self.drawn - np.bincount(self.strata, minlength=n)
        total = self.drawn.sum()
        scale = np.sqrt(self.drawn / np.maximum(self.drawn - 1, 1) * (total - 1) / total)
        own = scale[self.strata] * (each - mean[self.strata])
        return np.concatenate([own, scale * np.sqrt(absent) * mean])

    def counted(self, units: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which of the values that `apart` returns are of some units."""
        return np.concatenate([units, np.zeros(self.drawn.size, np.bool_)])

    def n_strata(self, units: npt.NDArray[np.bool_]) -> int:
        """Count the strata that some units are in."""
        return int(np.unique(self.strata[units]).size)


def _of_units(of_rows: Codes, clusters: Codes) -> Codes:
    """Return the stratum of each cluster; -1 for one without rows."""
    found = np.full(int(clusters.max(initial=-1)) + 1, -1, np.intp)
    found[clusters] = of_rows
    if (found[clusters] != of_rows).any():
        row = int(np.flatnonzero(found[clusters] != of_rows)[0])
        msg = f"`strata` must have whole clusters; rows of one cluster are in two (row {row})."
        raise ValueError(msg)
    return found
