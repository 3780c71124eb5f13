"""Levels for a year of decisions, and how far a set that is used again flatters."""

import math

import numpy as np
import pytest

from bias_metrics import lord_share, selection_flattery, spending_share


@pytest.mark.parametrize("planned", [1, 10, 365])
def test_the_shares_of_all_decisions_add_up_to_one(planned):
    last = 4_000
    found = math.fsum(spending_share(one, planned=planned) for one in range(1, last + 1))
    beyond = 0.1 * planned / last  # the sum of all later ones, as a telescope
    assert found + beyond == pytest.approx(1, rel=1e-12)


def test_planned_decisions_have_equal_shares_and_later_ones_less_and_less():
    found = [spending_share(one, planned=5) for one in range(1, 9)]
    assert found[:5] == [0.9 / 5] * 5
    assert found[5] == pytest.approx(0.1 * 5 / (5 * 6))
    assert found[5:] == sorted(found[5:], reverse=True)


@pytest.mark.parametrize("promotions", [[], [1], [3, 3, 40], list(range(1, 200, 7))])
def test_levels_add_up_to_alpha_times_the_promotions(promotions):
    known, total = [], 0.0
    for number in range(1, 400):
        known = [one for one in promotions if one < number]
        total += lord_share(number, known)
        assert total <= max(1, len(known))


def test_a_promotion_raises_the_next_levels_by_the_weights_of_the_first_decisions():
    before = lord_share(10, [])
    assert lord_share(10, [9]) == pytest.approx(before + lord_share(1, []))
    assert lord_share(10, [8, 9]) == pytest.approx(
        before + lord_share(2, []) + 2 * lord_share(1, [])
    )


def test_the_weights_are_those_of_the_paper_up_to_their_sum():
    def weight(lag):
        return math.log(max(lag, 2)) / (lag * math.exp(math.sqrt(math.log(lag))))

    found = [lord_share(one, []) / lord_share(1, []) for one in (2, 17, 300)]
    assert found == pytest.approx([weight(one) / weight(1) for one in (2, 17, 300)])
    # 12.6 is the sum of two million of them, and the integral of the rest
    assert 0.5 * weight(1) / lord_share(1, []) == pytest.approx(12.645, abs=0.002)


@pytest.mark.parametrize("n", [1, 2, 5, 60])
def test_the_flattery_is_the_mean_of_the_best_of_equal_candidates(n):
    best = 0.02 * np.random.default_rng(3).standard_normal((20_000, n)).max(axis=1)
    assert selection_flattery(0.02, n) == pytest.approx(best.mean(), abs=4e-4)


def test_the_best_of_two_is_flattered_by_one_over_the_root_of_pi():
    assert selection_flattery(1.0, 2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-6)


def test_a_candidate_made_of_all_earlier_ones_by_their_luck_is_flattered_by_the_root_of_them():
    rng = np.random.default_rng(4)
    luck = rng.standard_normal((5000, 40))
    combined = (np.sign(luck) * luck).sum(axis=1) / math.sqrt(40)
    found = selection_flattery(1.0, 41, adaptive=True)
    assert found == pytest.approx(combined.mean(), rel=0.01)
    assert found > selection_flattery(1.0, 41)


def test_nobody_is_flattered_where_nothing_was_chosen():
    assert selection_flattery(0.5, 1) == 0
    assert selection_flattery(0.5, 1, adaptive=True) == 0
    assert selection_flattery(0.0, 9) == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: spending_share(0, planned=1), "`number` must be at least 1; got 0"),
        (lambda: spending_share(1, planned=0), "`planned` must be at least 1; got 0"),
        (lambda: lord_share(0, []), "`number` must be at least 1; got 0"),
        (lambda: lord_share(3, [3]), "numbers of decisions from 1 to 2; got 3"),
        (lambda: lord_share(3, [0]), "numbers of decisions from 1 to 2; got 0"),
        (lambda: selection_flattery(-0.1, 2), "`std_error` must be a finite number of at least 0"),
        (lambda: selection_flattery(math.nan, 2), "`std_error` must be a finite number"),
        (lambda: selection_flattery(0.1, 0), "`n_candidates` must be at least 1; got 0"),
    ],
)
def test_impossible_numbers_are_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()
