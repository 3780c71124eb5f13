"""How far planned bounds reach: against drawn comments, and normal draws."""

import functools
import math
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import compare_bias, evaluate_bias
from bias_metrics._core.intervals import compute_unseen_reach
from bias_metrics.gate.plans import (
    _GAPS_AGREE,
    PlanAssumptions,
    PlannedCounts,
    _compute_reaches,
    _placement_variance,
    compute_paired_reach,
    predict_standard_error,
)
from bias_metrics.metrics import AEGS

N_OWN, N_OUTSIDE, ALIKE = (60, 120), (900, 7000), 0.9


def draw_scores(rng, distance):
    """Two models' scores."""
    labels = np.repeat([1, 0, 1, 0], [*N_OWN, *N_OUTSIDE]).astype(bool)
    inside = np.arange(labels.size) < sum(N_OWN)
    common = math.sqrt(ALIKE) * rng.standard_normal(labels.size) + distance * labels
    own = math.sqrt(1 - ALIKE) * rng.standard_normal((2, labels.size))
    first, second = common + own
    return labels, first, second, inside


def plan_reaches(metric, auc, counts):
    value = PlanAssumptions(auc=auc).get_value(metric)
    return _compute_reaches(
        metric, 0.9, value, predict_standard_error(metric, value, counts), counts
    )


@functools.cache
def compare_draws():
    """Return the metrics of `few` and their changes, of 60 draws at an AUC of .85."""
    rng = np.random.default_rng(5)
    distance = math.sqrt(2) * 1.036433  # the normal quantile at .85
    pairs = []
    for _ in range(60):
        labels, first, second, inside = draw_scores(rng, distance)
        groups = {"few": inside}
        report = evaluate_bias(labels, first, groups, confidence=0.9, intervals="cells")
        pair = compare_bias(labels, first, second, groups, confidence=0.9)
        pairs.append([report["few"], pair["few"]])
    return pairs


@pytest.mark.parametrize("metric", ["subgroup_auc", "bpsn_auc", "bnsp_auc", "negative_aeg"])
def test_a_reach_that_is_planned_is_that_of_drawn_comments(metric):
    differences, own, values = [], [], []
    for first, changes in compare_draws():
        cell, change = first[metric], changes[metric]
        own.append(cell.high - cell.low)
        differences.append(change.high - change.low)
        values.append((cell.std_error, change.std_error))
    error, change_error = np.mean(values, axis=0)
    correlation = 1 - (change_error / error) ** 2 / 2
    down, up = plan_reaches(metric, 0.85, PlannedCounts(*N_OWN, *N_OUTSIDE))
    assert down + up == pytest.approx(np.mean(own), rel=0.06)
    n = 120 if metric in {"bpsn_auc", "negative_aeg"} else 60
    reach = compute_paired_reach(down, up, correlation) * (_GAPS_AGREE if metric in AEGS else 1)
    reach = max(
        reach, compute_unseen_reach(0.5 if metric in AEGS else 0.85 - 0.5, change_error, n, 0.9)
    )
    assert reach == pytest.approx(np.mean(differences) / 2, rel=0.15)


def test_bounds_reach_farther_at_a_low_auc_than_at_a_high_one():
    counts = PlannedCounts(50, 50, 10**6, 10**6)
    wide, middle, narrow = (
        compute_paired_reach(*plan_reaches("bnsp_auc", auc, counts), 0.8)
        for auc in (0.80, 0.87, 0.95)
    )
    assert wide > middle > narrow


@pytest.mark.parametrize("auc", [0.6, 0.85, 0.99])
def test_the_spread_of_normal_scores_is_that_of_three_normal_draws(auc):
    """Two lower draws are below one upper: two normal variables with a correlation of a half."""
    stats, z = pytest.importorskip("scipy.stats"), NormalDist().inv_cdf(auc)
    joint_probability = stats.multivariate_normal.cdf([z, z], cov=[[1, 0.5], [0.5, 1]], abseps=1e-9)
    assert _placement_variance(auc) == pytest.approx(joint_probability - auc**2, abs=1e-6)


@pytest.mark.parametrize("auc", [0.0, 1.0])
def test_an_auc_at_its_end_has_no_spread(auc):
    assert _placement_variance(auc) == pytest.approx(0, abs=1e-9)
