"""How far a set that is used again flatters the best candidate."""

import math

import numpy as np
import pytest

from bias_metrics.gate import estimate_optimism


@pytest.mark.parametrize("n", [1, 2, 5, 60])
def test_the_flattery_is_the_mean_of_the_best_of_equal_candidates(n):
    best = 0.02 * np.random.default_rng(3).standard_normal((20_000, n)).max(axis=1)
    assert estimate_optimism(0.02, n) == pytest.approx(best.mean(), abs=4e-4)


def test_the_best_of_two_is_flattered_by_one_over_the_root_of_pi():
    assert estimate_optimism(1.0, 2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-6)


def test_a_candidate_made_of_all_earlier_ones_by_their_luck_is_flattered_by_the_root_of_them():
    rng = np.random.default_rng(4)
    luck = rng.standard_normal((5000, 40))
    combined = (np.sign(luck) * luck).sum(axis=1) / math.sqrt(40)
    optimism = estimate_optimism(1.0, 41, adaptive=True)
    assert optimism == pytest.approx(combined.mean(), rel=0.01)
    assert optimism > estimate_optimism(1.0, 41)


@pytest.mark.parametrize(("z", "least", "most"), [(0.0, 0.98, 1.02), (1.6448536, 0.0, 0.3)])
def test_a_year_of_kept_changes_flatters_and_far_less_if_each_must_be_shown_to_be_better(
    z, least, most
):
    """A set judges one change of the champion a night; all changes are equally good."""
    error = np.random.default_rng(5).standard_normal((1000, 365))
    flattery = (error * (error > z)).sum(axis=1).mean()
    free = 365 / math.sqrt(2 * math.pi)
    assert least * free <= flattery <= most * free


def test_without_a_choice_there_is_no_flattery():
    assert estimate_optimism(0.5, 1) == 0
    assert estimate_optimism(0.5, 1, adaptive=True) == 0
    assert estimate_optimism(0.0, 9) == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: estimate_optimism(-0.1, 2), "`std_error` must be a finite number of at least 0"),
        (lambda: estimate_optimism(math.nan, 2), "`std_error` must be a finite number"),
        (lambda: estimate_optimism(0.1, 0), "`n_candidates` must be at least 1; got 0"),
    ],
)
def test_impossible_numbers_are_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()
