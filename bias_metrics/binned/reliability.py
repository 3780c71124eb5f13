"""Reliability from counts: shares of positives are exact, mean scores within a narrow bin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bias_metrics.binned.report import Counts
from bias_metrics.calibration.numbers import Bins, ReliabilityBin

if TYPE_CHECKING:
    from bias_metrics.binned.counts import ScoreCounts

Reliability = dict[str | None, tuple[ReliabilityBin, ...]]


def reliability_of(counts: ScoreCounts, n_bins: int, confidence: float) -> Reliability:
    """Return the bins; see `ScoreCounts.reliability`."""
    if n_bins < 2:
        msg = f"`n_bins` must be at least 2; got {n_bins}."
        raise ValueError(msg)
    if counts.n and not 0 <= counts.least[0] <= counts.most[-1] <= 1:
        ends = counts.least[0], counts.most[-1]
        msg = "scores must be probabilities; they are from {:.6g} to {:.6g}.".format(*ends)
        raise ValueError(msg)
    rows = zip((None, *counts.names), (counts.everyone, *counts.subgroups), strict=True)
    return {name: _curve(counts, own, n_bins, confidence) for name, own in rows}


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
