"""Two models on the same rows: differences, their paired intervals, and adjusted p-values."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from bias_metrics import Difference, compare_bias, evaluate_bias
from bias_metrics._core.covariance import JointMoments
from bias_metrics._core.differences import (
    bound_size_change,
    compute_paired_difference,
    compute_skewed_reach,
    widen_for_unseen_loss,
)
from bias_metrics._core.intervals import student_quantile
from bias_metrics._core.ranks import sum_squares
from bias_metrics._core.values import MetricValue
from bias_metrics.families import adjust_benjamini_hochberg, adjust_holm

METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


def draw_models(seed=0, n=500, *, ties=True):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.4
    shared = rng.random(n) + 0.4 * y_true
    scores = [shared + 0.4 * rng.random(n), shared + 0.6 * rng.random(n)]
    masks = {"gay": rng.random(n) < 0.4, "muslim": rng.random(n) < 0.3}
    return y_true, *(np.round(y_score, 1) if ties else y_score for y_score in scores), masks


def compare_pairs(lower, upper):
    wins = (upper[:, None] > lower) + 0.5 * (upper[:, None] == lower)
    return wins.mean(axis=1), wins.mean(axis=0)


def compute_naive_error(lower, upper):
    """Compute DeLong's standard error of a paired difference, by comparing all pairs.

    `lower` and `upper` hold, for each class, the two models' scores of the same rows.
    """
    (upper_a, lower_a), (upper_b, lower_b) = (
        compare_pairs(lower[model], upper[model]) for model in (0, 1)
    )
    of_upper, of_lower = upper_a - upper_b, lower_a - lower_b
    return math.sqrt(of_upper.var(ddof=1) / of_upper.size + of_lower.var(ddof=1) / of_lower.size)


def select_classes(metric, y_true, mask):
    pos, neg = y_true & ~mask, ~y_true & ~mask
    sub_pos, sub_neg = y_true & mask, ~y_true & mask
    return {
        "subgroup_auc": (sub_neg, sub_pos),
        "bpsn_auc": (sub_neg, pos),
        "bnsp_auc": (neg, sub_pos),
        "positive_aeg": (pos, sub_pos),
        "negative_aeg": (neg, sub_neg),
    }[metric]


@pytest.mark.parametrize("shift", [0.0, 0.4])  # the latter: few errors
def test_models_in_the_other_order_differ_the_other_way(shift):
    y_true, first, second, masks = draw_models(3, 300, ties=False)
    scores = first + shift * y_true, second + shift * y_true
    there, back = compare_bias(y_true, *scores, masks), compare_bias(y_true, *scores[::-1], masks)
    pairs = [
        (there.overall.final_score, back.overall.final_score),
        (there.overall.auc, back.overall.auc),
    ]
    pairs += [(there.overall[one], back.overall[one]) for one in METRICS[:3]]
    for one, other in pairs:
        assert one.low < one.high
        assert [one.value, one.low, one.high] == pytest.approx(
            [-other.value, -other.high, -other.low]
        )


@pytest.mark.parametrize("name", ["final_score", *METRICS[:3]])
def test_an_aggregates_difference_has_its_own_error_and_that_of_rows_that_were_not_drawn(name):
    y_true, first, second, masks = draw_models(3, 300, ties=False)
    comparison = compare_bias(y_true, first + 0.4 * y_true, second + 0.3 * y_true, masks)
    one = comparison.overall[name]
    assert one.high - one.value == pytest.approx(one.value - one.low)
    assert one.value - one.low > 1.959964 * one.std_error
    assert one.value - one.low < 2.6 * one.std_error


def test_differences_are_those_of_the_two_reports():
    y_true, first, second, masks = draw_models()
    comparison = compare_bias(y_true, first, second, masks)
    a, b = (evaluate_bias(y_true, model, masks) for model in (first, second))
    assert comparison.keys() == a.keys()
    assert comparison.counts == a.counts
    assert comparison.overall.auc.value == a.overall.auc.value - b.overall.auc.value
    assert (
        comparison.overall.final_score.value
        == a.overall.final_score.value - b.overall.final_score.value
    )
    for name, metric in itertools.product(masks, METRICS):
        cell = comparison.subgroups[name][metric]
        values = [getattr(model.subgroups[name], metric).value for model in (a, b)]
        assert [cell.first, cell.second, cell.value] == [*values, values[0] - values[1]]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("ties", [True, False])
def test_paired_standard_errors_are_delongs_by_comparing_every_pair(metric, ties):
    for seed in range(3):
        y_true, *scores, masks = draw_models(seed, ties=ties)
        comparison = compare_bias(y_true, *scores, masks)
        for name, mask in masks.items():
            lower, upper = select_classes(metric, y_true, mask)
            expected = compute_naive_error(
                [y_score[lower] for y_score in scores], [y_score[upper] for y_score in scores]
            )
            assert comparison.subgroups[name][metric].std_error == pytest.approx(
                expected, abs=1e-12
            )


def test_the_overall_paired_error_is_delongs():
    y_true, *scores, _ = draw_models()
    expected = compute_naive_error(
        [y_score[~y_true] for y_score in scores], [y_score[y_true] for y_score in scores]
    )
    value = compare_bias(y_true, *scores, {}).overall.auc
    assert value.std_error == pytest.approx(expected, abs=1e-12)
    n_drawn = min(y_true.sum(), (~y_true).sum())
    for reach, auc in (
        (value.value - value.low, value.first),
        (value.high - value.value, value.second),
    ):
        # Student's, of one more row, which falls to the middle of the others.
        fallen = (auc - 0.5) / (n_drawn + 1)
        student = student_quantile(0.95, n_drawn) * np.hypot(expected, fallen)
        assert reach == pytest.approx(student + fallen * (1.959964**2 + 1) / 2, rel=1e-6)


@pytest.mark.parametrize("clusters", [None, np.arange(500) % 100])
def test_the_same_ranks_differ_by_0_as_far_as_the_rows_tell(clusters):
    y_true, first, _, masks = draw_models()
    comparison = compare_bias(y_true, first, 2 * first + 1, masks, clusters=clusters)
    for one in (comparison.overall[name] for name in ("final_score", *METRICS[:3])):
        assert (one.value, one.p_value) == (0, 1)
        assert -0.02 < one.low < 0 < one.high < 0.02
    for cells in ([comparison.overall.auc], *(of.values() for of in comparison.subgroups.values())):
        for one in cells:
            assert (one.value, one.p_value) == (0, 1)
            assert one.low < 0 < one.high
            assert one.is_non_inferior(0.001) is None
            assert one.is_non_inferior(0.2) is True
            assert one.is_equivalent(0.2) is True


def test_exchanging_the_models_turns_every_difference_round():
    y_true, first, second, masks = draw_models()
    one = compare_bias(y_true, first, second, masks)
    other = compare_bias(y_true, second, first, masks)
    for name, metric in itertools.product(masks, METRICS):
        a, b = one.subgroups[name][metric], other.subgroups[name][metric]
        assert a.value == -b.value
        assert a.low == pytest.approx(-b.high, abs=1e-12)
        assert a.p_value == pytest.approx(b.p_value)
    assert one.overall.final_score.low == pytest.approx(-other.overall.final_score.high, abs=1e-12)


def test_the_bootstrap_agrees_with_the_paired_error_of_the_final_score():
    y_true, first, second, masks = draw_models(n=1500)
    value = compare_bias(y_true, first, second, masks).overall.final_score
    rng = np.random.default_rng(1)
    of_class = [np.flatnonzero(y_true), np.flatnonzero(~y_true)]
    drawn = []
    for _ in range(200):
        rows = np.concatenate(
            [rng.choice(rows_in_class, rows_in_class.size) for rows_in_class in of_class]
        )
        kept = {name: mask[rows] for name, mask in masks.items()}
        a, b = (
            evaluate_bias(y_true[rows], model[rows], kept, intervals=False)
            for model in (first, second)
        )
        drawn.append(a.overall.final_score.value - b.overall.final_score.value)
    # 200 draws know a standard deviation to 5 %; four of those.
    assert np.std(drawn) == pytest.approx(value.std_error, rel=0.2)


def test_pairing_makes_the_interval_narrower_than_two_separate_ones():
    y_true, *scores, masks = draw_models(n=2000)
    comparison = compare_bias(y_true, *scores, masks)
    a, b = (evaluate_bias(y_true, y_score, masks).overall.auc for y_score in scores)
    assert comparison.overall.auc.std_error < 0.8 * math.hypot(a.std_error, b.std_error)


def test_in_large_cells_the_interval_is_the_usual_one():
    comparison = compare_bias(*draw_models(n=20_000, ties=False))
    cell = comparison.subgroups["gay"]["bpsn_auc"]
    assert cell.low == pytest.approx(cell.value - 1.959964 * cell.std_error, rel=0.02)
    assert cell.high == pytest.approx(cell.value + 1.959964 * cell.std_error, rel=0.02)


def test_two_perfect_small_cells_of_different_scores_are_not_shown_to_be_the_same():
    rng = np.random.default_rng(0)
    y_true, mask = np.arange(80) % 2 == 1, np.arange(80) % 4 < 2
    first, second = (y_true + 0.5 * rng.random(80) for _ in range(2))
    cell = compare_bias(y_true, first, second, {"gay": mask}).subgroups["gay"]["subgroup_auc"]
    assert (cell.first, cell.second, cell.value) == (1, 1, 0)
    assert cell.low < -0.05
    assert cell.is_non_inferior(0.02) is None


def test_an_undefined_cell_has_a_reason_and_no_difference():
    y_true, first, second, masks = draw_models()
    comparison = compare_bias(y_true, first, second, masks | {"none": np.zeros(500, dtype=bool)})
    cell = comparison.subgroups["none"]["bpsn_auc"]
    assert (cell.value, cell.low, cell.reason) == (None, None, "no subgroup negatives")
    assert cell.is_non_inferior(0.1) is None
    assert cell.is_equivalent(0.1) is None
    assert comparison.overall.final_score.value is None
    assert "none" in comparison.overall.final_score.reason
    named = compare_bias(
        y_true, first, second, masks | {"none": y_true & False}, power_mean_groups=["gay"]
    )
    assert named.overall.final_score.low is not None


def test_clusters_widen_the_paired_interval_where_rows_repeat():
    y_true, first, second, masks = draw_models(n=600, ties=False)
    twice = [np.tile(one, 2) for one in (y_true, first, second)]
    groups = {name: np.tile(mask, 2) for name, mask in masks.items()}
    plain = compare_bias(*twice, groups)
    clustered = compare_bias(*twice, groups, clusters=np.tile(np.arange(600), 2))
    for name, metric in itertools.product(masks, METRICS):
        ratio = (
            clustered.subgroups[name][metric].std_error / plain.subgroups[name][metric].std_error
        )
        assert ratio == pytest.approx(math.sqrt(2), rel=0.02)
    few = compare_bias(*twice, groups, clusters=np.arange(1200) % 10)
    assert few.overall.auc.reason == "10 clusters where 20 are needed"
    assert few.overall.auc.value == plain.overall.auc.value
    assert few.overall.auc.low is None


@pytest.mark.parametrize(
    ("low", "high", "not_worse", "within"),
    [
        (-0.01, 0.01, True, True),
        (-0.01, 0.05, True, None),
        (-0.03, 0.01, None, None),
        (-0.05, -0.03, False, False),
        (0.03, 0.05, True, False),
        (-0.02, 0.02, None, None),
    ],
)
def test_statements_follow_from_the_interval(low, high, not_worse, within):
    difference = Difference(0.8, 0.8, 0.0, 0.01, low, high)
    assert difference.is_non_inferior(0.02) is not_worse
    assert difference.is_equivalent(0.02) is within


GAPS = ("positive_aeg", "negative_aeg")


def draw_gaps(first, second, *, n=4000, own=0.2, seed=0):
    """Draw labels, the scores of two models that shift the subgroup's, and the subgroup."""
    rng = np.random.default_rng(seed)
    y_true, mask = np.arange(n) % 2 == 1, np.arange(n) % 4 < 2
    shared = rng.standard_normal(n)
    scores = [shared + own * rng.standard_normal(n) + shift * mask for shift in (first, second)]
    return y_true, *scores, {"gay": mask}


@pytest.mark.parametrize("clusters", [None, np.arange(4000) % 1000])
@pytest.mark.parametrize(
    ("first", "second", "margin", "shown"),
    [
        (0.1, 0.8, 0.001, True),  # clearly smaller
        (-0.1, 0.8, 0.001, True),  # smaller on the other side
        (-0.8, 0.8, 0.001, None),  # the same size on the other side
        (0.8, 0.1, 0.03, False),  # clearly wider
        (-0.8, 0.1, 0.03, False),  # wider on the other side
        (0.03, 0.0, 0.03, True),  # none to speak of
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("metric", GAPS)
def test_a_gap_is_judged_by_its_size(clusters, first, second, margin, shown, turn, metric):
    comparison = compare_bias(*draw_gaps(turn * first, turn * second), clusters=clusters)
    cell = comparison.subgroups["gay"][metric]
    assert cell.size_low <= abs(cell.first) - abs(cell.second) <= cell.size_high
    assert cell.is_non_inferior(margin) is shown


@pytest.mark.parametrize("metric", GAPS)
@pytest.mark.parametrize("turn", [1, -1])
def test_bounds_of_a_size_are_those_of_the_difference_where_gaps_are_on_one_side(metric, turn):
    cell = compare_bias(*draw_gaps(0.8 * turn, 0.6 * turn)).subgroups["gay"][metric]
    ends = sorted((turn * cell.low, turn * cell.high))
    assert [cell.size_low, cell.size_high] == pytest.approx(ends)


def test_bounds_of_a_size_are_those_of_the_sum_where_gaps_are_on_two_sides():
    # Reversing the second model's scores turns its gap round, and the sum into a difference.
    y_true, first, second, masks = draw_gaps(0.8, 0.6)
    apart = compare_bias(y_true, first, -second, masks).subgroups["gay"]["negative_aeg"]
    same = compare_bias(y_true, first, second, masks).subgroups["gay"]["negative_aeg"]
    assert apart.second == pytest.approx(-same.second)
    assert [apart.size_low, apart.size_high] == pytest.approx([same.low, same.high])


@pytest.mark.parametrize("clusters", [None, np.arange(500) % 100])
def test_the_same_scores_have_gaps_of_the_same_size_as_far_as_the_rows_tell(clusters):
    y_true, first, _, masks = draw_models()
    comparison = compare_bias(y_true, first, first, masks, clusters=clusters)
    for name, metric in itertools.product(masks, GAPS):
        cell = comparison.subgroups[name][metric]
        assert 0 < cell.size_high <= cell.high * 1.25
        assert cell.is_non_inferior(0.3) is True


def test_only_gaps_with_an_interval_have_bounds_of_their_size():
    y_true, first, second, masks = draw_models()
    comparison = compare_bias(y_true, first, second, masks | {"none": y_true & False})
    few = compare_bias(y_true, first, second, masks, clusters=np.arange(500) % 10)
    lacking = (
        comparison.subgroups["gay"]["bpsn_auc"],
        comparison.subgroups["none"]["negative_aeg"],
        few.subgroups["gay"]["negative_aeg"],
    )
    assert [cell.is_non_inferior(0.1) for cell in lacking] == [True, None, None]
    for cell in lacking:
        assert {"size_low", "size_high"}.isdisjoint(cell.to_dict())
    assert {"size_low", "size_high"} <= comparison.subgroups["gay"]["negative_aeg"].to_dict().keys()


def test_a_difference_without_an_interval_stays_as_it_is():
    y_true, first, second, masks = draw_models()
    comparison = compare_bias(y_true, first, second, masks | {"none": y_true & False})
    without, whole = (comparison.subgroups[name]["negative_aeg"] for name in ("none", "gay"))
    gap = evaluate_bias(y_true, second, masks)["negative_aeg", "gay"]
    for pair in ((without, whole), (whole, without)):
        assert bound_size_change(*pair, gap, 0.95) is pair[0]


def test_clusters_are_counted_in_the_compared_class_that_falls_into_fewer():
    y_true, first, second, _ = draw_models()
    half = {"half": np.arange(500) < 250}
    comparison = compare_bias(y_true, first, second, half, clusters=np.arange(500) // 5)
    codes = np.arange(500) // 5
    own, others = (
        {label: np.unique(codes[rows & (y_true == label)]).size for label in (True, False)}
        for rows in (half["half"], ~half["half"])
    )
    fewer = min(own[False], others[True])
    assert comparison.subgroups["half"]["bpsn_auc"].n_clusters == fewer
    report = evaluate_bias(y_true, first, half, clusters=codes)
    assert report.subgroups["half"].bpsn_auc.n_clusters == fewer
    everywhere = min(np.unique(codes[y_true]).size, np.unique(codes[~y_true]).size)
    assert comparison.overall.auc.n_clusters == everywhere
    assert comparison.overall.final_score.n_clusters == min(*own.values(), *others.values())
    plain = compare_bias(y_true, first, second, half)
    for table in (plain, evaluate_bias(y_true, first, half)):
        assert not any("n_clusters" in one for one in table.to_dict()["numbers"])
    for table in (comparison, report):
        assert all("n_clusters" in one for one in table.to_dict()["numbers"])


def test_adjusted_p_values_are_those_worked_by_hand():
    p_values = [0.01, 0.04, 0.03, 0.005]
    assert adjust_holm(p_values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_benjamini_hochberg(p_values) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert adjust_holm([0.9, 0.8]) == [1.0, 1.0]
    assert adjust_holm([]) == adjust_benjamini_hochberg([]) == []


def test_the_family_of_a_comparison_is_all_its_cells():
    comparison = compare_bias(*draw_models())
    cells = [number for of_group in comparison.subgroups.values() for number in of_group.values()]
    p_values = [cell.p_value for cell in cells]
    assert [cell.p_holm for cell in cells] == adjust_holm(p_values)
    assert [cell.p_bh for cell in cells] == adjust_benjamini_hochberg(p_values)


def test_a_comparison_passes_through_strict_json():
    y_true, first, second, masks = draw_models()
    values = compare_bias(y_true, first, second, masks | {"none": y_true & False}).to_dict()
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    numbers = {(one["metric"], one.get("group")): one for one in values["numbers"]}
    assert numbers["bpsn_auc", "gay"].keys() == {
        *("metric", "group", "first", "second", "value", "std_error", "low", "high"),
        *("p_value", "p_holm", "p_bh"),
    }
    assert values["counts"][0] == {"group": None, "n_positive": 178, "n_negative": 322}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_score_a": [0.1]}, "`y_score_a` must have 500 rows"),
        ({"y_score_b": np.full(500, np.nan)}, "`y_score_b` must be finite"),
        ({"power": 0}, "`power` must be a finite number other than 0"),
        ({"confidence": 2}, "`confidence` must be between 0 and 1"),
    ],
)
def test_wrong_input_is_refused_by_name(change, message):
    y_true, first, second, masks = draw_models()
    given = {"y_true": y_true, "y_score_a": first, "y_score_b": second, "subgroups": masks} | change
    with pytest.raises(ValueError, match=message):
        compare_bias(**given)


@pytest.mark.parametrize("skewness", [-2.0, -0.3, 0.3, 2.0])
def test_a_skewed_interval_ends_where_halls_transformation_is_the_quantile(skewness):
    """The transformation is written out here as Hall (1992) prints it."""

    def transformed(t):
        return t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6

    down, up = compute_skewed_reach(1.96, skewness)
    moved, kept = (up, down) if skewness > 0 else (down, up)
    assert moved > kept == 1.96
    end = -up if skewness > 0 else down
    assert transformed(end) == pytest.approx(math.copysign(1.96, end))


def test_an_interval_without_skewness_is_the_usual_one():
    assert compute_skewed_reach(1.96, 0.0) == (1.96, 1.96)


def test_the_difference_of_a_worse_model_near_1_reaches_farther_down():
    rng = np.random.default_rng(0)
    y_true = np.arange(3_000) % 2 == 1
    shared = rng.standard_normal(3_000) + 3.3 * y_true
    first, second = (shared + 0.5 * rng.standard_normal(3_000) for _ in range(2))
    compared = compare_bias(y_true, first - 0.9 * y_true, second, {"all": y_true | True})
    cell = compared.subgroups["all"]["subgroup_auc"]
    down, up = (abs(end - cell.value) / cell.std_error for end in (cell.low, cell.high))
    unseen = widen_for_unseen_loss(replace(cell, high=-1), 1_500, 0.95, is_auc=True)
    assert cell.high == unseen.high
    assert 1.959964 < up < 1.2 * 1.959964
    assert 1.05 * 1.959964 < down < 1.6 * 1.959964


def test_few_rows_that_make_up_a_sum_of_squares_leave_few_degrees_of_freedom():
    terms = np.append(np.ones(20), 5.0)  # squares 20 + 25, fourth powers 20 + 625
    assert sum_squares([terms]) == pytest.approx((45, 2 * 45**2 / (645 - 45**2 / 21)))
    assert sum_squares([np.zeros(3), np.zeros(0)]) == (0, np.inf)


def test_terms_of_one_size_are_worth_one_less_than_there_are():
    assert sum_squares([np.ones(50)]) == pytest.approx((50, 49))
    errors = 2 * 50**2 / 49 + 2 * 30**2 / 29
    assert sum_squares([np.ones(50), np.ones(30)]) == pytest.approx((80, 2 * 80**2 / errors))


def test_a_sample_in_blocks_has_the_degrees_of_freedom_of_a_normal_one():
    many = np.random.default_rng(0).normal(size=100_000)
    squares, freedom = sum_squares([many])
    assert squares == pytest.approx(np.sum(many**2))
    assert freedom == pytest.approx(many.size, rel=0.02)
    assert sum_squares([iter(np.split(many, 10))]) == pytest.approx((squares, freedom))


def test_an_estimate_without_an_error_of_its_own_is_compared_by_both_intervals():
    """Of independent estimates the distances to opposite ends add up as squares: Zou's rule."""
    perfect = MetricValue(1.0, std_error=0.0, low=0.88, high=1.0)
    other = MetricValue(0.9, std_error=0.02, low=0.85, high=0.93)
    difference = compute_paired_difference(
        perfect, other, JointMoments(0.0, (0, 0, 0, 0)), 0.95, small=False
    )
    assert difference.low == pytest.approx(0.1 - math.hypot(0.12, 0.03))
    assert difference.high == pytest.approx(0.1 + math.hypot(0.0, 0.05))
    assert difference.std_error == 0.02


@pytest.mark.parametrize(
    ("correlation", "down", "up"),
    [
        (0.0, math.hypot(0.12, 0.03), math.hypot(0.06, 0.05)),
        # Both at one end: .12 and .05 down, .06 and .03 up.
        (1.0, 0.12 - 0.05, 0.06 - 0.03),
        (
            0.25,
            math.sqrt(0.75 * (0.12**2 + 0.03**2) + 0.25 * 0.07**2),
            math.sqrt(0.75 * (0.06**2 + 0.05**2) + 0.25 * 0.03**2),
        ),
        (
            -0.5,
            math.sqrt(0.12**2 + 0.03**2 + 0.12 * 0.03),
            math.sqrt(0.06**2 + 0.05**2 + 0.06 * 0.05),
        ),
    ],
)
def test_with_few_rows_a_difference_reaches_as_the_correlation_says(correlation, down, up):
    a = MetricValue(0.9, std_error=0.04, low=0.78, high=0.96)
    b = MetricValue(0.8, std_error=0.02, low=0.75, high=0.83)
    together = JointMoments(correlation * 0.04 * 0.02, (0, 0, 0, 0))
    difference = compute_paired_difference(a, b, together, 0.95, small=True)
    assert (difference.value - difference.low, difference.high - difference.value) == pytest.approx(
        (down, up)
    )
    variance = 0.04**2 + 0.02**2 - 2 * correlation * 0.04 * 0.02
    assert difference.std_error == pytest.approx(math.sqrt(variance))


def test_an_undefined_cell_has_no_difference_by_cluster_either():
    y_true, first, second, masks = draw_models()
    groups = {"harmless": masks["gay"] & ~y_true, **masks}
    comparison = compare_bias(y_true, first, second, groups, clusters=np.arange(500) % 100)
    cells = comparison.subgroups["harmless"]
    assert (cells["bnsp_auc"].value, cells["bnsp_auc"].reason) == (None, "no subgroup positives")
    assert cells["bpsn_auc"].low is not None
    assert comparison.overall["bnsp_auc"].value is None
    assert comparison.overall["bpsn_auc"].low is not None


def test_a_bound_exactly_at_the_margin_shows_nothing():
    ends = {"low": -0.02, "high": -0.02, "size_low": 0.02, "size_high": 0.02}
    assert Difference(0.9, 0.9, **ends).is_non_inferior(0.02) is None
    assert Difference(0.9, 0.9, **ends).is_equivalent(0.02) is None
    assert Difference(0.9, 0.9, low=0.02, high=0.02).is_equivalent(0.02) is None
    assert Difference(0.9, 0.9, **ends).is_non_inferior(0.02) is None


@pytest.mark.parametrize("known", ["low", "high"])
def test_one_end_alone_shows_nothing(known):
    difference = Difference(0.9, 0.9, 0.0, **{known: 0.0, f"size_{known}": 0.0}, p_holm=0.0)
    assert difference.ends is None
    assert difference.is_non_inferior(0.02) is None
    assert difference.is_equivalent(0.02) is None
    assert difference.is_non_inferior(0.02) is None
    assert difference.is_significant(0.95) is False
    assert str(difference) == "+0.000"


@pytest.mark.parametrize(
    ("p_holm", "low", "high", "expected"),
    [
        (0.5, 0.01, 0.05, True),
        (0.5, -0.05, -0.01, True),
        (0.51, 0.01, 0.05, False),
        (0.5, 0.0, 0.05, False),
        (0.5, -0.05, 0.0, False),
        (None, 0.01, 0.05, False),
        (0.5, None, None, False),
    ],
)
def test_a_difference_is_shown_by_its_adjusted_p_value_and_an_interval_without_0(
    p_holm, low, high, expected
):
    difference = Difference(0.8, 0.8, low=low, high=high, p_holm=p_holm)
    assert difference.is_significant(0.5) is expected
