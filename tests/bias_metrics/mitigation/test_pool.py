"""Which rows of a pool balance the labels of every term at every length."""

import numpy as np
import pytest

from bias_metrics.mitigation.pool import balance_with_pool, count_balancing_rows

RNG = np.random.default_rng


def balance_rows(labels, mentions, pool, **options):
    pool = np.array(pool, bool)
    arguments = {
        "rng": RNG(0),
        "buckets": [0] * len(labels),
        "pool_buckets": [0] * len(pool),
    } | options
    buckets, pool_buckets = arguments.pop("buckets"), arguments.pop("pool_buckets")
    return balance_with_pool(
        labels, buckets, np.array(mentions, bool), pool_buckets, pool, **arguments
    )


LABELS = [1, 0, 1, 0, 0, 0, 0, 0]  # 2 of 8
ONE_TERM = [[1], [1], [0], [0], [0], [0], [0], [0]]  # 1 of 2: two more make it 1 of 4


def test_as_many_rows_are_chosen_as_bring_the_term_to_the_prior():
    choice = balance_rows(LABELS, ONE_TERM, [[1]] * 9)
    [cell] = choice.cells
    assert (cell.needed, cell.added, cell.lacking) == (2, 2, 0)
    assert cell.share_after == cell.prior == 2 / 8
    assert len(set(choice.chosen.tolist())) == 2
    assert choice.unfilled_cells == []


def test_a_pool_that_is_too_small_goes_as_far_as_it_can():
    choice = balance_rows(LABELS, ONE_TERM, [[1], [0]])
    assert choice.chosen.tolist() == [0]
    [cell] = choice.unfilled_cells
    assert (cell.added, cell.lacking, cell.share_after) == (1, 1, 1 / 3)


def test_only_rows_of_the_same_length_count():
    choice = balance_rows(LABELS, ONE_TERM, [[1], [1], [1]], pool_buckets=[1, 0, 1])
    assert choice.chosen.tolist() == [1]


def test_rows_with_fewer_terms_come_first():
    mentions = [[1, 0], [1, 0], [0, 1], [0, 1], [0, 0], [0, 0], [0, 0], [0, 0]]
    choice = balance_rows([1, 0, 0, 0, 1, 0, 0, 0], mentions, [[1, 1], [1, 0], [1, 0], [1, 1]])
    assert sorted(choice.chosen.tolist()) == [1, 2]


def test_a_row_with_two_terms_counts_for_both():
    mentions = [[1, 1], [1, 1], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
    choice = balance_rows(LABELS, mentions, [[1, 1], [1, 1], [1, 1]])
    assert choice.chosen.size == 2
    assert [cell.added for cell in choice.cells] == [2, 2]


def test_the_term_that_needs_most_comes_first_and_a_row_is_taken_once():
    mentions = np.array([[1, 0]] * 3 + [[1, 1]] + [[0, 0]] * 8, bool)
    labels = [1, 1, 1, 1] + [0] * 8
    choice = balance_rows(labels, mentions, [[1, 1]] * 3 + [[0, 1]] * 9)
    assert choice.cells[0].added == 3
    assert choice.cells[0].lacking == 5
    assert choice.cells[1].added == 3
    assert choice.chosen.size == 3


def test_of_terms_that_need_as_many_the_first_comes_first():
    mentions = [[1, 0], [1, 0], [0, 1], [0, 1], [0, 0], [0, 0], [0, 0], [0, 0]]
    choice = balance_rows(LABELS, mentions, [[0, 1], [1, 0]])
    assert [cell.needed for cell in choice.cells] == [2, 2]
    assert choice.chosen.tolist() == [1, 0]


def test_a_term_below_the_prior_gets_nothing():
    choice = balance_rows(LABELS, [[0], [1], [0], [1], [0], [0], [0], [0]], [[1]] * 5)
    assert choice.chosen.size == 0
    assert choice.to_dict() == {"n_chosen": 0, "cells": choice.rows()}


def test_the_seed_decides_which_rows():
    many = [[1]] * 50
    same = [balance_rows(LABELS, ONE_TERM, many, rng=RNG(1)).chosen.tolist() for _ in range(2)]
    assert same[0] == same[1]
    others = {tuple(balance_rows(LABELS, ONE_TERM, many, rng=RNG(s)).chosen) for s in range(9)}
    assert len(others) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buckets": [0, 0]}, "`buckets` must have one value for each row"),
        ({"pool_buckets": [-1]}, "`pool_buckets` must be whole numbers of at least 0"),
        ({"pool_buckets": [0.5]}, "`pool_buckets` must be whole numbers"),
    ],
)
def test_wrong_input_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        balance_rows(LABELS, ONE_TERM, [[1]], **options)


def test_a_pool_needs_the_same_terms():
    with pytest.raises(ValueError, match="`pool_mentions` must have a column for each"):
        balance_rows(LABELS, ONE_TERM, [[1, 1]])


def test_an_empty_pool_has_nothing_to_add():
    choice = balance_with_pool(
        LABELS, [0] * 8, np.array(ONE_TERM, bool), [], np.zeros((0, 1), bool), rng=RNG(0)
    )
    assert choice.chosen.size == 0
    assert choice.cells[0].lacking == 2


def test_added_rows_bring_the_share_to_the_prior():
    assert count_balancing_rows(10, 4, 0.1) == 30  # 4 of 40
    assert count_balancing_rows(10, 1, 0.1) == 0
    assert count_balancing_rows(0, 0, 0.1) == 0
