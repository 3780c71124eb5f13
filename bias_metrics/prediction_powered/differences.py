"""The difference of two models in one cell, from human labels and terms."""

from __future__ import annotations

from bias_metrics._core.clusters import ClusterSums
from bias_metrics._core.covariance import Joint
from bias_metrics._core.difference_rule import negated, paired, sized
from bias_metrics._core.differences import Difference
from bias_metrics._core.intervals import few_errors
from bias_metrics._core.placements import Floats, inner, squares_of
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import METRICS
from bias_metrics.prediction_powered.cells import NO_GAIN, OUTSIDE, Cell, gained, powered, sure_gain
from bias_metrics.prediction_powered.model import Pieces
from bias_metrics.prediction_powered.tuning import error_of, tune
from bias_metrics.report.assistance import Assistance
from bias_metrics.report.clustered import clustered_difference

Both = tuple[Pieces, Pieces]
Powered = tuple[MetricValue, ClusterSums]
Found = tuple[Difference, tuple[Cell, Cell], Assistance]


def estimate_difference(metric: str, pair: Both, ordinary: Difference, confidence: float) -> Found:
    """Return a difference, the two cells it is made of, and what terms added.

    `ordinary` is the difference of the labelled rows alone.
    """
    a, b = pair
    alone = (a.ordinary, a.sums), (b.ordinary, b.sums)
    if a.sums is None or b.sums is None or a.on_shift is None or b.on_shift is None:
        return ordinary, alone, Assistance(reason=a.reason or b.reason)
    apart = a.sums.each - b.sums.each
    tuning = tune(apart, a.on_shift - b.on_shift)
    if tuning is None:
        return ordinary, alone, Assistance(reason=NO_GAIN)
    first, second = (powered(one, tuning, confidence) for one in pair)
    if first is None or second is None:
        return ordinary, alone, Assistance(reason=OUTSIDE)
    gain = gained(error_of(apart), error_of(first[1].each - second[1].each))
    if gain <= 1:
        return ordinary, alone, Assistance(reason=NO_GAIN)
    found = _difference(metric, pair, (first, second), confidence)
    return found, (first, second), Assistance(tuning.weight, sure_gain(gain, a.sizes))


def _difference(
    metric: str, pair: Both, cells: tuple[Powered, Powered], confidence: float
) -> Difference:
    (a, of_a), (b, of_b) = cells
    is_gap, centre = METRICS[metric].is_gap, METRICS[metric].centre
    if not of_a.alone:
        return clustered_difference(a, b, of_a, of_b, confidence, is_gap=is_gap)
    small = any(few_errors(float(one) + centre, *pair[0].sizes) for one in (a, b))
    together = _joint(of_a.each, of_b.each)
    freedom = max(min(squares_of([of_a.each - of_b.each])[1], min(pair[0].sizes) - 2), 1)
    found = paired(a, b, together, confidence, freedom, small=small)
    if not is_gap:
        return found
    total = paired(a, negated(b), together.negated(), confidence, freedom, small=small)
    return sized(found, total, b, confidence)


def _joint(a: Floats, b: Floats) -> Joint:
    products = (a * a, a), (a * a, b), (b * b, a), (b * b, b)
    aaa, aab, abb, bbb = (inner(one, other) for one, other in products)
    return Joint(inner(a, b), (aaa, aab, abb, bbb))
