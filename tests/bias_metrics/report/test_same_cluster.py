"""Clustered intervals are around the AUC of pairs from different clusters."""

import math

import numpy as np
import pytest

from bias_metrics import evaluate_bias
from bias_metrics._core.clusters import Clustering
from bias_metrics._core.influence import rank_rows
from bias_metrics._core.same_cluster import SamePairs
from bias_metrics.metrics import METRICS, PAIRS, SUBGROUP_METRICS

N, N_CLUSTERS = 400, 30


def draw_rows(*, weighted=False):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, N_CLUSTERS, N)
    y_true = rng.random(N) < 0.4
    scores = np.round(rng.normal(size=N) + rng.normal(size=N_CLUSTERS)[codes] + y_true, 1)
    weights = rng.integers(1, 5, N).astype(float) if weighted else None
    return y_true, scores, codes, rng.random(N) < 0.4, weights


def count_pairs(scores, codes, weights, x, y):
    """Return the weight of pairs within clusters, of all pairs, and of pairs that x wins."""
    same = wins = every = 0.0
    weights = np.ones(N) if weights is None else weights
    for i in np.flatnonzero(x):
        others = np.flatnonzero(y)
        worth = weights[i] * weights[others]
        every += worth.sum()
        alike = codes[others] == codes[i]
        won = (scores[i] > scores[others]) + 0.5 * (scores[i] == scores[others])
        same += worth[alike].sum()
        wins += (worth * won)[alike].sum()
    return same, every, wins


def make_comparison(metric, y_true, members):
    pair = PAIRS[metric]
    x = members & (y_true == (pair.x == "positive"))
    y = (members if pair.inside else ~members) & (y_true == (pair.y == "positive"))
    return x, y


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_pairs_of_one_cluster_are_counted(metric, weighted):
    y_true, scores, codes, members, weights = draw_rows(weighted=weighted)
    ranked = rank_rows(y_true, scores, weights)
    own = ranked.select_members(np.flatnonzero(members))
    found = Clustering.from_codes(ranked, codes).select_members(own).measure_sums(metric).same_pairs
    same, every, wins = count_pairs(
        scores, codes, weights, *make_comparison(metric, y_true, members)
    )
    auc = 1 - wins / same if PAIRS[metric].flip else wins / same
    assert found.share == pytest.approx(same / every, rel=1e-12)
    assert found.auc == pytest.approx(auc, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_of_the_overall_auc_are_counted(weighted):
    y_true, scores, codes, _, weights = draw_rows(weighted=weighted)
    clustering = Clustering.from_codes(rank_rows(y_true, scores, weights), codes)
    found = clustering.select_members(None).measure_sums("auc").same_pairs
    same, every, wins = count_pairs(scores, codes, weights, y_true, ~y_true)
    assert (found.share, found.auc) == pytest.approx((same / every, wins / same), rel=1e-12)


def test_pairs_with_a_background_without_identity_are_counted():
    y_true, scores, codes, members, _ = draw_rows()
    ranked = rank_rows(y_true, scores)
    other = np.roll(members, 7) & ~members
    excluded = ranked.select_members(np.flatnonzero(members | other))
    own = ranked.select_members(np.flatnonzero(members), excluded)
    found = (
        Clustering.from_codes(ranked, codes).select_members(own).measure_sums("bnsp_auc").same_pairs
    )
    same, every, wins = count_pairs(
        scores, codes, None, members & y_true, ~members & ~other & ~y_true
    )
    assert (found.share, found.auc) == pytest.approx((same / every, wins / same), rel=1e-12)


def test_the_interval_is_around_the_pairs_of_different_clusters():
    y_true, scores, codes, members, _ = draw_rows()
    cell = evaluate_bias(y_true, scores, {"g": members}, clusters=codes).subgroups["g"].bnsp_auc
    same, every, wins = count_pairs(
        scores, codes, None, *make_comparison("bnsp_auc", y_true, members)
    )
    across = (float(cell) * every - wins) / (every - same)
    assert across != pytest.approx(float(cell), abs=1e-4)
    low, high = (math.log(one / (1 - one)) for one in (cell.low, cell.high))
    middle = 1 / (1 + math.exp(-(low + high) / 2))
    assert abs(middle - across) < abs(middle - float(cell))


def test_the_interval_holds_the_estimate_though_it_is_around_another_number():
    # Within each cluster every positive is above all negatives; clusters differ far more.
    codes = np.repeat(np.arange(40), 4)
    y_true = np.tile([True, True, False, False], 40)
    scores = 100.0 * codes + y_true
    auc = evaluate_bias(y_true, scores, {}, clusters=codes).overall.auc
    assert auc.low <= float(auc) <= auc.high
    assert METRICS["auc"].centre == 0


def test_pairs_that_are_removed_leave_an_auc_between_0_and_1():
    assert SamePairs(0.1, 1.0).remove_from(0.05) == 0.0
    assert SamePairs(0.1, 0.5).remove_from(0.5) == 0.5


def test_few_pairs_of_one_cluster_are_not_counted():
    y_true, scores, _, _, _ = draw_rows()
    codes = np.arange(N)
    negative = np.flatnonzero(~y_true)[0]
    codes[negative] = codes[np.flatnonzero(y_true)[0]]
    clustering = Clustering.from_codes(rank_rows(y_true, scores), codes)
    assert clustering.select_members(None).measure_sums("auc").same_pairs is None
