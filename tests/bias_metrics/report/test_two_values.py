"""Intervals for binary scores, if nearly all rows of an identity are tied."""

import math

import numpy as np
import pytest

from bias_metrics import evaluate_bias
from bias_metrics.metrics import AUCS, SUBGROUP_METRICS

DRAWS, PROMISED = 200, 0.93


def simulate_coverage(n_positive, n_negative, flagged, seed):
    """Simulate the coverage by metric, if all identities are alike."""
    rng = np.random.default_rng(seed)
    held = dict.fromkeys(SUBGROUP_METRICS, 0)
    for _ in range(DRAWS):
        others = rng.random(4000) < 0.15
        y_true = np.r_[np.ones(n_positive, bool), np.zeros(n_negative, bool), others]
        y_score = (rng.random(y_true.size) < np.where(y_true, *flagged)).astype(float)
        mask = np.arange(y_true.size) < n_positive + n_negative
        found = evaluate_bias(y_true, y_score, {"a": mask}, intervals="cells").subgroups["a"]
        for metric in SUBGROUP_METRICS:
            truth = 0.5 * (1 + flagged[0] - flagged[1]) if metric in AUCS else 0.0
            held[metric] += found[metric].low <= truth <= found[metric].high
    return {metric: n / DRAWS for metric, n in held.items()}


@pytest.mark.parametrize("flagged", [(0.7, 0.02), (0.95, 0.05), (0.99, 0.01)], ids=str)
@pytest.mark.parametrize("n", [(5, 20), (10, 60), (60, 300)], ids=str)
def test_intervals_of_two_valued_scores_hold_the_truth(n, flagged):
    error = 2 * math.sqrt(PROMISED * (1 - PROMISED) / DRAWS)
    assert min(simulate_coverage(*n, flagged, seed=sum(n)).values()) >= PROMISED - error


@pytest.mark.parametrize("clusters", [None, np.arange(220) // 2], ids=["rows", "clusters"])
def test_an_identity_whose_rows_are_all_tied_may_have_others(clusters):
    y_true = np.r_[np.ones(20, bool), np.zeros(20, bool), np.arange(180) % 3 == 0]
    y_score = np.where(np.arange(220) < 40, y_true, np.arange(220) % 4 == 0).astype(float)
    mask = np.arange(220) < 40
    weights = None if clusters is None else np.ones(220)
    for sample_weight in (None, weights):
        found = evaluate_bias(
            y_true, y_score, {"a": mask}, clusters=clusters, sample_weight=sample_weight
        ).subgroups["a"]
        for metric in ("positive_aeg", "negative_aeg"):
            cell = found[metric]
            if cell.reason is None:
                # Of 20 rows without another score, more than a tenth may have one.
                assert cell.high - cell.low > 2 * 0.5 / 10


def test_scores_of_many_values_need_no_allowance():
    rng = np.random.default_rng(0)
    y_true = rng.random(600) < 0.4
    groups = {"a": np.arange(600) < 200}
    plain = rng.standard_normal(600) + y_true
    fine, coarse = (
        evaluate_bias(y_true, scores, groups).subgroups["a"].bpsn_auc
        for scores in (plain, np.round(plain, 1))
    )
    assert coarse.high - coarse.low == pytest.approx(fine.high - fine.low, rel=0.02)
