"""Estimates: their errors by row and by cluster, and what is left of a difference."""

from dataclasses import replace

import numpy as np
import pytest

from bias_metrics._core.intervals import MIN_CLUSTERS, independent_rows, unseen_reach
from bias_metrics._core.ranks import squares_of
from bias_metrics.estimate import LinearEstimate

N = 200
RNG = np.random.default_rng(0)
X, OTHER = RNG.normal(size=(2, N))


def mean_of(values, places=None, clusters=None, bounds=(-9.0, 9.0)):
    places = np.arange(N) if places is None else places
    mean = values[places].mean()
    influence = (values[places] - mean) / places.size
    ones = np.ones(places.size)
    return LinearEstimate.of(mean, influence, places, ones, N, clusters=clusters, bounds=bounds)


def test_the_error_of_a_mean_is_that_of_the_textbook():
    assert mean_of(X).std_error == pytest.approx(X.std(ddof=1) / np.sqrt(N))


def test_a_difference_of_two_means_of_the_same_rows_has_the_error_of_the_paired_differences():
    apart = mean_of(X).minus(mean_of(X + 0.1 * OTHER))
    assert apart.value == pytest.approx(-0.1 * OTHER.mean())
    assert apart.std_error == pytest.approx(0.1 * OTHER.std(ddof=1) / np.sqrt(N))
    low, high = apart.interval(0.95)
    assert (low + high) / 2 == pytest.approx(apart.value)
    # Student's t at 97.5 % is 1.972 with N - 1 degrees of freedom, and 1.984 with half as many.
    assert (high - low) / 2 == pytest.approx(1.978 * apart.std_error, rel=0.004)


def test_a_difference_has_the_degrees_of_freedom_of_the_rows_that_count_and_else_of_all():
    places = np.arange(80)
    first, second = mean_of(X, places), mean_of(X + 0.1 * OTHER, places)
    unknown = replace(first, counted=None).minus(second)
    assert unknown.counted is None
    assert unknown.freedom == squares_of([unknown.influence])[1]
    assert first.minus(second).freedom == squares_of([unknown.influence[:80]])[1]
    assert first.minus(second).freedom != unknown.freedom


def test_means_of_different_rows_are_independent():
    first, second = mean_of(X, np.arange(80)), mean_of(X, np.arange(80, N))
    apart, total = first.minus(second), first.minus(second.negated())
    error = np.hypot(first.std_error, second.std_error)
    assert (apart.std_error, total.std_error) == pytest.approx((error, error))
    assert total.value == pytest.approx(first.value + second.value)
    assert apart.n_effective == 80
    assert apart.freedom == squares_of([apart.influence])[1]  # all rows count


@pytest.mark.parametrize("clusters", [None, np.arange(N) // 4], ids=["rows", "clusters"])
def test_minus_the_negated_number_is_the_sum(clusters):
    total = mean_of(X, clusters=clusters).minus(mean_of(OTHER + X, clusters=clusters).negated())
    expected = mean_of(2 * X + OTHER, clusters=clusters)
    assert (total.value, total.std_error) == pytest.approx((expected.value, expected.std_error))


def test_clusters_of_unequal_size_are_worth_as_many_as_equal_ones_with_their_weight():
    places, clusters = np.arange(60), np.minimum(np.arange(N), 20)  # 20 of one row, one of 40
    found = mean_of(np.arange(N) % 2.0, places, clusters)
    assert found.freedom == pytest.approx(60**2 / (20 * 1**2 + 40**2) - 1)
    nearly_one = mean_of(X, clusters=np.minimum(np.arange(N), 10))
    assert nearly_one.freedom == 1


def test_means_of_different_clusters_are_independent():
    clusters = np.arange(N) // 4
    first, second = (mean_of(X, each, clusters) for each in np.split(np.arange(N), [80]))
    apart = first.minus(second)
    assert apart.std_error == pytest.approx(np.hypot(first.std_error, second.std_error))
    assert (apart.n_clusters, apart.freedom) == (20, first.freedom)


def test_the_error_by_cluster_of_a_mean_is_that_of_equal_clusters_means():
    clusters = np.arange(N) // 4
    means = X.reshape(-1, 4).mean(axis=1)
    found = mean_of(X, clusters=clusters)
    assert found.std_error == pytest.approx(means.std(ddof=1) / np.sqrt(N / 4))
    assert (found.n_clusters, found.freedom) == (N / 4, pytest.approx(N / 4 - 1))
    assert found.measured(0.95).row_std_error == pytest.approx(X.std(ddof=1) / np.sqrt(N))


def test_the_rows_of_clusters_are_worth_fewer_by_the_design_effect():
    values = X + np.repeat(OTHER[: N // 4], 4)
    found = mean_of(values, clusters=np.arange(N) // 4)
    effect = values.reshape(-1, 4).mean(axis=1).var(ddof=1) / (N / 4) / (values.var(ddof=1) / N)
    assert 1.5 < effect < 3.5
    [labels] = found.resting_on(0.02, 0.1, 0.1, mixed_clusters=10).positives
    assert labels.n == pytest.approx(N / effect)
    [labels] = found.resting_on(0.02, 0.1, 0.1, mixed_clusters=9).positives
    assert labels.n == N / 4
    assert not found.resting_on(0.5, 0.1, 0.1, mixed_clusters=10).positives


def test_twenty_positives_are_not_few():
    assert not mean_of(X).resting_on(20 / N, 0.1, 0.1).positives
    assert mean_of(X).resting_on(19 / N, 0.1, 0.1).positives


def test_an_interval_stays_within_what_is_possible():
    found = mean_of(X, bounds=(X.mean() - 1e-3, X.mean() + 2e-3))
    assert found.interval(0.95) == pytest.approx(found.bounds)
    assert found.negated().interval(0.95) == pytest.approx((-found.bounds[1], -found.bounds[0]))


def test_two_rows_have_an_interval_and_one_has_none():
    two, one = (mean_of(X, np.arange(n)).measured(0.95) for n in (2, 1))
    assert two.low < two.value < two.high
    assert (one.low, one.reason) == (None, "fewer than 2 rows in subgroup or background")


def test_few_clusters_are_a_reason():
    found = mean_of(X, clusters=np.arange(N) % (MIN_CLUSTERS - 1)).measured(0.95)
    assert (found.low, found.reason) == (None, "19 clusters where 20 are needed")


def test_without_a_number_the_difference_says_of_which_side():
    nothing = LinearEstimate.undefined("no rows", N)
    assert mean_of(X).minus(nothing).reason == "background: no rows"
    assert nothing.minus(mean_of(X)).measured(0.95).reason == "subgroup: no rows"
    assert nothing.negated().value is None


def test_beside_a_model_without_a_number_there_is_no_difference():
    own, nothing = mean_of(X, clusters=np.arange(N) // 4), LinearEstimate.undefined("no rows", N)
    for first, second in ((own, nothing), (nothing, own), (nothing, nothing)):
        found = first.beside(second).at(0.95, is_gap=False)
        assert (found.first, found.second) == (first.value, second.value)
        assert (found.value, found.low, found.high) == (None, None, None)


def test_two_models_with_the_same_scores_may_differ_on_rows_that_were_not_drawn():
    found = mean_of(X).beside(mean_of(X)).at(0.95, is_gap=False)
    reach = unseen_reach(0.5, 0.0, len(X), 0.95)
    assert (found.value, found.low, found.high) == pytest.approx((0, -reach, reach))


def test_the_design_effect_is_used_from_ten_clusters_with_an_event_on():
    assert independent_rows(1000, 2.0, 50, mixed=9) == 50
    assert independent_rows(1000, 2.0, 50, mixed=10) == 500
    assert independent_rows(1000, 0.5, 50, mixed=10) == 1000
    assert independent_rows(1000, 40.0, 50, mixed=10) == 50
