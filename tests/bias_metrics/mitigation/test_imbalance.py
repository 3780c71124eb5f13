"""Which terms are labelled toxic more often than other comments of their length."""

import itertools
import math

import numpy as np
import pytest

from bias_metrics.mitigation.imbalance import fisher_exact, label_imbalance, rows_to_balance


@pytest.mark.parametrize(
    ("counts", "p_value"),
    [
        ((3, 3, 0, 3), 2 / 20),  # of the 20 choices of 3 rows, the two most extreme ones
        ((1, 2, 1, 2), 1.0),
        ((0, 5, 0, 7), 1.0),
    ],
)
def test_the_p_value_is_that_of_fishers_exact_test(counts, p_value):
    assert fisher_exact(*counts) == pytest.approx(p_value)


@pytest.mark.parametrize(("n", "n_other"), [(1, 1), (4, 6), (9, 2), (30, 41)])
def test_it_is_the_share_of_choices_that_are_as_rare_counted_in_whole_numbers(n, n_other):
    for k, k_other in itertools.product(range(0, n + 1, 3), range(0, n_other + 1, 2)):
        n_positive = k + k_other
        ways = [
            math.comb(n, one) * math.comb(n_other, n_positive - one)
            for one in range(min(n, n_positive) + 1)
        ]
        rare = sum(one for one in ways if one <= ways[k])
        assert fisher_exact(k, n, k_other, n_other) == pytest.approx(rare / sum(ways))


def test_it_is_that_of_scipy_for_many_tables():
    scipy = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, n_other = rng.integers(1, 60, 2)
        k, k_other = rng.integers(0, n + 1), rng.integers(0, n_other + 1)
        wanted = scipy.fisher_exact([[k, n - k], [k_other, n_other - k_other]]).pvalue
        assert fisher_exact(int(k), int(n), int(k_other), int(n_other)) == pytest.approx(wanted)


def cells(labels, lengths, gay, **options):
    return label_imbalance(labels, lengths, {"gay": gay}, edges=[20], **options).cells


def test_a_term_is_compared_over_all_lengths_and_in_each_bucket():
    everywhere, short, long = cells([1, 1, 0, 0], [5, 30, 5, 30], [1, 0, 1, 0])
    assert (everywhere.of_all_lengths, everywhere.rows.n, everywhere.others.n) == (True, 2, 2)
    cuts = [(one.start, one.stop) for one in (everywhere, short, long)]
    assert cuts == [(0, None), (0, 20), (20, None)]
    assert [one.of_all_lengths for one in (short, long)] == [False, False]
    assert everywhere.difference.value == 1 / 2 - 1 / 2


def test_the_difference_is_of_the_shares_with_and_without_the_term():
    found = cells([1, 1, 0, 1, 0, 0], [5] * 6, [1, 1, 1, 0, 0, 0])[0].difference
    assert found.value == pytest.approx(2 / 3 - 1 / 3)
    assert found.low < found.value < found.high


def test_it_is_undefined_without_rows_on_both_sides():
    _, short, long = cells([1, 0], [5, 30], [1, 0])
    assert short.difference.reason == "no comments without the term"
    assert long.difference.reason == "no comments with the term"
    [empty, *_] = cells([], [], [])
    assert empty.difference.reason == "no comments with the term"
    assert short.p_value is short.p_holm is long.p_bh is None


def test_p_values_are_adjusted_for_all_cells():
    labels, gay = [1] * 8 + [0] * 8, [1] * 8 + [0] * 8
    everywhere, short, _ = cells(labels, [5] * 16, gay)
    assert everywhere.p_value == short.p_value
    assert everywhere.p_holm == pytest.approx(2 * everywhere.p_value)
    assert everywhere.p_bh == pytest.approx(everywhere.p_value)


def test_what_is_shown_comes_with_the_largest_difference_first():
    labels = np.array([1] * 50 + [0] * 50 + [1] * 40 + [0] * 160, bool)
    terms = {
        "late": np.arange(300) >= 250,  # none of 50, but 90 of the other 250
        "gay": np.arange(300) < 50,  # all of 50, but 40 of the other 250
        "tall": np.arange(300) % 7 == 0,
    }
    found = label_imbalance(labels, [5] * 300, terms, edges=[20])
    assert [one.term for one in found.shown()] == ["gay", "gay", "late", "late"]
    assert len(found.rows()) == len(found.to_dict()["cells"]) == 9
    assert len(found.shown(found.cells[0].p_holm)) == 4  # at the level itself, too
    assert len(found.shown(found.cells[0].p_holm * 0.999)) == 2
    late = found.to_dict()["cells"][0]["difference"]
    assert late["value"] == pytest.approx(-90 / 250)
    assert late["low"] < late["value"] < late["high"] < 0


def test_another_confidence_gives_other_intervals():
    narrow, wide = (
        cells([1, 0] * 4, [5] * 8, [1] * 4 + [0] * 4, confidence=c)[0] for c in (0.5, 0.99)
    )
    assert narrow.difference.low > wide.difference.low
    with pytest.raises(ValueError, match=r"`confidence` must be between 0 and 1; got 1"):
        cells([1, 0], [5, 5], [1, 0], confidence=1)


def test_added_rows_bring_the_share_to_the_prior():
    assert rows_to_balance(10, 4, 0.1).value == 30  # 4 of 40
    assert rows_to_balance(10, 1, 0.1).value == 0
    assert rows_to_balance(0, 0, 0.1).value == 0


def test_wrong_labels_of_a_pool_need_more_rows():
    found = rows_to_balance(10, 4, 0.1, 0.05).value
    assert found == 60
    assert (4 + 0.05 * found) / (10 + found) == pytest.approx(0.1)
    assert "as often as the prior" in rows_to_balance(10, 4, 0.1, 0.1).reason
