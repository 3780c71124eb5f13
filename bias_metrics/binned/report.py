"""What a report says of counts, and how far binning may have moved each number.

Scores in one bin are taken as tied. That changes an AUC by at most half of the pairs that share a
bin of several scores, and the placement of a row by at most half of what the other class has in the
row's bin; the standard error by at most the root sum of squares of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import Auc, lacks, placed_auc
from bias_metrics._core.intervals import few_errors
from bias_metrics._core.ranks import Placed, Runs, inner, spread_of_squares
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.binned.bin_counts import BinCounts
from bias_metrics.binned.bins import Counts
from bias_metrics.calibration import ReliabilityBin, Sample, bias_of, curve_of, labels_of
from bias_metrics.estimate import Number, Positives
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
class Cell:
    """An AUC or AEG of the binned scores, and how far the exact one may be from it."""

    binned: Auc
    slack: float
    moved: float = 0.0
    """The part of the standard error that is for binning alone."""

    @classmethod
    def of(
        cls,
        y: Counts,
        x: Counts,
        several: npt.NDArray[np.bool_],
        names: tuple[str, str],
        metric: str,
        *,
        flip: bool = False,
    ) -> Cell:
        """Measure P(x > y), or P(y > x); `several` says which bins have more than one score."""
        centre = METRICS[metric].centre
        below = np.concatenate(([0], np.cumsum(y)))
        n_y, n_x = int(below[-1]), int(x.sum())
        if lack := lacks(**dict(zip(names, (n_y, n_x), strict=True))):
            return cls(Auc(None, lack, centre=centre), 0.0)
        places = np.flatnonzero(x)
        starts = np.concatenate(([0], np.cumsum(x[places])))
        placed = Placed(below[places], below[places + 1], n_y)
        found = placed_auc(
            Runs(places.astype(np.float64), starts), placed, flip=flip, centre=centre
        )
        y, x = y[several], x[several]
        pairs, moved = 2.0 * n_y * n_x, 0.0
        if found.std_error is not None:
            of_y, of_x = y.astype(np.float64), x.astype(np.float64)
            moved = math.sqrt(inner(of_y * of_x, of_y + of_x)) / pairs
            least = min(n_y, n_x)
            moved *= math.sqrt(least / (least - 1))
            found = replace(found, std_error=found.std_error + moved)
        return cls(found, int(y @ x) / pairs, moved)

    def at(self, confidence: float) -> MetricValue:
        """Return the number with an interval that holds that of the exact scores."""
        found, low, high = (auc.at(confidence) for auc in (self.binned, *self._moved()))
        return replace(found, low=low.low, high=high.high)

    def ends(self) -> MetricValue:
        """Return the number with the bracket that holds the exact one as its interval."""
        found, low, high = (auc.at(None) for auc in (self.binned, *self._moved()))
        return replace(found, low=low.value, high=high.value)

    def _moved(self) -> tuple[Auc, Auc]:
        """Return the smallest and the largest number that is possible."""
        value = self.binned.value
        if value is None:
            return self.binned, self.binned
        low, high = max(value - self.slack, 0.0), min(value + self.slack, 1.0)
        return replace(self.binned, value=low), replace(self.binned, value=high)


def cells_of(counts: BinCounts, background: Background) -> dict[Key, Cell]:
    """Return the cells of each subgroup, after the overall AUC; measured once."""
    found: dict[Key, Cell] = counts.once(background, lambda: _cells(counts, background))
    return found


def _cells(counts: BinCounts, background: Background) -> dict[Key, Cell]:
    several = counts.least < counts.most
    found = {}
    for key, y, x in compared(counts, background):
        metric, name = key.metric, key.group
        words, flip = ("negatives", "positives"), False
        if name is not None:
            pair = PAIRS[metric]
            side = "subgroup" if pair.inside else "background"
            words, flip = (f"{side}_{pair.y}s", f"subgroup_{pair.x}s"), pair.flip
        found[key] = Cell.of(y, x, several, words, metric, flip=flip)
    return found


def compared(counts: BinCounts, background: Background) -> Iterator[tuple[Key, Counts, Counts]]:
    """Yield the rows y and x that each number compares: first the overall AUC, of nobody."""
    positive, negative = counts.everyone
    yield Key("auc"), negative, positive
    for name, own in zip(counts.names, counts.subgroups, strict=True):
        out = own if background == "outside_subgroup" else counts.anyone
        for metric in SUBGROUP_METRICS:
            pair = PAIRS[metric]
            y, x = CLASSES.index(pair.y), CLASSES.index(pair.x)
            rows = own[y] if pair.inside else counts.everyone[y] - out[y]
            yield Key(metric, name), rows, own[x]


def report_of(
    counts: BinCounts,
    *,
    power: float,
    groups: tuple[str, ...],
    confidence: float,
    background: Background,
) -> BiasTable:
    """Return the table at a confidence."""
    measured = {key: cell.at(confidence) for key, cell in cells_of(counts, background).items()}
    found = _table_of(counts, measured, power, groups, background)
    return replace(found, confidence=confidence)


def brackets_of(
    counts: BinCounts, *, power: float, groups: tuple[str, ...], background: Background
) -> dict[Key, Bracket | None]:
    """Return between which two numbers each exact value lies."""
    measured = {key: cell.ends() for key, cell in cells_of(counts, background).items()}
    table = _table_of(counts, measured, power, groups, background)
    return {key: number.ends for key, number in table.items()}


def row_counts(counts: BinCounts) -> dict[str | None, RowCounts]:
    """Return the number of rows of all, under None, and of each subgroup."""
    of = zip((None, *counts.names), (counts.everyone, *counts.subgroups), strict=True)
    return {name: RowCounts(*own.sum(axis=-1).tolist()) for name, own in of}


def _table_of(
    counts: BinCounts,
    measured: Mapping[Key, MetricValue],
    power: float,
    groups: tuple[str, ...],
    background: Background,
) -> BiasTable:
    """Return a table of cells; its aggregates reach from those of all lower ends to the upper.

    An aggregate grows with each of its cells. Its error is at most the sum of what their errors
    move it by, whatever the cells have to do with each other.
    """
    n_rows = row_counts(counts)

    def table(numbers: Mapping[Key, MetricValue]) -> BiasTable:
        cells = {
            name: {metric: numbers[Key(metric, name)] for metric in SUBGROUP_METRICS}
            for name in counts.names
        }
        return BiasTable.of_cells(
            numbers[Key("auc")],
            cells,
            n_rows,
            power=power,
            covered=groups,
            background=background,
        )

    low, high = (
        table({key: MetricValue(getattr(cell, end), cell.reason) for key, cell in measured.items()})
        for end in ("low", "high")
    )
    found = table(measured)
    aggregates = [Key(metric) for metric in (*FINAL_SCORE_PARTS, "final_score")]
    return found.with_numbers(
        {key: _reaching(found[key], low[key], high[key]) for key in aggregates}
    )


def _reaching(value: MetricValue, low: MetricValue, high: MetricValue) -> MetricValue:
    """Return an aggregate that reaches to those of the ends, if there are any."""
    if value.value is None:
        return value
    if low.value is None or high.value is None:
        return replace(value, reason=_NO_INTERVAL)
    return replace(value, low=low.value, high=high.value)


Reliability = dict[str | None, tuple[ReliabilityBin, ...]]


def reliability_of(counts: BinCounts, n_bins: int, confidence: float) -> Reliability:
    """Return the bins; see `ScoreCounts.reliability`."""
    if n_bins < 2:
        msg = f"`n_bins` must be at least 2; got {n_bins}."
        raise ValueError(msg)
    if reason := _no_probabilities(counts):
        raise ValueError(reason)
    rows = zip((None, *counts.names), (counts.everyone, *counts.subgroups), strict=True)
    return {name: _curve(counts, own, n_bins, confidence) for name, own in rows}


def _no_probabilities(counts: BinCounts) -> str | None:
    """Say that scores are not probabilities, if so."""
    if not counts.n or 0 <= counts.least[0] <= counts.most[-1] <= 1:
        return None
    ends = counts.least[0], counts.most[-1]
    return "scores must be probabilities; they are from {:.6g} to {:.6g}.".format(*ends)


def calibration_gaps_of(
    counts: BinCounts, confidence: float, background: Background
) -> dict[str, MetricValue]:
    """Return the gaps; see `ScoreCounts.calibration_gaps`."""
    reason = _no_probabilities(counts)
    found = {}
    for name, own in zip(counts.names, counts.subgroups, strict=True):
        out = own if background == "outside_subgroup" else counts.anyone
        sides = {"subgroup": own, "background": counts.everyone - out}
        empty = [side for side, rows in sides.items() if not rows.sum()]
        lack = reason or (f"{empty[0]}: no rows" if empty else None)
        if lack:
            found[name] = undefined(lack)
        else:
            subgroup, outside = (_Mean.of(counts, rows) for rows in sides.values())
            found[name] = _gap(subgroup, outside, confidence)
    return found


@dataclass(frozen=True)
class _Mean:
    """The bias of some rows whose scores are in the middle of their bins."""

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
    def of(cls, counts: BinCounts, own: Counts) -> _Mean:
        """Measure the bias of rows, of which there are some."""
        known = np.flatnonzero(own)
        weight, n = own.ravel()[known].astype(np.float64), int(own.sum())
        labels = np.repeat([1.0, 0.0], counts.bins.size)[known]
        ends = [np.tile(end, 2)[known] for end in (counts.least, counts.most)]
        score, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        sample = Sample(known, labels, weight, None)
        value, influence = bias_of(score, sample)
        each = influence / weight / math.sqrt(max(1 - 1 / n, 1 / n))
        squares = inner(weight, each**2)
        moved = math.sqrt(inner(weight, half**2) / (n * max(n - 1, 1)))
        share, noise, step = labels_of(score, sample)
        positives = Positives(share, n, noise, step, math.sqrt(squares) + moved)
        few = few_errors(share, n)
        slack = inner(weight, half) / n
        fourths = inner(weight, each**4)
        return cls(value, squares, fourths, n, slack, moved, (positives,) if few else ())

    @property
    def parts(self) -> tuple[Positives, ...]:
        """The labels that it rests on; if they are many, nothing but its error."""
        return self.positives or (
            Positives(0.0, 1.0, 0.0, 0.0, math.sqrt(self.squares) + self.moved),
        )


def _gap(own: _Mean, other: _Mean, confidence: float) -> MetricValue:
    """Return the difference of two means, with an interval that holds that of exact scores."""
    largest = METRICS[CALIBRATION_GAP].largest
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
    if positives:  # Their correction uses the scores too, and moves by at most as much.
        slack *= 2
    low, high = max(found.low - slack, -largest), min(found.high + slack, largest)
    return replace(found, low=low, high=high)


def _curve(
    counts: BinCounts, own: Counts, n_bins: int, confidence: float
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
    return curve_of(n.astype(np.int64), score / n, positive / n, n.astype(np.float64), confidence)
