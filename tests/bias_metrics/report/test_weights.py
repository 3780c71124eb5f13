"""Frequencies against repeated rows, and sampling weights against naive sums."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import Rows, compare_bias, evaluate_bias, evaluate_slices
from bias_metrics._core.intervals import auc_interval, student_quantile
from bias_metrics._core.masks import PackedMasks
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, PAIRS, SUBGROUP_METRICS
from bias_metrics.rows import MOST_ROWS, select_masks

N = 400


def draw_rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.4
    y_score = np.round(rng.random(n) + 0.4 * y_true, 1)
    masks = {"gay": rng.random(n) < 0.4, "muslim": rng.random(n) < 0.3}
    return y_true, y_score, masks


def draw_other_scores(y_score, seed=5):
    return np.round(y_score + np.random.default_rng(seed).normal(0, 0.2, y_score.size), 1)


def draw_weights(seed=1, n=N):
    return np.random.default_rng(seed).lognormal(0, 0.7, n)


def draw_frequencies(seed=2, n=N):
    return np.random.default_rng(seed).integers(0, 4, n)


def draw_codes(seed=3, n=N):
    return np.random.default_rng(seed).integers(0, 70, n)


def select_classes(metric, y_true, mask, background):
    """Return the row numbers of x and y, by the metric's definition."""
    pair = PAIRS[metric]
    of_x = (y_true == (pair.x == "positive")) & mask
    of_y = (y_true == (pair.y == "positive")) & (mask if pair.inside else background)
    return np.flatnonzero(of_x), np.flatnonzero(of_y)


def compute_naive_influences(metric, y_true, y_score, mask, weight, background=None):
    """Compute the influence of every row on a weighted AUC, from all pairs."""
    x, y = select_classes(metric, y_true, mask, ~mask if background is None else background)
    wins = (y_score[x][:, None] > y_score[y]) + 0.5 * (y_score[x][:, None] == y_score[y])
    found = np.zeros(y_true.size)
    for rows, placements, sign in (
        (x, np.average(wins, axis=1, weights=weight[y]), 1),
        (y, np.average(wins, axis=0, weights=weight[x]), 1),
    ):
        share = weight[rows] / weight[rows].sum()
        deviations = placements - share @ placements
        found[rows] += sign * share * deviations / np.sqrt(1 - share)
    value = weight[x] @ wins @ weight[y] / weight[x].sum() / weight[y].sum()
    flip = PAIRS[metric].flip
    return (1 - value if flip else value), (-found if flip else found)


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_frequencies_give_what_repeated_rows_give(background, clustered):
    y_true, y_score, masks = draw_rows()
    times = draw_frequencies()
    rows = np.repeat(np.arange(N), times)
    clusters = draw_codes() if clustered else None
    options = {"background": background}
    table = evaluate_bias(
        y_true,
        y_score,
        masks,
        sample_weight=times,
        weight_kind="frequency",
        clusters=clusters,
        **options,
    )
    repeated = evaluate_bias(
        y_true[rows],
        y_score[rows],
        select_masks(masks, rows),
        clusters=None if clusters is None else clusters[rows],
        **options,
    )
    assert table == repeated


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_a_comparison_by_frequencies_is_that_of_repeated_rows(clustered):
    y_true, y_score, masks = draw_rows()
    second, times = draw_other_scores(y_score), draw_frequencies()
    rows = np.repeat(np.arange(N), times)
    clusters = draw_codes() if clustered else None
    comparison = compare_bias(
        y_true,
        y_score,
        second,
        masks,
        sample_weight=times,
        weight_kind="frequency",
        clusters=clusters,
    )
    repeated = compare_bias(
        y_true[rows],
        y_score[rows],
        second[rows],
        select_masks(masks, rows),
        clusters=None if clusters is None else clusters[rows],
    )
    assert comparison == repeated


def test_slices_by_frequencies_are_those_of_repeated_rows():
    y_true, y_score, masks = draw_rows()
    times = draw_frequencies()
    rows = np.repeat(np.arange(N), times)
    short = np.arange(N) % 2 == 0
    options = {"sample_weight": times, "weight_kind": "frequency"}
    reports = evaluate_slices(Rows(y_true, masks, **options), y_score, slices={"short": short})
    repeated = evaluate_slices(
        Rows(y_true[rows], select_masks(masks, rows)), y_score[rows], slices={"short": short[rows]}
    )
    assert reports == repeated


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_errors_of_sampling_weights_are_those_of_a_naive_sum(background):
    y_true, y_score, masks = draw_rows()
    weight = draw_weights()
    report = evaluate_bias(y_true, y_score, masks, sample_weight=weight, background=background)
    shared = ~(masks["gay"] | masks["muslim"]) if background == "no_identity" else None
    for name, metric in itertools.product(masks, SUBGROUP_METRICS):
        naive = compute_naive_influences(metric, y_true, y_score, masks[name], weight, shared)
        cell = getattr(report.subgroups[name], metric)
        assert cell.value == pytest.approx(naive[0] - METRICS[metric].centre, abs=1e-12)
        assert cell.std_error == pytest.approx(math.sqrt(naive[1] @ naive[1]), rel=1e-10)


def test_the_interval_uses_effective_sizes_and_few_degrees_of_freedom():
    y_true, y_score, masks = draw_rows()
    weight = draw_weights()
    cell = evaluate_bias(y_true, y_score, masks, sample_weight=weight).subgroups["gay"].bnsp_auc
    _, each = compute_naive_influences("bnsp_auc", y_true, y_score, masks["gay"], weight)
    x, y = select_classes("bnsp_auc", y_true, masks["gay"], ~masks["gay"])
    error = 0.0
    for of_class in (each[rows] ** 2 for rows in (x, y)):
        n, squares = of_class.size, of_class.sum()
        error += max(of_class @ of_class - squares**2 / n, 2 * squares**2 / (n - 1))
    freedom = 2 * (each @ each) ** 2 / error
    sizes = [weight[rows].sum() ** 2 / (weight[rows] ** 2).sum() for rows in (y, x)]
    z = student_quantile(0.95)
    expected = auc_interval(cell.value, cell.std_error, *sizes, z, freedom=freedom)
    assert (cell.low, cell.high) == pytest.approx(expected, abs=1e-12)


def test_effective_rows_are_kishs():
    report = evaluate_bias(
        [1, 1, 1, 0, 0, 0, 0],
        [0.9, 0.8, 0.3, 0.1, 0.2, 0.7, 0.4],
        {"gay": [1, 1, 0, 1, 0, 0, 0]},
        sample_weight=[1, 3, 5, 2, 1, 1, 2],
    )
    assert report.counts["gay"].effective == pytest.approx(
        {
            "positive": 4**2 / (1 + 9),
            "negative": 1.0,
            "background_positive": 1.0,
            "background_negative": 4**2 / (1 + 1 + 4),
        }
    )
    assert report.counts[None].effective == pytest.approx(
        {"positive": 81 / 35, "negative": 36 / 10}
    )
    for counts in report.to_dict()["counts"]:
        assert counts["effective"] == report.counts[counts["group"]].effective


def test_an_empty_class_is_worth_no_rows():
    report = evaluate_bias([1, 0, 0], [0.9, 0.8, 0.3], {"gay": [0, 1, 0]}, sample_weight=[1, 2, 3])
    assert report.counts["gay"].effective["positive"] == 0
    assert evaluate_bias([1, 0], [0.9, 0.8], {}).counts[None].effective is None


def test_equal_weights_give_the_errors_of_no_weights():
    y_true, y_score, masks = draw_rows()
    plain = evaluate_bias(y_true, y_score, masks)
    weighted = evaluate_bias(y_true, y_score, masks, sample_weight=np.full(N, 2.5))
    for name, metric in itertools.product(masks, SUBGROUP_METRICS):
        cell, other = (getattr(one.subgroups[name], metric) for one in (weighted, plain))
        assert cell.value == pytest.approx(other.value, abs=1e-12)
        assert cell.std_error == pytest.approx(other.std_error, rel=1e-10)
    assert weighted.overall.final_score.std_error == pytest.approx(
        plain.overall.final_score.std_error, rel=1e-10
    )


def test_only_the_ratios_of_sampling_weights_matter():
    y_true, y_score, masks = draw_rows()
    weight = draw_weights()
    one, other = (
        evaluate_bias(y_true, y_score, masks, sample_weight=scale * weight) for scale in (1, 2**40)
    )
    assert one == other


def test_as_sampling_weights_whole_numbers_give_the_same_values_and_wider_intervals():
    y_true, y_score, masks = draw_rows()
    options = {"sample_weight": draw_frequencies() + 1}
    sampled = evaluate_bias(y_true, y_score, masks, **options)
    repeated = evaluate_bias(y_true, y_score, masks, weight_kind="frequency", **options)
    assert sampled.overall.auc.value == repeated.overall.auc.value
    assert sampled.overall.auc.std_error > 1.2 * repeated.overall.auc.std_error


def test_rows_of_weight_0_do_not_count():
    y_true, y_score, masks = draw_rows()
    weight = draw_weights()
    weight[::3] = 0
    kept = weight > 0
    table = evaluate_bias(y_true, y_score, masks, sample_weight=weight, clusters=draw_codes())
    without = evaluate_bias(
        y_true[kept],
        y_score[kept],
        {name: mask[kept] for name, mask in masks.items()},
        sample_weight=weight[kept],
        clusters=draw_codes()[kept],
    )
    assert table == without


def test_a_background_that_is_far_outweighed_keeps_its_digits():
    y_true, y_score, masks = draw_rows()
    weight = np.where(masks["gay"], 1e14, 1.0) * draw_weights()
    report = evaluate_bias(y_true, y_score, {"gay": masks["gay"]}, sample_weight=weight)
    for metric in ("bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg"):
        value, each = compute_naive_influences(metric, y_true, y_score, masks["gay"], weight)
        cell = getattr(report.subgroups["gay"], metric)
        assert cell.value == pytest.approx(value - METRICS[metric].centre, abs=1e-13)
        assert cell.std_error == pytest.approx(math.sqrt(each @ each), rel=1e-10)


def test_a_class_dominated_by_one_row_has_no_interval():
    y_true, y_score, masks = draw_rows()
    weight = np.ones(N)
    weight[np.flatnonzero(masks["gay"] & y_true)[0]] = 1e9
    cell = evaluate_bias(y_true, y_score, masks, sample_weight=weight).subgroups["gay"].bnsp_auc
    assert cell.reason == "weights leave fewer than 2 effective rows in a class"
    assert (cell.std_error, cell.low) == (None, None)


@pytest.mark.parametrize("weight", [1.0, 0.1, 0.7, 1e9])
def test_a_class_of_two_equally_weighted_rows_has_an_interval(weight):
    weights = [weight, weight, 1, 2, 3]
    y_score = [0.5, 0.3, 0.1, 0.4, 0.2]
    auc = evaluate_bias([1, 1, 0, 0, 0], y_score, {}, sample_weight=weights).overall.auc
    assert auc.reason is None
    assert auc.value == pytest.approx((1 + (1 + 3) / 6) / 2)
    assert auc.low < auc.value < auc.high


def test_a_class_of_one_weighted_row_has_no_interval():
    y_true, y_score, subgroups = (
        [1, 0, 0, 1, 0],
        [0.5, 0.1, 0.6, 0.4, 0.2],
        {"gay": [1, 1, 1, 0, 0]},
    )
    report = evaluate_bias(y_true, y_score, subgroups, sample_weight=[1, 2, 3, 4, 5])
    assert report.subgroups["gay"].subgroup_auc.reason == "fewer than 2 rows in a class"
    assert report.overall.subgroup_auc.reason == "gay has no standard error"
    assert report.overall.final_score.reason is not None
    one_positive = evaluate_bias([1, 0, 0], [0.5, 0.1, 0.6], {}, sample_weight=[1, 2, 3])
    assert one_positive.overall.subgroup_auc.reason is not None
    assert one_positive.overall.final_score.low is None


def test_the_final_scores_error_is_that_of_a_naive_sum():
    y_true, y_score, masks = draw_rows()
    weight = draw_weights()
    report = evaluate_bias(y_true, y_score, masks, sample_weight=weight)
    everyone = np.ones(N, dtype=bool)
    total = 0.25 * compute_naive_influences("subgroup_auc", y_true, y_score, everyone, weight)[1]
    for metric in FINAL_SCORE_PARTS:
        mean = report.overall[metric]
        for mask in masks.values():
            value, each = compute_naive_influences(metric, y_true, y_score, mask, weight)
            total += 0.25 * each * (value / mean.value) ** -6 / len(masks)
    found = report.overall.final_score
    assert found.std_error == pytest.approx(math.sqrt(total @ total), rel=1e-10)
    assert found.low < found.value < found.high
    assert found.n_clusters is None


def test_clusters_of_weighted_rows_add_up_their_influences():
    y_true, y_score, masks = draw_rows()
    weight, clusters = draw_weights(), draw_codes()
    report = evaluate_bias(y_true, y_score, masks, sample_weight=weight, clusters=clusters)
    cell = report.subgroups["gay"].bpsn_auc
    x, y = select_classes("bpsn_auc", y_true, masks["gay"], ~masks["gay"])
    wins = (y_score[y] > y_score[x][:, None]) + 0.5 * (y_score[y] == y_score[x][:, None])
    total = np.zeros(70)
    for rows, placements in (
        (x, np.average(wins, axis=1, weights=weight[y])),
        (y, np.average(wins, axis=0, weights=weight[x])),
    ):
        share = weight[rows] / weight[rows].sum()
        sums = np.bincount(clusters[rows], share * (placements - share @ placements), 70)
        total += sums / np.sqrt(1 - np.bincount(clusters[rows], share, 70))
    assert cell.std_error == pytest.approx(math.sqrt(total @ total), rel=1e-10)
    alone = evaluate_bias(y_true, y_score, masks, sample_weight=weight)
    assert cell.row_std_error == alone.subgroups["gay"].bpsn_auc.std_error
    assert report.overall.final_score.row_std_error == alone.overall.final_score.std_error
    assert report.overall.final_score.n_clusters < cell.n_clusters


def test_clusters_of_one_weighted_row_each_are_independent_rows():
    y_true, y_score, masks = draw_rows()
    weight = draw_weights()
    alone = evaluate_bias(y_true, y_score, masks, sample_weight=weight)
    clustered = evaluate_bias(
        y_true, y_score, masks, sample_weight=weight, clusters=np.arange(N), intervals="cells"
    )
    for name, metric in itertools.product(masks, SUBGROUP_METRICS):
        one, other = (getattr(found.subgroups[name], metric) for found in (alone, clustered))
        assert other.std_error == pytest.approx(one.std_error, rel=1e-10)
    assert clustered.overall.final_score.std_error is None


def test_cells_alone_are_those_of_the_whole_report():
    y_true, y_score, masks = draw_rows()
    weight = draw_weights()
    cells, whole = (
        evaluate_bias(y_true, y_score, masks, sample_weight=weight, intervals=intervals)
        for intervals in ("cells", True)
    )
    assert cells.subgroups == whole.subgroups
    assert cells.overall.final_score.value == whole.overall.final_score.value


def test_a_weighted_difference_has_the_error_of_a_naive_sum():
    y_true, y_score, masks = draw_rows()
    second, weight = draw_other_scores(y_score), draw_weights()
    comparison = compare_bias(y_true, y_score, second, masks, sample_weight=weight)
    cell = comparison.subgroups["gay"].negative_aeg
    a, b = (
        compute_naive_influences("negative_aeg", y_true, scores, masks["gay"], weight)[1]
        for scores in (y_score, second)
    )
    assert cell.std_error == pytest.approx(math.sqrt((a - b) @ (a - b)), rel=1e-9)
    assert cell.n_clusters is None
    assert cell.size_low is not None
    assert (
        comparison.overall.final_score.low
        < comparison.overall.final_score.value
        < comparison.overall.final_score.high
    )
    report = evaluate_bias(y_true, y_score, masks, sample_weight=weight)
    assert comparison.counts == report.counts
    assert {key: number.first for key, number in comparison.items()} == {
        key: number.value for key, number in report.items()
    }


def test_a_weighted_difference_of_clustered_rows_has_the_values_of_both_models():
    y_true, y_score, masks = draw_rows()
    second, options = draw_other_scores(y_score), {"sample_weight": draw_weights()}
    options["clusters"] = draw_codes()
    comparison = compare_bias(y_true, y_score, second, masks, **options)
    a, b = (evaluate_bias(y_true, scores, masks, **options) for scores in (y_score, second))
    assert comparison.counts == a.counts
    for key, one in comparison.items():
        assert (one.first, one.second) == (a[key].value, b[key].value)
    cell = comparison.subgroups["gay"].negative_aeg
    assert cell.n_clusters == a.subgroups["gay"].negative_aeg.n_clusters
    assert cell.low < cell.value < cell.high


def test_identical_scores_differ_by_0_whatever_the_weights():
    y_true, y_score, masks = draw_rows()
    comparison = compare_bias(y_true, y_score, y_score, masks, sample_weight=draw_weights())
    for one in (comparison.overall.auc, *comparison.subgroups["gay"].values()):
        assert one.value == 0
        assert one.low < 0 < one.high
    final = comparison.overall.final_score
    assert final.value == 0
    assert -0.01 < final.low < 0 < final.high < 0.01


def test_packed_memberships_are_repeated_too():
    y_true, y_score, masks = draw_rows()
    packed = PackedMasks.from_masks(masks.items(), N)
    options = {"sample_weight": draw_frequencies(), "weight_kind": "frequency"}
    second = draw_other_scores(y_score)
    comparison = compare_bias(y_true, y_score, second, packed, **options)
    assert comparison == compare_bias(y_true, y_score, second, masks, **options)


def test_a_frequency_must_be_whole():
    with pytest.raises(
        ValueError, match=r"`sample_weight` must be whole numbers .* got 1.5 \(row 1"
    ):
        evaluate_bias([1, 0], [0.1, 0.2], {}, sample_weight=[1, 1.5], weight_kind="frequency")


def test_frequencies_stand_for_a_limited_number_of_rows():
    with pytest.raises(ValueError, match=r"must sum to at most 1,000,000,000 .* got 1,000,000,001"):
        evaluate_bias([1, 0], [0.1, 0.2], {}, sample_weight=[1, MOST_ROWS], weight_kind="frequency")


def test_the_kind_of_weights_must_be_known():
    with pytest.raises(ValueError, match=r"`weight_kind` must be .*probability.*frequency"):
        evaluate_bias([1, 0], [0.1, 0.2], {}, weight_kind="importance")


def draw_population(rng, auc, n, weight_of):
    """Draw a class of scores by unequal probabilities; the weights undo them."""
    scores = rng.normal(0, 1, 12 * n)
    chance = weight_of(scores, rng)
    taken = np.flatnonzero(rng.random(scores.size) < chance)[:n]
    return scores[taken] + auc, 1 / chance[taken]


DESIGNS = {
    "oversampled high scores": lambda s, _: np.where(s > 0.5, 1.0, 0.2),
    "oversampled low scores": lambda s, _: np.where(s > 0, 0.25, 1.0),
    "unrelated": lambda s, rng: np.minimum(np.exp(rng.normal(0, 0.6, s.size) - 1.5), 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("n_positive", "auc"), [(60, 0.8), (150, 0.9), (500, 0.9)])
def test_intervals_of_sampling_weights_hold(design, n_positive, auc):
    rng = np.random.default_rng(11)
    shift = NormalDist().inv_cdf(auc) * math.sqrt(2)
    held, n_samples = 0, 1500
    for _ in range(n_samples):
        positive, of_positive = draw_population(rng, shift, n_positive, DESIGNS[design])
        negative, of_negative = draw_population(rng, 0.0, 4 * n_positive, DESIGNS[design])
        y_true = np.repeat([True, False], [positive.size, negative.size])
        cell = evaluate_bias(
            y_true,
            np.concatenate([positive, negative]),
            {},
            sample_weight=np.concatenate([of_positive, of_negative]),
            intervals="cells",
        ).overall.auc
        held += cell.low <= auc <= cell.high
    assert 0.93 <= held / n_samples <= 0.985
