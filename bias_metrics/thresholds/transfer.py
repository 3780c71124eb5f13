"""Transfer of a threshold to a successor, and changes of flagged rows by subgroup."""

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
from bias_metrics._core.cuts import reaches_cut
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence, explain_few_clusters, student_quantile
from bias_metrics._core.proportions import paired_change_interval
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue, make_undefined

Match = Literal["flag_rate", "recall"]
MATCHES: tuple[Match, ...] = ("flag_rate", "recall")


@dataclass(frozen=True)
class FlagChange(Tabular):
    """The change of flagged rows from a model to its successor."""

    n: int
    n_before: int
    n_after: int
    """n_before, n_after: rows flagged by the first model, and by the second."""
    n_gained: int
    n_lost: int
    """n_gained, n_lost: rows flagged only by the second model, and only by the first."""
    change: MetricValue
    """Flag rate of the second model minus that of the first; above 0, more rows are flagged than
    before."""


@dataclass(frozen=True)
class ThresholdTransfer(Tabular):
    """The successor's threshold, and the changes of flagged rows."""

    before: float
    after: float
    """before, after: the first model's threshold, and the matching threshold of the second."""
    match: Match
    """The rate that stays the same."""
    rate_before: float
    rate_after: float
    """rate_before, rate_after: the models' flag rates, or recalls, at their thresholds."""
    overall: FlagChange
    subgroups: dict[str, FlagChange]

    def rows(self) -> list[Row]:
        """Return a record per subgroup."""
        return [
            {
                "subgroup": name,
                "n": flags.n,
                "n_before": flags.n_before,
                "n_after": flags.n_after,
                "n_gained": flags.n_gained,
                "n_lost": flags.n_lost,
                "change": flags.change.value,
                "low": flags.change.low,
                "high": flags.change.high,
            }
            for name, flags in self.subgroups.items()
        ]


@require_aligned
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
    """Find the threshold at which a successor flags as many rows as the first model.

    The scores of two models are on different scales, so the same threshold does not mean the same.
    Even at an equal overall flag rate, some subgroups may be flagged more than before.

    Parameters
    ----------
    y_score_before, y_score_after : float array of shape (n,)
        Finite scores of the first model and its successor, on the same rows.
    subgroups : mapping of str to bool array of shape (n,)
        Names and memberships of the subgroups; they may overlap.
    threshold : float
        The first model's threshold; a score at or above it is flagged.
    threshold_after : float, optional
        The successor's threshold, if it is already decided; default the threshold found by `match`.
    match : {"flag_rate", "recall"}, default="flag_rate"
        The rate to keep: the flagged share of all rows, or of the positive rows.
    y_true : bool array of shape (n,), optional
        True for the positive (toxic) class; required for `recall`.
    confidence : float, default=0.95
        Confidence of the intervals.
    clusters : array of shape (n,), optional
        The rows' articles, threads or templates. Fewer than 20 clusters give no interval.

    Returns
    -------
    ThresholdTransfer
        The successor's threshold with the closest rate, the highest of several; or
        `threshold_after`. The change of flagged rows overall and by subgroup; intervals take both
        thresholds as given.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and without rows, or without positive rows for `recall`.

    Notes
    -----
    The models are paired: the interval of a change combines exact intervals of the shares of rows
    flagged by a single model. With clusters it is at least as wide as the interval of the
    linearised variance.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26. Zou and Donner (2008), Statistics in Medicine 27.

    Examples
    --------
    >>> transfer = transfer_threshold(
    ...     [0.9, 0.8, 0.3, 0.1], [0.4, 0.1, 0.5, 0.2], {"gay": [0, 0, 1, 1]}, threshold=0.5
    ... )
    >>> transfer.after, transfer.subgroups["gay"].n_before, transfer.subgroups["gay"].n_after
    (0.4, 0, 1)
    """
    first: FloatArray = check_scores("y_score_before", y_score_before)
    second: FloatArray = check_scores("y_score_after", y_score_after, first.size)
    masks = check_subgroups(subgroups, first.size)
    check_choice("match", match, MATCHES)
    level, codes = check_confidence(confidence), check_clusters(clusters, first.size)
    counted = np.ones(first.size, dtype=np.bool_)
    if match == "recall":
        if y_true is None:
            msg = "`y_true` must be given for `match='recall'`; it is not."
            raise ValueError(msg)
        counted = check_mask("y_true", y_true, first.size)
        if not counted.any():
            msg = "`y_true` must have positive rows for `match='recall'`; it has none."
            raise ValueError(msg)
    old = reaches_cut(first, check_threshold(threshold))
    n_flagged = int(old[counted].sum())
    values, counts = np.unique(second[counted], return_counts=True)
    # Without flagged rows, the threshold is the next float above all scores.
    candidates = np.append(values, np.nextafter(values[-1], np.inf))
    distance = np.abs(np.append(np.cumsum(counts[::-1])[::-1], 0) - n_flagged)
    after = float(candidates[np.flatnonzero(distance == distance.min())[-1]])
    if threshold_after is not None:
        after = float(check_threshold(threshold_after))
    new = reaches_cut(second, after)
    n = int(counted.sum())

    def measure_change(members: BoolArray) -> FlagChange:
        """Return the change of flagged rows among some rows, with its interval."""
        before, now = old[members], new[members]
        n, gained, lost = before.size, int((now & ~before).sum()), int((before & ~now).sum())
        counts = n, int(before.sum()), int(now.sum()), gained, lost
        if not n:
            return FlagChange(*counts, make_undefined("no rows"))
        value = (gained - lost) / n
        low, high = paired_change_interval(gained, lost, n, student_quantile(level))
        if codes is None:
            return FlagChange(*counts, MetricValue(value, low=max(low, -1.0), high=min(high, 1.0)))
        cluster_index = np.unique(codes[members], return_inverse=True)[1]
        cluster_sums = np.bincount(cluster_index, now * 1.0 - before - value) / n
        n_clusters = cluster_sums.size
        if reason := explain_few_clusters(n_clusters):
            return FlagChange(*counts, MetricValue(value, reason, n_clusters=n_clusters))
        error = math.sqrt(n_clusters / (n_clusters - 1) * float(cluster_sums @ cluster_sums))
        half_width = error * student_quantile(level, n_clusters - 1.0)
        low, high = max(min(low, value - half_width), -1.0), min(max(high, value + half_width), 1.0)
        return FlagChange(*counts, MetricValue(value, low=low, high=high, n_clusters=n_clusters))

    return ThresholdTransfer(
        float(threshold),
        after,
        match,
        n_flagged / n,
        int(new[counted].sum()) / n,
        measure_change(np.ones(first.size, dtype=np.bool_)),
        {name: measure_change(np.asarray(mask)) for name, mask in masks.items()},
    )
