"""One cell from human labels and terms: its value, standard error and interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bias_metrics._core.cells import Auc
from bias_metrics._core.clusters import ClusterSums
from bias_metrics._core.covariance import Joint
from bias_metrics._core.differences import Apart
from bias_metrics._core.intervals import auc_interval, few_errors, newcombe_interval, quantile
from bias_metrics._core.ranks import Floats, inner
from bias_metrics._core.values import MetricValue
from bias_metrics.prediction_powered.model import Pieces
from bias_metrics.report.report import Assistance

NO_GAIN = "terms do not make it more precise"
OUTSIDE = "with terms the estimate would be outside its range"


@dataclass(frozen=True)
class PoweredAuc:
    """An AUC or AEG with terms' help: its interval at any confidence needs no rows.

    Where a class has few errors, the interval is the union with Newcombe's for as many rows as the
    labelled ones are worth.
    """

    value: float  # The share of pairs
    std_error: float
    freedom: float  # Its degrees of freedom
    sizes: tuple[float, float]  # How many rows without terms the two classes are worth
    few: bool  # Whether a class has few errors
    centre: float  # What is subtracted: 1/2 for an AEG
    n_clusters: int | None  # None if rows come in no clusters

    def at(self, confidence: float) -> MetricValue:
        """Return the number with its interval."""
        number = self.value, self.std_error, *self.sizes
        if self.n_clusters is None:
            z = quantile(confidence)
            low, high = auc_interval(*number, z, freedom=self.freedom)
            if self.few:
                ends = newcombe_interval(self.value, *self.sizes, z)
                low, high = min(low, ends[0]), max(high, ends[1])
        else:
            z = quantile(confidence, self.freedom)
            low, high = auc_interval(*number, z, n_clusters=self.n_clusters)
        return MetricValue(
            self.value - self.centre,
            std_error=self.std_error,
            low=low - self.centre,
            high=high - self.centre,
            n_clusters=self.n_clusters,
        )


Powered = tuple[PoweredAuc, ClusterSums]
Cell = tuple[Auc | PoweredAuc, ClusterSums | None]


def estimate(pieces: Pieces) -> tuple[Cell, Assistance]:
    """Return a cell with the weight that makes it most precise; without terms if they do not."""
    ordinary = pieces.ordinary, pieces.sums
    if pieces.sums is None or pieces.on_shift is None:
        return ordinary, Assistance(reason=pieces.reason)
    tuning = tune(pieces.sums.each, pieces.on_shift)
    if tuning is None:
        return ordinary, Assistance(reason=NO_GAIN)
    cell = powered(pieces, tuning)
    if cell is None:
        return ordinary, Assistance(reason=OUTSIDE)
    gain = gained(pieces.sums.std_error, cell[1].std_error)
    if gain <= 1:
        return ordinary, Assistance(reason=NO_GAIN)
    return cell, Assistance(tuning.weight, sure_gain(gain, pieces.sizes))


def gained(without: float, error: float) -> float:
    """Return how many times as many rows would make the error as small without terms."""
    return (without / error) ** 2 if error > 0 else math.inf


def powered(pieces: Pieces, tuning: Tuning) -> Powered | None:
    """Return a cell with a given weight; None if its value would be at or outside its range.

    With few rows, what the labelled ones are worth is itself uncertain, so less is counted.
    """
    sums, on_shift = pieces.sums, pieces.on_shift
    assert sums is not None  # noqa: S101
    assert on_shift is not None  # noqa: S101
    assert pieces.ordinary.value is not None  # noqa: S101
    auc = tuning.value(pieces.ordinary.value, pieces.shift, on_shift)
    if not 0 < auc < 1:
        return None
    each = tuning.influences(sums.each, pieces.shift, on_shift)
    found = replace(sums, each=each, counted=pieces.counted)
    gain = sure_gain(gained(sums.std_error, found.std_error), pieces.sizes)
    number = PoweredAuc(
        auc,
        found.std_error,
        min(found.freedom_by_fourths, min(pieces.sizes) - 2) if sums.alone else sums.freedom,
        (pieces.sizes[0] * gain, pieces.sizes[1] * gain),
        few_errors(auc, *pieces.sizes),
        pieces.ordinary.centre,
        sums.in_clusters,
    )
    return number, found


def sure_gain(gain: float, sizes: tuple[float, float]) -> float:
    """Return a gain less about one standard error of a ratio of variances from so many rows."""
    return min(gain, max(gain / (1 + math.sqrt(2 / min(sizes))), 1.0))


# ---- How much of a cheap estimate's error to remove from a dear one: the weight, and its price.
#
# A cell is measured from the human labels on the labelled rows. Measured from matched terms, it is
# wrong, but by nearly the same amount on the labelled rows as on all rows. So the difference
# between these two, the `shift`, tells how unusual the labelled rows happen to be, and `weight`
# times the shift is subtracted:
#
#     value = human on labelled - weight * (terms on labelled - terms on all)
#
# Whatever the weight, the expectation is that of the human labels, so poor terms cost no validity,
# only precision. The weight with the smallest variance is the slope of a regression of the
# influences on the first number on those of the shift. It is estimated from the same rows, so
#
# - a row's (or cluster's) own residual is divided by 1 - its leverage on the slope, as if the row
# had
#   been left out of it (the jackknife);
# - how far the row moves the slope, times the shift, is part of its influence;
# - the expected product of the errors of slope and shift is the bias, which is removed.
#
# References
# ----------
# Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023), Science 382 (prediction-powered
# inference).
# Angelopoulos, Duchi and Zrnic (2023), arXiv:2311.01453 (the weight). MacKinnon and White (1985),
# Journal of Econometrics 29 (residuals and leverage). Sarndal, Swensson and Wretman (1989),
# Biometrika 76 (influence through the slope)


# A row that decides the slope alone: its residual without it cannot be computed.
_ALL = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class Tuning:
    """A weight, and how it varies."""

    weight: float  # Above 0, at most 1
    kept: Floats  # By row or cluster: 1 - its leverage on the weight
    # Its influence on the weight; 0 where the weight is 1, as the largest that is allowed.
    moves: Floats

    def value(self, human: float, shift: float, on_shift: Floats) -> float:
        """Return a cell's value without the bias of the weight.

        `shift` is the cell from matched terms on the labelled rows, minus that on all rows.
        """
        return human - self.weight * shift + inner(on_shift, self.moves)

    def influences(self, on_human: Floats, shift: float, on_shift: Floats) -> Floats:
        """Return the influences on a cell's value; `on_human` are those on `human`."""
        return (on_human - self.weight * on_shift) / self.kept - shift * self.moves


def tune(on_human: Floats, on_shift: Floats) -> Tuning | None:
    """Return the weight with the smallest variance; None if it is 0 or cannot be estimated.

    Influences are by row or by cluster.
    """
    squares = inner(on_shift, on_shift)
    if squares == 0:
        return None
    slope = inner(on_human, on_shift) / squares
    leverage = on_shift**2 / squares
    if slope <= 0 or leverage.max() >= _ALL:
        return None
    kept = 1 - leverage
    if slope >= 1:
        return Tuning(1.0, kept, 0.0 * kept)
    return Tuning(slope, kept, on_shift * (on_human - slope * on_shift) / (squares * kept))


def error_of(influences: Floats) -> float:
    """Return the standard error that influences make."""
    return math.sqrt(inner(influences, influences))


# ---- The difference of two models in one cell, from human labels and terms


Both = tuple[Pieces, Pieces]
Found = tuple[Apart | None, tuple[Cell, Cell], Assistance]


def estimate_difference(pair: Both) -> Found:
    """Return how two models' cells vary together, the cells, and what terms added.

    If terms do not help, the cells are those of the labelled rows alone, and so is the difference,
    which is not measured here.
    """
    a, b = pair
    alone = (a.ordinary, a.sums), (b.ordinary, b.sums)
    if a.sums is None or b.sums is None or a.on_shift is None or b.on_shift is None:
        return None, alone, Assistance(reason=a.reason or b.reason)
    apart = a.sums.each - b.sums.each
    tuning = tune(apart, a.on_shift - b.on_shift)
    if tuning is None:
        return None, alone, Assistance(reason=NO_GAIN)
    first, second = (powered(pieces, tuning) for pieces in pair)
    if first is None or second is None:
        return None, alone, Assistance(reason=OUTSIDE)
    gain = gained(error_of(apart), error_of(first[1].each - second[1].each))
    if gain <= 1:
        return None, alone, Assistance(reason=NO_GAIN)
    together = _together(a.sizes, first, second)
    return together, (first, second), Assistance(tuning.weight, sure_gain(gain, a.sizes))


def _together(sizes: tuple[float, float], a: Powered, b: Powered) -> Apart:
    (first, of_a), (second, of_b) = a, b
    if not of_a.alone:
        return Apart.of(of_a, of_b)
    freedom = max(min(of_a.minus(of_b).freedom_by_fourths, min(sizes) - 2), 1)
    return Apart(_joint(of_a.each, of_b.each), freedom, first.few or second.few)


def _joint(a: Floats, b: Floats) -> Joint:
    products = (a * a, a), (a * a, b), (b * b, a), (b * b, b)
    aaa, aab, abb, bbb = (inner(one, other) for one, other in products)
    return Joint(inner(a, b), (aaa, aab, abb, bbb))
