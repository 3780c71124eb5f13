"""Error rates at a threshold from counts, and their gaps, for one model or two.

A threshold inside a bin leaves open which of the bin's rows are flagged: at least those of no bin
that it cuts, at most all. Intervals hold those of every number in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bias_metrics._core.covariance import Joint
from bias_metrics._core.differences import Difference, negated, paired, sized
from bias_metrics._core.ranks import SortedClasses, sort_classes
from bias_metrics._core.values import MetricValue
from bias_metrics.binned.bin_counts import BinCounts
from bias_metrics.binned.bins import Counts
from bias_metrics.binned.comparison import refuse_other_rows, widest
from bias_metrics.binned.pairs import Pairs
from bias_metrics.binned.report import row_counts
from bias_metrics.metrics import CLASSES, METRICS, Class, Rate, threshold_metrics
from bias_metrics.rows import Background
from bias_metrics.table import SECOND, BiasTable, Estimate, of_groups
from bias_metrics.thresholds.decisions import ThresholdReport
from bias_metrics.thresholds.errors import ErrorRates
from bias_metrics.thresholds.shares import Share, ShareGap
from bias_metrics.thresholds.thresholds import (
    EqualErrorRate,
    compute_rate_reach,
    find_equal_error,
    find_range_ends,
)

Range = tuple[float, float] | None


def rate_gaps_of(
    counts: BinCounts,
    threshold: float,
    threshold_range: Range,
    confidence: float,
    background: Background,
    name: str,
) -> BiasTable:
    """Return the gaps; see `ScoreCounts.rate_gaps`."""
    found: dict[str, dict[str, MetricValue]] = {group: {} for group in counts.names}
    for metric, rate in threshold_metrics().items():
        moved = _moved(counts, threshold_range, rate, background)
        for group, ends in gap_ends(counts, threshold, rate, background):
            each = [replace(gap, range_values=(moved[group],)).measure(confidence) for gap in ends]
            found[group][metric] = _between(each)
    return _table(counts, found, {name: threshold}, confidence, background)


def _table(
    counts: BinCounts,
    cells: Mapping[str, Mapping[str, Estimate]],
    at: Mapping[str, float],
    confidence: float,
    background: Background,
) -> BiasTable:
    [(name, threshold)] = at.items()
    numbers, n_rows = of_groups(cells, name), row_counts(counts)
    return BiasTable(numbers, n_rows, confidence, background, thresholds={(name, None): threshold})


def equal_error_of(counts: BinCounts) -> EqualErrorRate:
    """Return the rates; see `ScoreCounts.equal_error_rate`."""
    return find_equal_error(_classes(counts))


def equal_error_range_of(counts: BinCounts, confidence: float) -> tuple[float, float]:
    """Return the range; see `ScoreCounts.equal_error_range`."""
    classes = _classes(counts)
    threshold = find_equal_error(classes).threshold
    if threshold is None:
        msg = "counts must have positives and negatives; one class is empty."
        raise ValueError(msg)
    (missed, _), (_, flagged) = counts.everyone @ np.array(
        [counts.least < threshold, counts.least >= threshold]
    ).T.astype(np.int64)
    wrong = zip((int(missed), int(flagged)), counts.everyone.sum(axis=-1).tolist(), strict=True)
    low, high = find_range_ends(classes, compute_rate_reach(wrong, confidence))
    first, last = np.searchsorted(counts.least, [min(low, threshold), max(high, threshold)])
    beyond = np.append(counts.least, counts.most[-1])
    return float(beyond[max(first - 1, 0)]), float(beyond[last + 1])


def _classes(counts: BinCounts) -> SortedClasses:
    """Return the counts as weighted rows, each with the least score of its bin."""
    weight = counts.everyone.ravel()
    known = weight > 0
    labels, scores = np.repeat([True, False], counts.bins.size), np.tile(counts.least, 2)
    return sort_classes(labels[known], scores[known], weight[known].astype(np.float64))


def threshold_report_of(
    counts: BinCounts, threshold: float, groups: tuple[str, ...]
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
    return ThresholdReport(threshold, errors(flagged[None], counts.everyone), rates, groups)


def rate_gap_comparison_of(
    models: tuple[BinCounts, BinCounts],
    pairs: BinCounts | None,
    thresholds: tuple[float, float],
    ranges: tuple[Range, Range],
    confidence: float,
    background: Background,
    name: str,
) -> BiasTable:
    """Return the differences of the gaps of two models; see `ScoreCounts.compare_rate_gaps`."""
    refuse_other_rows(*models, *(() if pairs is None else (pairs,)))
    a, b = (
        rate_gaps_of(counts, at, around, confidence, background, name)
        for counts, at, around in zip(models, thresholds, ranges, strict=True)
    )
    differences = {
        group: {
            metric: widest(cell, b.subgroups[group][metric], METRICS[metric], confidence)
            for metric, cell in cells.items()
        }
        for group, cells in a.subgroups.items()
    }
    if pairs is not None:
        both = Decisions(models, pairs, thresholds, ranges)
        for metric, rate in threshold_metrics().items():
            for group, (found, slack) in both.differences(rate, confidence, background).items():
                if found.ends is not None:
                    cell = differences[group][metric]
                    known: dict[str, Any] = {
                        "first": cell.first,
                        "second": cell.second,
                        "value": cell.value,
                    }
                    differences[group][metric] = _widened(replace(found, **known), slack)
    table = _table(models[0], differences, {name: thresholds[0]}, confidence, background)
    return replace(table, thresholds={**table.thresholds, (name, SECOND): thresholds[1]})


class Decisions:
    """Which bins two models flag, each at its threshold."""

    def __init__(
        self,
        models: tuple[BinCounts, BinCounts],
        pairs: BinCounts,
        thresholds: tuple[float, float],
        ranges: tuple[Range, Range],
    ) -> None:
        self.known, self.counts = Pairs.of(*models, pairs), (*models, pairs)
        self.ranges = ranges
        (a, b), (at, other) = models, thresholds
        of_models = a.reaches(at), b.reaches(other)
        self.sure, self.possible = zip(*of_models, strict=True)

    def differences(
        self, rate: Rate, confidence: float, background: Background
    ) -> dict[str, tuple[Difference, float]]:
        """Return the difference of each subgroup's gap, and how far it may be off."""
        found = {}
        moved = [
            _moved(counts, around, rate, background)
            for counts, around in zip(self.counts, self.ranges, strict=False)
        ]
        classes = [CLASSES.index(label) for label in rate.of]
        for at, group in enumerate(self.counts[0].names):
            sides = []
            for own in (True, False):
                rows = []
                for counts in self.counts:
                    members = counts.subgroups[at]
                    out = members if background == "outside_subgroup" else counts.anyone
                    of_side = members if own else counts.everyone - out
                    rows.append(of_side[classes].sum(axis=0))
                sides.append(self._share(rate, rows))
            (own_share, most, slack), (other, most_of_other, more) = sides
            of_models = tuple(of_model[group] for of_model in moved)
            gap = ShareGap(own_share, other, rate.rows, range_values=of_models)
            difference = gap.compare_models(confidence)
            if difference.ends is not None:
                a, b = gap.measure(confidence, 0), gap.measure(confidence, 1)
                covariance = most.compute_covariance(0, 1) + most_of_other.compute_covariance(0, 1)
                opposed = Joint(-covariance, (0.0, 0.0, 0.0, 0.0))
                total = paired(a, negated(b), opposed, confidence, small=True)
                difference = sized(difference, total, b, confidence)
            found[group] = difference, slack + more
        return found

    def _share(self, rate: Rate, rows: list[Counts]) -> tuple[Share, Share, float]:
        """Return how often the event happens under each model, and how far that may be off.

        The first takes it that as few rows as possible have the event under both, the second as
        many.
        """
        a, b, together = rows
        n = int(a.sum())
        fewest, most = (
            [int(of[flags].sum()) for of, flags in zip((a, b), which, strict=True)]
            for which in (self.sure, self.possible)
        )
        events = [(low + high) // 2 for low, high in zip(fewest, most, strict=True)]
        low = self.known.both((a, b, together), self.sure)[0]
        high = self.known.both((a, b, together), self.possible)[1]
        if rate.event != "flagged":
            events = [n - event for event in events]
            low, high = max(n - sum(most) + low, 0), n - sum(fewest) + high
        slack = (sum(most) - sum(fewest) + 2) / n if sum(most) > sum(fewest) else 0.0
        known = tuple(events)
        return Share(n, known, min(low, *known)), Share(n, known, min(high, *known)), slack


def _widened(found: Difference, by: float) -> Difference:
    """Return a difference whose bounds reach farther."""
    ends = {"low": -by, "high": by, "size_low": -by, "size_high": by}
    moved: dict[str, Any] = {end: getattr(found, end) + step for end, step in ends.items()}
    return replace(found, p_value=None, **moved)


def gap_ends(
    counts: BinCounts, threshold: float, rate: Rate, background: Background
) -> Iterator[tuple[str, tuple[ShareGap, ShareGap]]]:
    """Yield the smallest and the largest gap of each subgroup that is possible."""
    for group, own in zip(counts.names, counts.subgroups, strict=True):
        out = own if background == "outside_subgroup" else counts.anyone
        (low, high), (other_low, other_high) = (
            share_ends(counts, threshold, rate, rows) for rows in (own, counts.everyone - out)
        )
        yield group, (ShareGap(low, other_high, rate.rows), ShareGap(high, other_low, rate.rows))


def share_ends(
    counts: BinCounts, threshold: float, rate: Rate, rows: Counts
) -> tuple[Share, Share]:
    """Return the smallest and the largest share of some rows with the event that is possible."""
    sure, possible = counts.reaches(threshold)
    if rate.event != "flagged":
        sure, possible = ~possible, ~sure
    of = rows[[CLASSES.index(label) for label in rate.of]].sum(axis=0)
    n, fewest, most = int(of.sum()), int(of[sure].sum()), int(of[possible].sum())
    return Share(n, (fewest,), fewest), Share(n, (most,), most)


def _moved(
    counts: BinCounts, threshold_range: Range, rate: Rate, background: Background
) -> dict[str, tuple[float, ...]]:
    """Return the gap of each subgroup at the ends of a threshold's range, if it has one."""
    ends = [dict(gap_ends(counts, end, rate, background)) for end in threshold_range or ()]
    return {name: tuple(of[name][0].get_value() or 0.0 for of in ends) for name in counts.names}


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
