"""Which subgroup is treated worst, according to a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bias_metrics._core.tables import Tabular
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.families import Bounded, bounds_of_worst, signed_bounds, size_of
from bias_metrics.metrics import AUCS, METRICS

# Values closer than this are equally bad.
_ROUNDING = 1e-12
_OF_SIZE = "its sign is uncertain; its size is between size_low and size_high"


class HasCounts(Protocol):
    """Rows of a group."""

    @property
    def n_positive(self) -> int:
        """Number of positives."""

    @property
    def n_negative(self) -> int:
        """Number of negatives."""


@dataclass(frozen=True)
class WorstSubgroup(Tabular):
    """The subgroup with the worst value of one metric."""

    metric: str
    """The metric."""
    subgroup: str | None
    """Its name; None if the metric is not defined for any subgroup."""
    value: MetricValue
    """Its value, signed for an AEG, and for an AUC the interval of the worst of all: from the worst
    lower bound to the worst of the upper bounds that hold together over all subgroups. The interval
    of that subgroup alone would be too narrow: the worst of many is bad partly by chance."""
    n_positive: int
    n_negative: int
    """n_positive, n_negative: its rows by class; 0 without a subgroup."""
    tied: tuple[str, ...]
    """Other subgroups with an equally bad value."""
    undefined: dict[str, str]
    """The subgroups that cannot be compared, each with its reason."""
    size_low: float | None = None
    size_high: float | None = None
    """size_low, size_high: for a gap, the interval of the largest size, whatever the sign. If two
    gaps of nearly the same size have opposite signs, `value` has no interval: none holds both."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; sizes only if they exist."""
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


def worst_of(
    metric: str,
    cells: Mapping[str, MetricValue],
    counts: Mapping[str | None, HasCounts],
    confidence: float,
) -> WorstSubgroup:
    """Return the group that is treated worst according to a metric.

    It has the lowest AUC, or the gap farthest from 0 on either side. The worst of many estimates
    looks worse than it is, especially if groups are small: look at the counts.

    Parameters
    ----------
    metric : str
        The metric.
    cells : mapping of str to MetricValue
        Its value for each group.
    counts : mapping of str to RowCounts
        Rows of each group.
    confidence : float
        Confidence of the intervals.

    Returns
    -------
    WorstSubgroup
        If several are equal, the first; undefined if the metric is defined for none. It has no
        interval if any group has none.

    References
    ----------
    Sagawa et al. (2020), Distributionally Robust Neural Networks for Group Shifts, section 2
    (the worst group). Koh et al. (2021), WILDS, on Civil Comments.
    """
    reasons = {name: str(cell.reason) for name, cell in cells.items() if cell.value is None}
    values = {name: cell.value for name, cell in cells.items() if cell.value is not None}
    if not values:
        reason = "undefined for every subgroup" if cells else "no subgroups"
        return WorstSubgroup(metric, None, undefined(reason), 0, 0, (), reasons)
    gap = METRICS[metric].is_gap
    badness = {name: abs(value) if gap else -value for name, value in values.items()}
    most = max(badness.values()) - _ROUNDING
    worst, *tied = [name for name, bad in badness.items() if bad >= most]
    value, ends = _with_interval(values[worst], cells, confidence, gap=gap)
    n_positive, n_negative = counts[worst].n_positive, counts[worst].n_negative
    return WorstSubgroup(metric, worst, value, n_positive, n_negative, tuple(tied), reasons, *ends)


def worst_first(subgroups: Mapping[str, Mapping[str, MetricValue]]) -> list[str]:
    """Order subgroups by how bad their worst AUC is shown to be, the worst first.

    They are ordered by the upper bound of an interval, so that a few unlucky rows do not come
    before a subgroup with evidence. Subgroups without any interval come next, by their lowest
    AUC, then those without any AUC.

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
    >>> worst_first(evaluate_bias(is_toxic, scores, subgroups).subgroups)
    ['muslim', 'gay']
    """

    def badness(name: str) -> tuple[bool, float, float]:
        cells = [subgroups[name][metric] for metric in AUCS]
        bounds = [cell.high for cell in cells if cell.high is not None]
        values = [cell.value for cell in cells if cell.value is not None]
        return not bounds, min(bounds, default=1.0), min(values, default=2.0)

    return sorted(subgroups, key=badness)


def _with_interval(
    value: float, cells: Mapping[str, MetricValue], confidence: float, *, gap: bool
) -> tuple[MetricValue, tuple[float | None, float | None]]:
    """Return the value of the worst with its interval, or for a gap with that of its size."""
    family, signed = [], []
    for name, cell in cells.items():
        if cell.value is None or cell.low is None or cell.high is None:
            reason = cell.reason and f"{name}: {cell.reason}"
            return MetricValue(value, reason), (None, None)
        own = Bounded(cell.value, cell.low, cell.high)
        family.append(size_of(own) if gap else own)
        signed.append(own)
    low, high = bounds_of_worst(family, confidence, worse_is_up=gap)
    if not gap:
        return MetricValue(value, low=low, high=min(high, 1.0)), (None, None)
    sizes = max(low, 0.0), high
    ends = signed_bounds(signed, confidence)
    if ends is None:
        return MetricValue(value, _OF_SIZE), sizes
    return MetricValue(value, low=ends[0], high=ends[1]), sizes
