"""The subgroup with the worst value of a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bias_metrics._core.tables import Tabular
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.families import Bounded, bound_largest_gap, bound_worst, measure_size
from bias_metrics.metrics import AUCS, METRICS

# Values closer than this are equally bad.
_ROUNDING = 1e-12
_OF_SIZE = "its sign is uncertain; its size is between size_low and size_high"


class HasCounts(Protocol):
    """Row counts of a group."""

    @property
    def n_positive(self) -> int:
        """Number of positives."""

    @property
    def n_negative(self) -> int:
        """Number of negatives."""


@dataclass(frozen=True)
class WorstSubgroup(Tabular):
    """The subgroup with the worst value of a metric."""

    metric: str
    """The metric."""
    subgroup: str | None
    """Its name; None if the metric is undefined for every subgroup."""
    value: MetricValue
    """Its value, signed for an AEG. For an AUC, with the interval of the worst of all: from the
    worst lower bound to the worst of the joint upper bounds. The subgroup's own interval would be
    too narrow, since the worst of many is bad partly by chance."""
    n_positive: int
    n_negative: int
    """n_positive, n_negative: number of its rows by class; 0 without a subgroup."""
    tied: tuple[str, ...]
    """Other subgroups with an equally bad value."""
    undefined: dict[str, str]
    """Subgroups that cannot be compared, with reasons."""
    size_low: float | None = None
    size_high: float | None = None
    """size_low, size_high: for a gap, the interval of the largest size, whatever the sign. `value`
    has no interval if two gaps of nearly equal size have opposite signs."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; sizes only if defined."""
        sizes = {"size_low": self.size_low, "size_high": self.size_high}
        return {
            "metric": self.metric,
            "subgroup": self.subgroup,
            **self.value.to_dict(interval=True),
            **({} if self.size_low is None else sizes),
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "tied": list(self.tied),
            "undefined": dict(self.undefined),
        }


def find_worst(
    metric: str,
    cells: Mapping[str, MetricValue],
    counts: Mapping[str | None, HasCounts],
    confidence: float,
) -> WorstSubgroup:
    """Return the group with the worst value of a metric.

    It is the group with the lowest AUC, or the gap farthest from 0 on either side. The worst of
    many estimates overstates the harm, especially if groups are small: see the counts.

    Parameters
    ----------
    metric : str
        The metric.
    cells : mapping of str to MetricValue
        Its value for each group.
    counts : mapping of str to RowCounts
        Row counts by group.
    confidence : float
        Confidence of the intervals.

    Returns
    -------
    WorstSubgroup
        The first of several equal groups; undefined if the metric is undefined for every group. The
        value has no interval if any group lacks an interval.

    References
    ----------
    Sagawa et al. (2020), Distributionally Robust Neural Networks for Group Shifts, section 2
    (the worst group). Koh et al. (2021), WILDS, on Civil Comments.
    """
    reasons = {name: str(cell.reason) for name, cell in cells.items() if cell.value is None}
    values = {name: cell.value for name, cell in cells.items() if cell.value is not None}
    if not values:
        reason = "undefined for every subgroup" if cells else "no subgroups"
        return WorstSubgroup(metric, None, make_undefined(reason), 0, 0, (), reasons)
    gap = METRICS[metric].is_gap
    badness = {name: abs(value) if gap else -value for name, value in values.items()}
    most = max(badness.values()) - _ROUNDING
    worst, *tied = [name for name, bad in badness.items() if bad >= most]
    value, ends = _add_interval(values[worst], cells, confidence, gap=gap)
    n_positive, n_negative = counts[worst].n_positive, counts[worst].n_negative
    return WorstSubgroup(metric, worst, value, n_positive, n_negative, tuple(tied), reasons, *ends)


def sort_worst_first(subgroups: Mapping[str, Mapping[str, MetricValue]]) -> list[str]:
    """Sort subgroups by their worst AUC, the worst first.

    The order is that of the lowest upper bound, so that a subgroup of a few unlucky rows does not
    come before a subgroup with evidence. Subgroups without an interval come next, by their lowest
    AUC, then subgroups without an AUC.

    Parameters
    ----------
    subgroups : mapping of str to mapping of str to MetricValue
        As in `BiasTable.subgroups`.

    Returns
    -------
    list of str
        All names.

    Examples
    --------
    >>> from bias_metrics import evaluate_bias
    >>> is_toxic, scores = [0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.8, 0.7, 0.9, 0.6]
    >>> subgroups = {"gay": [0, 1, 0, 0, 1, 0], "muslim": [0, 0, 1, 1, 0, 0]}
    >>> sort_worst_first(evaluate_bias(is_toxic, scores, subgroups).subgroups)
    ['muslim', 'gay']
    """

    def badness(name: str) -> tuple[bool, float, float]:
        cells = [subgroups[name][metric] for metric in AUCS]
        bounds = [cell.high for cell in cells if cell.high is not None]
        values = [cell.value for cell in cells if cell.value is not None]
        return not bounds, min(bounds, default=1.0), min(values, default=2.0)

    return sorted(subgroups, key=badness)


def _add_interval(
    value: float, cells: Mapping[str, MetricValue], confidence: float, *, gap: bool
) -> tuple[MetricValue, tuple[float | None, float | None]]:
    """Return the worst value with its interval, and the interval of a gap's size."""
    family, signed = [], []
    for name, cell in cells.items():
        if cell.value is None or cell.low is None or cell.high is None:
            reason = cell.reason and f"{name}: {cell.reason}"
            return MetricValue(value, reason), (None, None)
        own = Bounded(cell.value, cell.low, cell.high)
        family.append(measure_size(own) if gap else own)
        signed.append(own)
    low, high = bound_worst(family, confidence, worse_is_up=gap)
    if not gap:
        return MetricValue(value, low=low, high=min(high, 1.0)), (None, None)
    sizes = max(low, 0.0), high
    ends = bound_largest_gap(signed, confidence)
    if ends is None:
        return MetricValue(value, _OF_SIZE), sizes
    return MetricValue(value, low=ends[0], high=ends[1]), sizes
