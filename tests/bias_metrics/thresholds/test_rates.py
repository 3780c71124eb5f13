"""FPR and FNR gaps: by hand, against slow counts, their intervals, and two models."""

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import Rows, equal_error_range, equal_error_rate, rate_gaps
from bias_metrics._core.intervals import student_quantile
from bias_metrics._core.proportions import (
    clopper_pearson_interval,
    paired_change_interval,
    share_difference_interval,
)
from bias_metrics.estimate import LinearSummary
from bias_metrics.thresholds import compare_rate_gaps
from bias_metrics.thresholds.thresholds import compute_rate_reach

Z = NormalDist().inv_cdf(0.95)

# Of the subgroup four harmless and two toxic rows, of the background five and four.
Y_TRUE = [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1]
SCORES = [0.9, 0.5, 0.6, 0.1, 0.8, 0.2, 0.7, 0.1, 0.2, 0.3, 0.4, 0.9, 0.8, 0.3, 0.5]
GROUP = {"gay": [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]}


def draw_rows(n=400, seed=0, shift=0.5):
    rng = np.random.default_rng(seed)
    y_true, mask = rng.random(n) < 0.4, rng.random(n) < 0.3
    y_score = y_true + rng.normal(size=n) + shift * (mask & ~y_true)
    return y_true, y_score, mask, rng


def select_cell(table, metric="fpr_gap"):
    """The cell of the only subgroup."""
    (cells,) = table.subgroups.values()
    return cells[metric]


def test_the_gaps_of_fifteen_rows_are_those_counted_by_hand():
    table = rate_gaps(Rows(Y_TRUE, GROUP), SCORES, threshold=0.5)
    # .9, .5 and .6 of four harmless mentions are flagged; .7 of five others.
    assert select_cell(table).value == pytest.approx(Fraction(3, 4) - Fraction(1, 5))
    # .2 of two toxic mentions is missed; .3 of four others.
    assert select_cell(table, "fnr_gap").value == pytest.approx(Fraction(1, 2) - Fraction(1, 4))


def test_the_interval_of_nine_rows_is_the_formula_worked_out():
    gap = select_cell(rate_gaps(Rows(Y_TRUE, GROUP), SCORES, threshold=0.5, confidence=0.9))

    def compute_wilson(k, n):
        centre = (k + Z * Z / 2) / (n + Z * Z)
        reach = Z / (n + Z * Z) * math.sqrt(k * (n - k) / n + Z * Z / 4)
        return centre - reach, centre + reach

    (low, high), (other_low, other_high) = compute_wilson(3, 4), compute_wilson(1, 5)
    newcombe = 0.55 - math.hypot(0.75 - low, other_high - 0.2)
    caffo = 4 / 6 - 2 / 7 - Z * math.sqrt(4 / 6 * 2 / 6 / 6 + 2 / 7 * 5 / 7 / 7)
    assert gap.low == pytest.approx(min(newcombe, caffo))
    newcombe = 0.55 + math.hypot(high - 0.75, 0.2 - other_low)
    caffo = 4 / 6 - 2 / 7 + Z * math.sqrt(4 / 6 * 2 / 6 / 6 + 2 / 7 * 5 / 7 / 7)
    assert gap.high == pytest.approx(max(newcombe, caffo))
    assert gap.std_error == pytest.approx(math.sqrt(0.75 * 0.25 / 3 + 0.2 * 0.8 / 4))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_gaps_are_those_of_confusion_matrices(seed, background):
    metrics = pytest.importorskip("sklearn.metrics")
    y_true, y_score, mask, rng = draw_rows(seed=seed)
    other = rng.random(y_true.size) < 0.2
    table = rate_gaps(
        Rows(y_true, {"a": mask, "b": other}, background=background), y_score, threshold=0.7
    )
    outside = ~mask & ~other if background == "no_identity" else ~mask

    def count_rates(rows):
        tn, fp, fn, tp = metrics.confusion_matrix(y_true[rows], y_score[rows] >= 0.7).ravel()
        return fp / (fp + tn), fn / (fn + tp)

    for column, metric in enumerate(("fpr_gap", "fnr_gap")):
        expected = count_rates(mask)[column] - count_rates(outside)[column]
        assert table.subgroups["a"][metric].value == pytest.approx(expected)


def test_a_score_at_the_threshold_is_flagged():
    below = rate_gaps(Rows(Y_TRUE, GROUP), SCORES, threshold=np.nextafter(0.5, 1))
    assert select_cell(below).value == pytest.approx(2 / 4 - 1 / 5)


@pytest.mark.parametrize(
    ("labels", "mask", "metric", "reason"),
    [
        ([0, 0, 1, 1], [1, 1, 0, 0], "fnr_gap", "no subgroup positives"),
        ([0, 0, 1, 1], [1, 1, 0, 0], "fpr_gap", "no background negatives"),
        ([0, 0, 1, 1], [1, 0, 1, 0], "fpr_gap", "fewer than 2 rows in a class"),
    ],
)
def test_a_gap_without_its_rows_has_a_reason(labels, mask, metric, reason):
    gap = select_cell(
        rate_gaps(Rows(labels, {"g": mask}), [0.1, 0.9, 0.2, 0.8], threshold=0.5), metric
    )
    assert gap.reason == reason
    assert gap.low is None
    assert (gap.value is None) is ("fewer" not in reason)


def test_no_errors_at_all_have_an_interval_all_the_same():
    gap = select_cell(rate_gaps(Rows([0] * 80, {"g": [1, 0] * 40}), [0.1] * 80, threshold=0.5))
    assert gap.value == 0
    assert gap.low < -0.02 < 0.02 < gap.high


def test_the_interval_of_a_difference_of_shares_ends_at_1():
    """Of three rows each, all and none: 4/5 - 1/5, and 1.96 errors of sqrt(2 x .16 / 5)."""
    assert 3 / 5 + 1.96 * math.sqrt(2 * 0.16 / 5) > 1
    low, high = share_difference_interval(3, 3, 0, 3, 1.96)
    assert 0 < low < high == 1
    assert share_difference_interval(0, 3, 3, 3, 1.96) == pytest.approx((-1, -low))


def test_bounds_miss_on_one_side_about_as_often_as_they_say():
    """Exact: sums over both binomials, of 25 rows against 100."""
    n, n_other = 25, 100

    def compute_chances(size, share):
        k = np.arange(size + 1)
        logs = np.array([math.lgamma(size + 1) - math.lgamma(i + 1) for i in k])
        logs -= np.array([math.lgamma(size - i + 1) for i in k])
        return np.exp(logs + k * math.log(share) + (size - k) * math.log1p(-share))

    bounds = {}
    for share, gap in itertools.product((0.02, 0.1, 0.3), (-0.2, -0.05, 0.0, 0.05, 0.2)):
        if share + gap <= 0:
            continue
        own, other = compute_chances(n, share + gap), compute_chances(n_other, share)
        above = below = 0.0
        for k, k_other in itertools.product(range(n + 1), np.flatnonzero(other > 1e-5)):
            key = k, int(k_other)
            if key not in bounds:
                bounds[key] = share_difference_interval(k, n, int(k_other), n_other, Z)
            weight = own[k] * other[k_other]
            above += weight * (bounds[key][0] > gap)
            below += weight * (bounds[key][1] < gap)
        assert max(above, below) < 0.058, (share, gap)


# ------------------------------------------------------------------ clusters


def test_rows_that_come_in_copies_have_the_interval_of_one_copy_or_wider():
    y_true, y_score, mask, _ = draw_rows(n=300)
    once = select_cell(rate_gaps(Rows(y_true, {"g": mask}), y_score, threshold=0.7))
    four = [np.tile(values, 4) for values in (y_true, y_score, mask)]
    rows = Rows(four[0], {"g": four[2]}, clusters=np.tile(np.arange(300), 4))
    together = select_cell(rate_gaps(rows, four[1], threshold=0.7))
    assert together.value == pytest.approx(once.value)
    assert together.std_error == pytest.approx(once.std_error, rel=0.02)
    assert together.row_std_error == pytest.approx(once.std_error / 2, rel=0.05)
    assert together.high - together.low > 0.95 * (once.high - once.low)


def test_clusters_of_the_counted_class_are_counted_not_those_of_all_rows():
    y_true = np.array([True, False] * 200)
    clusters = np.where(y_true, np.arange(400), np.arange(400) // 2 % 10)
    mask = np.arange(400) < 200
    table = rate_gaps(
        Rows(y_true, {"g": mask}, clusters=clusters), np.linspace(0, 1, 400), threshold=0.5
    ).subgroups["g"]
    assert table["fpr_gap"].n_clusters == 10
    assert table["fpr_gap"].reason == "10 clusters where 20 are needed"
    assert table["fpr_gap"].low is None
    assert table["fnr_gap"].n_clusters == 100
    assert table["fnr_gap"].low is not None


@pytest.mark.parametrize("model", ["a", "b"])
def test_a_cluster_for_each_row_changes_little_where_a_threshold_is_estimated(model):
    y_true, first, mask, rng = draw_rows(n=4000)
    second = first + 0.5 * rng.normal(size=4000)

    def measure_width(estimated=(0.7, 0.7), clusters=None):
        options = {"threshold_a": 0.7, "threshold_b": 0.7}
        options |= dict.fromkeys(("threshold_range_a", "threshold_range_b"), (0.7, 0.7))
        options[f"threshold_range_{model}"] = estimated
        rows = Rows(y_true, {"g": mask}, clusters=clusters)
        gap = select_cell(compare_rate_gaps(rows, first, second, **options))
        return gap.high - gap.low

    by_row = measure_width((-0.5, 2.0))
    assert by_row > 1.5 * measure_width()
    assert measure_width((-0.5, 2.0), np.arange(4000)) == pytest.approx(by_row, rel=0.02)


def test_a_change_by_cluster_is_at_least_as_wide_as_by_row():
    y_true, first, mask, rng = draw_rows(n=800)
    second = first + 0.5 * rng.normal(size=800)
    options = {"threshold_a": 0.7, "threshold_b": 0.7}
    by_row = select_cell(compare_rate_gaps(Rows(y_true, {"g": mask}), first, second, **options))
    clusters = np.arange(800) // 4
    gap = select_cell(
        compare_rate_gaps(Rows(y_true, {"g": mask}, clusters=clusters), first, second, **options)
    )
    assert (gap.value, gap.n_clusters) == (by_row.value, gap.n_clusters)
    assert gap.low <= by_row.low < by_row.high <= gap.high
    assert gap.size_high >= by_row.size_high
    few = select_cell(
        compare_rate_gaps(
            Rows(y_true, {"g": mask}, clusters=clusters % 9), first, second, **options
        )
    )
    assert (few.low, few.reason) == (None, "9 clusters where 20 are needed")


# ------------------------------------------------------------------ two models


def test_a_difference_is_that_of_the_two_gaps():
    y_true, first, mask, rng = draw_rows()
    second = first + rng.normal(size=400)
    table = compare_rate_gaps(
        Rows(y_true, {"g": mask}), first, second, threshold_a=0.7, threshold_b=0.9
    )
    for metric in ("fpr_gap", "fnr_gap"):
        a = select_cell(rate_gaps(Rows(y_true, {"g": mask}), first, threshold=0.7), metric)
        b = select_cell(rate_gaps(Rows(y_true, {"g": mask}), second, threshold=0.9), metric)
        difference = select_cell(table, metric)
        assert (difference.first, difference.second) == (a.value, b.value)
        assert difference.value == pytest.approx(a.value - b.value)
        assert difference.low < difference.value < difference.high
    assert table.thresholds == {("given", None): 0.7, ("given", "second"): 0.9}


def test_models_that_decide_alike_may_differ_on_rows_that_were_not_drawn():
    y_true, first, mask, _ = draw_rows()
    table = compare_rate_gaps(
        Rows(y_true, {"g": mask}), first, 2 * first, threshold_a=0.7, threshold_b=1.4
    )
    difference = select_cell(table)
    # Of n rows without a change, the share that changes may be 1 - .025 ** (1 / n), up or down.
    n = [int((~y_true & (mask == own)).sum()) for own in (1, 0)]
    reach = np.hypot(*(1 - 0.025 ** (1 / rows) for rows in n))
    assert difference.value == 0
    assert (difference.low, difference.high) == pytest.approx((-reach, reach), rel=1e-6)


def test_swapped_models_have_the_opposite_difference():
    y_true, first, mask, rng = draw_rows()
    second = first + rng.normal(size=400)
    options = {"threshold_a": 0.7, "threshold_b": 0.7}
    difference = select_cell(compare_rate_gaps(Rows(y_true, {"g": mask}), first, second, **options))
    other = select_cell(compare_rate_gaps(Rows(y_true, {"g": mask}), second, first, **options))
    assert (difference.low, difference.high) == pytest.approx((-other.high, -other.low))


def test_a_difference_without_rows_has_the_reason():
    rows, scores = Rows([0, 0, 1], {"g": [1, 1, 1]}), [0.1, 0.2, 0.3]
    difference = select_cell(
        compare_rate_gaps(rows, scores, scores, threshold_a=0.1, threshold_b=0.1)
    )
    assert (difference.value, difference.reason) == (None, "no background negatives")


@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (7, 30), (30, 30), (2, 5_000)])
def test_an_exact_interval_is_that_of_scipy(k, n):
    stats = pytest.importorskip("scipy.stats")
    interval = stats.binomtest(k, n).proportion_ci(0.95, "exact")
    assert clopper_pearson_interval(k, n, student_quantile(0.95)) == pytest.approx(
        tuple(interval), rel=1e-9, abs=1e-12
    )


def test_a_change_is_made_from_the_exact_shares_of_the_two_disagreements():
    stats = pytest.importorskip("scipy.stats")
    (up_low, up_high), (down_low, down_high) = (
        stats.binomtest(k, 10).proportion_ci(0.95, "exact") for k in (3, 1)
    )
    low = 0.2 - np.hypot(0.3 - up_low, down_high - 0.1)
    high = 0.2 + np.hypot(up_high - 0.3, 0.1 - down_low)
    assert paired_change_interval(3, 1, 10, student_quantile(0.95)) == pytest.approx(
        (low, high), rel=1e-9
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_error_of_a_difference_is_the_spread_over_resampled_rows(seed):
    y_true, first, mask, rng = draw_rows(n=1500, seed=seed)
    second = first + 0.7 * rng.normal(size=1500)
    options = {"threshold_a": 0.7, "threshold_b": 0.7}
    difference = select_cell(compare_rate_gaps(Rows(y_true, {"g": mask}), first, second, **options))
    drawn = []
    for _ in range(200):
        rows = rng.integers(1500, size=1500)
        again = compare_rate_gaps(
            Rows(y_true[rows], {"g": mask[rows]}), first[rows], second[rows], **options
        )
        drawn.append(select_cell(again).value)
    assert difference.std_error == pytest.approx(np.std(drawn), rel=0.2)


# ------------------------------------------------------------------ estimated thresholds


@pytest.mark.parametrize("most", [0.9, 99.0], ids=["some flagged", "none, so no gap"])
def test_an_estimated_threshold_widens_the_interval_by_how_far_the_gap_moves(most):
    y_true, y_score, mask, _ = draw_rows(n=300)
    estimate, span = 0.7, (0.5, most)
    fixed, low_end, high_end = (
        select_cell(rate_gaps(Rows(y_true, {"g": mask}), y_score, threshold=threshold))
        for threshold in (estimate, *span)
    )
    gap = select_cell(
        rate_gaps(Rows(y_true, {"g": mask}), y_score, threshold=estimate, threshold_range=span)
    )
    moved = max(abs(end.value - fixed.value) for end in (low_end, high_end))
    assert moved > 0.01
    assert gap.value == fixed.value
    assert gap.low == pytest.approx(gap.value - math.hypot(fixed.value - fixed.low, moved))
    assert gap.high == pytest.approx(gap.value + math.hypot(fixed.high - fixed.value, moved))


def test_the_change_between_estimated_thresholds_is_wider_than_between_given_ones():
    y_true, first, mask, rng = draw_rows(n=600)
    second = first + rng.normal(size=600)
    options = {"threshold_a": 0.7, "threshold_b": 0.8}
    fixed = select_cell(compare_rate_gaps(Rows(y_true, {"g": mask}), first, second, **options))
    spans = {"threshold_range_a": (0.5, 0.9), "threshold_range_b": (0.6, 1.0)}
    gap = select_cell(
        compare_rate_gaps(Rows(y_true, {"g": mask}), first, second, **options, **spans)
    )
    assert gap.low < fixed.low < fixed.high < gap.high
    same = {"threshold_range_a": (0.5, 0.9), "threshold_range_b": (0.5, 0.9)}
    options["threshold_b"] = 0.7
    # Alike at the threshold, but not where it might have been.
    nearly = np.where(np.abs(first - 0.7) < 0.3, 0.7 + (first - 0.7) / 10, first)
    other = select_cell(
        compare_rate_gaps(Rows(y_true, {"g": mask}), first, nearly, **options, **same)
    )
    assert other.value == 0
    assert other.low < 0 < other.high


def test_the_range_of_a_threshold_holds_the_rates_apart_that_chance_explains():
    y_true, y_score, _, _ = draw_rows(n=2000)
    low, high = equal_error_range(y_true, y_score, confidence=0.9)
    equal = equal_error_rate(y_true, y_score)
    assert low < equal.threshold < high

    def count_differences(threshold):
        flagged = y_score >= threshold
        return flagged[~y_true].mean() - (~flagged[y_true]).mean()

    wrong = (y_score >= equal.threshold) != y_true
    counts = [(wrong[mask].sum(), mask.sum()) for mask in (y_true, ~y_true)]
    shares = [((k + 1) / (n + 2), n) for k, n in counts]
    reach = Z * math.sqrt(sum(p * (1 - p) / n for p, n in shares))
    assert count_differences(low) >= reach > count_differences(low + 0.02)
    assert count_differences(high) <= -reach < count_differences(high - 0.02)


@pytest.mark.parametrize(
    ("clusters", "variance", "quantile"),
    [
        (None, 0.0, Z),
        # Five clusters move the difference by .2, or by .01, with nine degrees of freedom.
        ((0.2, 5), 0.2**2 * 5 / 4, 1.833113),
        ((0.01, 5), 0.0, 1.833113),
        ((0.2, 1), 0.2**2, 1.833113),
    ],
)
def test_how_far_two_rates_are_apart_by_chance_is_worked_out(clusters, variance, quantile):
    """Of 3 errors in 10 rows and none in 20; one more error and one more row without are added."""
    of_rows = (4 / 12) * (8 / 12) / 10 + (1 / 22) * (21 / 22) / 20
    clustered = None
    if clusters is not None:
        clustered = LinearSummary(0.0, clusters[0], 9.0, 10.0, (-1.0, 1.0)), clusters[1]
    reach = compute_rate_reach([(3, 10), (0, 20)], 0.9, clustered)
    assert reach == pytest.approx(quantile * math.sqrt(max(of_rows, variance)), rel=1e-6)


def test_the_range_of_a_threshold_is_wider_where_rows_come_in_clusters():
    y_true, y_score, _, _ = draw_rows(n=400)
    once = equal_error_range(y_true, y_score)
    tiled = np.tile(y_true, 4), np.tile(y_score, 4)
    by_row = equal_error_range(*tiled)
    together = equal_error_range(*tiled, clusters=np.tile(np.arange(400), 4))
    assert together[1] - together[0] > 1.5 * (by_row[1] - by_row[0])
    assert together == pytest.approx(once, abs=0.05)


def test_the_range_covers_the_threshold_of_the_population():
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y_true = rng.random(300) < 0.2
        low, high = equal_error_range(y_true, 2 * y_true + rng.normal(size=300), confidence=0.9)
        covered += low <= 1 <= high
    assert covered / 200 >= 0.9 - 2 * math.sqrt(0.9 * 0.1 / 200)


def test_a_range_needs_both_classes():
    with pytest.raises(ValueError, match="`y_true` must have positives and negatives"):
        equal_error_range([1, 1], [0.1, 0.2])


def test_by_cluster_too_a_gap_is_within_1():
    mask = np.arange(50) < 25
    most_of_them = (np.arange(50) < 23).astype(float)
    rows = Rows([0] * 50, {"g": mask}, clusters=np.arange(50) % 25)
    above, below = (
        select_cell(rate_gaps(rows, y_score, threshold=0.5))
        for y_score in (most_of_them, 1 - most_of_them)
    )
    assert (above.value, above.high) == (23 / 25, 1.0)
    assert (below.value, below.low) == (-23 / 25, -1.0)
    reach = student_quantile(0.975, above.n_clusters - 1)
    assert above.value + reach * above.std_error > 1


def test_clusters_without_a_change_are_fewer_than_their_rows():
    y_true, first, mask, _ = draw_rows(n=600)
    options = {"threshold_a": 0.7, "threshold_b": 0.7}
    by_row, clustered = (
        select_cell(
            compare_rate_gaps(Rows(y_true, {"g": mask}, clusters=clusters), first, first, **options)
        )
        for clusters in (None, np.arange(600) // 3)
    )
    assert by_row.value == clustered.value == 0
    assert clustered.low < by_row.low < 0 < by_row.high < clustered.high


def test_by_cluster_too_the_change_allows_for_estimated_thresholds():
    y_true, first, mask, rng = draw_rows(n=600)
    second = first + rng.normal(size=600)
    spans = {"threshold_range_a": (0.4, 1.0), "threshold_range_b": (0.4, 1.0)}
    options = {"threshold_a": 0.7, "threshold_b": 0.7}
    rows = Rows(y_true, {"g": mask}, clusters=np.arange(600) // 3)
    fixed = select_cell(compare_rate_gaps(rows, first, second, **options))
    difference = select_cell(compare_rate_gaps(rows, first, second, **options, **spans))
    assert difference.low < fixed.low < fixed.high < difference.high


def test_a_gap_without_rows_has_the_reason_whatever_the_range():
    table = rate_gaps(
        Rows([0, 0, 1], {"g": [1, 1, 1]}),
        [0.1, 0.2, 0.3],
        threshold=0.2,
        threshold_range=(0.1, 0.3),
    )
    assert select_cell(table).reason == "no background negatives"


# ------------------------------------------------------------------ what must not change them


def measure_all(y_true, first, second, mask, threshold=0.7, end=0.9):
    """Every number of this module, of two models."""
    span = equal_error_range(y_true, first)
    spans = {"threshold_range_a": (threshold, end), "threshold_range_b": (threshold, end)}
    differences = compare_rate_gaps(
        Rows(y_true, {"g": mask}),
        first,
        second,
        threshold_a=threshold,
        threshold_b=threshold,
        **spans,
    )
    gaps = rate_gaps(
        Rows(y_true, {"g": mask}),
        first,
        threshold=threshold,
        threshold_range=spans["threshold_range_a"],
    )
    return span, dict(differences), dict(gaps)


def test_the_order_of_rows_changes_nothing():
    y_true, first, mask, rng = draw_rows()
    rows = y_true, first, first + rng.normal(size=400), mask
    order = rng.permutation(400)
    assert measure_all(*(values[order] for values in rows)) == measure_all(*rows)


def test_another_scale_of_scores_and_thresholds_changes_nothing():
    y_true, first, mask, rng = draw_rows()
    second = first + rng.normal(size=400)
    span, *numbers = measure_all(y_true, first, second, mask)
    other, *same = measure_all(y_true, 4 * first, 4 * second, mask, threshold=4 * 0.7, end=4 * 0.9)
    assert same == numbers
    assert other == tuple(4 * end for end in span)


def test_the_background_beside_the_subgroup_has_the_opposite_gap():
    y_true, first, mask, _ = draw_rows()
    gap, other = (
        select_cell(rate_gaps(Rows(y_true, {"g": m}), first, threshold=0.7)) for m in (mask, ~mask)
    )
    assert (gap.value, gap.low, gap.high) == pytest.approx((-other.value, -other.high, -other.low))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"threshold": float("nan")}, "`threshold` must be a finite number"),
        ({"confidence": 1.5}, "`confidence` must be between 0 and 1"),
    ],
)
def test_bad_options_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        rate_gaps(Rows(Y_TRUE, GROUP), SCORES, **{"threshold": 0.5} | changed)
