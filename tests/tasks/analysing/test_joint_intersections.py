"""Simultaneous bounds of intersections, whose coverage separate bounds do not reach."""

import math

import numpy as np
import pytest
from support.made import bias_of
from support.partial import partial

from bias_metrics import MetricValue, evaluate_bias, intersections
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.parts import PackedMasks
from biasgate.tasks.analysing.intersections import (
    IntersectionsAnalysis,
    _IntersectionCounts,
    measure_intersections,
)

N, R = 2500, 200
SHARES = (0.3, 0.25, 0.2, 0.35, 0.15)


def draw(rng, *, step=0.0, n_clusters=0):
    """Simulate rows of five identities that often occur together, with a loss for one pair."""
    cluster = rng.integers(0, n_clusters, N) if n_clusters else None
    topic = rng.random(N) < 0.3
    groups = {f"g{i}": rng.random(N) < share * (1 + topic) for i, share in enumerate(SHARES)}
    y_true = rng.random(N) < 0.4
    noise = rng.normal(size=N)
    if n_clusters:
        noise = math.sqrt(0.3) * rng.normal(size=n_clusters)[cluster] + math.sqrt(0.7) * noise
    score = 1.5 * y_true + noise + 0.4 * groups["g0"] * groups["g3"] * ~y_true
    score = np.round(score / step) * step if step else score
    return y_true, groups, score, cluster


def rows_of(y_true, groups, score, cluster):
    masks = PackedMasks.from_masks(groups.items(), y_true.size)
    known = {"y_true": y_true, "y_score": score, "clusters": cluster, "masks": masks}
    found = intersections(masks, min_support=10, y_true=y_true).masks
    return partial(known | {"background": "outside_subgroup"}), PackedMasks.from_masks(
        found.items(), N
    )


def test_they_are_the_intervals_of_the_level_that_is_told():
    y_true, groups, score, cluster = draw(np.random.default_rng(1))
    rows, masks = rows_of(y_true, groups, score, cluster)
    report, jointly, level = measure_intersections(rows, masks)
    assert len(masks) == 10
    assert 1 - 0.05 / 50 > level > 0.99
    again = evaluate_bias(y_true, score, masks, intervals="cells", confidence=level)
    assert jointly == again.subgroups
    assert report == evaluate_bias(y_true, score, masks, intervals="cells")


@pytest.mark.parametrize(("bounded", "whom"), [(2, "the 2 with intervals"), (3, "all")])
def test_the_joint_bounds_are_said_to_hold_for_those_that_have_any(bounded, whom):
    cell = MetricValue(0.8, low=0.7, high=0.9)
    worst = [MetricValue(0.5, low=0.4, high=0.6)] + [cell] * (bounded - 1)
    cells = worst + [MetricValue(0.8)] * (3 - bounded)
    each = {f"g{at} & h": dict.fromkeys(SUBGROUP_METRICS, one) for at, one in enumerate(cells)}
    analysis = IntersectionsAnalysis(kind="intersections")
    told = analysis._describe_worst(_IntersectionCounts(3, 3, 0), bias_of(each), each, list(each))
    assert f" Simultaneous interval over {whom}: [0.400, 0.600]." in told


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"step": 1.0}, {"n_clusters": 200}])
def test_together_they_miss_in_at_most_one_of_20_samples(options):
    truth = [draw(np.random.default_rng([0, at]), step=options.get("step", 0)) for at in range(500)]
    groups = {name: np.concatenate([one[1][name] for one in truth]) for name in truth[0][1]}
    y_true, score = (np.concatenate([one[at] for one in truth]) for at in (0, 2))
    pairs = dict(intersections(groups).masks)
    true = evaluate_bias(y_true, score, pairs, intervals=False).subgroups
    rng = np.random.default_rng(5)
    together = alone = 0
    for _ in range(R):
        rows, masks = rows_of(*draw(rng, **options))
        report, jointly, _ = measure_intersections(rows, masks)

        def wrong(cells):
            return any(
                one.low is not None
                and not one.low - 0.002 <= true[name][metric].value <= one.high + 0.002
                for name in cells
                for metric in SUBGROUP_METRICS
                for one in [cells[name][metric]]
            )

        together, alone = together + wrong(jointly), alone + wrong(report.subgroups)
    assert together / R <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / R)
    assert alone / R > 0.2
