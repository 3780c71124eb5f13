"""Errors of estimates by row and by cluster, and of their differences."""

from dataclasses import replace

import numpy as np
import pytest

from bias_metrics._core.intervals import MIN_CLUSTERS, compute_unseen_reach, count_independent_rows
from bias_metrics._core.ranks import sum_squares
from bias_metrics.estimate import LinearEstimate

N = 200
RNG = np.random.default_rng(0)
X, OTHER = RNG.normal(size=(2, N))


def estimate_mean(values, places=None, clusters=None, bounds=(-9.0, 9.0)):
    places = np.arange(N) if places is None else places
    mean = values[places].mean()
    influence = (values[places] - mean) / places.size
    ones = np.ones(places.size)
    return LinearEstimate.from_influence(
        mean, influence, places, ones, N, clusters=clusters, bounds=bounds
    )


def test_the_error_of_a_mean_is_that_of_the_textbook():
    assert estimate_mean(X).std_error == pytest.approx(X.std(ddof=1) / np.sqrt(N))


def test_a_difference_of_two_means_of_the_same_rows_has_the_error_of_the_paired_differences():
    apart = estimate_mean(X).subtract(estimate_mean(X + 0.1 * OTHER))
    assert apart.value == pytest.approx(-0.1 * OTHER.mean())
    assert apart.std_error == pytest.approx(0.1 * OTHER.std(ddof=1) / np.sqrt(N))
    low, high = apart.summary.interval(0.95)
    assert (low + high) / 2 == pytest.approx(apart.value)
    # Student's t at 97.5 % is 1.972 with N - 1 degrees of freedom, and 1.984 with half as many.
    assert (high - low) / 2 == pytest.approx(1.978 * apart.std_error, rel=0.004)


def test_a_difference_has_the_degrees_of_freedom_of_the_rows_that_count_and_else_of_all():
    places = np.arange(80)
    first, second = estimate_mean(X, places), estimate_mean(X + 0.1 * OTHER, places)
    unknown = replace(first, is_counted=None).subtract(second)
    assert unknown.is_counted is None
    assert unknown.freedom == sum_squares([unknown.influence])[1]
    assert first.subtract(second).freedom == sum_squares([unknown.influence[:80]])[1]
    assert first.subtract(second).freedom != unknown.freedom


def test_means_of_different_rows_are_independent():
    first, second = estimate_mean(X, np.arange(80)), estimate_mean(X, np.arange(80, N))
    apart, total = first.subtract(second), first.subtract(second.negate())
    error = np.hypot(first.std_error, second.std_error)
    assert (apart.std_error, total.std_error) == pytest.approx((error, error))
    assert total.value == pytest.approx(first.value + second.value)
    assert apart.n_effective == 80
    assert apart.freedom == sum_squares([apart.influence])[1]  # all rows count


@pytest.mark.parametrize("clusters", [None, np.arange(N) // 4], ids=["rows", "clusters"])
def test_minus_the_negated_number_is_the_sum(clusters):
    total = estimate_mean(X, clusters=clusters).subtract(
        estimate_mean(OTHER + X, clusters=clusters).negate()
    )
    expected = estimate_mean(2 * X + OTHER, clusters=clusters)
    assert (total.value, total.std_error) == pytest.approx((expected.value, expected.std_error))


def test_clusters_of_unequal_size_are_worth_as_many_as_equal_ones_with_their_weight():
    places, clusters = np.arange(60), np.minimum(np.arange(N), 20)  # 20 of one row, one of 40
    estimate = estimate_mean(np.arange(N) % 2.0, places, clusters)
    assert estimate.freedom == pytest.approx(60**2 / (20 * 1**2 + 40**2) - 1)
    nearly_one = estimate_mean(X, clusters=np.minimum(np.arange(N), 10))
    assert nearly_one.freedom == 1


def test_means_of_different_clusters_are_independent():
    clusters = np.arange(N) // 4
    first, second = (estimate_mean(X, each, clusters) for each in np.split(np.arange(N), [80]))
    apart = first.subtract(second)
    assert apart.std_error == pytest.approx(np.hypot(first.std_error, second.std_error))
    assert (apart.n_clusters, apart.freedom) == (20, first.freedom)


def test_the_error_by_cluster_of_a_mean_is_that_of_equal_clusters_means():
    clusters = np.arange(N) // 4
    means = X.reshape(-1, 4).mean(axis=1)
    estimate = estimate_mean(X, clusters=clusters)
    assert estimate.std_error == pytest.approx(means.std(ddof=1) / np.sqrt(N / 4))
    assert (estimate.n_clusters, estimate.freedom) == (N / 4, pytest.approx(N / 4 - 1))
    assert estimate.compute_value(0.95).row_std_error == pytest.approx(X.std(ddof=1) / np.sqrt(N))


def test_the_rows_of_clusters_are_worth_fewer_by_the_design_effect():
    values = X + np.repeat(OTHER[: N // 4], 4)
    estimate = estimate_mean(values, clusters=np.arange(N) // 4)
    effect = values.reshape(-1, 4).mean(axis=1).var(ddof=1) / (N / 4) / (values.var(ddof=1) / N)
    assert 1.5 < effect < 3.5
    [labels] = estimate.add_labels(0.02, 0.1, 0.1, mixed_clusters=10).positives
    assert labels.n == pytest.approx(N / effect)
    [labels] = estimate.add_labels(0.02, 0.1, 0.1, mixed_clusters=9).positives
    assert labels.n == N / 4
    assert not estimate.add_labels(0.5, 0.1, 0.1, mixed_clusters=10).positives


def test_twenty_positives_are_not_few():
    assert not estimate_mean(X).add_labels(20 / N, 0.1, 0.1).positives
    assert estimate_mean(X).add_labels(19 / N, 0.1, 0.1).positives


def test_an_interval_stays_within_what_is_possible():
    estimate = estimate_mean(X, bounds=(X.mean() - 1e-3, X.mean() + 2e-3))
    assert estimate.summary.interval(0.95) == pytest.approx(estimate.bounds)
    assert estimate.negate().summary.interval(0.95) == pytest.approx(
        (-estimate.bounds[1], -estimate.bounds[0])
    )


def test_two_rows_have_an_interval_and_one_has_none():
    two, one = (estimate_mean(X, np.arange(n)).compute_value(0.95) for n in (2, 1))
    assert two.low < two.value < two.high
    assert (one.low, one.reason) == (None, "fewer than 2 rows in subgroup or background")


def test_few_clusters_are_a_reason():
    value = estimate_mean(X, clusters=np.arange(N) % (MIN_CLUSTERS - 1)).compute_value(0.95)
    assert (value.low, value.reason) == (None, "19 clusters where 20 are needed")


def test_without_a_number_the_difference_says_of_which_side():
    nothing = LinearEstimate.undefined("no rows", N)
    assert estimate_mean(X).subtract(nothing).reason == "background: no rows"
    assert nothing.subtract(estimate_mean(X)).compute_value(0.95).reason == "subgroup: no rows"
    assert nothing.negate().value is None


def test_beside_a_model_without_a_number_there_is_no_difference():
    own, nothing = (
        estimate_mean(X, clusters=np.arange(N) // 4),
        LinearEstimate.undefined("no rows", N),
    )
    for first, second in ((own, nothing), (nothing, own), (nothing, nothing)):
        change = first.pair_with(second).compute_difference(0.95, is_gap=False)
        assert (change.first, change.second) == (first.value, second.value)
        assert (change.value, change.low, change.high) == (None, None, None)


def test_two_models_with_the_same_scores_may_differ_on_rows_that_were_not_drawn():
    change = estimate_mean(X).pair_with(estimate_mean(X)).compute_difference(0.95, is_gap=False)
    reach = compute_unseen_reach(0.5, 0.0, len(X), 0.95)
    assert (change.value, change.low, change.high) == pytest.approx((0, -reach, reach))


def test_the_design_effect_is_used_from_ten_clusters_with_an_event_on():
    assert count_independent_rows(1000, 2.0, 50, mixed=9) == 50
    assert count_independent_rows(1000, 2.0, 50, mixed=10) == 500
    assert count_independent_rows(1000, 0.5, 50, mixed=10) == 1000
    assert count_independent_rows(1000, 40.0, 50, mixed=10) == 50
