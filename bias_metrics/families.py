"""Multiple comparisons: joint levels, bounds and p-values for a family of numbers.

A number that is selected from a family (the worst, the first, those named in a sentence) has bounds
from the whole family. A number that is requested by name has its own interval.
`bias_metrics.report.compute_joint_level` computes a less strict level from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from bias_metrics._core.differences import Difference
from bias_metrics._core.intervals import student_quantile
from bias_metrics._core.values import MetricValue

__all__ = [
    "Bounded",
    "adjust_benjamini_hochberg",
    "adjust_differences",
    "adjust_holm",
    "bonferroni_level",
    "bound_largest_gap",
    "bound_worst",
    "measure_size",
    "widen_selected",
]

K = TypeVar("K")


def bonferroni_level(n: int, alpha: float) -> float:
    """Return the two-sided confidence with a one-sided error of `alpha` divided by `n`.

    Examples
    --------
    >>> bonferroni_level(5, 0.05)
    0.98
    """
    return 1 - 2 * alpha / max(n, 1)


def compute_joint_reach(n: int, confidence: float) -> float:
    """Return the factor that widens `n` intervals so that all hold jointly (Bonferroni)."""
    return student_quantile(1 - (1 - confidence) / max(n, 1)) / student_quantile(confidence)


def widen_selected(
    value: MetricValue,
    n: int,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> MetricValue:
    """Widen the interval of a number that was selected from several numbers.

    The lowest of many AUCs is low partly by chance, and its own interval is too often below the
    true value. The widened interval holds jointly with those of all numbers in the family.

    `n` is the size of the family, and `bounds` are the smallest and largest possible value. A
    number without an interval is returned unchanged.

    Examples
    --------
    >>> print(widen_selected(MetricValue(0.8, low=0.7, high=0.9), 27))
    0.800 [0.641, 0.959]
    """
    if value.value is None or value.low is None or value.high is None:
        return value
    wider = compute_joint_reach(n, confidence)
    low, high = (value.value + wider * (end - value.value) for end in (value.low, value.high))
    return replace(value, low=max(low, bounds[0]), high=min(high, bounds[1]))


class Bounded(NamedTuple):
    """A number and the ends of its interval."""

    value: float
    low: float
    high: float


def measure_size(number: Bounded) -> Bounded:
    """Return the size of a gap, regardless of its sign.

    Examples
    --------
    >>> measure_size(Bounded(-0.2, -0.5, 0.1))
    Bounded(value=0.2, low=0.0, high=0.5)
    """
    value, low, high = number
    sizes = abs(low), abs(high)
    return Bounded(abs(value), 0.0 if low <= 0 <= high else min(sizes), max(sizes))


def bound_worst(
    family: Iterable[Bounded], confidence: float, *, worse_is_up: bool
) -> tuple[float, float]:
    """Return an interval of the worst of several numbers, whichever it is.

    The bad end is the worst bad end of all intervals. The good end is the worst good end of joint
    intervals, since the worst of many is bad partly by chance. The family is not empty. Larger is
    worse for the size of a gap (`worse_is_up`).
    """
    numbers = list(family)
    wider = compute_joint_reach(len(numbers), confidence)
    if worse_is_up:
        good = (number.value + wider * (number.low - number.value) for number in numbers)
        return max(good), max(number.high for number in numbers)
    good = (number.value + wider * (number.high - number.value) for number in numbers)
    return min(number.low for number in numbers), min(good)


def bound_largest_gap(family: Iterable[Bounded], confidence: float) -> tuple[float, float] | None:
    """Return an interval of the largest of several gaps; None if its sign is uncertain.

    The sign is certain if the largest size of gaps with this sign is larger than any with the
    other sign, by joint bounds.

    Examples
    --------
    >>> bound_largest_gap([Bounded(0.3, 0.25, 0.35), Bounded(-0.1, -0.15, -0.05)], 0.95)
    (0.2428203082994166, 0.35)
    >>> bound_largest_gap([Bounded(0.3, 0.25, 0.35), Bounded(-0.3, -0.35, -0.25)], 0.95)
    """
    numbers = list(family)
    negated = [Bounded(-number.value, -number.high, -number.low) for number in numbers]
    for signed, others, sign in ((numbers, negated, 1), (negated, numbers, -1)):
        low, high = bound_worst(signed, confidence, worse_is_up=True)
        wider = compute_joint_reach(len(numbers), confidence)
        largest = max(number.value + wider * (number.high - number.value) for number in others)
        if low > max(largest, 0.0):
            return (low, high) if sign > 0 else (-high, -low)
    return None


# ---- P-values of many differences, adjusted for each other


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    order = np.argsort(p_values, kind="stable")
    n = len(order)
    adjusted = np.empty(n)
    adjusted[order] = np.maximum.accumulate(
        [min(1.0, (n - i) * p_values[position]) for i, position in enumerate(order)]
    )
    return [float(p_value) for p_value in adjusted]


def adjust_benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p-values, in the order given."""
    order = np.argsort(p_values, kind="stable")[::-1]
    n = len(order)
    adjusted = np.empty(n)
    adjusted[order] = np.minimum.accumulate(
        [p_values[position] * n / (n - i) for i, position in enumerate(order)]
    )
    return [float(p_value) for p_value in adjusted]


def adjust_differences(cells: Mapping[K, Difference]) -> dict[K, Difference]:
    """Return the differences with their p-values adjusted for the whole family."""
    p_values = {
        key: difference.p_value
        for key, difference in cells.items()
        if difference.p_value is not None
    }
    differences, p_list = dict(cells), list(p_values.values())
    adjusted = zip(p_values, adjust_holm(p_list), adjust_benjamini_hochberg(p_list), strict=True)
    for key, p_holm, p_bh in adjusted:
        differences[key] = differences[key].set_adjusted_p(p_holm, p_bh)
    return differences
