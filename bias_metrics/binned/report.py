"""Reports from counts, and the largest effect of binning on each number.

Scores in the same bin are taken as tied. This changes an AUC by at most half of the pairs that
share a bin of several scores. It changes the placement of a row by at most half of the other
class's share in the row's bin, and the standard error by at most the root sum of squares of these
changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import Auc, describe_empty_classes, measure_placed_auc
from bias_metrics._core.intervals import has_few_errors
from bias_metrics._core.ranks import Placements, Runs, compute_square_variance, inner_product
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.binned.bin_counts import BinCounts, Counts
from bias_metrics.calibration import (
    CalibrationSample,
    ReliabilityBin,
    make_curve,
    measure_bias,
    measure_labels,
)
from bias_metrics.estimate import LinearSummary, Positives
from bias_metrics.metrics import (
    CALIBRATION_GAP,
    CLASSES,
    FINAL_SCORE_PARTS,
    METRICS,
    PAIRS,
    SUBGROUP_METRICS,
)
from bias_metrics.rows import Background
from bias_metrics.table import BiasTable, Key, RowCounts

Bracket = tuple[float, float]
_NO_INTERVAL = "a number that it rests on has no interval"


@dataclass(frozen=True)
class BinnedCell:
    """An AUC or AEG of binned scores, and the largest distance of the exact value (`slack`)."""

    auc: Auc
    slack: float
    binning_error: float = 0.0
    """The part of the standard error due to binning."""

    @classmethod
    def from_counts(
        cls,
        y: Counts,
        x: Counts,
        several: npt.NDArray[np.bool_],
        names: tuple[str, str],
        metric: str,
        *,
        flip: bool = False,
    ) -> BinnedCell:
        """Measure P(x > y), or P(y > x); `several` marks bins with more than one score."""
        centre = METRICS[metric].centre
        below = np.concatenate(([0], np.cumsum(y)))
        n_y, n_x = int(below[-1]), int(x.sum())
        if lack := describe_empty_classes(**dict(zip(names, (n_y, n_x), strict=True))):
            return cls(Auc(None, lack, centre=centre), 0.0)
        places = np.flatnonzero(x)
        starts = np.concatenate(([0], np.cumsum(x[places])))
        placed = Placements(below[places], below[places + 1], n_y)
        auc = measure_placed_auc(
            Runs(places.astype(np.float64), starts), placed, flip=flip, centre=centre
        )
        y, x = y[several], x[several]
        pairs, moved = 2.0 * n_y * n_x, 0.0
        if auc.std_error is not None:
            y_counts, x_counts = y.astype(np.float64), x.astype(np.float64)
            moved = math.sqrt(inner_product(y_counts * x_counts, y_counts + x_counts)) / pairs
            least = min(n_y, n_x)
            moved *= math.sqrt(least / (least - 1))
            auc = replace(auc, std_error=auc.std_error + moved)
        return cls(auc, int(y @ x) / pairs, moved)

    def compute_value(self, confidence: float) -> MetricValue:
        """Return the number with an interval that contains that of exact scores."""
        value, low, high = (auc.compute_value(confidence) for auc in (self.auc, *self._bound_auc()))
        return replace(value, low=low.low, high=high.high)

    def compute_bracket(self) -> MetricValue:
        """Return the number with its bracket, which contains the exact number, as interval."""
        value, low, high = (auc.compute_value(None) for auc in (self.auc, *self._bound_auc()))
        return replace(value, low=low.value, high=high.value)

    def _bound_auc(self) -> tuple[Auc, Auc]:
        """Return the smallest and the largest possible number."""
        value = self.auc.value
        if value is None:
            return self.auc, self.auc
        low, high = max(value - self.slack, 0.0), min(value + self.slack, 1.0)
        return replace(self.auc, value=low), replace(self.auc, value=high)


def get_cells(counts: BinCounts, background: Background) -> dict[Key, BinnedCell]:
    """Return the overall AUC and the cells of all subgroups, measured once."""

    def measure_cells() -> dict[Key, BinnedCell]:
        several = counts.least < counts.most
        cells = {}
        for key, y, x in iterate_compared_rows(counts, background):
            words, flip = ("negatives", "positives"), False
            if key.group is not None:
                pair = PAIRS[key.metric]
                side = "subgroup" if pair.inside else "background"
                words, flip = (f"{side}_{pair.y}s", f"subgroup_{pair.x}s"), pair.flip
            cells[key] = BinnedCell.from_counts(y, x, several, words, key.metric, flip=flip)
        return cells

    cells: dict[Key, BinnedCell] = counts.measure_once(background, measure_cells)
    return cells


def iterate_compared_rows(
    counts: BinCounts, background: Background
) -> Iterator[tuple[Key, Counts, Counts]]:
    """Yield the rows y and x compared by the overall AUC, and by each cell."""
    positive, negative = counts.everyone
    yield Key("auc"), negative, positive
    for name, own in zip(counts.names, counts.subgroups, strict=True):
        others = counts.count_background(own, background)
        for metric in SUBGROUP_METRICS:
            pair = PAIRS[metric]
            y = (own if pair.inside else others)[CLASSES.index(pair.y)]
            yield Key(metric, name), y, own[CLASSES.index(pair.x)]


def count_rows(counts: BinCounts) -> dict[str | None, RowCounts]:
    """Return the row counts by subgroup, and of all rows under None."""
    return {name: RowCounts(*own.sum(axis=-1).tolist()) for name, own in counts.by_group.items()}


def make_table(
    counts: BinCounts,
    measured: Mapping[Key, MetricValue],
    power: float,
    groups: tuple[str, ...],
    background: Background,
) -> BiasTable:
    """Return a table of cells, with intervals of aggregates from the ends of all cells.

    An aggregate increases with each of its cells. So its values at all lower ends, and at all upper
    ends, bound it for any correlation of the cells.
    """
    n_rows = count_rows(counts)

    def build_table(numbers: Mapping[Key, MetricValue]) -> BiasTable:
        cells = {
            name: {metric: numbers[Key(metric, name)] for metric in SUBGROUP_METRICS}
            for name in counts.names
        }
        return BiasTable.from_cells(
            numbers[Key("auc")],
            cells,
            n_rows,
            power=power,
            covered=groups,
            background=background,
        )

    low, high = (
        build_table(
            {key: MetricValue(getattr(cell, end), cell.reason) for key, cell in measured.items()}
        )
        for end in ("low", "high")
    )
    central = build_table(measured)
    aggregates: dict[Key, MetricValue] = {}
    for metric in (*FINAL_SCORE_PARTS, "final_score"):
        key = Key(metric)
        number, ends = central[key], (low[key].value, high[key].value)
        if number.value is not None and None in ends:
            number = replace(number, reason=_NO_INTERVAL)
        elif number.value is not None:
            number = replace(number, low=ends[0], high=ends[1])
        aggregates[key] = number
    return central.add_numbers(aggregates)


def find_non_probability(counts: BinCounts) -> str | None:
    """Return the reason if scores are not probabilities, or None."""
    if not counts.n or 0 <= counts.least[0] <= counts.most[-1] <= 1:
        return None
    ends = counts.least[0], counts.most[-1]
    return "scores must be probabilities; they are from {:.6g} to {:.6g}.".format(*ends)


def measure_calibration_gaps(
    counts: BinCounts, confidence: float, background: Background
) -> dict[str, MetricValue]:
    """Measure the gaps; see `ScoreCounts.calibration_gaps`."""
    reason = find_non_probability(counts)
    gaps = {}
    for name, own in zip(counts.names, counts.subgroups, strict=True):
        sides = {"subgroup": own, "background": counts.count_background(own, background)}
        empty = [side for side, rows in sides.items() if not rows.sum()]
        lack = reason or (f"{empty[0]}: no rows" if empty else None)
        if lack:
            gaps[name] = make_undefined(lack)
        else:
            subgroup, outside = (_BinnedBias.from_counts(counts, rows) for rows in sides.values())
            gaps[name] = _subtract_biases(subgroup, outside, confidence)
    return gaps


@dataclass(frozen=True)
class _BinnedBias:
    """The bias of rows with scores set to the middle of their bins."""

    value: float
    squares: float
    fourths: float
    n: int
    slack: float
    """Largest error of the value."""
    binning_error: float
    """Largest error of the root of `squares`."""
    positives: tuple[Positives, ...]

    @classmethod
    def from_counts(cls, counts: BinCounts, own: Counts) -> _BinnedBias:
        """Measure the bias of at least one row."""
        present = np.flatnonzero(own)
        weight, n = own.ravel()[present].astype(np.float64), int(own.sum())
        labels = np.repeat([1.0, 0.0], counts.bins.size)[present]
        ends = [np.tile(end, 2)[present] for end in (counts.least, counts.most)]
        score, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        sample = CalibrationSample(present, labels, weight, None)
        value, influence = measure_bias(score, sample)
        each = influence / weight / math.sqrt(max(1 - 1 / n, 1 / n))
        squares = inner_product(weight, each**2)
        moved = math.sqrt(inner_product(weight, half**2) / (n * max(n - 1, 1)))
        share, noise, step = measure_labels(score, sample)
        positives = Positives(share, n, noise, step, math.sqrt(squares) + moved)
        few = has_few_errors(share, n)
        slack = inner_product(weight, half) / n
        fourths = inner_product(weight, each**4)
        return cls(value, squares, fourths, n, slack, moved, (positives,) if few else ())

    @property
    def label_parts(self) -> tuple[Positives, ...]:
        """Corrections for few positives; with many positives, only the standard error."""
        return self.positives or (
            Positives(0.0, 1.0, 0.0, 0.0, math.sqrt(self.squares) + self.binning_error),
        )


def _subtract_biases(own: _BinnedBias, other: _BinnedBias, confidence: float) -> MetricValue:
    """Return the difference of two biases, with an interval that contains that of exact scores."""
    largest = METRICS[CALIBRATION_GAP].largest
    squares = own.squares + other.squares
    spread = compute_square_variance(squares, own.fourths + other.fourths, own.n + other.n)
    positives: tuple[Positives, ...] = ()
    if own.positives or other.positives:
        negated = (replace(labels, step=-labels.step) for labels in other.label_parts)
        positives = (*own.label_parts, *negated)
    number = LinearSummary(
        own.value - other.value,
        math.sqrt(squares) + math.hypot(own.binning_error, other.binning_error),
        2 * squares**2 / spread if spread else math.inf,
        min(own.n, other.n),
        (-largest, largest),
        positives=positives,
    )
    value = number.compute_value(confidence)
    if value.low is None or value.high is None:
        return value
    slack = own.slack + other.slack
    if positives:  # The correction also uses the scores, and changes by at most as much.
        slack *= 2
    low, high = max(value.low - slack, -largest), min(value.high + slack, largest)
    return replace(value, low=low, high=high)


def make_binned_curve(
    counts: BinCounts, own: Counts, n_bins: int, confidence: float
) -> tuple[ReliabilityBin, ...]:
    """Return wide bins with about equally many rows, and their bands."""
    bin_rows = own.sum(axis=0)
    total = int(bin_rows.sum())
    if not total:
        return ()
    has_rows = bin_rows > 0
    last = np.floor(np.linspace(0, 1, n_bins + 1)[1:-1] * (total - 1))  # row of each wide bin
    edges = np.searchsorted(np.cumsum(bin_rows), last, side="right")
    _, position = np.unique(np.searchsorted(edges, np.flatnonzero(has_rows)), return_inverse=True)
    middles = (counts.least + counts.most)[has_rows] / 2
    n, positive, score = (
        np.bincount(position, values)
        for values in (bin_rows[has_rows], own[0, has_rows], bin_rows[has_rows] * middles)
    )
    return make_curve(n.astype(np.int64), score / n, positive / n, n.astype(np.float64), confidence)
