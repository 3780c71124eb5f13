"""The bootstrap: every number of `evaluate_bias` from resampled rows or clusters.

A check of its intervals that needs no formula. For Python users: no command calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    aligned,
    check_clusters,
    check_mask,
    check_subgroups,
)
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.same_cluster import Codes
from bias_metrics._core.tables import Row, Tabular
from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from bias_metrics.report.evaluation import evaluate_bias
from bias_metrics.report.report import BiasReport
from bias_metrics.rows import Background

# Subgroup and metric; None for the numbers of all rows, among them the power mean of each metric.
Key = tuple[str | None, str]


@dataclass(frozen=True)
class BootstrapValue:
    """One number's spread over the replicates."""

    std_error: float | None
    """Standard deviation over the replicates in which the number is defined; None if there are
    fewer than two."""
    low: float | None
    high: float | None
    """Percentiles of the replicates; None if the number is undefined in any of them."""
    n_undefined: int
    """Replicates in which it is undefined for lack of rows; they are not replaced."""


@dataclass(frozen=True)
class BootstrapReport(Tabular):
    """The spread of every number."""

    numbers: dict[Key, BootstrapValue]
    """By subgroup and metric; the subgroup is None for the overall `auc`, the power mean of each
    metric and the `final_score`."""
    n_replicates: int
    """Number of replicates."""
    confidence: float
    """Confidence of each interval."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        options = {"n_replicates": self.n_replicates, "confidence": self.confidence}
        return options | {"numbers": self.rows()}

    def rows(self) -> list[Row]:
        """Return one record per number."""
        return [
            {"subgroup": name, "metric": metric} | vars(one)
            for (name, metric), one in self.numbers.items()
        ]


@aligned
def bootstrap_bias(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    rng: np.random.Generator,
    n_replicates: int = 1000,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> BootstrapReport:
    """Resample rows to see how much every number of `evaluate_bias` varies.

    Rows are drawn with replacement within each label, for all subgroups together. With
    `clusters`, whole clusters are drawn instead, whatever their labels. Each replicate is
    measured by `evaluate_bias`.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    rng : numpy.random.Generator
        Source of the draws; a generator in the same state gives the same report.
    n_replicates : int, default=1000
        Number of replicates, at least 2.
    power, power_mean_groups, background
        As in `evaluate_bias`.
    confidence : float, default=0.95
        Confidence of each interval.
    clusters : array of shape (n,), optional
        Article, thread or template of each row.

    Returns
    -------
    BootstrapReport
        Standard errors and percentile intervals. A number that is undefined in any replicate
        has no interval.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `n_replicates` is below 2 or `rng` is not a Generator.

    Notes
    -----
    To check standard errors, not to decide: percentiles are too close together where a number
    rests on few rows, few clusters or few errors, since replicates cannot show errors of a kind
    that the sample has none of. The intervals of `evaluate_bias` allow for that.

    References
    ----------
    Efron (1979), The Annals of Statistics 7.

    Examples
    --------
    >>> y_true, gay = [0, 1] * 20, [0, 0, 1, 1] * 10
    >>> y_score = [0.1, 0.6, 0.3, 0.7, 0.5, 0.4, 0.2, 0.9] * 5
    >>> rng = np.random.default_rng(0)
    >>> spread = bootstrap_bias(y_true, y_score, {"gay": gay}, rng=rng, n_replicates=200)
    >>> spread.numbers[None, "auc"].low < 0.9375 < spread.numbers[None, "auc"].high
    True
    """
    check_draws(rng, n_replicates)
    labels, scores = check_mask("y_true", y_true), np.asarray(y_score)
    masks = check_subgroups(subgroups, labels.size)
    level, codes = check_confidence(confidence), check_clusters(clusters, labels.size)
    options: dict[str, Any] = {"power": power, "power_mean_groups": power_mean_groups}
    options |= {"background": background, "intervals": False}
    drawn: dict[Key, list[float | None]] = {
        key: [] for key, _ in _numbers(evaluate_bias(labels, scores, masks, **options))
    }
    for _ in range(n_replicates):
        rows = _draw(rng, labels, codes)
        kept = {name: mask[rows] for name, mask in masks.items()}
        for key, value in _numbers(evaluate_bias(labels[rows], scores[rows], kept, **options)):
            drawn[key].append(value)
    return BootstrapReport(
        {key: _spread(values, level) for key, values in drawn.items()}, n_replicates, level
    )


def check_draws(rng: object, n: int, name: str = "n_replicates") -> None:
    """Refuse another source of draws than a Generator, and fewer than two draws."""
    if not isinstance(rng, np.random.Generator):
        msg = f"`rng` must be a numpy Generator, as in default_rng(0); got {type(rng).__name__}."
        raise TypeError(msg)
    if n < 2:
        msg = f"`{name}` must be at least 2; got {n}."
        raise ValueError(msg)


def _draw(
    rng: np.random.Generator, y_true: BoolArray, clusters: Codes | None
) -> npt.NDArray[np.intp]:
    """Draw rows within each label, or whole clusters."""
    if clusters is None:
        of_class = (np.flatnonzero(y_true), np.flatnonzero(~y_true))
        return np.concatenate([rows[rng.integers(0, rows.size, rows.size)] for rows in of_class])
    n = int(clusters.max(initial=-1)) + 1
    times = np.bincount(rng.integers(0, n, n), minlength=n)
    return np.repeat(np.arange(clusters.size), times[clusters])


def _numbers(report: BiasReport) -> Iterator[tuple[Key, float | None]]:
    yield (None, "auc"), report.overall.auc.value
    for name, bias in report.subgroups.items():
        for metric in SUBGROUP_METRICS:
            yield (name, metric), getattr(bias, metric).value
    for metric in FINAL_SCORE_PARTS:
        yield (None, metric), getattr(report.power_mean, metric).value
    yield (None, "final_score"), report.final_score.value


def _spread(values: Sequence[float | None], confidence: float) -> BootstrapValue:
    known = [value for value in values if value is not None]
    missing = len(values) - len(known)
    std_error = float(np.std(known, ddof=1)) if len(known) > 1 else None
    if missing:
        return BootstrapValue(std_error, None, None, missing)
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    return BootstrapValue(std_error, low, high, missing)
