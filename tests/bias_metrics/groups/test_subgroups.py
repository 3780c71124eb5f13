"""Slices, the identity hierarchy, and the worst subgroup."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import (
    IDENTITY_HIERARCHY,
    MetricValue,
    Rows,
    evaluate_bias,
    evaluate_slices,
    intersections,
    roll_up,
)
from bias_metrics.extremes import sort_worst_first
from bias_metrics.families import Bounded, bound_largest_gap
from bias_metrics.table import BiasTable, Key, RowCounts

METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")
Y_TRUE = np.array([0, 0, 0, 1, 1, 1, 0, 1], dtype=bool)
Y_SCORE = np.array([0.1, 0.2, 0.6, 0.7, 0.8, 0.3, 0.4, 0.5])
GROUPS = {
    "muslim": np.array([0, 0, 1, 1, 0, 1, 0, 0], dtype=bool),
    "jewish": np.array([1, 0, 0, 0, 1, 0, 0, 0], dtype=bool),
    "male": np.array([0, 1, 0, 1, 0, 0, 1, 1], dtype=bool),
}


def test_the_hierarchy_has_the_24_identities_of_civil_comments_in_5_categories():
    sizes = {category: len(names) for category, names in IDENTITY_HIERARCHY.items()}
    assert sizes == {
        "gender": 4,
        "sexual_orientation": 4,
        "religion": 7,
        "race_or_ethnicity": 5,
        "disability": 4,
    }
    names = [name for names in IDENTITY_HIERARCHY.values() for name in names]
    assert len(set(names)) == len(names) == 24
    # Every category but one ends in what the form calls "other".
    assert all(names[-1].startswith("other_") for names in IDENTITY_HIERARCHY.values())


def test_the_hierarchy_cannot_be_changed():
    with pytest.raises(TypeError):
        IDENTITY_HIERARCHY["gender"] = ()


def test_a_category_holds_the_rows_of_any_of_its_identities():
    rolled = roll_up(GROUPS)
    assert rolled.masks["religion"].tolist() == [True, False, True, True, True, True, False, False]
    assert rolled.masks["gender"].tolist() == GROUPS["male"].tolist()
    assert rolled.members == {"gender": ("male",), "religion": ("jewish", "muslim")}


def test_rolling_up_says_what_was_missing_and_what_has_no_category():
    rolled = roll_up(GROUPS | {"blind": [0] * 8})
    assert rolled.missing["gender"] == ("female", "transgender", "other_gender")
    assert rolled.missing["disability"] == IDENTITY_HIERARCHY["disability"]
    assert list(rolled.masks) == ["gender", "religion"]
    assert rolled.unassigned == ("blind",)


def test_an_own_hierarchy_may_put_a_subgroup_into_two_categories():
    rolled = roll_up(GROUPS, {"faith": ["muslim", "jewish"], "all": ["male", "muslim"]})
    assert rolled.masks["all"].sum() == 6
    assert rolled.missing == {}
    assert rolled.unassigned == ()


def test_a_category_is_measured_like_a_subgroup():
    rolled = roll_up(GROUPS)
    table = evaluate_bias(Y_TRUE, Y_SCORE, rolled.masks)
    counts, bias = table.counts["religion"], table["religion"]
    # Negatives .1 and .6 against background positive .5: one pair of two is in order.
    assert (counts.n_positive, counts.n_negative) == (3, 2)
    assert bias.bpsn_auc.value == 1 / 2


@given(data=st.data(), n=st.integers(0, 20))
def test_rolling_up_equals_a_plain_loop_over_rows_and_identities(data, n):
    names = [name for names in IDENTITY_HIERARCHY.values() for name in names]
    given_names = data.draw(st.lists(st.sampled_from(names), unique=True))
    column = st.lists(st.booleans(), min_size=n, max_size=n)
    groups = {name: data.draw(column) for name in given_names}
    groups = {name: np.array(values, dtype=bool) for name, values in groups.items()}
    rolled = roll_up(groups)
    for category, identities in IDENTITY_HIERARCHY.items():
        present = [name for name in identities if name in groups]
        assert (category in rolled.masks) == bool(present)
        assert len(present) + len(rolled.missing.get(category, ())) == len(identities)
        if present:
            expected = [any(groups[name][row] for name in present) for row in range(n)]
            assert rolled.masks[category].tolist() == expected


def test_a_rolled_up_hierarchy_passes_through_strict_json_unchanged():
    rolled = roll_up(GROUPS | {"blind": [0] * 8}).to_dict()
    assert rolled["categories"]["religion"] == {"members": ["jewish", "muslim"], "n": 5}
    assert json.loads(json.dumps(rolled, allow_nan=False)) == rolled


def test_within_a_slice_the_background_is_in_the_slice_too():
    short = np.array([50, 30, 99, 100, 20, 10, 500, 60]) < 100
    reports = evaluate_slices(Rows(Y_TRUE, GROUPS), Y_SCORE, slices={"short": short})
    bias = reports["short"].subgroups["muslim"]
    assert reports["short"].counts["muslim"].n == 2
    # Negative .6 against background positives .8 and .5 of the slice.
    assert bias.bpsn_auc.value == 1 / 2
    crossed = intersections(GROUPS | {"short": short}).masks["muslim & short"]
    # The same negative against all other positives: .7, .8, .5.
    crossed_auc = evaluate_bias(Y_TRUE, Y_SCORE, {"g": crossed}).subgroups["g"].bpsn_auc
    assert crossed_auc.value == 2 / 3


# BPSN, BNSP and AEGs of the public toxic-bert scores on the 2019 Jigsaw test set, at six
# digits: female, homosexual, christian, muslim.
TOXIC_BERT = {
    "female": (5155, 692, 0.873809, 0.855092, 0.919258, 0.008014, 0.140569),
    "homosexual_gay_or_lesbian": (1065, 290, 0.794696, 0.783192, 0.912276, -0.009459, 0.252879),
    "christian": (4226, 417, 0.889476, 0.914573, 0.875520, -0.096906, 0.032969),
    "muslim": (2040, 483, 0.823824, 0.879524, 0.868306, -0.117144, 0.122817),
}


def make_table(values):
    counts = {name: RowCounts(own[1], own[0] - own[1]) for name, own in values.items()}
    numbers = {
        Key(metric, name): MetricValue(value)
        for name, own in values.items()
        for metric, value in zip(METRICS, own[2:], strict=True)
    }
    return BiasTable(numbers, counts)


@pytest.mark.parametrize(
    ("metric", "name", "value"),
    [
        ("subgroup_auc", "homosexual_gay_or_lesbian", 0.794696),
        ("bpsn_auc", "homosexual_gay_or_lesbian", 0.783192),
        ("bnsp_auc", "muslim", 0.868306),
        ("positive_aeg", "muslim", -0.117144),
        ("negative_aeg", "homosexual_gay_or_lesbian", 0.252879),
    ],
)
def test_the_worst_subgroup_has_the_lowest_auc_or_the_aeg_farthest_from_0(metric, name, value):
    worst = make_table(TOXIC_BERT).worst(metric)
    assert (worst.subgroup, worst.value) == (name, MetricValue(value))
    assert (worst.n_positive, worst.n_negative) == (
        TOXIC_BERT[name][1],
        TOXIC_BERT[name][0] - TOXIC_BERT[name][1],
    )
    assert (worst.tied, worst.undefined) == ((), {})


@pytest.mark.parametrize("metric", METRICS)
def test_no_subgroup_of_a_report_is_worse_than_the_worst(metric):
    rng = np.random.default_rng(3)
    y_true, y_score = rng.random(300) < 0.4, rng.random(300)
    groups = {f"g{i}": rng.random(300) < 0.1 for i in range(8)} | {"none": np.zeros(300, bool)}
    report = evaluate_bias(y_true, y_score, groups)
    worst = report.worst(metric)
    values = {name: bias[metric].value for name, bias in report.subgroups.items()}
    assert values.pop("none") is None
    distance = [abs(v) if metric.endswith("_aeg") else 1 - v for v in values.values()]
    assert worst.value.value == values[worst.subgroup]
    assert max(distance) == distance[list(values).index(worst.subgroup)]
    assert list(worst.undefined) == ["none"]
    assert worst.undefined["none"].startswith("no subgroup ")


def make_interval_table(**cells):
    """Make a table with identical metrics, given as value, low and high by subgroup."""
    numbers = {
        Key(metric, name): MetricValue(value, low=low, high=high)
        for name, (value, low, high) in cells.items()
        for metric in METRICS
    }
    return BiasTable(numbers, dict.fromkeys(cells, RowCounts(1, 1)))


# How many times as far two intervals of 95 % reach where both hold: 2.2414 / 1.9600.
BOTH = 2.241403 / 1.959964


def test_the_interval_of_the_lowest_auc_runs_to_the_lowest_of_all_joint_upper_bounds():
    report = make_interval_table(small=(0.6, 0.4, 0.8), large=(0.7, 0.65, 0.75))
    worst = report.worst("bpsn_auc")
    assert (worst.subgroup, worst.value.value, worst.value.low) == ("small", 0.6, 0.4)
    assert worst.value.high == pytest.approx(0.7 + BOTH * 0.05, rel=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_interval_of_the_largest_gap_is_that_of_its_size(sign):
    ends = [-0.2, 0.1]  # of a size between 0 and .2
    report = make_interval_table(
        far=(sign * 0.15, *sorted([sign * 0.12, sign * 0.18])), unsure=(-0.05, *ends)
    )
    worst = report.worst("negative_aeg")
    assert (worst.subgroup, worst.value.value) == ("far", sign * 0.15)
    assert worst.size_low == pytest.approx(0.15 - BOTH * 0.03, rel=1e-6)
    assert worst.size_high == 0.2
    assert worst.value.low is worst.value.high is None
    plain = worst.to_dict()
    assert (plain["size_low"], plain["size_high"], plain["low"]) == (worst.size_low, 0.2, None)
    assert "size" in plain["reason"]


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_gap_has_an_interval_if_no_other_sign_can_be_as_large(sign):
    report = make_interval_table(
        far=(sign * 0.3, *sorted([sign * 0.27, sign * 0.33])),
        near=(-sign * 0.05, *sorted([-sign * 0.02, -sign * 0.08])),
    )
    worst = report.worst("negative_aeg")
    assert worst.value.ends == tuple(sorted([sign * worst.size_low, sign * worst.size_high]))
    assert worst.value.reason is None


@pytest.mark.parametrize("true", [(0.2, -0.19), (0.2, 0.1, -0.1), (0.1, -0.06, 0.04)])
def test_an_interval_of_the_largest_gap_holds_it_as_often_as_it_claims(true):
    rng = np.random.default_rng(19)
    worst, missed, certain = max(true, key=abs), 0, 0
    for estimates in rng.normal(true, 0.03, (2000, len(true))):
        reach = 1.959964 * 0.03
        family = [Bounded(estimate, estimate - reach, estimate + reach) for estimate in estimates]
        ends = bound_largest_gap(family, 0.95)
        certain += ends is not None
        missed += ends is not None and not ends[0] <= worst <= ends[1]
    assert missed <= 0.065 * 2000
    assert certain > 0


def test_a_gap_whose_sign_is_open_may_be_of_any_size_down_to_0():
    worst = make_interval_table(unsure=(-0.05, -0.2, 0.1)).worst("negative_aeg")
    assert (worst.size_low, worst.size_high) == (0, 0.2)


def test_the_worst_has_no_interval_where_a_subgroup_has_none():
    y_true, y_score = [0, 1] * 20, np.random.default_rng(2).random(40)
    groups = {"gay": np.arange(40) < 20, "none": np.zeros(40, dtype=bool)}
    worst = evaluate_bias(y_true, y_score, groups).worst("bpsn_auc")
    assert (worst.subgroup, worst.value.low) == ("gay", None)
    assert worst.value.value is not None
    assert worst.value.reason == f"none: {worst.undefined['none']}"


def test_the_worst_value_lies_in_its_interval_or_in_that_of_sizes():
    rng = np.random.default_rng(3)
    groups = {f"g{i}": rng.random(300) < 0.3 for i in range(4)}
    report = evaluate_bias(rng.random(300) < 0.4, rng.random(300), groups)
    for metric in METRICS:
        values = report.worst(metric).to_dict()
        low, high = ("size_low", "size_high") if metric.endswith("_aeg") else ("low", "high")
        assert values[low] <= abs(values["value"]) <= values[high]


def test_subgroups_that_are_equally_bad_are_all_named():
    gaps = {"a": 0.2, "b": -0.2, "c": 0.1, "d": 0.2}
    values = {name: (2, 1, *[gap] * 5) for name, gap in gaps.items()}
    worst = make_table(values).worst("positive_aeg")
    assert (worst.subgroup, worst.tied) == ("a", ("b", "d"))


def test_a_metric_that_is_defined_for_no_subgroup_has_no_worst():
    report = evaluate_bias([0, 1], [0.1, 0.2], {"g": [0, 0]})
    worst = report.worst("bnsp_auc")
    assert worst.subgroup is None
    assert worst.value == MetricValue(None, "undefined for every subgroup")
    assert worst.undefined == {"g": "no subgroup positives"}
    assert (worst.n_positive, worst.n_negative, worst.tied) == (0, 0, ())
    assert BiasTable({}, {}).worst("bnsp_auc").value.reason == "no subgroups"


def test_the_worst_subgroup_passes_through_strict_json_unchanged():
    worst = make_table(TOXIC_BERT).worst("bnsp_auc").to_dict()
    assert worst["value"] == 0.868306
    assert json.loads(json.dumps(worst, allow_nan=False)) == worst


def test_an_unknown_metric_is_refused():
    message = r"^`metric` must be one of subgroup_auc, .*, negative_aeg; got 'final_score'\.$"
    with pytest.raises(ValueError, match=message):
        make_table(TOXIC_BERT).worst("final_score")


def test_subgroups_with_an_interval_come_first_by_its_upper_end_and_those_without_an_auc_last():
    wide, narrow, open_, none = (
        MetricValue(0.6, low=0.3, high=0.9),
        MetricValue(0.7, low=0.6, high=0.8),
        MetricValue(0.1, "few"),
        MetricValue(None, "no rows"),
    )
    values = {"none": none, "open": open_, "wide": wide, "narrow": narrow}
    subgroups = {name: dict.fromkeys(METRICS, value) for name, value in values.items()}
    assert sort_worst_first(subgroups) == ["narrow", "wide", "open", "none"]
