"""BCa intervals: percentiles by hand, where they stop, and what they must reach."""

import math

import numpy as np
import pytest

from bias_metrics import bootstrap_bias, evaluate_bias
from bias_metrics._core.intervals import quantile
from bias_metrics.report.bca import Basis, acceleration, expanded, summary_of

DRAWN = [i / 100 for i in range(101)]


def test_without_bias_and_skewness_they_are_the_percentiles_of_the_quantile():
    found = summary_of(DRAWN, 101, Basis(0.5, z=1.2815515655446004))
    assert (found.low, found.high) == pytest.approx((0.1, 0.9))
    assert found.std_error == pytest.approx(np.std(DRAWN, ddof=1))
    assert (found.n_undefined, found.reason) == (0, None)


def test_replicates_that_are_mostly_too_high_move_both_ends_down():
    # A quarter is below: z0 = -.6745, so that the ends are at 2 z0 - z and 2 z0 + z.
    found = summary_of(DRAWN, 101, Basis(0.25, z=1.0))
    normal = quantile(0.5)
    expected = [0.5 * math.erfc(-(-2 * normal + side) / math.sqrt(2)) for side in (-1, 1)]
    assert (found.low, found.high) == pytest.approx(expected, abs=0.01)


def test_skewness_moves_both_ends_towards_its_tail():
    plain, skewed = (summary_of(DRAWN, 101, Basis(0.5, None, a, 1.0)) for a in (0.0, 0.1))
    assert skewed.low > plain.low
    assert skewed.high > plain.high
    mirrored = summary_of(DRAWN, 101, Basis(0.5, None, -0.1, 1.0))
    assert mirrored.low == pytest.approx(1 - skewed.high)


@pytest.mark.parametrize(("skew", "ends"), [(0.6, (0.15, 1.0)), (-0.6, (0.0, 0.85))])
def test_with_much_skewness_an_end_is_the_last_replicate(skew, ends):
    found = summary_of(DRAWN, 101, Basis(0.5, None, skew, 2.5))
    assert (found.low, found.high) == pytest.approx(ends, abs=0.02)


def test_an_estimate_beyond_all_replicates_has_an_interval():
    found = summary_of(DRAWN, 101, Basis(2.0, z=1.96))
    assert 0.9 < found.low <= found.high <= 1


def test_they_reach_at_least_as_far_as_they_must():
    found = summary_of([1.0, 1.0], 2, Basis(1.0, z=1.96, least=(0.8, 1.0)))
    assert (found.low, found.high) == (0.8, 1.0)


def test_a_number_that_is_undefined_in_a_replicate_has_a_reason_and_no_interval():
    found = summary_of([0.5, 0.6, 0.7], 1_000, Basis(0.6, z=1.96))
    assert (found.low, found.high, found.n_undefined) == (None, None, 997)
    assert found.reason == "undefined in 997 of 1,000 replicates"
    assert found.std_error == pytest.approx(0.1)
    assert summary_of([], 9, Basis(None, "no subgroup positives")).reason == "no subgroup positives"


def test_the_acceleration_is_a_sixth_of_the_skewness_of_the_influences():
    assert acceleration([np.array([1.0, -2.0]), np.array([3.0])]) == pytest.approx(
        (1 - 8 + 27) / 14**1.5 / 6
    )
    assert acceleration([np.zeros(3)]) == 0


def test_few_units_widen_the_quantile():
    assert expanded(0.95, math.inf, math.inf) == quantile(0.95)
    assert expanded(0.95, 5, 4) == pytest.approx(quantile(0.95, 4) * math.sqrt(5 / 4))


def test_an_auc_of_one_has_an_interval():
    y_true = np.arange(60) % 2 == 1
    rows = y_true, y_true + np.arange(60) / 100, {"gay": np.arange(60) < 30}
    found = bootstrap_bias(*rows, rng=np.random.default_rng(0), n_replicates=30)
    exact = evaluate_bias(*rows)
    for name in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
        assert found.subgroups["gay"][name].low == getattr(exact.subgroups["gay"], name).low < 1
        assert found.power_mean[name].low < 1
    assert found.final_score.low < 1
    assert found.overall.auc.low == exact.overall.auc.low
