"""The chance that a rule passes, against draws of the estimate."""

import numpy as np
import pytest

from bias_metrics.gate.power import chance_of_all, chance_of_proof, difference_error

QUANTILE = 1.644854  # of the normal distribution, at 95 %


@pytest.mark.parametrize("slack", [-0.01, 0.0, 0.01, 0.03])
def test_the_chance_of_proof_is_how_often_a_bound_is_on_the_good_side(slack):
    estimates = np.random.default_rng(0).normal(slack, 0.01, size=200_000)
    expected = np.mean(estimates - QUANTILE * 0.01 > 0)
    assert chance_of_proof(slack, 0.01) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("slack", "chance"), [(0.01, 1.0), (0.0, 0.0), (-0.01, 0.0)])
def test_without_an_error_only_the_side_of_the_limit_counts(slack, chance):
    assert chance_of_proof(slack, 0.0) == chance


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8, 1.0])
def test_the_error_of_a_difference_is_that_of_correlated_estimates(correlation):
    spread = [[0.01**2, correlation * 0.01**2], [correlation * 0.01**2, 0.01**2]]
    rng = np.random.default_rng(1)
    first, second = rng.multivariate_normal([0, 0], spread, size=100_000).T
    expected = np.std(first - second)
    assert difference_error(0.01, correlation) == pytest.approx(expected, rel=0.02, abs=1e-9)


def test_all_of_several_rules_pass_when_each_does():
    assert chance_of_all([0.5, 0.4]) == pytest.approx(0.2)
    assert chance_of_all([]) == 1
