"""Error rates at a threshold from counts, and their gaps, for one model or two.

A threshold inside a bin leaves open which of the bin's rows are flagged: at least those of no bin
that it cuts, at most all. Intervals hold those of every number in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.binned.comparison import refuse_other_rows, widest
from bias_metrics.binned.report import Counts
from bias_metrics.metrics import CLASSES, METRICS, Class, Rate, threshold_metrics
from bias_metrics.rows import Background
from bias_metrics.thresholds.decisions import ThresholdReport
from bias_metrics.thresholds.errors import ErrorRates
from bias_metrics.thresholds.permutation import NullReference
from bias_metrics.thresholds.rate_gaps import RateGapComparison, RateGaps
from bias_metrics.thresholds.shares import Share, ShareGap

if TYPE_CHECKING:
    from bias_metrics.binned.counts import ScoreCounts

_NO_CHANCE = "counts do not tell what chance alone would give"


def rate_gaps_of(
    counts: ScoreCounts, threshold: float, confidence: float, background: Background
) -> RateGaps:
    """Return the gaps; see `ScoreCounts.rate_gaps`."""
    found: dict[str, dict[str, MetricValue]] = {name: {} for name in counts.names}
    for metric, rate in threshold_metrics().items():
        for name, gaps in _gaps(counts, threshold, rate, background):
            found[name][metric] = _between([gap.measure(confidence) for gap in gaps])
    return RateGaps(threshold, found, confidence)


def threshold_report_of(
    counts: ScoreCounts, threshold: float, groups: tuple[str, ...]
) -> ThresholdReport:
    """Return the errors; see `ScoreCounts.threshold_report`."""

    def errors(of_class: dict[Class, tuple[int, int]], rows: Counts) -> ErrorRates:
        positive, negative = (sum(of_class[label]) // 2 for label in CLASSES)
        n_positive, n_negative = rows.sum(axis=-1).tolist()
        return ErrorRates(
            threshold, positive, negative, n_negative - negative, n_positive - positive
        )

    flagged = counts.flagged(threshold)
    rates = {
        name: errors(flagged[name], own)
        for name, own in zip(counts.names, counts.subgroups, strict=True)
    }
    unknown = NullReference(undefined(_NO_CHANCE), undefined(_NO_CHANCE), {}, 0)
    overall = errors(flagged[None], counts.everyone)
    return ThresholdReport.of(overall, rates, groups, (unknown, unknown))


def rate_gap_comparison_of(
    models: tuple[ScoreCounts, ScoreCounts],
    thresholds: tuple[float, float],
    confidence: float,
    background: Background,
) -> RateGapComparison:
    """Return the gaps of two models; see `ScoreCounts.compare_rate_gaps`."""
    refuse_other_rows(*models)
    a, b = (
        rate_gaps_of(counts, at, confidence, background)
        for counts, at in zip(models, thresholds, strict=True)
    )
    differences = {
        name: {
            metric: widest(cell, b.subgroups[name][metric], METRICS[metric], confidence)
            for metric, cell in cells.items()
        }
        for name, cells in a.subgroups.items()
    }
    return RateGapComparison(a, b, differences)


def _gaps(
    counts: ScoreCounts, threshold: float, rate: Rate, background: Background
) -> Iterator[tuple[str, tuple[ShareGap, ShareGap]]]:
    """Yield the smallest and the largest gap of each subgroup that is possible."""
    classes = [CLASSES.index(label) for label in rate.of]
    sure, possible = counts.least >= threshold, counts.most >= threshold
    if rate.event != "flagged":
        sure, possible = ~possible, ~sure
    name = f"{rate.of[0]}s" if len(rate.of) == 1 else "rows"

    def ends(rows: Counts) -> tuple[Share, Share]:
        of = rows[classes].sum(axis=0)
        fewest, most = int(of[sure].sum()), int(of[possible].sum())
        n = int(of.sum())
        return Share(n, (fewest,), fewest), Share(n, (most,), most)

    for group, own in zip(counts.names, counts.subgroups, strict=True):
        out = own if background == "outside_subgroup" else counts.anyone
        (low, high), (other_low, other_high) = ends(own), ends(counts.everyone - out)
        yield group, (ShareGap(low, other_high, name), ShareGap(high, other_low, name))


def _between(ends: list[MetricValue]) -> MetricValue:
    """Return the middle of two values, with an interval that holds those of both."""
    low, high = ends
    if low.value is None or high.value is None:
        return low
    value = (low.value + high.value) / 2
    if low.low is None or high.high is None or low.std_error is None or high.std_error is None:
        return replace(low, value=value)
    error = max(low.std_error, high.std_error)
    return MetricValue(value, std_error=error, low=low.low, high=high.high)
