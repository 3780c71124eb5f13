"""Calibration from counts: shares of positives are exact, scores known within a narrow bin."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bias_metrics._core.intervals import few_errors
from bias_metrics._core.ranks import inner, spread_of_squares
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.binned.report import Counts
from bias_metrics.calibration.numbers import ESTIMATES, Bins, ReliabilityBin, Sample, labels_of
from bias_metrics.estimate import Number, Positives
from bias_metrics.metrics import METRICS, calibration_metrics
from bias_metrics.rows import Background

if TYPE_CHECKING:
    from bias_metrics.binned.counts import ScoreCounts

_GAPS = {name: kind.of for name, kind in calibration_metrics().items() if kind.of != "slope"}
Reliability = dict[str | None, tuple[ReliabilityBin, ...]]


def reliability_of(counts: ScoreCounts, n_bins: int, confidence: float) -> Reliability:
    """Return the bins; see `ScoreCounts.reliability`."""
    if n_bins < 2:
        msg = f"`n_bins` must be at least 2; got {n_bins}."
        raise ValueError(msg)
    if reason := _no_probabilities(counts):
        raise ValueError(reason)
    rows = zip((None, *counts.names), (counts.everyone, *counts.subgroups), strict=True)
    return {name: _curve(counts, own, n_bins, confidence) for name, own in rows}


def _no_probabilities(counts: ScoreCounts) -> str | None:
    """Say that scores are not probabilities, if so."""
    if not counts.n or 0 <= counts.least[0] <= counts.most[-1] <= 1:
        return None
    ends = counts.least[0], counts.most[-1]
    return "scores must be probabilities; they are from {:.6g} to {:.6g}.".format(*ends)


def calibration_gaps_of(
    counts: ScoreCounts, confidence: float, background: Background
) -> dict[str, dict[str, MetricValue]]:
    """Return the gaps; see `ScoreCounts.calibration_gaps`."""
    reason = _no_probabilities(counts)
    if counts.clusters is not None:
        reason = "counts do not tell what clusters do to calibration"
    found: dict[str, dict[str, MetricValue]] = {}
    for name, own in zip(counts.names, counts.subgroups, strict=True):
        out = own if background == "outside_subgroup" else counts.anyone
        sides = {"subgroup": own, "background": counts.everyone - out}
        empty = [side for side, rows in sides.items() if not rows.sum()]
        lack = reason or (f"{empty[0]}: no rows" if empty else None)
        found[name] = {
            metric: undefined(lack)
            if lack
            else _gap([_Mean.of(counts, rows, of) for rows in sides.values()], metric, confidence)
            for metric, of in _GAPS.items()
        }
    return found


@dataclass(frozen=True)
class _Mean:
    """A mean over some rows whose scores are in the middle of their bins."""

    value: float
    squares: float
    fourths: float
    n: int
    slack: float
    """By how much it may be off."""
    moved: float
    """By how much the root of `squares` may be too small."""
    positives: tuple[Positives, ...]

    @classmethod
    def of(cls, counts: ScoreCounts, own: Counts, name: str) -> _Mean:
        """Measure the bias or the Brier score of rows, of which there are some."""
        known = np.flatnonzero(own)
        weight, n = own.ravel()[known].astype(np.float64), int(own.sum())
        labels = np.repeat([1.0, 0.0], counts.bins.size)[known]
        ends = [np.tile(end, 2)[known] for end in (counts.least, counts.most)]
        score, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        sample = Sample(known, labels, weight, None)
        value, influence, _ = ESTIMATES[name](score, sample)
        assert value is not None  # noqa: S101
        each = influence / weight / math.sqrt(max(1 - 1 / n, 1 / n))
        off = half if name == "bias" else half * (2 * np.abs(score - labels) + half)
        squares = inner(weight, each**2)
        moved = math.sqrt(inner(weight, off**2) / (n * max(n - 1, 1)))
        resting = labels_of(name, score, sample)
        assert resting is not None  # noqa: S101
        share, noise, step = resting
        positives = Positives(share, n, noise, step, math.sqrt(squares) + moved)
        few = few_errors(share, n)
        slack = inner(weight, off) / n
        fourths = inner(weight, each**4)
        return cls(value, squares, fourths, n, slack, moved, (positives,) if few else ())

    @property
    def parts(self) -> tuple[Positives, ...]:
        """The labels that it rests on; if they are many, nothing but its error."""
        return self.positives or (
            Positives(0.0, 1.0, 0.0, 0.0, math.sqrt(self.squares) + self.moved),
        )


def _gap(sides: list[_Mean], metric: str, confidence: float) -> MetricValue:
    """Return the difference of two means, with an interval that holds that of exact scores."""
    own, other = sides
    largest = METRICS[metric].largest
    squares = own.squares + other.squares
    spread = spread_of_squares(squares, own.fourths + other.fourths, own.n + other.n)
    positives: tuple[Positives, ...] = ()
    if own.positives or other.positives:
        negated = (replace(labels, step=-labels.step) for labels in other.parts)
        positives = (*own.parts, *negated)
    number = Number(
        own.value - other.value,
        math.sqrt(squares) + math.hypot(own.moved, other.moved),
        2 * squares**2 / spread if spread else math.inf,
        min(own.n, other.n),
        (-largest, largest),
        positives=positives,
    )
    found = number.at(confidence)
    if found.low is None or found.high is None:
        return found
    slack = own.slack + other.slack
    low, high = max(found.low - slack, -largest), min(found.high + slack, largest)
    return replace(found, low=low, high=high)


def _curve(
    counts: ScoreCounts, own: Counts, n_bins: int, confidence: float
) -> tuple[ReliabilityBin, ...]:
    of_bin = own.sum(axis=0)
    total = int(of_bin.sum())
    if not total:
        return ()
    known = of_bin > 0
    last = np.floor(np.linspace(0, 1, n_bins + 1)[1:-1] * (total - 1))  # row of each wide bin
    edges = np.searchsorted(np.cumsum(of_bin), last, side="right")
    _, at = np.unique(np.searchsorted(edges, np.flatnonzero(known)), return_inverse=True)
    middles = (counts.least + counts.most)[known] / 2
    n, positive, score = (
        np.bincount(at, values)
        for values in (of_bin[known], own[0, known], of_bin[known] * middles)
    )
    share = positive / n
    variance = share * (1 - share) / np.maximum(n - 1, 1)
    bins = Bins(
        n.astype(np.int64),
        n / total,
        score / n,
        share,
        np.diag(variance),
        worth=n.astype(np.float64),
    )
    return bins.curve(confidence)
