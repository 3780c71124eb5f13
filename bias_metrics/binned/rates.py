"""Error rates at a threshold from counts, and their gaps, for one or two models.

If a threshold is inside a bin, the number of flagged rows in this bin is unknown. Intervals contain
the intervals for every possible number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bias_metrics._core.covariance import JointMoments
from bias_metrics._core.differences import (
    Difference,
    bound_size_change,
    compute_paired_difference,
    negate_value,
)
from bias_metrics._core.values import MetricValue
from bias_metrics.binned.bin_counts import BinCounts, Counts
from bias_metrics.binned.comparison import bound_difference, refuse_other_rows
from bias_metrics.binned.pairs import WideBins
from bias_metrics.binned.report import count_rows
from bias_metrics.metrics import CLASSES, METRICS, Rate, list_threshold_metrics
from bias_metrics.rows import Background
from bias_metrics.table import SECOND, BiasTable, Estimate, key_numbers
from bias_metrics.thresholds.shares import Share, ShareGap

Range = tuple[float, float] | None


def measure_rate_gaps(
    counts: BinCounts,
    threshold: float,
    threshold_range: Range,
    confidence: float,
    background: Background,
    name: str,
) -> BiasTable:
    """Measure the gaps; see `ScoreCounts.rate_gaps`."""
    gaps: dict[str, dict[str, MetricValue]] = {group: {} for group in counts.names}
    for metric, rate in list_threshold_metrics().items():
        moved = _measure_moved_gaps(counts, threshold_range, rate, background)
        for group, ends in iterate_gap_ends(counts, threshold, rate, background):
            values = [
                replace(gap, range_values=(moved[group],)).measure(confidence) for gap in ends
            ]
            gaps[group][metric] = _average_ends(values)
    return _make_table(counts, gaps, name, threshold, confidence, background)


def _make_table(
    counts: BinCounts,
    cells: Mapping[str, Mapping[str, Estimate]],
    name: str,
    threshold: float,
    confidence: float,
    background: Background,
) -> BiasTable:
    numbers, n_rows = key_numbers(cells, name), count_rows(counts)
    return BiasTable(numbers, n_rows, confidence, background, thresholds={(name, None): threshold})


def compare_rate_gaps(
    models: tuple[BinCounts, BinCounts],
    pairs: BinCounts | None,
    thresholds: tuple[float, float],
    ranges: tuple[Range, Range],
    confidence: float,
    background: Background,
    name: str,
) -> BiasTable:
    """Compare the gaps of two models; see `ScoreCounts.compare_rate_gaps`."""
    refuse_other_rows(*models, *(() if pairs is None else (pairs,)))
    a, b = (
        measure_rate_gaps(counts, threshold, around, confidence, background, name)
        for counts, threshold, around in zip(models, thresholds, ranges, strict=True)
    )
    differences = {
        group: {
            metric: bound_difference(cell, b.subgroups[group][metric], METRICS[metric], confidence)
            for metric, cell in cells.items()
        }
        for group, cells in a.subgroups.items()
    }
    if pairs is not None:
        both = FlaggedBins(models, pairs, thresholds, ranges)
        for metric, rate in list_threshold_metrics().items():
            paired = both.measure_differences(rate, confidence, background)
            for group, (difference, slack) in paired.items():
                if difference.ends is not None:
                    cell = differences[group][metric]
                    shift = {"low": -slack, "high": slack, "size_low": -slack, "size_high": slack}
                    fields: dict[str, Any] = {
                        end: getattr(difference, end) + step for end, step in shift.items()
                    }
                    fields |= {"first": cell.first, "second": cell.second, "value": cell.value}
                    differences[group][metric] = replace(difference, p_value=None, **fields)
    table = _make_table(models[0], differences, name, thresholds[0], confidence, background)
    return replace(table, thresholds={**table.thresholds, (name, SECOND): thresholds[1]})


class FlaggedBins:
    """The bins that two models flag, each at its threshold."""

    def __init__(
        self,
        models: tuple[BinCounts, BinCounts],
        pairs: BinCounts,
        thresholds: tuple[float, float],
        ranges: tuple[Range, Range],
    ) -> None:
        self.wide_bins, self.counts = WideBins.from_counts(*models, pairs), (*models, pairs)
        self.ranges = ranges
        (a, b), (first_threshold, second_threshold) = models, thresholds
        masks = a.find_flagged_bins(first_threshold), b.find_flagged_bins(second_threshold)
        self.sure, self.possible = zip(*masks, strict=True)

    def measure_differences(
        self, rate: Rate, confidence: float, background: Background
    ) -> dict[str, tuple[Difference, float]]:
        """Return the differences of gaps by subgroup, and the largest effects of binning."""
        differences = {}
        moved = [
            _measure_moved_gaps(counts, around, rate, background)
            for counts, around in zip(self.counts, self.ranges, strict=False)
        ]
        classes = [CLASSES.index(label) for label in rate.classes]
        for position, group in enumerate(self.counts[0].names):
            members = [counts.subgroups[position] for counts in self.counts]
            others = [
                counts.count_background(own, background)
                for counts, own in zip(self.counts, members, strict=True)
            ]
            sides = [
                self._bound_shares(rate, [rows[classes].sum(axis=0) for rows in side])
                for side in (members, others)
            ]
            (own_share, most, slack), (other, most_of_other, more) = sides
            model_gaps = tuple(gaps[group] for gaps in moved)
            gap = ShareGap(own_share, other, rate.rows, range_values=model_gaps)
            difference = gap.compare_models(confidence)
            if difference.ends is not None:
                a, b = gap.measure(confidence, 0), gap.measure(confidence, 1)
                covariance = most.compute_covariance(0, 1) + most_of_other.compute_covariance(0, 1)
                opposed = JointMoments(-covariance)
                total = compute_paired_difference(
                    a, negate_value(b), opposed, confidence, small=True
                )
                difference = bound_size_change(difference, total, b, confidence)
            differences[group] = difference, slack + more
        return differences

    def _bound_shares(self, rate: Rate, rows: list[Counts]) -> tuple[Share, Share, float]:
        """Return the share with the event under each model, and the largest effect of binning.

        The first result assumes the smallest possible number of rows with the event under both
        models, the second the largest.
        """
        a, b, pair_counts = rows
        n = int(a.sum())
        fewest, most = (
            [int(counts[flags].sum()) for counts, flags in zip((a, b), masks, strict=True)]
            for masks in (self.sure, self.possible)
        )
        events = [(low + high) // 2 for low, high in zip(fewest, most, strict=True)]
        low = self.wide_bins.count_both_flagged((a, b, pair_counts), self.sure)[0]
        high = self.wide_bins.count_both_flagged((a, b, pair_counts), self.possible)[1]
        if not rate.counts_flagged:
            events = [n - event for event in events]
            low, high = max(n - sum(most) + low, 0), n - sum(fewest) + high
        slack = (sum(most) - sum(fewest) + 2) / n if sum(most) > sum(fewest) else 0.0
        n_events = tuple(events)
        return (
            Share(n, n_events, min(low, *n_events)),
            Share(n, n_events, min(high, *n_events)),
            slack,
        )


def iterate_gap_ends(
    counts: BinCounts, threshold: float, rate: Rate, background: Background
) -> Iterator[tuple[str, tuple[ShareGap, ShareGap]]]:
    """Yield the smallest and the largest possible gap by subgroup."""
    for group, own in zip(counts.names, counts.subgroups, strict=True):
        (low, high), (other_low, other_high) = (
            bound_share(counts, threshold, rate, rows)
            for rows in (own, counts.count_background(own, background))
        )
        yield group, (ShareGap(low, other_high, rate.rows), ShareGap(high, other_low, rate.rows))


def bound_share(
    counts: BinCounts, threshold: float, rate: Rate, rows: Counts
) -> tuple[Share, Share]:
    """Return the smallest and the largest possible share of rows with the event."""
    sure, possible = counts.find_flagged_bins(threshold)
    if not rate.counts_flagged:
        sure, possible = ~possible, ~sure
    counted = rows[[CLASSES.index(label) for label in rate.classes]].sum(axis=0)
    n, fewest, most = int(counted.sum()), int(counted[sure].sum()), int(counted[possible].sum())
    return Share(n, (fewest,), fewest), Share(n, (most,), most)


def _measure_moved_gaps(
    counts: BinCounts, threshold_range: Range, rate: Rate, background: Background
) -> dict[str, tuple[float, ...]]:
    """Return the gaps by subgroup at both ends of a threshold's range, if given."""
    ends = [dict(iterate_gap_ends(counts, end, rate, background)) for end in threshold_range or ()]
    return {name: tuple(gaps[name][0].get_value() or 0.0 for gaps in ends) for name in counts.names}


def _average_ends(ends: list[MetricValue]) -> MetricValue:
    """Return the middle of two values, with an interval that contains both intervals."""
    low, high = ends
    if low.value is None or high.value is None:
        return low
    value = (low.value + high.value) / 2
    if low.low is None or high.high is None or low.std_error is None or high.std_error is None:
        return replace(low, value=value)
    error = max(low.std_error, high.std_error)
    return MetricValue(value, std_error=error, low=low.low, high=high.high)
