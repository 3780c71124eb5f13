"""A value behaves like its number, and an undefined value never like a number."""

import copy
import operator

import numpy as np
import pytest

from bias_metrics import MetricValue
from bias_metrics._core.values import NamedValues

KNOWN = MetricValue(0.75, std_error=0.01, low=0.7, high=0.8)
NOTHING = MetricValue(None, "no subgroup positives")


def test_a_value_is_the_number_it_holds():
    assert float(KNOWN) == 0.75
    assert round(KNOWN, 1) == 0.8
    assert np.asarray([KNOWN, MetricValue(0.5)], dtype=float).tolist() == [0.75, 0.5]
    assert max([MetricValue(0.5), KNOWN]) is KNOWN


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("other", [0.5, 0.75, 1, np.float32(0.5), MetricValue(0.75)])
def test_a_value_compares_as_its_number_from_either_side(compare, other):
    assert compare(KNOWN, other) == compare(0.75, float(other))
    assert compare(other, KNOWN) == compare(float(other), 0.75)


def test_two_values_are_equal_if_all_they_hold_is_and_a_number_if_the_value_is():
    assert KNOWN == 0.75
    assert KNOWN != 0.7
    assert MetricValue(0.75) != KNOWN
    assert copy.deepcopy(KNOWN) == KNOWN
    assert hash(KNOWN) == hash(0.75)


def test_an_undefined_value_is_no_number_and_says_why():
    for use in (float, round, lambda value: value < 0.8, lambda value: value <= 0.8):
        with pytest.raises(ValueError, match="has no number: no subgroup positives"):
            use(NOTHING)
    assert NOTHING != 0
    assert f"{NOTHING:.3f}" == "undefined"
    assert str(NOTHING) == "undefined (no subgroup positives)"


def test_a_value_formats_as_its_number_and_prints_with_its_interval():
    assert f"{KNOWN:.1%}" == "75.0%"
    assert f"{KNOWN}" == str(KNOWN) == "0.750 [0.700, 0.800]"
    assert str(MetricValue(0.5)) == "0.500"


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_a_confidence_is_a_fraction(confidence):
    with pytest.raises(ValueError, match=r"must be between 0 and 1, as in 0\.95; got"):
        KNOWN.interval(confidence)


def test_plain_values_have_what_is_known_of_the_uncertainty():
    ends = {"std_error": 0.01, "low": 0.7, "high": 0.8}
    assert KNOWN.to_dict() == {"value": 0.75}
    assert KNOWN.to_dict(interval=True) == {"value": 0.75} | ends
    clustered = MetricValue(0.75, **ends, row_std_error=0.0, n_clusters=0)
    known = {"value": 0.75, **ends, "row_std_error": 0.0, "n_clusters": 0}
    assert clustered.to_dict(interval=True) == known
    none = dict.fromkeys(ends)
    for value, reason in ((MetricValue(0.5), "intervals were not asked for"), (NOTHING, None)):
        undefined_values = {"value": value.value, **none, "reason": reason or NOTHING.reason}
        assert value.to_dict(interval=True) == undefined_values
    assert NOTHING.to_dict() == {"value": None, "reason": "no subgroup positives"}


def test_a_value_compares_with_numbers_only():
    assert KNOWN != "0.75"
    with pytest.raises(TypeError, match="'<' not supported"):
        assert KNOWN < "0.8"


def test_numbers_by_name_are_items_and_attributes():
    named = NamedValues(bpsn_auc=0.5)
    assert named["bpsn_auc"] == named.bpsn_auc == 0.5
    assert "bpsn_auc" in dir(named)
    assert copy.deepcopy(named) == named
    with pytest.raises(AttributeError, match=r"there is no 'auc' \(known: bpsn_auc\)"):
        assert named.auc
