"""Two models by counts of the same rows: differences whose bounds hold however they are related.

Counts of one pass do not tell which rows two models rank alike, so the covariance that pairs them
is unknown. The standard error of a difference is at most the sum of the two models' own; the
intervals here take it to be that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_metrics._core.differences import Difference, less, negated, sized, undefined_difference
from bias_metrics._core.values import MetricValue, Named
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, Metric
from bias_metrics.report.report import BiasComparison, Overall

if TYPE_CHECKING:
    from bias_metrics.binned.counts import ScoreCounts


def comparison_of(
    first: ScoreCounts, second: ScoreCounts, confidence: float, **options: Any
) -> BiasComparison:
    """Return the comparison; see `ScoreCounts.compare`."""
    refuse_other_rows(first, second)
    a, b = (counts.report(confidence=confidence, **options) for counts in (first, second))
    cells = {
        name: {
            metric: widest(cell, getattr(b.subgroups[name], metric), METRICS[metric], confidence)
            for metric, cell in bias.by_metric().items()
        }
        for name, bias in a.subgroups.items()
    }
    means = {
        metric: _apart(getattr(a.power_mean, metric), getattr(b.power_mean, metric))
        for metric in FINAL_SCORE_PARTS
    }
    overall = _apart(a.overall.auc, b.overall.auc)
    return BiasComparison(
        first=a,
        second=b,
        overall=Overall(a.overall.n, a.overall.n_positive, overall),
        subgroups={name: Named(of_group) for name, of_group in cells.items()},
        power_mean=Named(means),
        final_score=_apart(a.final_score, b.final_score),
        confidence=confidence,
    )


def widest(a: MetricValue, b: MetricValue, metric: Metric, confidence: float) -> Difference:
    """Return the difference of two numbers, however their errors are related."""
    found = _apart(a, b)
    if metric.is_gap and found.ends is not None:
        return sized(found, _apart(a, negated(b)), b, confidence)
    return found


def _apart(a: MetricValue, b: MetricValue) -> Difference:
    value = less(a, b)
    if value is None or a.low is None or a.high is None or b.low is None or b.high is None:
        return undefined_difference(a, b)
    low, high = a.low - b.high, a.high - b.low
    error = None
    if a.std_error is not None and b.std_error is not None:
        error = a.std_error + b.std_error
    return Difference(a.value, b.value, value, error, low, high)


def refuse_other_rows(first: ScoreCounts, second: ScoreCounts) -> None:
    """Refuse counts of two models unless they are of the same rows, as far as counts tell."""
    of_rows: Mapping[str, Callable[[ScoreCounts], Any]] = {
        "shards": lambda counts: counts.shards,
        "names": lambda counts: counts.names,
        "numbers of rows": lambda counts: [
            np.sum(getattr(counts, of), axis=-1).tolist()
            for of in ("everyone", "anyone", "subgroups")
        ],
    }
    for what, of in of_rows.items():
        if of(first) != of(second):
            msg = f"counts that are compared must be of the same rows; their {what} differ."
            raise ValueError(msg)
