"""The report in which each comment counts as positive with its probability, and what moves it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import LEAST_EFFECTIVE, Auc, unshrunk
from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.clusters import ClusterSums
from bias_metrics._core.intervals import effective_number
from bias_metrics._core.ranks import Floats, inner
from bias_metrics._core.same_cluster import Codes
from bias_metrics._core.values import MetricValue
from bias_metrics.borkan import final_score, power_mean_of
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, PAIRS, SUBGROUP_METRICS, Class
from bias_metrics.report.clustered import Moves
from bias_metrics.report.report import BiasReport, Overall, PowerMeans, SubgroupBias
from bias_metrics.report.steps import Options
from bias_metrics.report.uncertainty import (
    aggregate_of,
    describe,
    replace_aggregates,
    weighted_influences,
)
from bias_metrics.rows import BACKGROUNDS, Rows, any_of


@dataclass(eq=False)
class RaterVariances:
    """The variance of every number if only the votes are drawn again, with the same comments.

    `found`: the variances so far.
    """

    each: Floats  # Variance of the probability of each comment, in score order
    power: float  # Exponent of the power means
    groups: tuple[str, ...]  # The subgroups that they cover

    def __post_init__(self) -> None:
        """Start with no number."""
        self.found: dict[Key, float] = {}
        self._moved: dict[str, Any] = {}
        self._values: dict[str, list[float]] = {}

    def add(self, key: Key, pair: SoftPair) -> None:
        """Add an AUC, which must be defined."""
        moved = pair.by_probability
        self.found[key] = self._variance(moved)
        name, metric = key
        if name is None:
            self._moved["overall"] = moved
        elif metric in FINAL_SCORE_PARTS and name in self.groups and pair.value > 0:
            known = self._moved.get(metric, 0.0)
            self._moved[metric] = known + pair.value ** (self.power - 1) * moved
            self._values.setdefault(metric, []).append(pair.value)

    def complete(self) -> dict[Key, float]:
        """Return all variances, also of the power means and the final score, if they have one."""
        parts = [self._moved[name] / 4 for name in ("overall",) if name in self._moved]
        for metric, values in self._values.items():
            if len(values) == len(self.groups):
                mean = power_mean_of(
                    {str(i): MetricValue(one) for i, one in enumerate(values)}, self.power
                )
                moved = self._moved[metric] * float(mean) ** (1 - self.power) / len(values)
                self.found[None, metric] = self._variance(moved)
                parts.append(moved / 4)
        if len(parts) == 1 + len(FINAL_SCORE_PARTS):
            self.found[FINAL] = self._variance(sum(parts))
        return self.found

    def _variance(self, moved: Any) -> float:
        return float(np.sum(self.each * moved**2))


def pairs_of(rows: Rows, ordered: SortedRows, probability: Floats) -> SoftPairs:
    """Return what every number compares, given the rows' probabilities."""
    alike = rows.background == BACKGROUNDS[0] or not rows.subgroups
    outside = None if alike else ~any_of(rows.subgroups)
    return SoftPairs(ordered, probability[ordered.order], rows.subgroups, outside)


def rater_variances(pairs: SoftPairs, options: Options, each: Floats) -> dict[Key, float]:
    """Return the variance of every number that comes from raters.

    `each` is the variance of each row's probability if votes are drawn again, in row order.
    """
    found = RaterVariances(each[pairs.rows.order], options.power, options.groups)
    for key, pair in pairs:
        if pair.lack is None:
            found.add(key, pair)
    return found.complete()


def expected_report(pairs: SoftPairs, rows: Rows, options: Options) -> BiasReport:
    """Return the report of comments that are positive with a probability.

    The labels of the rows only count those of each class.
    """
    confidence = options.confidence
    assert confidence is not None  # noqa: S101
    aucs = {key: _auc(key, pair) for key, pair in pairs}
    codes = rows.clusters
    if codes is not None:
        codes = codes[pairs.rows.order]
        aucs = {
            key: aucs[key] if aucs[key].std_error is None else pair.sums(codes).clustered(aucs[key])
            for key, pair in pairs
        }
    report = _report_of(aucs, rows, options)
    by_rows = moves = Moves(report)
    if codes is not None:
        moves = Moves(report)
    for key, pair in pairs:
        auc = aucs[key]
        if auc.std_error is not None:
            by_rows.add(*key, pair.sums(None), auc.of_rows(confidence))
            if codes is not None:
                moves.add(*key, pair.sums(codes), auc.at(confidence))
    by_rows.complete()
    [reaches] = moves.complete()
    described = {
        name: describe(
            aggregate_of(report, name),
            influence,
            None if codes is None else moves.totals.get(name),
            reaches.get(name),
            confidence=confidence,
        )
        for name, influence in weighted_influences(report, by_rows.totals)
    }
    return replace_aggregates(report, described)


def _report_of(aucs: Mapping[Key, Auc], rows: Rows, options: Options) -> BiasReport:
    """Return a report whose AUCs and AEGs have intervals."""
    cells = {key: auc.at(options.confidence) for key, auc in aucs.items()}
    labels, subgroups = rows.y_true, {}
    for name, mask in rows.subgroups.items():
        own: dict[str, Any] = {metric: cells[name, metric] for metric in SUBGROUP_METRICS}
        n, n_positive = int(mask.sum()), int(labels[mask].sum())
        subgroups[name] = SubgroupBias(n_positive=n_positive, n_negative=n - n_positive, **own)
    means = {
        metric: power_mean_of({name: cells[name, metric] for name in options.groups}, options.power)
        for metric in FINAL_SCORE_PARTS
    }
    return BiasReport(
        Overall(labels.size, int(labels.sum()), cells[OVERALL]),
        subgroups,
        PowerMeans(options.power, options.groups, **means),
        final_score(cells[OVERALL], means),
        rows.background,
    )


def _auc(key: Key, pair: SoftPair) -> Auc:
    """Measure one AUC or AEG of independent comments."""
    if lack := pair.lack:
        return Auc(None, lack)
    centre = METRICS[key[1]].centre
    if min(pair.sizes) < LEAST_EFFECTIVE:
        return Auc(pair.value, "fewer than 2 effective rows in a class", centre=centre)
    std_error, freedom = pair.sums(None).error()
    return Auc(pair.value, None, std_error, freedom, pair.sizes, centre)


# ---- AUCs of comments that are positive with a probability: exact values, and what moves them.
#
# Each comment counts as positive with its probability p and as negative with 1 - p. The AUC is the
# weighted share of pairs of two *different* comments in which the positive one scores higher; a
# tie counts one half. All rows are sorted once; cumulative sums of weights then give every
# placement


Key = tuple[str | None, str]
OVERALL: Key = (None, "auc")
FINAL: Key = (None, "final_score")
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class SortedRows:
    """Rows in score order."""

    order: npt.NDArray[np.intp]  # Number of the row at each place
    left: npt.NDArray[np.intp]  # left, right: where the rows with the same score begin and end
    right: npt.NDArray[np.intp]

    @classmethod
    def of(cls, y_score: FloatArray) -> SortedRows:
        """Sort rows."""
        order = np.argsort(y_score, kind="stable")
        scores = y_score[order]
        left = np.searchsorted(scores, scores, side="left")
        return cls(order, left, np.searchsorted(scores, scores, side="right"))

    def below(self, weight: Floats) -> Floats:
        """Return the weight of lower scores, plus half of that of equal ones, for each row."""
        total = np.concatenate(([0.0], np.cumsum(weight)))
        return np.asarray((total[self.left] + total[self.right]) / 2)


@dataclass(frozen=True, eq=False)
class SoftClass:
    """The positives, or the negatives, of some rows."""

    inside: BoolArray  # Which rows
    weight: Floats  # Probability of each row to be of this class; 0 outside
    sign: int  # 1 for positives, whose weight grows with the probability; -1 for negatives

    @classmethod
    def of(cls, which: Class, inside: BoolArray, probability: Floats) -> SoftClass:
        """Take one class of some rows."""
        if which == "positive":
            return cls(inside, np.where(inside, probability, 0.0), 1)
        return cls(inside, np.where(inside, 1 - probability, 0.0), -1)

    @cached_property
    def total(self) -> float:
        """How many rows of this class to expect."""
        return float(self.weight.sum())

    @cached_property
    def size(self) -> float:
        """How many rows of equal weight they are worth (Kish)."""
        return effective_number(self.weight)


@dataclass(frozen=True, eq=False)
class SoftPair:
    """P(high > low) over pairs of different comments of two classes; all arrays in score order."""

    rows: SortedRows  # All rows
    high: SoftClass  # high, low: the two classes
    low: SoftClass
    names: tuple[str, str]  # What they are called in the reason, if one is empty

    @property
    def lack(self) -> str | None:
        """Which class is empty, if so."""
        found = zip(self.names, (self.high.total, self.low.total), strict=True)
        empty = [name for name, total in found if total == 0]
        if empty:
            return f"no {' and no '.join(empty)}"
        return None if self.pairs > 0 else "no two different comments to compare"

    @cached_property
    def pairs(self) -> float:
        """The weight of all pairs of different comments."""
        same = inner(self.high.weight, self.low.weight)
        found = self.high.total * self.low.total - same
        return found if found > _ROUNDING * same else 0.0

    @cached_property
    def _below(self) -> Floats:
        return self.rows.below(self.low.weight) - self.low.weight / 2

    @cached_property
    def value(self) -> float:
        """The share of pairs; there must be some."""
        return min(max(inner(self.high.weight, self._below) / self.pairs, 0.0), 1.0)

    @cached_property
    def moved(self) -> tuple[Floats, Floats]:
        """The derivatives of the value by the weights of the high and the low class."""
        high, low = self.high, self.low
        above = high.total - self.rows.below(high.weight) - high.weight / 2
        of_high = self._below - self.value * (low.total - low.weight)
        of_low = above - self.value * (high.total - high.weight)
        return of_high / self.pairs, of_low / self.pairs

    @property
    def by_probability(self) -> Floats:
        """The derivative of the value by the probability of each comment."""
        found = np.zeros(self.high.weight.size)
        for one, of in zip((self.high, self.low), self.moved, strict=True):
            found += np.where(one.inside, one.sign * of, 0.0)
        return found

    @property
    def sizes(self) -> tuple[float, float]:
        """How many rows of equal weight the low and the high class are worth."""
        return self.low.size, self.high.size

    def sums(self, codes: Codes | None) -> ClusterSums:
        """Return the influences of the comments, or of the clusters with these codes."""
        each, rows = [], []
        for one, of in zip((self.low, self.high), self.moved[::-1], strict=True):
            moves, weight = one.weight * of * one.total, one.weight
            if codes is not None:
                moves, weight = (
                    np.bincount(codes, by).astype(np.float64) for by in (moves, weight)
                )
            each.append(unshrunk(moves, weight))
            rows.append(weight)
        low, high = (effective_number(row) for row in rows)
        n_low, n_high = (int(np.count_nonzero(row)) for row in rows)
        both = each[0] + each[1]
        return ClusterSums(both, (n_low, n_high), min(low, high), (low, high), codes is None)


@dataclass(frozen=True, eq=False)
class SoftPairs:
    """What the overall AUC and every metric of every subgroup compare, computed on demand."""

    rows: SortedRows  # All rows
    probability: Floats  # Probability of each row to be positive, in score order
    masks: Mapping[str, BoolArray]  # The subgroups, in row order
    # The background of every subgroup, in row order; None if it is all rows outside it.
    outside: BoolArray | None

    def __iter__(self) -> Iterator[tuple[Key, SoftPair]]:
        """Yield each number's key and what it compares."""
        yield OVERALL, self.overall()
        for name in self.masks:
            for metric in SUBGROUP_METRICS:
                yield (name, metric), self.of(name, metric)

    def overall(self) -> SoftPair:
        """Return what the overall AUC compares."""
        everyone = np.ones(self.probability.size, dtype=np.bool_)
        positive, negative = (
            SoftClass.of(one, everyone, self.probability) for one in ("positive", "negative")
        )
        return SoftPair(self.rows, positive, negative, ("positives", "negatives"))

    def of(self, name: str, metric: str) -> SoftPair:
        """Return what one metric of a subgroup compares."""
        pair, own = PAIRS[metric], self.masks[name][self.rows.order]
        if pair.inside:
            others, where = own, "subgroup"
        else:
            others = ~own if self.outside is None else self.outside[self.rows.order]
            where = "background"
        x = SoftClass.of(pair.x, own, self.probability), f"subgroup {pair.x}s"
        y = SoftClass.of(pair.y, others, self.probability), f"{where} {pair.y}s"
        high, low = (y, x) if pair.flip else (x, y)
        return SoftPair(self.rows, high[0], low[0], (high[1], low[1]))
