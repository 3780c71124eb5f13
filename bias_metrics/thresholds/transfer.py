"""Carrying a threshold over to a successor, and who is flagged more than before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    FloatArray,
    check_choice,
    check_clusters,
    check_mask,
    check_scores,
    check_subgroups,
    check_threshold,
)
from bias_metrics._core.cuts import reaches
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence, few_clusters, quantile
from bias_metrics._core.proportions import paired_change
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue, undefined

Match = Literal["flag_rate", "recall"]
MATCHES: tuple[Match, ...] = ("flag_rate", "recall")


@dataclass(frozen=True)
class FlagChange(Tabular):
    """The rows that two models flag."""

    n: int
    """Rows."""
    n_before: int
    n_after: int
    """n_before, n_after: rows that the first model flags, and the second."""
    n_gained: int
    n_lost: int
    """n_gained, n_lost: rows that only the second flags, and only the first."""
    change: MetricValue
    """Share that the second flags minus share that the first flags; above 0, more are flagged than
    before."""


@dataclass(frozen=True)
class ThresholdTransfer(Tabular):
    """The successor's threshold, and what changes with it."""

    before: float
    after: float
    """before, after: the first model's threshold, and the second's that flags alike."""
    match: Match
    """What is alike."""
    rate_before: float
    rate_after: float
    """rate_before, rate_after: the flag rate, or recall, of each model at its threshold."""
    overall: FlagChange
    """All rows."""
    subgroups: dict[str, FlagChange]
    """Each subgroup."""

    def rows(self) -> list[Row]:
        """Return one record per subgroup."""
        return [
            {
                "subgroup": name,
                "n": one.n,
                "n_before": one.n_before,
                "n_after": one.n_after,
                "n_gained": one.n_gained,
                "n_lost": one.n_lost,
                "change": one.change.value,
                "low": one.change.low,
                "high": one.change.high,
            }
            for name, one in self.subgroups.items()
        ]


@aligned
def transfer_threshold(
    y_score_before: npt.ArrayLike,
    y_score_after: npt.ArrayLike,
    subgroups: Mapping[str, npt.ArrayLike],
    *,
    threshold: float,
    threshold_after: float | None = None,
    match: Match = "flag_rate",
    y_true: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
) -> ThresholdTransfer:
    """Find the threshold of a successor that flags as many rows as the first model at its own.

    The scores of two models do not mean the same, so neither do equal thresholds. Even at the
    same overall flag rate, some subgroups may be flagged more than before.

    Parameters
    ----------
    y_score_before, y_score_after : float array of shape (n,)
        Finite scores of the first model and its successor, on the same rows.
    subgroups : mapping of str to bool array of shape (n,)
        Name and membership of each subgroup; they may overlap.
    threshold : float
        The first model's; a score at or above it is flagged.
    threshold_after : float, optional
        The successor's, if it is decided already. Default: the one that `match` asks for.
    match : {"flag_rate", "recall"}, default="flag_rate"
        What stays as it was: the share of all rows that is flagged, or of the positive ones.
    y_true : bool array of shape (n,), optional
        True for the positive (toxic) class; needed for `recall`.
    confidence : float, default=0.95
        Confidence of each interval.
    clusters : array of shape (n,), optional
        Article, thread or template of each row. There is no interval with fewer than 20 clusters.

    Returns
    -------
    ThresholdTransfer
        The threshold, one of the successor's scores, whose rate is nearest (of two, the higher
        threshold), and the change of flagged rows overall and by subgroup. Intervals take both
        thresholds as given.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if there are no rows, or no positive ones for `recall`.

    Notes
    -----
    The models are paired: the interval of a change is made from the exact ones of the rows that are
    flagged by one model alone; with clusters it reaches at least as far as the linearised variance
    requires.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26. Zou and Donner (2008), Statistics in Medicine 27.

    Examples
    --------
    >>> found = transfer_threshold(
    ...     [0.9, 0.8, 0.3, 0.1], [0.4, 0.1, 0.5, 0.2], {"gay": [0, 0, 1, 1]}, threshold=0.5
    ... )
    >>> found.after, found.subgroups["gay"].n_before, found.subgroups["gay"].n_after
    (0.4, 0, 1)
    """
    first: FloatArray = check_scores("y_score_before", y_score_before)
    second: FloatArray = check_scores("y_score_after", y_score_after, first.size)
    masks = check_subgroups(subgroups, first.size)
    check_choice("match", match, MATCHES)
    level, codes = check_confidence(confidence), check_clusters(clusters, first.size)
    counted = _counted(match, y_true, first.size)
    old = reaches(first, check_threshold(threshold))
    wanted = int(old[counted].sum())
    after = _threshold(second[counted], wanted)
    if threshold_after is not None:
        after = float(check_threshold(threshold_after))
    new = reaches(second, after)
    n = int(counted.sum())

    def change(rows: BoolArray) -> FlagChange:
        within = None if codes is None else codes[rows]
        return _change(old[rows], new[rows], within, level)

    return ThresholdTransfer(
        float(threshold),
        after,
        match,
        wanted / n,
        int(new[counted].sum()) / n,
        change(np.ones(first.size, dtype=np.bool_)),
        {name: change(np.asarray(mask)) for name, mask in masks.items()},
    )


def _counted(match: Match, y_true: npt.ArrayLike | None, n: int) -> BoolArray:
    """Return the rows whose flag rate stays the same."""
    if match == "flag_rate":
        return np.ones(n, dtype=np.bool_)
    if y_true is None:
        msg = "`y_true` must be given for `match='recall'`; it is not."
        raise ValueError(msg)
    labels = check_mask("y_true", y_true, n)
    if not labels.any():
        msg = "`y_true` must have positive rows for `match='recall'`; it has none."
        raise ValueError(msg)
    return labels


def _threshold(scores: FloatArray, wanted: int) -> float:
    """Return the score at which the number of flagged rows is nearest to the wanted one.

    If none should be flagged, it is the next number above all scores.
    """
    values, counts = np.unique(scores, return_counts=True)
    at_least = np.append(np.cumsum(counts[::-1])[::-1], 0)
    distance = np.abs(at_least - wanted)
    nearest = int(np.flatnonzero(distance == distance.min())[-1])
    if nearest == values.size:
        return float(np.nextafter(values[-1], np.inf))
    return float(values[nearest])


def _change(
    old: BoolArray, new: BoolArray, codes: npt.NDArray[np.intp] | None, confidence: float
) -> FlagChange:
    n, gained, lost = old.size, int((new & ~old).sum()), int((old & ~new).sum())
    counts = n, int(old.sum()), int(new.sum()), gained, lost
    if not n:
        return FlagChange(*counts, undefined("no rows"))
    value = (gained - lost) / n
    low, high = paired_change(gained, lost, n, quantile(confidence))
    if codes is None:
        return FlagChange(*counts, MetricValue(value, low=max(low, -1.0), high=min(high, 1.0)))
    sums = np.bincount(np.unique(codes, return_inverse=True)[1], new * 1.0 - old - value) / n
    if reason := few_clusters(sums.size):
        return FlagChange(*counts, MetricValue(value, reason, n_clusters=sums.size))
    error = math.sqrt(sums.size / (sums.size - 1) * float(sums @ sums))
    reach = error * quantile(confidence, sums.size - 1.0)
    low, high = max(min(low, value - reach), -1.0), min(max(high, value + reach), 1.0)
    return FlagChange(*counts, MetricValue(value, low=low, high=high, n_clusters=sums.size))
