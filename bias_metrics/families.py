"""Several numbers that are looked at together: levels, bounds and p-values that allow for that.

Whatever is selected from a family of numbers (the worst, the first, those named in a sentence) is
bounded by the whole family. A number that is asked for by its name has an interval of its own.
`bias_metrics.report.joint_level` computes a less strict level from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from bias_metrics._core.differences import Difference
from bias_metrics._core.intervals import quantile
from bias_metrics._core.values import MetricValue

__all__ = [
    "Bounded",
    "adjust_benjamini_hochberg",
    "adjust_differences",
    "adjust_holm",
    "bonferroni_level",
    "bounds_of_worst",
    "selected",
    "signed_bounds",
    "size_of",
]

K = TypeVar("K")


def bonferroni_level(n: int, alpha: float) -> float:
    """Return the two-sided confidence whose one-sided error is `alpha` divided by `n`.

    Examples
    --------
    >>> bonferroni_level(5, 0.05)
    0.98
    """
    return 1 - 2 * alpha / max(n, 1)


def joint_reach(n: int, confidence: float) -> float:
    """Return how many times as far the ends of `n` intervals reach if all hold together.

    By Bonferroni's level.
    """
    return quantile(1 - (1 - confidence) / max(n, 1)) / quantile(confidence)


def selected(
    value: MetricValue,
    n: int,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> MetricValue:
    """Return a number that was selected from several, with an interval that allows for that.

    The lowest of many AUCs is low partly by chance, and its own interval is too often below its
    true value. The interval of a selected number holds together with those of all from which it
    was selected.

    Parameters
    ----------
    value : MetricValue
        The number.
    n : int
        Size of the family from which it was selected.
    confidence : float, default=0.95
        Confidence of its interval.
    bounds : tuple of float, default=(-1, 1)
        Its smallest and largest possible value.

    Returns
    -------
    MetricValue
        The same number; without an interval if it has none.

    Examples
    --------
    >>> print(selected(MetricValue(0.8, low=0.7, high=0.9), 27))
    0.800 [0.641, 0.959]
    """
    if value.value is None or value.low is None or value.high is None:
        return value
    wider = joint_reach(n, confidence)
    low, high = (value.value + wider * (end - value.value) for end in (value.low, value.high))
    return replace(value, low=max(low, bounds[0]), high=min(high, bounds[1]))


class Bounded(NamedTuple):
    """A number and the ends of its interval."""

    value: float
    low: float
    high: float


def size_of(number: Bounded) -> Bounded:
    """Return the size of a gap, whose sign does not matter.

    Examples
    --------
    >>> size_of(Bounded(-0.2, -0.5, 0.1))
    Bounded(value=0.2, low=0.0, high=0.5)
    """
    value, low, high = number
    sizes = abs(low), abs(high)
    return Bounded(abs(value), 0.0 if low <= 0 <= high else min(sizes), max(sizes))


def bounds_of_worst(
    family: Iterable[Bounded], confidence: float, *, worse_is_up: bool
) -> tuple[float, float]:
    """Return an interval that holds the worst of several numbers, whichever it is.

    The bad end is the worst of all. So is the good one, but of ends that hold together: the worst
    of many is bad partly by chance.

    Parameters
    ----------
    family : iterable of Bounded
        All numbers; at least one.
    confidence : float
        Confidence of their intervals.
    worse_is_up : bool
        Whether a larger number is worse, as of the size of a gap.
    """
    numbers = list(family)
    wider = joint_reach(len(numbers), confidence)
    if worse_is_up:
        good = (one.value + wider * (one.low - one.value) for one in numbers)
        return max(good), max(one.high for one in numbers)
    good = (one.value + wider * (one.high - one.value) for one in numbers)
    return min(one.low for one in numbers), min(good)


def signed_bounds(family: Iterable[Bounded], confidence: float) -> tuple[float, float] | None:
    """Return an interval that holds the largest of several gaps, if its sign is certain.

    It is if one sign's largest size is larger than any of the other, by bounds that hold together.

    Examples
    --------
    >>> signed_bounds([Bounded(0.3, 0.25, 0.35), Bounded(-0.1, -0.15, -0.05)], 0.95)
    (0.2428203082994166, 0.35)
    >>> signed_bounds([Bounded(0.3, 0.25, 0.35), Bounded(-0.3, -0.35, -0.25)], 0.95)
    """
    numbers = list(family)
    negated = [Bounded(-one.value, -one.high, -one.low) for one in numbers]
    for signed, others, sign in ((numbers, negated, 1), (negated, numbers, -1)):
        low, high = bounds_of_worst(signed, confidence, worse_is_up=True)
        wider = joint_reach(len(numbers), confidence)
        largest = max(one.value + wider * (one.high - one.value) for one in others)
        if low > max(largest, 0.0):
            return (low, high) if sign > 0 else (-high, -low)
    return None


# ---- P-values of many differences, adjusted for each other


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    order = np.argsort(p_values, kind="stable")
    n = len(order)
    found = np.empty(n)
    found[order] = np.maximum.accumulate(
        [min(1.0, (n - i) * p_values[at]) for i, at in enumerate(order)]
    )
    return [float(one) for one in found]


def adjust_benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p-values, in the order given."""
    order = np.argsort(p_values, kind="stable")[::-1]
    n = len(order)
    found = np.empty(n)
    found[order] = np.minimum.accumulate([p_values[at] * n / (n - i) for i, at in enumerate(order)])
    return [float(one) for one in found]


def adjust_differences(cells: Mapping[K, Difference]) -> dict[K, Difference]:
    """Return the differences with their p-values adjusted for all of them."""
    p_values = {key: one.p_value for key, one in cells.items() if one.p_value is not None}
    found, given = dict(cells), list(p_values.values())
    adjusted = zip(p_values, adjust_holm(given), adjust_benjamini_hochberg(given), strict=True)
    for key, p_holm, p_bh in adjusted:
        found[key] = found[key].adjusted(p_holm, p_bh)
    return found
