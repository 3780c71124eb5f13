"""The chances that a plan states: by hand where errors are round numbers, and against draws.

Of an AUC of 1/2, a row's placement is uniform: its variance is 1/12. With 400 rows of one class and
1,200 of the other, an AUC's standard error is sqrt(1 / 12 (1 / 400 + 1 / 1200)) = 1 / 60.
"""

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics._core.intervals import compute_unseen_reach, student_quantile
from bias_metrics.gate.plans import (
    _FEW,
    _GAPS_AGREE,
    _NEAR,
    MAX_PLANNED_ROWS,
    PlanAssumptions,
    PlannedCounts,
    _compute_effects,
    _compute_reaches,
    _draw_deviates,
    _placement_variance,
    compute_paired_reach,
    estimate_auc_chance,
    estimate_group_chance,
    find_least_rows,
    is_planned,
    lacks_support,
    predict_standard_error,
)
from bias_metrics.gate.rules import Rule
from bias_metrics.metrics import SUBGROUP_METRICS

NORMAL = NormalDist()
Z, WIDER = 1.644854, 1.959964  # normal quantiles at .95 and .975
EVEN = PlanAssumptions(
    auc=0.5, correlation=0.875
)  # the error of a difference is half of that of an AUC
BY_SIXTY = PlannedCounts(400, 400, 1200, 1200)
GAP_REACH = WIDER / Z * compute_unseen_reach(0.5, _GAPS_AGREE / 120, 400, 0.9)


def compute_coverage(size):
    """The chance that a standard normal number is within a size."""
    return 2 * NORMAL.cdf(size) - 1


def build_rule(metric="bpsn_auc", **limits):
    return Rule(metric, "each", **(limits or {"margin": 0.05}))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_plan_with_a_measured_auc_without_any_error_has_a_chance(value):
    counts = PlannedCounts(60, 400, 2000, 20_000)
    rule = Rule("bpsn_auc", "each", floor=0.7)
    chance = estimate_group_chance([rule], PlanAssumptions(values={"bpsn_auc": value}), counts)
    assert chance == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("metric", ["subgroup_auc", "bnsp_auc", "positive_aeg", "negative_aeg"])
def test_the_chance_grows_with_rows_and_falls_with_what_is_asked(metric):
    limit = {"ceiling": 0.1} if metric.endswith("aeg") else {"floor": 0.85}
    rule, strict = (
        build_rule(metric, margin=0.05, confidence=confidence, **limit)
        for confidence in (0.95, 0.99)
    )
    few, many = (PlannedCounts(n, n, 5000, 40000) for n in (160, 400))
    chances = [
        estimate_group_chance([rule], PlanAssumptions(), confidence) for confidence in (few, many)
    ]
    assert chances[0] < chances[1]
    assert estimate_group_chance([strict], PlanAssumptions(), few) < chances[0]
    assert estimate_group_chance([rule], PlanAssumptions(inflation=3.0), few) < chances[0]
    assert estimate_group_chance([rule], PlanAssumptions(correlation=0.2), few) < chances[0]


def test_the_chance_of_a_group_counts_rules_on_the_same_rows_once():
    counts = PlannedCounts(60, 6000, 5000, 40000)
    subgroup, bnsp = build_rule("subgroup_auc"), build_rule("bnsp_auc")
    separate = [
        estimate_group_chance([rule], PlanAssumptions(), counts) for rule in (subgroup, bnsp)
    ]
    joint = estimate_group_chance([subgroup, bnsp], PlanAssumptions(), counts)
    assert np.prod(separate) < joint <= min(separate)


def test_without_support_nothing_passes():
    counts = PlannedCounts(60, 60, 5000, 40000)
    for least in ({"min_negatives": 61}, {"min_positives": 5001}):
        assert (
            estimate_group_chance([replace(build_rule(), **least)], PlanAssumptions(), counts) == 0
        )
    inside = replace(build_rule("subgroup_auc"), min_positives=61)
    assert estimate_group_chance([inside], PlanAssumptions(), counts) == 0
    overall = Rule("auc", "overall", floor=0.8, min_positives=10)
    assert estimate_auc_chance(overall, 0.9, PlanAssumptions(), 9, 100) == 0


def test_the_overall_auc_needs_rows_too():
    rule = Rule("auc", "overall", floor=0.85, margin=0.02)
    few, many = (estimate_auc_chance(rule, 0.9, PlanAssumptions(), n, 8 * n) for n in (50, 500))
    assert few < 0.8 < many
    assert estimate_auc_chance(
        rule, 0.9, PlanAssumptions(correlation=1.0), 10**9, 10**9
    ) == pytest.approx(1)


def test_the_least_rows_are_where_the_chance_is_reached_or_none():
    assert find_least_rows(lambda n: n / 1000, 0.5) == pytest.approx(500, rel=2e-3)
    assert 10.3 <= find_least_rows(lambda n: n / 1000, 0.0103) <= 10.8  # to half a row
    assert find_least_rows(lambda _: 1.0, 0.5) == 4
    assert find_least_rows(lambda _: 0.4, 0.5) is None
    assert find_least_rows(lambda n: n / 8, 0.5) == 4
    assert 12 <= find_least_rows(lambda n: float(n >= 12), 1.0) <= 12.5
    assert find_least_rows(lambda n: n / MAX_PLANNED_ROWS, 1.0) == pytest.approx(
        MAX_PLANNED_ROWS, rel=2e-3
    )
    assert find_least_rows(lambda n: n / 100, 0.5, least=60.0) == 60


# ------------------------------------------------------------------ what is assumed


@pytest.mark.parametrize(
    ("metric", "values", "value"),
    [
        ("bpsn_auc", {}, 0.7),
        ("negative_aeg", {}, 0.0),
        ("bpsn_auc", {"bpsn_auc": 0.8}, 0.8),
        ("bpsn_auc", {"bnsp_auc": 0.8}, 0.7),
        ("bpsn_auc", {"bpsn_auc": 1.0}, 1 - _NEAR),
        ("bpsn_auc", {"bpsn_auc": 0.0}, _NEAR),
        ("negative_aeg", {"negative_aeg": 0.5}, 0.5 - _NEAR),
        ("negative_aeg", {"negative_aeg": -0.5}, _NEAR - 0.5),
        ("negative_aeg", {"negative_aeg": -0.2}, -0.2),
    ],
)
def test_a_cell_that_is_not_named_is_even_and_none_is_quite_without_errors(metric, values, value):
    assert PlanAssumptions(values, auc=0.7).get_value(metric) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "planned"),
    [
        ({}, True),
        ({"mode": "estimate"}, False),
        ({"action": "warn"}, False),
        ({"metric": "fpr_gap", "threshold": "given"}, False),
    ],
)
def test_plans_cover_what_blocks_by_bounds_of_aucs_and_gaps(changes, planned):
    assert is_planned(replace(Rule("bpsn_auc", "each", margin=0.1), **changes)) is planned


COMPARED = {
    "subgroup_auc": ("positive", "negative"),
    "bpsn_auc": ("outside_positive", "negative"),
    "bnsp_auc": ("positive", "outside_negative"),
    "positive_aeg": ("positive", "outside_positive"),
    "negative_aeg": ("negative", "outside_negative"),
}
UNLIKE = {"positive": 30, "negative": 50, "outside_positive": 70, "outside_negative": 110}


@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_support_is_lacking_with_one_row_less_of_what_is_compared(metric):
    rule = Rule(metric, "each", margin=0.05, min_positives=30, min_negatives=50)
    least = {"positive": 30, "negative": 50, "outside_positive": 30, "outside_negative": 50}
    assert not lacks_support(rule, PlannedCounts(**least))
    lacking = {
        name
        for name in least
        if lacks_support(rule, PlannedCounts(**least | {name: least[name] - 1}))
    }
    assert lacking == set(COMPARED[metric])


@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
@pytest.mark.parametrize(("auc", "spread"), [(0.5, 1 / 12), (0.9, _placement_variance(0.9))])
def test_a_standard_error_is_that_of_both_compared_classes(metric, auc, spread):
    first, second = (UNLIKE[name] for name in COMPARED[metric])
    expected = math.sqrt(spread * (1 / first + 1 / second))
    value = auc - 0.5 if metric.endswith("aeg") else auc
    assert predict_standard_error(metric, value, PlannedCounts(**UNLIKE)) == pytest.approx(expected)


def test_the_reach_of_a_difference_is_that_of_both_ends_and_of_how_closely_models_agree():
    assert compute_paired_reach(0.03, 0.04, 0.75) == pytest.approx(0.5 * 0.05)


# ------------------------------------------------------------------ chances


@pytest.mark.parametrize(
    ("limits", "inflation", "chance"),
    [
        # With 100 and 300 rows the error is 1 / 30; with four times the variance 1 / 15.
        ({"floor": 0.45}, 1, NORMAL.cdf(0.05 * 30 - Z)),
        ({"floor": 0.45}, 4, NORMAL.cdf(0.05 * 15 - Z)),
        # Student's quantile of the 100 rows; a row that falls from 1/2 falls by nothing.
        ({"margin": 0.04}, 1, NORMAL.cdf(0.04 * 60 - student_quantile(0.9, 100))),
        ({"reference_margin": 0.04}, 1, NORMAL.cdf(0.04 * 60 - student_quantile(0.9, 100))),
        (
            {"floor": 0.45, "margin": 0.04},
            1,
            NORMAL.cdf(1.5 - Z) * NORMAL.cdf(2.4 - student_quantile(0.9, 100)),
        ),
    ],
)
def test_the_chance_of_the_overall_auc_is_that_of_its_normal_error(limits, inflation, chance):
    rule = Rule("auc", "overall", **limits)
    guess = replace(EVEN, inflation=inflation)
    assert estimate_auc_chance(rule, 0.5, guess, 100, 300) == pytest.approx(chance, abs=1e-5)


def test_the_overall_auc_has_a_chance_with_just_the_rows_that_a_rule_asks_for():
    rule = Rule("auc", "overall", floor=0.45, min_positives=100, min_negatives=300)
    assert estimate_auc_chance(rule, 0.5, EVEN, 100, 300) > 0
    assert estimate_auc_chance(rule, 0.5, EVEN, 99, 300) == 0
    assert estimate_auc_chance(rule, 0.5, EVEN, 100, 299) == 0


@pytest.mark.parametrize(
    ("metric", "limits", "values", "chance"),
    [
        ("bnsp_auc", {"floor": 0.47}, {}, NORMAL.cdf(0.03 * 60 - Z)),
        ("bpsn_auc", {"floor": 0.53}, {}, NORMAL.cdf(-0.03 * 60 - Z)),
        ("bpsn_auc", {"margin": 0.02}, {}, NORMAL.cdf(0.02 * 120 - Z)),
        ("bpsn_auc", {"reference_margin": 0.01}, {}, NORMAL.cdf(0.01 * 120 - Z)),
        ("positive_aeg", {"ceiling": 0.05}, {}, compute_coverage(0.05 * 60 - Z)),
        (
            "negative_aeg",
            {"ceiling": 0.05},
            {"negative_aeg": -0.03},
            NORMAL.cdf(0.08 * 60 - Z) - NORMAL.cdf(Z - 0.02 * 60),
        ),
        (
            "negative_aeg",
            {"margin": 0.025},
            {},
            compute_coverage((0.025 - GAP_REACH) * 120 / _GAPS_AGREE),
        ),
    ],
)
def test_the_chance_of_a_group_is_that_of_its_normal_error(metric, limits, values, chance):
    rule = Rule(metric, "each", **limits)
    actual = estimate_group_chance([rule], replace(EVEN, values=values), BY_SIXTY)
    assert actual == pytest.approx(chance, abs=0.025)  # of 4,000 draws
    four_times = PlannedCounts(1600, 1600, 4800, 4800)
    again = estimate_group_chance([rule], replace(EVEN, values=values, inflation=4.0), four_times)
    assert again == pytest.approx(
        actual, abs=1e-3
    )  # a design effect of 4 takes four times the rows


def test_with_few_errors_a_bound_reaches_farther():
    guess, counts = PlanAssumptions(auc=0.9, correlation=0.875), PlannedCounts(60, 400, 1200, 1200)
    error = predict_standard_error("bnsp_auc", 0.9, counts) / 2
    ends = _compute_reaches("bnsp_auc", 0.9, 0.9, 2 * error, counts)
    reach = max(
        _FEW * compute_paired_reach(*ends, guess.correlation),
        compute_unseen_reach(0.4, error, 60, 0.9),
    )
    actual = estimate_group_chance([Rule("bnsp_auc", "each", margin=0.03)], guess, counts)
    assert actual == pytest.approx(NORMAL.cdf((0.03 - reach) / error), abs=0.025)


def test_a_floor_that_no_bound_reaches_has_no_chance():
    rule = Rule("bnsp_auc", "each", floor=0.99)
    assert (
        estimate_group_chance([rule], PlanAssumptions(auc=0.9), PlannedCounts(30, 30, 300, 300))
        < 0.01
    )


def test_a_value_and_its_difference_from_a_rival_vary_apart():
    floor, margin = ({"floor": 0.47}, {"margin": 0.015})
    each = [
        estimate_group_chance([Rule("bnsp_auc", "each", **limits)], EVEN, BY_SIXTY)
        for limits in (floor, margin)
    ]
    joint = estimate_group_chance([Rule("bnsp_auc", "each", **floor, **margin)], EVEN, BY_SIXTY)
    assert joint == pytest.approx(math.prod(each), abs=0.03)


def test_cells_of_a_group_vary_together_as_those_of_drawn_scores():
    rng, draws = np.random.default_rng(11), 800
    distance = math.sqrt(2) * NORMAL.inv_cdf(0.9)
    n = PlannedCounts(40, 50, 400, 400)
    aucs = np.empty((draws, len(SUBGROUP_METRICS)))
    for index in range(draws):
        drawn = {name: rng.standard_normal(size) for name, size in vars(n).items()}
        drawn["positive"] += distance
        drawn["outside_positive"] += distance
        for to, metric in enumerate(SUBGROUP_METRICS):
            high, low = COMPARED[metric]
            aucs[index, to] = np.mean(drawn[high][:, None] > drawn[low])
    weights = np.zeros((len(SUBGROUP_METRICS), 6))
    for metric, row in zip(SUBGROUP_METRICS, weights, strict=True):
        for index, weight in _compute_effects(metric, PlanAssumptions().get_value(metric), n):
            row[index] = weight
    for deviates in _draw_deviates():
        planned = np.corrcoef(weights @ deviates.T)
        assert planned == pytest.approx(np.corrcoef(aucs.T), abs=0.1)
