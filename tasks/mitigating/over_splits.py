"""The numbers of a method over all splits, and how far they would move with other data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics.mitigation.repeated import (
    left_out_covariance,
    paired_over_splits,
    recovered_share,
)

Trials = Sequence[Mapping[str, Any]]
Floats = npt.NDArray[np.floating]
UNDEFINED = {"value": None, "reason": "undefined for a split"}


@dataclass(frozen=True)
class OverSplits:
    """One number of one method, on every split.

    Attributes
    ----------
    values : list of float or None
        Of each split.
    left_out : list of list of float or None
        The same, without each part of the measured rows; empty for numbers of the rows that a
        split leaves out, whose sampling the splits show.
    """

    values: list[float | None]
    left_out: list[list[float | None]]

    def __add__(self, other: OverSplits) -> OverSplits:
        """Return the sum of two numbers on each split."""

        def added(one: Sequence[float | None], two: Sequence[float | None]) -> list[float | None]:
            return [None if None in pair else sum(pair) for pair in zip(one, two, strict=True)]  # type: ignore[arg-type]

        rows = zip(self.left_out, other.left_out, strict=True)
        return OverSplits(added(self.values, other.values), [added(*pair) for pair in rows])

    @property
    def defined(self) -> bool:
        """Whether it is defined on every split."""
        return None not in self.values

    @property
    def rows(self) -> Floats | None:
        """The values without each part, of shape (k, g); None if there are none."""
        if not self.left_out or any(None in one for one in self.left_out):
            return None
        found = np.array(self.left_out, dtype=float)
        return found if found.ndim == 2 and found.shape[1] > 1 else None


def numbers_of(trials: Trials, method: str) -> dict[str, OverSplits]:
    """Return the numbers of a method under names as in `fped/phrases`."""
    found: dict[str, OverSplits] = {}

    def add(key: str, value: float | None, left_out: list[float | None]) -> None:
        one = found.setdefault(key, OverSplits([], []))
        one.values.append(value)
        if left_out:
            one.left_out.append(left_out)

    for one in trials:
        numbers = one["methods"][method]
        for key, value in numbers["general"].items():
            add(f"{key}/general", value, [])
        for name, of_set in numbers["sets"].items():
            for key, value in of_set["overall"].items():
                add(f"{key}/{name}", value, of_set.get("left_out", {}).get(key, []))
        for key, value in (numbers["pairs"] or {}).items():
            add(f"{key}/pairs", value, [])
    return found


def mean_of(one: OverSplits, share: float) -> dict[str, Any]:
    """Return the mean over splits with its interval, over splits and rows."""
    nothing = OverSplits([0.0] * len(one.values), [[0.0] * len(each) for each in one.left_out])
    return difference_of(nothing, one, share)


def difference_of(first: OverSplits, second: OverSplits, share: float) -> dict[str, Any]:
    """Return the mean of `second - first` with its interval, over splits and rows.

    `row_std_error` says what the measured rows add to the standard error.
    """
    if not first.defined or not second.defined:
        return dict(UNDEFINED)
    before, after = first.rows, second.rows
    error = None
    if before is not None and after is not None:
        error = float(np.sqrt(left_out_covariance(after - before)[0, 0]))
    found = paired_over_splits(
        _floats(first), _floats(second), test_share=share, row_std_error=error or 0.0
    )
    return found.to_dict(interval=True) | ({} if error is None else {"row_std_error": error})


def recovered_of(
    biased: OverSplits, mitigated: OverSplits, clean: OverSplits, share: float
) -> dict[str, Any]:
    """Return how much of a planted bias is removed, with its interval over splits and rows.

    All three are defined on every split.
    """
    every = biased, mitigated, clean
    base, method, best = (one.rows for one in every)
    spread = None
    if base is not None and method is not None and best is not None:
        spread = left_out_covariance(base - method, base - best)
    found = recovered_share(*map(_floats, every), test_share=share, row_covariance=spread)
    return found.to_dict(interval=True)


def _floats(one: OverSplits) -> Floats:
    return np.array(one.values, dtype=float)
