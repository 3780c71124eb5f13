"""Paired differences over trainings, and how much of a known bias a method recovers."""

import math

import numpy as np
import pytest

from bias_metrics.mitigation.repeated import (
    ONE_TRAINING,
    left_out_covariance,
    paired_over_splits,
    pareto_front,
    recovered_share,
)


def test_the_interval_is_that_of_the_delete_d_jackknife():
    found = paired_over_splits([0.4, 0.5, 0.6], [0.3, 0.3, 0.6], test_share=0.25)
    error = math.sqrt(0.01 * (1 / 3 + 0.75 / 0.25))  # the differences are -.1, -.2 and 0
    assert found.value == pytest.approx(-0.1)
    assert found.std_error == pytest.approx(error)
    assert found.high - found.value == pytest.approx(4.302653 * error, rel=1e-6)


def test_the_error_of_the_measured_rows_is_added():
    alone, both = (
        paired_over_splits([1, 2], [1, 4], test_share=0.2, row_std_error=e) for e in (0.0, 3.0)
    )
    assert both.std_error == pytest.approx(math.hypot(alone.std_error, 3))


def test_one_training_has_no_interval():
    found = paired_over_splits([1.0], [3.0], test_share=0.3)
    assert (found.value, found.low, found.reason) == (2.0, None, ONE_TRAINING)
    assert recovered_share([1.0], [0.5], [0.0], test_share=0.3).reason == ONE_TRAINING


def test_no_training_has_no_value():
    assert paired_over_splits([], [], test_share=0.3).reason == "no trainings"
    assert recovered_share([], [], [], test_share=0.3).reason == "no bias to recover"


@pytest.mark.parametrize("name", ["test_share", "confidence"])
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_shares_must_be_between_0_and_1(name, wrong):
    options = {"test_share": 0.3} | {name: wrong}
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        paired_over_splits([1, 2], [1, 2], **options)


def misses(part, n_out):
    """How often 95 % intervals, and those of a plain t test, miss the mean of all data."""
    rng = np.random.default_rng(5)
    ours, plain = 0, 0
    for _ in range(200):
        data = rng.normal(0, 1, 60)
        orders = [rng.permutation(60) for _ in range(10)]
        means = [part(data[order[n_out:]], data[order[:n_out]]).mean() for order in orders]
        found = paired_over_splits(np.zeros(10), means, test_share=n_out / 60)
        ours += not found.low <= 0 <= found.high
        plain += not abs(np.mean(means)) <= np.std(means, ddof=1) / math.sqrt(10) * 2.262
    return ours / 200, plain / 200


def test_the_intervals_hold_for_what_depends_on_overlapping_training_rows():
    ours, plain = misses(lambda train, _: train, 18)
    assert ours <= 0.09
    assert plain > 0.4


def test_they_hold_for_what_depends_on_the_rows_left_out():
    ours, plain = misses(lambda _, test: test, 18)
    assert ours <= 0.05
    assert plain > 0.2


def test_they_hold_if_most_rows_are_left_out():
    assert misses(lambda _, test: test, 42)[0] <= 0.09


def test_a_method_that_removes_half_of_the_bias_recovers_half():
    found = recovered_share([1.0, 1.02, 0.98], [0.5, 0.51, 0.49], [0, 0, 0], test_share=0.4)
    assert found.value == pytest.approx(0.5)
    assert found.low <= 0.5 <= found.high


def test_fiellers_interval_solves_its_equation():
    biased, mitigated = [1.0, 1.1, 1.0, 1.1], [0.5, 0.4, 0.6, 0.5]
    clean = [0.1, 0.0, 0.1, 0.1]
    found = recovered_share(biased, mitigated, clean, test_share=0.4)
    gains, wholes = np.subtract(biased, mitigated), np.subtract(biased, clean)
    spread = np.cov(gains, wholes) * (1 / 4 + 1.5)
    for end in (found.low, found.high):
        variance = spread[0, 0] - 2 * end * spread[0, 1] + end**2 * spread[1, 1]
        assert abs(gains.mean() - end * wholes.mean()) / math.sqrt(variance) == pytest.approx(
            3.182446, rel=1e-5
        )


def test_without_a_spread_of_the_bias_the_interval_is_of_the_gain_alone():
    found = recovered_share([1, 1, 1], [0.5, 0.4, 0.6], [0, 0, 0], test_share=0.2)
    assert found.high - 0.5 == pytest.approx(0.5 - found.low)


def test_a_bias_that_is_not_shown_cannot_be_recovered():
    found = recovered_share([1, -1, 1.5], [0, 0, 0], [0, 0, 0], test_share=0.2)
    assert "not shown" in found.reason
    assert recovered_share([1, 1], [0, 0], [1, 1], test_share=0.2).reason == "no bias to recover"


def test_the_front_has_what_nothing_else_beats():
    quality = {"a": 0.9, "b": 0.8, "c": 0.8, "d": 0.9}
    bias = {"a": 2.0, "b": 1.0, "c": 3.0, "d": 2.0}
    assert pareto_front(quality, bias) == ["a", "b", "d"]


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(2).normal(0, 1, 40)
    left_out = (values.sum() - values) / 39
    [[variance]] = left_out_covariance([left_out])
    assert variance == pytest.approx(values.var(ddof=1) / 40)


def test_the_parts_are_averaged_over_splits_first():
    one = left_out_covariance([[0.0, 1.0], [1.0, 0.0]])
    assert one.tolist() == [[0.0]]  # what moves up on one split moves down on the other


def test_two_quantities_have_a_covariance():
    found = left_out_covariance([[0.0, 1.0]], [[0.0, -2.0]])
    assert found.tolist() == [[0.25, -0.5], [-0.5, 1.0]]


@pytest.mark.parametrize("wrong", [[[[0.1]]], [[0.1, 0.2]], [[[0.1, 0.2]], [[0.1, 0.2, 0.3]]]])
def test_left_out_numbers_need_rows_and_columns_of_one_shape(wrong):
    with pytest.raises(ValueError, match="`left_out` must have"):
        left_out_covariance(*wrong)


def test_the_rows_widen_the_interval_of_a_recovered_share():
    three = [0.9, 1.0, 1.1], [0.5, 0.4, 0.6], [0.1, 0.0, 0.2]
    alone = recovered_share(*three, test_share=0.5)
    rows = [[0.01, 0.0], [0.0, 0.01]]
    both = recovered_share(*three, test_share=0.5, row_covariance=rows)
    assert both.value == alone.value
    assert both.high - both.low > alone.high - alone.low
