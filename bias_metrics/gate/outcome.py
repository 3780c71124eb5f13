"""Comparison of a number with a limit: the number, its bounds, and the outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bias_metrics._core.differences import Difference
from bias_metrics._core.values import NOT_REQUESTED, MetricValue
from bias_metrics.families import Bounded, bound_worst, measure_size
from bias_metrics.gate.rules import Kind, Rule
from bias_metrics.table import Estimate

Outcome = Literal["pass", "fail", "insufficient", "error"]
RIVALS: tuple[Kind, ...] = ("champion", "reference")


@dataclass(frozen=True)
class JudgedNumber:
    """A number in the form that limits apply to: an AUC, the size of an AEG, or a change."""

    value: float | None
    low: float | None
    high: float | None
    """Estimate and confidence interval."""
    reason: str | None = None
    """Why the estimate or the interval is missing."""


def read_number(estimate: Estimate, *, is_gap: bool) -> JudgedNumber:
    """Convert an estimate to the number that a rule limits.

    For an AEG this is its size; for a difference of AEGs, the change of the size.
    """
    value, low, high, reason = estimate.value, estimate.low, estimate.high, estimate.reason
    if low is None and reason is None and isinstance(estimate, MetricValue):
        reason = NOT_REQUESTED
    if not is_gap or value is None:
        return JudgedNumber(value, low, high, reason)
    if isinstance(estimate, Difference):
        change = abs(_assert_known(estimate.first)) - abs(_assert_known(estimate.second))
        return JudgedNumber(change, estimate.size_low, estimate.size_high, reason)
    if low is None or high is None:
        return JudgedNumber(abs(value), None, None, reason)
    return JudgedNumber(*measure_size(Bounded(value, low, high)), reason)


def find_worst_group(
    cells: Mapping[str, JudgedNumber], confidence: float, *, worse_is_up: bool
) -> tuple[str, JudgedNumber]:
    """Return the worst subgroup, and an interval that covers the worst true value.

    If any subgroup lacks a value or an interval, so does the result; a number that is not finite is
    worse than any other.
    """
    pick = max if worse_is_up else min
    for name, number in cells.items():
        if number.value is None or not _is_finite(number):
            return name, number
    name = pick(cells, key=lambda key: _assert_known(cells[key].value))
    family = []
    for number in cells.values():
        if number.low is None or number.high is None:
            return name, JudgedNumber(cells[name].value, None, None, number.reason)
        family.append(Bounded(_assert_known(number.value), number.low, number.high))
    ends = bound_worst(family, confidence, worse_is_up=worse_is_up)
    return name, JudgedNumber(cells[name].value, *ends)


def judge_number(
    number: JudgedNumber, kind: Kind, rule: Rule, limit: float
) -> tuple[Outcome, float | None]:
    """Return the outcome and the value or bound that decided it.

    In mode `estimate` the value decides. In mode `proven`, a pass needs the unfavourable end of the
    interval within the limit, and a failure needs the favourable end beyond it.
    """
    if number.value is None or not _is_finite(number):
        return "error", None

    def compute_slack(end: float) -> float:
        """Return the distance of an end within the limit or margin; below 0 beyond it."""
        if rule.is_gap:
            return limit - end
        return end + limit if kind in RIVALS else end - limit

    def is_met(end: float) -> bool:
        """Return True within a limit; the limit itself passes, a margin itself does not."""
        return compute_slack(end) > 0 or (compute_slack(end) == 0 and kind not in RIVALS)

    if rule.mode == "estimate":
        return ("pass" if is_met(number.value) else "fail"), number.value
    if number.low is None or number.high is None:
        return "insufficient", None
    worse, better = (number.high, number.low) if rule.is_gap else (number.low, number.high)
    if is_met(worse):
        return "pass", worse
    return ("fail", better) if compute_slack(better) < 0 else ("insufficient", worse)


def _is_finite(number: JudgedNumber) -> bool:
    ends = (number.value, number.low, number.high)
    return all(end is None or math.isfinite(end) for end in ends)


def _assert_known(end: float | None) -> float:
    assert end is not None  # noqa: S101 - checked by the caller
    return end
