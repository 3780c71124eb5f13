"""Limits of the power mean and the final score, and undefined values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import MetricValue, final_score, power_mean

powers = st.floats(-20, 20).filter(lambda power: abs(power) > 0.01)
aucs = st.lists(st.floats(0.01, 1), min_size=1, max_size=24)


def make_parts(**values):
    defaults = {"overall": 0.9, "subgroup_auc": 0.8, "bpsn_auc": 0.7, "bnsp_auc": 0.6}
    values = defaults | values
    made = {
        name: MetricValue(value) if isinstance(value, float) else MetricValue(None, value)
        for name, value in values.items()
    }
    return made.pop("overall"), made


@given(values=aucs, power=powers)
def test_power_mean_lies_between_the_smallest_and_the_largest_value(values, power):
    assert min(values) <= power_mean(values, power) <= max(values)


@given(values=aucs, power=powers)
def test_power_mean_of_a_list_twice_over_is_the_same(values, power):
    assert power_mean(values * 2, power) == pytest.approx(power_mean(values, power), rel=1e-12)


@given(values=aucs, power=powers)
def test_power_mean_ignores_the_order_of_the_groups(values, power):
    assert power_mean(values[::-1], power) == power_mean(values, power)


@given(values=aucs, power=powers)
def test_power_mean_scales_with_its_values(values, power):
    halves = [value / 2 for value in values]
    assert power_mean(halves, power) == pytest.approx(power_mean(values, power) / 2, rel=1e-12)


@given(values=aucs, low=powers, high=powers)
def test_power_mean_grows_with_its_power(values, low, high):
    low, high = sorted((low, high))
    assert power_mean(values, low) <= power_mean(values, high) + 1e-12


@given(value=st.floats(0.01, 1), power=powers)
def test_power_mean_of_one_value_is_that_value(value, power):
    assert power_mean([value], power) == value


@pytest.mark.parametrize("power", [-5, -0.5])
def test_one_value_of_zero_makes_a_power_mean_of_negative_power_zero(power):
    assert power_mean([0.9, 0.0, 0.8], power) == 0


def test_a_value_of_zero_does_not_zero_a_power_mean_of_positive_power():
    assert power_mean([0.5, 0.0], 1) == 0.25
    assert power_mean([0.25, 0.0], 0.5) == 0.0625  # (0.5 / 2) ** 2


def test_power_mean_of_zeros_is_zero():
    assert power_mean([0.0, 0.0], 2) == 0


@pytest.mark.parametrize(("power", "expected"), [(-1e6, 0.2), (1e6, 0.9)])
def test_power_mean_of_a_huge_power_is_the_extreme_value(power, expected):
    assert power_mean([0.2, 0.9, 0.9], power) == pytest.approx(expected, rel=1e-5)


def test_power_mean_of_tiny_values_does_not_underflow():
    assert power_mean([1e-200, 1e-200, 1e-200]) == 1e-200


def test_power_mean_near_power_0_is_the_geometric_mean():
    assert power_mean([0.2, 0.8], 1e-6) == pytest.approx(math.sqrt(0.2 * 0.8), rel=1e-6)


def test_power_mean_accepts_any_iterable():
    assert power_mean(iter([0.5, 0.5])) == 0.5


@pytest.mark.parametrize("power", [0, 0.0, -0.0, math.nan, math.inf, -math.inf])
def test_a_power_that_is_0_or_not_finite_is_an_error(power):
    message = r"^`power` must be a finite number other than 0 \(the Jigsaw score uses -5\); got "
    with pytest.raises(ValueError, match=message + f"{float(power)}\\.$"):
        power_mean([0.5], power)


def test_a_power_mean_of_nothing_is_an_error():
    with pytest.raises(ValueError, match=r"^`values` must hold at least one number; got none\.$"):
        power_mean([])


@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf])
def test_a_power_mean_of_a_value_that_is_no_auc_is_an_error(wrong):
    message = rf"^`values` must be finite and at least 0; got {wrong} \(position 1\)\.$"
    with pytest.raises(ValueError, match=message):
        power_mean([0.5, wrong])


@given(a=st.floats(0, 1), b=st.floats(0, 1), c=st.floats(0, 1), d=st.floats(0, 1))
def test_final_score_is_the_same_whichever_part_has_which_value(a, b, c, d):
    one = final_score(*make_parts(overall=a, subgroup_auc=b, bpsn_auc=c, bnsp_auc=d)).value
    other = final_score(*make_parts(overall=d, subgroup_auc=c, bpsn_auc=b, bnsp_auc=a)).value
    assert one == other
    assert min(a, b, c, d) <= one + 1e-15
    assert one <= max(a, b, c, d) + 1e-15


def test_final_score_names_the_part_that_is_undefined_and_why():
    assert final_score(*make_parts(bpsn_auc="undefined for muslim")) == MetricValue(
        None, "undefined: power mean of bpsn_auc (undefined for muslim)"
    )


def test_final_score_names_every_undefined_part():
    assert final_score(*make_parts(overall="no positives", bnsp_auc="no subgroups")) == MetricValue(
        None, "undefined: overall auc (no positives); power mean of bnsp_auc (no subgroups)"
    )
