"""Standard errors and intervals against naive sums over all pairs."""

import itertools
import math

import numpy as np
import pytest

import bias_metrics
from bias_metrics import evaluate_bias, roc_auc
from bias_metrics._core.cells import compare_all_rows
from bias_metrics._core.influence import Influence, rank_rows
from bias_metrics._core.intervals import (
    auc_interval,
    compute_p_value,
    logit_interval,
    newcombe_interval,
    student_quantile,
)
from bias_metrics._core.ranks import BLOCK, delong_variance, find_runs, place_runs, sum_squares
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.aggregates import iterate_influences

METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


def draw_rows(seed=0, n=300, *, ties=True, shift=0.3):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.4
    y_score = rng.random(n) + shift * y_true
    masks = {"gay": rng.random(n) < 0.4, "muslim": rng.random(n) < 0.3}
    return y_true, np.round(y_score, 1) if ties else y_score, masks


def compute_naive_delong(lower, upper):
    """Compute an AUC and DeLong's standard error by comparing all pairs."""
    wins = (upper[:, None] > lower) + 0.5 * (upper[:, None] == lower)
    by_upper, by_lower = wins.mean(axis=1), wins.mean(axis=0)
    variance = by_upper.var(ddof=1) / upper.size + by_lower.var(ddof=1) / lower.size
    return wins.mean(), math.sqrt(variance)


def select_classes(metric, y_true, y_score, mask):
    pos, neg = y_score[y_true & ~mask], y_score[~y_true & ~mask]
    sub_pos, sub_neg = y_score[y_true & mask], y_score[~y_true & mask]
    return {
        "subgroup_auc": (sub_neg, sub_pos),
        "bpsn_auc": (sub_neg, pos),
        "bnsp_auc": (neg, sub_pos),
        "positive_aeg": (pos, sub_pos),
        "negative_aeg": (neg, sub_neg),
    }[metric]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_standard_errors_are_delongs_by_comparing_every_pair(metric, ties, dtype):
    for seed in range(3):
        y_true, y_score, masks = draw_rows(seed, ties=ties)
        y_score = y_score.astype(dtype)
        report = evaluate_bias(y_true, y_score, masks)
        for name, mask in masks.items():
            value, std_error = compute_naive_delong(*select_classes(metric, y_true, y_score, mask))
            cell = getattr(report.subgroups[name], metric)
            centre = 0.5 if metric.endswith("_aeg") else 0.0
            assert cell.value == pytest.approx(value - centre, abs=1e-12)
            assert cell.std_error == pytest.approx(std_error, abs=1e-12)


def test_the_overall_standard_error_is_delongs():
    y_true, y_score, _ = draw_rows()
    measured = bias_metrics.roc_auc(y_true, y_score)
    expected = compute_naive_delong(y_score[~y_true], y_score[y_true])
    assert (measured.value, measured.std_error) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("intervals", [True, "cells", False])
def test_values_are_the_same_whatever_intervals_are_asked_for(intervals):
    rows = draw_rows()
    expected = evaluate_bias(*rows, intervals=False)
    table = evaluate_bias(*rows, intervals=intervals)
    for name, metric in itertools.product(rows[2], METRICS):
        one, other = (getattr(r.subgroups[name], metric) for r in (table, expected))
        assert one.value == other.value
        assert (one.low is None) == (intervals is False)
    assert table.overall.final_score.value == expected.overall.final_score.value
    assert (table.overall.final_score.low is None) == (intervals is not True)


def test_an_interval_that_was_not_asked_for_is_null_with_that_reason():
    [cell] = [
        one
        for one in evaluate_bias(*draw_rows(), intervals=False).to_dict()["numbers"]
        if one["metric"] == "auc"
    ]
    assert cell.keys() == {"metric", "value", "std_error", "low", "high", "reason"}
    assert cell["low"] is None
    assert cell["reason"] == "intervals were not asked for"


def test_steps_of_influence_add_up_to_the_naive_derivative_of_the_final_score():
    """Repeat each row once more and see how the final score moves: the jackknife's way."""
    y_true, y_score, masks = draw_rows(n=80)
    report = evaluate_bias(y_true, y_score, masks)
    moved = []
    for row in range(y_true.size):
        left = np.arange(y_true.size) != row
        kept = {name: mask[left] for name, mask in masks.items()}
        moved.append(evaluate_bias(y_true[left], y_score[left], kept).overall.final_score.value)
    moved = np.array(moved)
    n = np.array([np.sum(y_true == label) for label in y_true])
    squares = 0.0
    for label in (True, False):
        of_class = moved[y_true == label]
        squares += (
            (n[y_true == label][0] - 1) / of_class.size * np.sum((of_class - of_class.mean()) ** 2)
        )
    assert report.overall.final_score.std_error == pytest.approx(math.sqrt(squares), rel=0.1)


def test_the_bootstrap_agrees_with_the_standard_error_of_the_aggregates():
    y_true, y_score, masks = draw_rows(n=1500)
    report = evaluate_bias(y_true, y_score, masks)
    rng = np.random.default_rng(1)
    drawn = {name: [] for name in ("final_score", *FINAL_SCORE_PARTS)}
    of_class = [np.flatnonzero(y_true), np.flatnonzero(~y_true)]
    for _ in range(300):
        rows = np.concatenate(
            [rng.choice(rows_in_class, rows_in_class.size) for rows_in_class in of_class]
        )
        again = evaluate_bias(
            y_true[rows],
            y_score[rows],
            {name: mask[rows] for name, mask in masks.items()},
            intervals=False,
        )
        drawn["final_score"].append(again.overall.final_score.value)
        for name in FINAL_SCORE_PARTS:
            drawn[name].append(again.overall[name].value)
    # 300 draws know a standard deviation to 4 %; four of those.
    assert np.std(drawn["final_score"]) == pytest.approx(
        report.overall.final_score.std_error, rel=0.17
    )
    for name in FINAL_SCORE_PARTS:
        expected = report.overall[name].std_error
        assert np.std(drawn[name]) == pytest.approx(expected, rel=0.17)


def test_an_influence_adds_up_to_delongs_variance_and_to_nothing_over_all_rows():
    y_true, y_score, masks = draw_rows()
    ranked = rank_rows(y_true, y_score)
    members = ranked.select_members(np.flatnonzero(masks["gay"]))
    for metric in METRICS:
        influence = Influence.make_empty(ranked)
        influence.add_auc(metric, members.comparisons[metric], members, 1.0)
        influence.sum_differences()
        by_row = influence.expand_rows(ranked)
        _, std_error = compute_naive_delong(*select_classes(metric, y_true, y_score, masks["gay"]))
        assert math.sqrt(sum_squares(influence.split_classes())[0]) == pytest.approx(
            std_error, abs=1e-12
        )
        assert math.sqrt(by_row @ by_row) == pytest.approx(std_error, abs=1e-12)
        assert abs(by_row.sum()) < 1e-12


def test_clusters_of_one_row_leave_every_standard_error():
    y_true, y_score, masks = draw_rows(n=900)
    alone = evaluate_bias(y_true, y_score, masks)
    single = evaluate_bias(y_true, y_score, masks, clusters=np.arange(900))
    assert single.overall.auc.std_error == pytest.approx(alone.overall.auc.std_error)
    assert single.overall.auc.row_std_error == alone.overall.auc.std_error
    assert single.overall.final_score.std_error == pytest.approx(
        alone.overall.final_score.std_error
    )
    assert single.overall.auc.value == alone.overall.auc.value
    for name, metric in itertools.product(masks, METRICS):
        one, other = (getattr(r.subgroups[name], metric) for r in (alone, single))
        assert other.std_error == pytest.approx(one.std_error)


def test_repeating_every_row_within_its_cluster_leaves_the_clustered_error_and_halves_no_more():
    y_true, y_score, masks = draw_rows(n=600, ties=False)
    once = evaluate_bias(y_true, y_score, masks, clusters=np.arange(600))
    twice = evaluate_bias(
        np.tile(y_true, 2),
        np.tile(y_score, 2),
        {name: np.tile(mask, 2) for name, mask in masks.items()},
        clusters=np.tile(np.arange(600), 2),
    )
    for name, metric in itertools.product(masks, METRICS):
        one, two = (getattr(r.subgroups[name], metric) for r in (once, twice))
        assert two.std_error == pytest.approx(one.std_error, rel=0.02)
        assert two.row_std_error == pytest.approx(one.row_std_error / math.sqrt(2), rel=0.02)


def test_under_twenty_clusters_there_is_no_interval_and_the_reason_says_so():
    y_true, y_score, masks = draw_rows(n=900)
    report = evaluate_bias(y_true, y_score, masks, clusters=np.arange(900) % 19)
    cell = report.subgroups["gay"].bpsn_auc
    assert cell.value is not None
    assert cell.std_error is not None
    assert cell.low is None
    assert cell.reason == "19 clusters where 20 are needed"
    assert report.overall.final_score.low is None
    enough = evaluate_bias(y_true, y_score, masks, clusters=np.arange(900) % 20)
    assert enough.subgroups["gay"].bpsn_auc.low is not None


@pytest.mark.parametrize("metric", ["bnsp_auc", "subgroup_auc", "positive_aeg"])
def test_clusters_of_the_class_that_is_compared_count(metric):
    y_true, y_score, masks = draw_rows(n=4000)
    codes = np.arange(4000) % 200
    codes[masks["gay"] & y_true] %= 5  # toxic mentions come from 5 threads
    report = evaluate_bias(y_true, y_score, masks, clusters=codes)
    cell = getattr(report.subgroups["gay"], metric)
    assert (cell.n_clusters, cell.reason) == (5, "5 clusters where 20 are needed")
    assert report.subgroups["gay"].bpsn_auc.n_clusters == 200
    assert report.subgroups["gay"].bpsn_auc.low is not None
    assert report.overall.bnsp_auc.n_clusters == 5
    assert report.overall.bnsp_auc.low is report.overall.final_score.low is None
    assert report.overall.bpsn_auc.low is not None


def test_a_perfect_cell_has_an_interval_below_1_with_clusters_too():
    y_true = np.arange(200) % 2 == 1
    mask = np.arange(200) % 4 < 2
    report = evaluate_bias(y_true, y_true * 1.0, {"gay": mask}, clusters=np.arange(200) // 4)
    cell = report.subgroups["gay"].subgroup_auc
    assert cell.value == cell.high == 1
    assert cell.low < 1
    assert report.overall.final_score.low < report.overall.final_score.high == 1


def test_a_power_mean_with_a_zero_has_no_standard_error():
    y_true = [0, 0, 1, 1, 0, 0, 1, 1]
    y_score = [0.7, 0.8, 0.1, 0.2, 0.1, 0.2, 0.8, 0.9]
    report = evaluate_bias(y_true, y_score, {"reversed": [1] * 4 + [0] * 4})
    assert report.overall.subgroup_auc.value == 0
    assert "is 0, where a power mean has no derivative" in report.overall.subgroup_auc.reason
    assert report.overall.final_score.low is None
    assert report.overall.final_score.value is not None


@pytest.mark.parametrize("clusters", [None, np.arange(80) // 2], ids=["rows", "clusters"])
def test_a_power_mean_of_1_reaches_as_far_as_one_more_row_in_each_cell(clusters):
    y_true = np.arange(80) % 2 == 1
    masks = {"gay": np.arange(80) % 4 < 2, "old": np.arange(80) < 40}
    report = evaluate_bias(y_true, y_true * 1.0, masks, clusters=clusters)
    # Each identity has 20 rows of each class, and as many clusters; a row falls from 1 to 3/4, and
    # 8 of 20 times as far again, as there are few rows.
    z = student_quantile(0.95, 19 if clusters is not None else np.inf)
    of_mean = (1 + 8 / 20) * math.hypot(0.25 / 21, 0.25 / 21) / 2
    for mean in (report.overall[metric] for metric in FINAL_SCORE_PARTS):
        assert (mean.value, mean.high) == (1, 1)
        assert 1 - mean.low == pytest.approx(z * of_mean, rel=1e-6)
    of_final = math.sqrt(3) * of_mean / 4
    assert 1 - report.overall.final_score.low == pytest.approx(z * of_final, rel=1e-6)


def test_three_rows_of_each_class_in_perfect_order_do_not_prove_a_power_mean():
    rng = np.random.default_rng(2)
    y_true = rng.random(4000) < 0.5
    y_score = rng.normal(size=4000) + 4 * y_true
    tiny = np.zeros(4000, dtype=bool)
    for label in (True, False):
        of_class = np.flatnonzero(y_true == label)
        tiny[of_class[np.argsort(np.abs(y_score[of_class] - 4 * label))[:3]]] = True
    masks = {"large": rng.random(4000) < 0.5, "tiny": tiny}
    report = evaluate_bias(y_true, y_score, masks)
    mean = report.overall.subgroup_auc
    assert report.subgroups["tiny"].subgroup_auc.value == 1
    assert mean.value > 0.99
    assert mean.low < 0.95
    large = evaluate_bias(y_true, y_score, {"large": masks["large"]}).overall.subgroup_auc
    assert large.low > 0.98


def test_a_class_of_one_row_has_no_interval():
    report = evaluate_bias([1, 0, 0, 1, 0], [0.5, 0.1, 0.6, 0.4, 0.2], {"gay": [1, 1, 1, 0, 0]})
    assert report.subgroups["gay"].subgroup_auc.reason == "fewer than 2 rows in a class"
    assert report.overall.subgroup_auc.reason == "gay has no standard error"
    assert report.overall.final_score.reason is not None
    one_positive = evaluate_bias([1, 0, 0], [0.5, 0.1, 0.6], {})
    assert one_positive.overall.final_score.low is None


@pytest.mark.parametrize("confidence", [0, 1, -1, 95])
def test_confidence_must_be_between_0_and_1(confidence):
    with pytest.raises(ValueError, match=r"`confidence` must be between 0 and 1, as in 0\.95"):
        evaluate_bias(*draw_rows(), confidence=confidence)


def test_more_confidence_makes_a_wider_interval():
    wide, narrow = (
        evaluate_bias(*draw_rows(), confidence=level).overall.auc for level in (0.99, 0.8)
    )
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (np.zeros(299), "`clusters` must have 300 rows like `y_true`; got 299"),
        (np.full(300, np.nan), r"`clusters` must not be missing; got nan \(row 0\)"),
    ],
)
def test_clusters_are_one_for_each_row(clusters, message):
    with pytest.raises(ValueError, match=message):
        evaluate_bias(*draw_rows(), clusters=clusters)


def test_clusters_may_be_names():
    names = [f"article {row % 30}" for row in range(300)]
    named = evaluate_bias(*draw_rows(), clusters=names)
    numbered = evaluate_bias(*draw_rows(), clusters=np.arange(300) % 30)
    assert named.overall.final_score.std_error == pytest.approx(
        numbered.overall.final_score.std_error
    )
    assert named.overall.auc.low == pytest.approx(numbered.overall.auc.low)


@pytest.mark.parametrize(
    ("confidence", "freedom", "expected"),
    [
        # Student's table.
        (0.95, math.inf, 1.959964),
        (0.95, 19, 2.093024),
        (0.90, 19, 1.729133),
        (0.99, 19, 2.860935),
        (0.95, 60, 2.000298),
    ],
)
def test_quantiles_are_those_of_the_tables(confidence, freedom, expected):
    assert student_quantile(confidence, freedom) == pytest.approx(expected, abs=2e-5)


def test_newcombes_interval_solves_its_equation_and_never_has_zero_width():
    low, high = newcombe_interval(0.9, 50, 80, 1.96)
    for end in (low, high):
        n = (50 + 80) / 2 - 1
        spread = 1 + n * ((1 - end) / (2 - end) + end / (1 + end))
        error = math.sqrt(end * (1 - end) * spread / (50 * 80))
        assert abs(end - 0.9) == pytest.approx(1.96 * error, abs=1e-9)
    assert newcombe_interval(1.0, 50, 80, 1.96)[0] < 1
    assert newcombe_interval(1.0, 50, 80, 1.96)[1] == 1
    assert newcombe_interval(0.0, 50, 80, 1.96)[0] == 0
    assert newcombe_interval(0.0, 50, 80, 1.96)[1] > 0


def test_few_errors_take_the_union_and_many_the_logit_interval():
    logit = logit_interval(0.97, 0.01, 1.96)
    assert auc_interval(0.97, 0.01, 700, 5000, 1.96) == logit
    for n in (199, 200, 201, 660):  # 20 errors are 667 rows
        low, high = auc_interval(0.97, 0.01, n, 5000, 1.96)
        wide = newcombe_interval(0.97, n, 5000, 1.96)
        assert (low, high) == (min(logit[0], wide[0]), max(logit[1], wide[1]))
    assert auc_interval(0.7, 0.05, 80, 5000, 1.96) == logit_interval(0.7, 0.05, 1.96)
    assert auc_interval(1.0, 0.0, 5000, 5000, 1.96)[0] < 1
    assert auc_interval(0.5, 0.0, 5000, 5000, 1.96)[0] < 0.5


def test_an_error_of_40_degrees_of_freedom_is_trusted_and_one_of_fewer_is_not():
    wide, narrow = (
        auc_interval(0.97, 0.001, 200, 5000, 1.96, freedom=of) for of in (40 - 1e-9, 40.0)
    )
    assert wide[0] < narrow[0] - 0.01


@pytest.mark.parametrize(
    ("value", "std_error", "sizes", "freedom", "unions"),
    [
        # 1.5 errors: the fewer degrees of freedom, the less is the standard error trusted.
        (0.95, 0.01, (5000, 30), 7.99, [(5000, 30), (30, 30)]),
        (0.95, 0.01, (5000, 30), 8.0, [(5000, 30)]),
        (0.95, 0.01, (30, 5000), 39.99, [(30, 5000)]),
        (0.95, 0.01, (30, 5000), 40.0, []),
        # 20 errors are not few.
        (0.95, 0.0001, (400, 5000), 7.0, []),
        (0.95, 0.0001, (399, 5000), 7.0, [(399, 5000), (399, 399)]),
        (0.05, 0.0001, (5000, 399), 7.0, [(5000, 399), (399, 399)]),
    ],
)
def test_with_few_errors_the_degrees_of_freedom_say_what_an_interval_must_hold(
    value, std_error, sizes, freedom, unions
):
    stats = pytest.importorskip("scipy.stats")
    t = stats.t.ppf(stats.norm.cdf(1.96), max(freedom, 8))
    ends = [logit_interval(value, std_error, t)]
    ends += [newcombe_interval(value, *of, 1.96) for of in unions]
    expected = min(low for low, _ in ends), max(high for _, high in ends)
    found = auc_interval(value, std_error, *sizes, 1.96, freedom=freedom)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("value", "n", "unions"),
    [(1.0, (5000, 30), [(5000, 30), (30, 30)]), (0.5, (400, 30), [(30, 30), (400, 30)])],
)
def test_without_an_error_an_interval_is_newcombes_however_many_degrees_of_freedom(
    value, n, unions
):
    ends = [newcombe_interval(value, *of, 1.96) for of in unions]
    expected = min(low for low, _ in ends), max(high for _, high in ends)
    assert auc_interval(value, 0.0, *n, 1.96, freedom=math.inf) == pytest.approx(expected)


@pytest.mark.parametrize("sizes", [(7, 12), (3, 40), (25, 2)])
def test_degrees_of_freedom_are_those_of_the_fourth_moments_of_placements(sizes):
    """2 V^2 over the variance of V, a sum of two sample variances (Satterthwaite 1946)."""
    rng = np.random.default_rng(sum(sizes))
    upper, lower = (np.sort(rng.integers(0, 9, n) / 10) for n in sizes)
    wins = (upper[:, None] > lower) + 0.5 * (upper[:, None] == lower)
    variance = error = 0.0
    for placed in (wins.mean(axis=1), wins.mean(axis=0)):
        n, apart = placed.size, placed - placed.mean()
        second, fourth = (apart**2).mean(), (apart**4).mean()
        variance += placed.var(ddof=1) / n
        error += (fourth - second**2 * (n - 3) / (n - 1)) / n**3
    runs = find_runs(upper)
    assert delong_variance(place_runs(lower, runs), runs) == pytest.approx(
        (variance, 2 * variance**2 / error)
    )


def test_a_floor_just_below_200_positives_and_just_above_passes_alike():
    ends = [auc_interval(0.99, 0.004, n, 4200, 1.645)[0] for n in (199, 200, 201)]
    assert max(ends) - min(ends) < 1e-4


@pytest.mark.parametrize(
    ("n_clusters", "effective", "freedom"),
    [(49, 49.0, 29.0), (1000, 599.0, 29.0), (1000, 1000.0, None)],
    ids=["few clusters", "unequal clusters", "unknown degrees of freedom"],
)
def test_an_error_of_clusters_that_cannot_be_trusted_takes_the_union(
    n_clusters, effective, freedom
):
    options = {"n_clusters": n_clusters, "effective": effective, "freedom": freedom}
    newcombe = newcombe_interval(0.9, 40, 60, 1.96)
    assert auc_interval(0.9, 0.001, 40, 60, 1.96, **options) == newcombe
    assert auc_interval(0.9, 0.1, 40, 60, 1.96, **options) == logit_interval(0.9, 0.1, 1.96)


@pytest.mark.parametrize(
    ("n_clusters", "effective", "freedom"),
    [(50, 30.0, 8.0), (49, 5.0, 30.0)],
    ids=["alike", "firm"],
)
@pytest.mark.parametrize("std_error", [0.01, 0.1])
def test_an_error_of_clusters_that_can_be_trusted_moves_newcombes_ends(
    n_clusters, effective, freedom, std_error
):
    options = {"n_clusters": n_clusters, "effective": effective, "freedom": freedom}

    def newcombes_variance(auc):
        spread = 1 + 49 * ((1 - auc) / (2 - auc) + auc / (1 + auc))
        return auc * (1 - auc) * spread / (40 * 60)

    own = std_error**2 / newcombes_variance(0.9)
    assert (own < 1) == (std_error == 0.01)
    pooled = own if own > 1 else (freedom * own + 12) / (freedom + 12)
    for end in auc_interval(0.9, std_error, 40, 60, 1.96, **options):
        distance = 1.96 * math.sqrt(pooled * newcombes_variance(end))
        assert abs(end - 0.9) == pytest.approx(distance, abs=1e-9)


def test_a_perfect_auc_of_many_clusters_has_newcombes_interval():
    perfect = auc_interval(1.0, 0.0, 400, 600, 1.96, n_clusters=1000, freedom=np.inf)
    assert perfect == newcombe_interval(1.0, 400, 600, 1.96)


def test_a_perfect_cell_of_clusters_is_worth_as_many_rows_as_it_has_clusters():
    codes = np.repeat(np.arange(30), 40)
    y_true = codes % 2 == 1
    codes[600:] += 30 * (np.arange(600) % 2)  # 15 + 15 + 15 clusters of each class at most
    report = evaluate_bias(y_true, y_true * 1.0, {"all": np.ones(1200, dtype=bool)}, clusters=codes)
    cell = report.subgroups["all"].subgroup_auc
    counts = [np.unique(codes[y_true == label]).size for label in (False, True)]
    z = student_quantile(0.95, (600**2 / (np.bincount(codes[~y_true]) ** 2).sum()) - 1)
    assert cell.n_clusters == min(counts)
    assert cell.low == pytest.approx(newcombe_interval(1.0, *counts, z)[0], abs=0.002)
    assert cell.low < newcombe_interval(1.0, 600, 600, 1.96)[0]


def test_a_cell_that_rests_on_a_few_large_clusters_has_few_degrees_of_freedom():
    y_true, y_score, masks = draw_rows(n=3000)
    codes = np.where(np.arange(3000) % 2 == 0, np.arange(3000) // 2 % 2, np.arange(3000) % 60)
    cell = evaluate_bias(y_true, y_score, masks, clusters=codes).subgroups["gay"].bnsp_auc
    sizes = [np.bincount(codes[rows]) for rows in (masks["gay"] & y_true, ~masks["gay"] & ~y_true)]
    effective = min(n.sum() ** 2 / (n @ n) for n in sizes)
    low, high = logit_interval(cell.value, cell.std_error, student_quantile(0.95, effective - 1))
    assert cell.low <= low < high <= cell.high
    assert cell.n_clusters < 60
    assert effective < 10


def test_p_values_are_those_of_the_normal_distribution():
    assert compute_p_value(1.959964, 1.0) == pytest.approx(0.05, abs=1e-6)
    assert compute_p_value(0.0, 0.0) == 1
    assert compute_p_value(0.1, 0.0) == 0


def test_an_influence_that_is_cleared_is_none():
    ranked = rank_rows(*draw_rows(60)[:2])
    total, influence = (Influence.make_empty(ranked) for _ in range(2))
    influence.add_auc("auc", compare_all_rows(ranked.everyone), None, 1.0)
    influence.sum_differences(total, 0.25)
    assert (
        sum_squares(total.split_classes())[0] == sum_squares(influence.split_classes())[0] / 16 > 0
    )
    influence.clear()
    assert sum_squares(influence.split_classes())[0] == 0


def test_influences_of_more_rows_than_a_block_add_up_to_the_standard_error():
    y_true, y_score, _ = draw_rows(n=3 * BLOCK)
    ranked, total = rank_rows(y_true, y_score), Influence(int(y_true.sum()), int((~y_true).sum()))
    influence = Influence.make_empty(ranked)
    influence.add_auc("auc", compare_all_rows(ranked.everyone), None, 1.0)
    influence.sum_differences(total, 2.0)
    expected = roc_auc(y_true, y_score).std_error
    assert influence.compute_error()[0] == pytest.approx(expected)
    assert total.compute_error()[0] == pytest.approx(2 * expected)


def test_the_influences_of_the_aggregates_name_what_they_lack():
    y_true, y_score, masks = draw_rows()
    report = evaluate_bias(y_true, y_score, {"none": np.zeros(300, dtype=bool)})
    ranked = rank_rows(y_true, y_score)
    members = {"none": ranked.select_members(np.array([], dtype=np.intp))}
    found = dict(iterate_influences(report, members, ranked))
    assert found["bpsn_auc"] == "undefined for none"
    assert found["final_score"] == "undefined for none"
    assert masks
