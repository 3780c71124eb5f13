"""The chance that a rule passes, against draws of the estimate."""

import math

import numpy as np
import pytest

from bias_metrics.gate.power import (
    chance_of_all,
    chance_of_proof,
    difference_error,
    rows_needed,
    visible_loss,
)

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


@pytest.mark.parametrize(
    ("confidence", "power", "times"),
    [
        # z at .95, .975 and .99: 1.644854, 1.959964 and 2.326348; at .8 and .9: .841621, 1.281552
        (0.95, 0.8, 1 + 0.841621 / 1.644854),
        (0.975, 0.8, 1 + 0.841621 / 1.959964),
        (0.99, 0.9, 1 + 1.281552 / 2.326348),
        (0.95, 0.5, 1),
    ],
)
def test_a_visible_loss_is_the_reach_and_what_the_power_adds(confidence, power, times):
    assert visible_loss(0.13, confidence, power=power) == pytest.approx(0.13 * times, abs=1e-6)


def test_a_visible_loss_is_shown_in_four_of_five_samples():
    loss = visible_loss(QUANTILE * 0.05, 0.95)
    changes = np.random.default_rng(2).normal(-loss, 0.05, size=200_000)
    assert np.mean(changes + QUANTILE * 0.05 < 0) == pytest.approx(0.8, abs=0.005)


def test_an_exact_difference_shows_any_loss():
    assert visible_loss(0.0, 0.95) == 0


@pytest.mark.parametrize(
    ("n", "reach", "margin", "more"),
    [
        (20, 0.10, 0.05, 60),  # half the reach takes four times the rows: 80
        (7, 0.15, 0.05, 56),  # nine times: 63, though .15 / .05 is not quite 3
        (7, 0.03, 0.01, 56),
        (10, 0.06, 0.05, 5),  # 14.4, so 15
        (1, 0.10, 0.05, 3),
        (50, 0.05, 0.05, 0),
        (50, 0.01, 0.05, 0),
        (50, 0.0, 0.05, 0),
    ],
)
def test_rows_grow_with_the_square_of_the_reach(n, reach, margin, more):
    assert rows_needed(n, reach, margin) == more


@pytest.mark.parametrize("reach", [-0.1, math.nan, math.inf])
@pytest.mark.parametrize("function", [visible_loss, rows_needed])
def test_a_reach_that_is_no_distance_is_refused(function, reach):
    rest = (0.95,) if function is visible_loss else (0.05,)
    arguments = (reach, *rest) if function is visible_loss else (20, reach, *rest)
    with pytest.raises(ValueError, match="`reach` must be a number of at least 0"):
        function(*arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: visible_loss(0.1, 0.5), "`confidence` must be between 0.5 and 1"),
        (lambda: visible_loss(0.1, 1.0), "`confidence` must be between 0.5 and 1"),
        (lambda: visible_loss(0.1, 0.95, power=1.0), "`power` must be between 0 and 1"),
        (lambda: rows_needed(20, 0.1, 0.0), "`margin` must be above 0"),
        (lambda: rows_needed(20, 0.1, math.nan), "`margin` must be above 0"),
        (lambda: rows_needed(0, 0.1, 0.05), "`n` must be at least 1"),
    ],
)
def test_values_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
