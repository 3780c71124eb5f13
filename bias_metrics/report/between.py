"""How far subgroups are apart: the highest value of a metric minus the lowest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.ranks import Floats
from bias_metrics._core.tables import Tabular
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.report.measurement import Measurement
from bias_metrics.report.steps import MeasuredSubgroup
from bias_metrics.rows import RowOptions, Rows

_BLOCK = 256  # subgroups whose pairs with all others are looked at at once


@dataclass(frozen=True)
class SubgroupSpread(Tabular):
    """The highest value of one metric among subgroups, minus the lowest."""

    metric: str
    """The metric."""
    value: MetricValue
    """The difference, at least 0 (ideal 0), with its interval: the lowest bound holds for all pairs
    of subgroups together. Undefined with fewer than two subgroups."""
    lowest: str | None
    highest: str | None
    """lowest, highest: the subgroups with these values."""
    undefined: dict[str, str]
    """The subgroups that are left out for lack of an interval, each with its reason."""


@aligned
def subgroup_spread(
    y_true: npt.ArrayLike | Rows,
    y_score: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> dict[str, SubgroupSpread]:
    """Measure how far subgroups are apart: for each metric the highest value minus the lowest.

    Of many subgroups that are treated alike, one looks worst and one best by chance. The interval
    allows for that: its lower end is above 0 only if some two subgroups are shown to differ.

    Parameters
    ----------
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. `Rows` have the subgroups too.
    y_score : float array of shape (n,)
        Scores; higher for the positive class.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        As in `evaluate_bias`; not with `Rows`.
    confidence : float, default=0.95
        Confidence of each interval.
    **options
        `sample_weight`, `weight_kind`, `clusters`, `background` as in `evaluate_bias`; not with
        `Rows`.

    Returns
    -------
    dict of str to SubgroupSpread
        By metric: the five of Borkan et al. Of an AEG the highest may be above 0 and the lowest
        below.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.

    Notes
    -----
    The bounds of a pair's difference follow from both subgroups' own bounds (MOVER), as if their
    numbers were not correlated; those of AUCs share rows, which only makes the bounds safe, and
    for AEGs each subgroup is in the background of the other, which is allowed for. The lower end
    is the largest lower bound, each at Bonferroni's level for all ordered pairs. The upper end is
    the largest upper bound, each at its own level, since it only has to hold for the two subgroups
    that are farthest apart in truth.

    References
    ----------
    Zou and Donner (2008), Statistics in Medicine 27 (method of variance estimates recovery).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> y_score = [0.1, 0.4, 0.5, 0.9] * 10 + [0.4, 0.6, 0.5, 0.7] * 10
    >>> others = [1 - one for one in gay]
    >>> found = subgroup_spread(y_true, y_score, {"gay": gay, "others": others})
    >>> found["subgroup_auc"].lowest, str(found["subgroup_auc"].value)
    ('gay', '0.250 [0.060, 0.438]')
    """
    level, rows = check_confidence(confidence), Rows.of(y_true, subgroups, **options)
    return spread_of(Measurement(rows, rows.scores("y_score", y_score)), level)


def spread_of(model: Measurement, confidence: float) -> dict[str, SubgroupSpread]:
    """Return how far the subgroups of a measured model are apart, by metric."""
    cells = {name: model.subgroup(name) for name in model.members}
    everyone = model.ranked.everyone
    of_all = {"positive": everyone.positive.n, "negative": everyone.negative.n}
    return {metric: _spread(metric, cells, of_all, confidence) for metric in SUBGROUP_METRICS}


def _spread(
    metric: str,
    cells: Mapping[str, MeasuredSubgroup],
    of_all: Mapping[str, int],
    confidence: float,
) -> SubgroupSpread:
    alone = {name: one.cells[metric].at(confidence) for name, one in cells.items()}
    lacking = {name: one.reason or "no interval" for name, one in alone.items() if one.low is None}
    names = [name for name in alone if name not in lacking]
    if len(names) < 2:
        reason = "fewer than two subgroups with an interval"
        return SubgroupSpread(metric, undefined(reason), None, None, lacking)
    jointly = 1 - (1 - confidence) / (len(names) * (len(names) - 1))
    tied = _tied(metric, [cells[name] for name in names], of_all)
    joint = [cells[name].cells[metric].at(jointly) for name in names]
    values, down, up = _reaches(joint)
    low = max(0.0, *_ends(values, down, up, tied, sign=-1))
    values, down, up = _reaches([alone[name] for name in names])
    high = min(1.0, max(_ends(values, up, down, tied, sign=1)))
    least, most = int(np.argmin(values)), int(np.argmax(values))
    value = MetricValue(float(values[most] - values[least]), low=low, high=high)
    return SubgroupSpread(metric, value, names[least], names[most], lacking)


def _reaches(cells: list[MetricValue]) -> tuple[Floats, Floats, Floats]:
    """Return values, and how far their intervals reach down and up."""
    values, lows, highs = (
        np.array([getattr(value, end) for value in cells], dtype=np.float64)
        for end in ("value", "low", "high")
    )
    return values, values - lows, highs - values


def _tied(metric: str, groups: list[MeasuredSubgroup], of_all: Mapping[str, int]) -> Floats:
    """Return numbers of which products are the least correlations of two subgroups, negated.

    An AEG compares one class of a subgroup with the same class of all others. Of two disjoint
    subgroups with shares p and q of a class, each is a part of the other's background, and the
    correlation of their AEGs is -sqrt(p q / ((1 - p) (1 - q))).
    """
    if not METRICS[metric].is_gap:
        return np.zeros(len(groups))
    of = METRICS[metric].classes[0][0]
    shares = np.array([getattr(group, f"n_{of}") for group in groups]) / of_all[of]
    found: Floats = np.sqrt(shares / np.maximum(1 - shares, math.ulp(1.0)))
    return found


def _ends(
    values: Floats, of_higher: Floats, of_lower: Floats, tied: Floats, *, sign: int
) -> Iterator[float]:
    """Yield the largest end of the differences to all others, some subgroups at a time."""
    for start in range(0, values.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        a, b = of_higher[part, None], of_lower[None, :]
        together = 2 * np.minimum(tied[part, None] * tied[None, :], 1) * a * b
        ends = values[part, None] - values[None, :] + sign * np.sqrt(a**2 + b**2 + together)
        np.fill_diagonal(ends[:, start:], -np.inf)
        yield float(ends.max())
