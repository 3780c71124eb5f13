"""Which subgroup is treated worst, according to a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bias_metrics._core.intervals import joint_reach
from bias_metrics._core.tables import Tabular
from bias_metrics._core.values import MetricValue, NumbersByMetric, undefined
from bias_metrics.metrics import AUCS, METRICS, SUBGROUP_METRICS

# Values closer than this are equally bad.
_ROUNDING = 1e-12
_OF_SIZE = "its sign is uncertain; its size is between size_low and size_high"


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
    """size_low, size_high: for an AEG, which has no interval here: the interval of the largest
    size, whatever the sign. Two gaps of nearly the same size may have opposite signs, and no
    interval holds both."""

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


class Reported(Protocol):
    """A result that `worst_subgroup` can read, such as a BiasReport."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with `subgroups` among them."""


def worst_subgroup(
    report: Reported | Mapping[str, Any], metric: str, *, confidence: float = 0.95
) -> WorstSubgroup:
    """Return the subgroup, or intersection, that is treated worst according to a metric.

    It has the lowest AUC, or the AEG farthest from 0 on either side. The worst of many estimates
    looks worse than it is, especially if subgroups are small: look at the counts.

    Parameters
    ----------
    report : BiasReport or mapping
        A report, or the output of its `to_dict()`, also as read from JSON. `report.worst` has
        the worst subgroup of every metric.
    metric : str
        One of `subgroup_auc`, `bpsn_auc`, `bnsp_auc`, `positive_aeg`, `negative_aeg`.
    confidence : float, default=0.95
        Of the report's intervals.

    Returns
    -------
    WorstSubgroup
        Its name, value and counts; if several are equal, the first in the report, with the
        others in `tied`; undefined if the metric is defined for none. It has no interval if
        any subgroup has none.

    Raises
    ------
    ValueError
        If `metric` is not one of the five.

    References
    ----------
    Sagawa et al. (2020), Distributionally Robust Neural Networks for Group Shifts, section 2
    (the worst group). Koh et al. (2021), WILDS, on Civil Comments.

    Examples
    --------
    >>> from bias_metrics import evaluate_bias
    >>> groups = {"jewish": [1, 1, 0, 0, 0, 0], "muslim": [0, 0, 1, 1, 0, 0]}
    >>> y_score = [0.1, 0.9, 0.8, 0.7, 0.2, 0.75]
    >>> report = evaluate_bias([0, 1, 0, 1, 0, 1], y_score, groups)
    >>> worst = worst_subgroup(report, "bpsn_auc")
    >>> worst.subgroup, worst.value.value
    ('muslim', 0.5)
    """
    if metric not in SUBGROUP_METRICS:
        msg = f"`metric` must be one of {', '.join(SUBGROUP_METRICS)}; got {metric!r}."
        raise ValueError(msg)
    subgroups = (report if isinstance(report, Mapping) else report.to_dict())["subgroups"]
    cells = {name: bias[metric] for name, bias in subgroups.items()}
    reasons = {name: cell["reason"] for name, cell in cells.items() if cell["value"] is None}
    values = {name: cell["value"] for name, cell in cells.items() if name not in reasons}
    if not values:
        reason = "undefined for every subgroup" if subgroups else "no subgroups"
        return WorstSubgroup(metric, None, undefined(reason), 0, 0, (), reasons)
    gap = METRICS[metric].is_gap
    badness = {name: abs(value) if gap else -value for name, value in values.items()}
    most = max(badness.values()) - _ROUNDING
    worst, *tied = [name for name, bad in badness.items() if bad >= most]
    value, ends = _with_interval(values[worst], cells, confidence, gap=gap)
    counts = subgroups[worst]["n_positive"], subgroups[worst]["n_negative"]
    return WorstSubgroup(metric, worst, value, *counts, tuple(tied), reasons, *ends)


def worst_first(subgroups: Mapping[str, NumbersByMetric]) -> list[str]:
    """Order subgroups by how bad their worst AUC is shown to be, the worst first.

    They are ordered by the upper bound of an interval, so that a few unlucky rows do not come
    before a subgroup with evidence. Subgroups without any interval come next, by their lowest
    AUC, then those without any AUC.

    Parameters
    ----------
    subgroups : mapping of str to SubgroupBias
        As in `BiasReport.subgroups`.

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
        cells: list[MetricValue] = [getattr(subgroups[name], metric) for metric in AUCS]
        bounds = [cell.high for cell in cells if cell.high is not None]
        values = [cell.value for cell in cells if cell.value is not None]
        return not bounds, min(bounds, default=1.0), min(values, default=2.0)

    return sorted(subgroups, key=badness)


def _with_interval(
    value: float, cells: Mapping[str, Mapping[str, Any]], confidence: float, *, gap: bool
) -> tuple[MetricValue, tuple[float | None, float | None]]:
    """Return the value of the worst with its interval, or for a gap with that of its size."""
    lacking = [name for name, cell in cells.items() if cell.get("low") is None]
    if lacking:
        reason = cells[lacking[0]].get("reason")
        return MetricValue(value, reason and f"{lacking[0]}: {reason}"), (None, None)
    own = [(cell["low"], cell["high"]) for cell in cells.values()]
    wider = joint_reach(len(cells), confidence)
    # What is best about the worst must hold for whoever that is.
    together = [
        tuple(cell["value"] + wider * (cell[end] - cell["value"]) for end in ("low", "high"))
        for cell in cells.values()
    ]
    if not gap:
        low, high = min(low for low, _ in own), min(high for _, high in together)
        return MetricValue(value, low=low, high=min(high, 1.0)), (None, None)
    least = max(max(low, -high, 0.0) for low, high in together)
    most = max(max(-low, high) for low, high in own)
    return MetricValue(value, _OF_SIZE), (least, most)
