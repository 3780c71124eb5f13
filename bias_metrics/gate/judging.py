"""One number against one limit: the number, its bounds, and the outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bias_metrics._core.differences import Difference
from bias_metrics._core.values import NOT_ASKED, MetricValue
from bias_metrics.families import Bounded, bounds_of_worst, size_of
from bias_metrics.gate.rules import Kind, Rule
from bias_metrics.table import Estimate

Outcome = Literal["pass", "fail", "insufficient", "error"]
RIVALS: tuple[Kind, ...] = ("champion", "reference")


@dataclass(frozen=True)
class Measured:
    """A number as a rule sees it: the size of an AEG, or the change against a rival."""

    value: float | None
    low: float | None
    high: float | None
    """Estimate and interval."""
    reason: str | None = None
    """Why one of them is missing."""


def measured(estimate: Estimate, *, is_gap: bool) -> Measured:
    """Read a number, or the difference from a rival's, as a rule does.

    For an AEG its size counts; of a difference, the change of its size.
    """
    value, low, high, reason = estimate.value, estimate.low, estimate.high, estimate.reason
    if low is None and reason is None and isinstance(estimate, MetricValue):
        reason = NOT_ASKED
    if not is_gap or value is None:
        return Measured(value, low, high, reason)
    if isinstance(estimate, Difference):
        change = abs(_known(estimate.first)) - abs(_known(estimate.second))
        return Measured(change, estimate.size_low, estimate.size_high, reason)
    if low is None or high is None:
        return Measured(abs(value), None, None, reason)
    return Measured(*size_of(Bounded(value, low, high)), reason)


def worst_of(
    cells: Mapping[str, Measured], confidence: float, *, worse_is_up: bool
) -> tuple[str, Measured]:
    """Return the worst of several subgroups and an interval that holds the worst.

    If one has no value or no interval, neither does the worst; a number that is not finite is worse
    than any.
    """
    pick = max if worse_is_up else min
    for name, one in cells.items():
        if one.value is None or not _finite(one):
            return name, one
    name = pick(cells, key=lambda key: _known(cells[key].value))
    family = []
    for one in cells.values():
        if one.low is None or one.high is None:
            return name, Measured(cells[name].value, None, None, one.reason)
        family.append(Bounded(_known(one.value), one.low, one.high))
    ends = bounds_of_worst(family, confidence, worse_is_up=worse_is_up)
    return name, Measured(cells[name].value, *ends)


def judge(number: Measured, kind: Kind, rule: Rule, limit: float) -> tuple[Outcome, float | None]:
    """Return the outcome and the value or bound that decided it.

    To pass, the value (mode `estimate`) or the unfavourable end of the interval (mode
    `proven`) must be on the good side of the limit; to fail, the favourable end must be beyond.
    """
    if number.value is None or not _finite(number):
        return "error", None
    worse_is_up = rule.is_gap
    if rule.mode == "estimate":
        met = _meets(number.value, kind, limit, worse_is_up=worse_is_up)
        return ("pass" if met else "fail"), number.value
    if number.low is None or number.high is None:
        return "insufficient", None
    bad, good = (number.high, number.low) if worse_is_up else (number.low, number.high)
    passed = _meets(bad, kind, limit, worse_is_up=worse_is_up)
    if not passed and _misses(good, kind, limit, worse_is_up=worse_is_up):
        return "fail", good
    return ("pass" if passed else "insufficient"), bad


def _meets(end: float, kind: Kind, limit: float, *, worse_is_up: bool) -> bool:
    """Say whether an end is good enough; equal to a limit it is, equal to a margin it is not."""
    if kind not in RIVALS:
        return end <= limit if worse_is_up else end >= limit
    return end < limit if worse_is_up else end > -limit


def _misses(end: float, kind: Kind, limit: float, *, worse_is_up: bool) -> bool:
    if kind not in RIVALS:
        return end > limit if worse_is_up else end < limit
    return end > limit if worse_is_up else end < -limit


def _finite(number: Measured) -> bool:
    ends = (number.value, number.low, number.high)
    return all(end is None or math.isfinite(end) for end in ends)


def _known(end: float | None) -> float:
    assert end is not None  # noqa: S101 - checked by the caller
    return end
