"""Intervals of pooled nights: as wide as nights differ, and none before the fifth."""

import pytest

from bias_metrics import with_night_variance

CELL = {"value": 0.9, "std_error": 0.01, "low": 0.88, "high": 0.92, "p_value": 0.5}
GAP = {
    "first": -0.3,
    "second": 0.1,
    "value": -0.4,
    "std_error": 0.01,
    "low": -0.42,
    "high": -0.38,
    "size_low": 0.18,
    "size_high": 0.22,
}


def wider(cell, std_error, n_nights=5, name="auc"):
    found = {"subgroups": {"gay": {name: cell, "n": 3}}, "thresholds": [0.5, 0.5]}
    nights = {"subgroups": {"gay": {name: {"std_error": std_error}}}}
    changed = with_night_variance(found, nights, n_nights=n_nights)
    assert changed["thresholds"] == [0.5, 0.5]
    assert changed["subgroups"]["gay"]["n"] == 3
    return changed["subgroups"]["gay"][name]


@pytest.mark.parametrize("std_error", [0.005, 0.01, None])
def test_nights_that_differ_no_more_than_rows_change_nothing(std_error):
    assert wider(CELL, std_error) == CELL


def test_an_interval_reaches_as_many_times_as_far_as_nights_differ_more():
    found = wider(CELL, 0.03)
    assert (found["low"], found["high"]) == pytest.approx((0.84, 0.96), abs=1e-12)
    assert (found["std_error"], found["p_value"]) == (0.03, None)
    beyond = wider(CELL, 0.1)
    assert (beyond["low"], beyond["high"]) == (pytest.approx(0.7), 1.0)


def test_a_gap_and_its_growth_are_stretched_about_their_own_values():
    found = wider(GAP, 0.02, name="negative_aeg")
    assert (found["low"], found["high"]) == pytest.approx((-0.44, -0.36), abs=1e-12)
    assert (found["size_low"], found["size_high"]) == pytest.approx((0.16, 0.24), abs=1e-12)


@pytest.mark.parametrize("cell", [CELL, GAP])
def test_before_the_fifth_night_there_is_no_interval_but_of_what_cannot_vary(cell):
    found = wider(cell, 0.01, n_nights=4)
    assert found["low"] is found["high"] is found.get("size_high") is None
    assert found["reason"] == "how much nights differ is not known before night 5"
    assert found["value"] == cell["value"]
    exact = cell | {"std_error": 0.0}
    assert wider(exact, 0.0, n_nights=1) == exact


def test_there_is_at_least_one_night():
    with pytest.raises(ValueError, match="`n_nights` must be at least 1; got 0"):
        with_night_variance({}, {}, n_nights=0)
