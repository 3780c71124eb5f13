"""Pinned AUC: by hand, Dixon et al. (2018) Table 3, a naive double loop, scikit-learn."""

import re
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import (
    bnsp_auc,
    bpsn_auc,
    pinned_auc,
    pinned_auc_equality_difference,
    roc_auc,
    subgroup_auc,
)

SOURCES = ("all", "background")
every_source = pytest.mark.parametrize("sample_from", SOURCES)


# By hand.


def test_the_mixture_of_four_rows_is_that_worked_out_by_hand():
    # Rows count 1/4, those of the subgroup (.6 and .9) 3/4. Of the pairs, .9 wins over both
    # negatives, 3/4 * 1; .5 wins over .1 alone, 1/4 * 1/4.
    rows = ([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.9], [0, 1, 0, 1])
    assert pinned_auc(*rows).value == 3 / 4 + 1 / 16
    # With the background, all four count 1/2: three of four pairs.
    assert pinned_auc(*rows, sample_from="background").value == 3 / 4


def test_a_tie_counts_one_half():
    assert pinned_auc([0, 1], [0.5, 0.5], [1, 0]).value == 1 / 2


def test_the_difference_is_the_sum_of_the_distances_to_the_overall_auc():
    groups = {"gay": [0, 1, 0, 1], "tall": [1, 0, 1, 0]}
    pinned = pinned_auc_equality_difference([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.9], groups)
    assert pinned.overall.value == 3 / 4
    # tall: .9 wins over both, 1/4 * 1; .5 over .1, 3/4 * 3/4.
    assert pinned.subgroups["tall"].value == 1 / 4 + 9 / 16
    assert pinned.value.value == 1 / 16 + 1 / 16
    assert pinned.threshold is None


# Published: Dixon et al. (2018), Table 3. Heights: three groups, each with an AUC of .93,
# one of them shifted so far that the AUC of all is .79.
NORMAL = NormalDist()
DISTANCE = 2**0.5 * NORMAL.inv_cdf(0.93)


def compute_auc(shift):
    """P(a positive scores above a negative) when the positive is shifted."""
    return NORMAL.cdf((DISTANCE + shift) / 2**0.5)


def compute_mixture(shifts, weights):
    pairs = [(i, j) for i in range(3) for j in range(3)]
    return sum(weights[i] * weights[j] * compute_auc(shifts[i] - shifts[j]) for i, j in pairs)


def solve_shift():
    """Bisect for the shift whose combined AUC is .79."""
    low, high = 0.0, 10.0
    for _ in range(100):
        middle = (low + high) / 2
        above = compute_mixture([0, 0, middle], [1 / 3] * 3) > 0.79
        low, high = (middle, high) if above else (low, middle)
    return low


def build_rows(n):
    """Labels, scores and groups that follow Table 3's distributions without any chance."""
    grid = np.array([NORMAL.inv_cdf((i + 0.5) / n) for i in range(n)])
    shifts = (0.0, 0.0, solve_shift())
    scores = np.concatenate([grid + s + d for s in shifts for d in (0, DISTANCE)])
    group = np.repeat(np.arange(3), 2 * n)
    names = ("tall", "average", "short")
    return np.tile(np.repeat([0, 1], n), 3), scores, {g: group == i for i, g in enumerate(names)}


def test_the_shift_of_table_3_is_3_13_standard_deviations():
    assert solve_shift() == pytest.approx(3.13, abs=0.005)


def test_the_population_of_table_3_has_the_published_pinned_aucs():
    shifts = [0, 0, solve_shift()]
    tall, short = (compute_mixture(shifts, weights) for weights in ([4, 1, 1], [1, 1, 4]))
    assert tall / 36 == pytest.approx(0.842, abs=0.001)
    assert short / 36 == pytest.approx(0.790, abs=0.001)


def test_pinned_aucs_of_table_3_are_the_published_ones():
    y_true, y_score, groups = build_rows(1000)
    for mask in groups.values():
        assert subgroup_auc(y_true, y_score, mask).value == pytest.approx(0.93, abs=0.001)
    pinned = pinned_auc_equality_difference(y_true, y_score, groups)
    assert pinned.overall.value == pytest.approx(0.79, abs=0.001)
    published = {"tall": 0.842, "average": 0.842, "short": 0.790}
    assert {n: v.value for n, v in pinned.subgroups.items()} == pytest.approx(published, abs=0.001)


def test_the_sampled_form_of_table_3_agrees_at_its_printed_precision():
    y_true, y_score, groups = build_rows(4000)
    rng = np.random.default_rng(0)
    for name, published in [("tall", 0.84), ("average", 0.84), ("short", 0.79)]:
        pinned = pinned_auc(y_true, y_score, groups[name], method="sampled", rng=rng)
        assert pinned.value == pytest.approx(published, abs=0.01)


def test_class_skew_moves_it_though_every_score_distribution_stays():
    # Borkan et al. (2019b): hence never gate on it.
    y_true, y_score, groups = build_rows(1000)
    keep = ~groups["short"] | (y_true == 0) | (np.arange(y_true.size) % 10 == 5)
    skewed = y_true[keep], y_score[keep], groups["short"][keep]
    balanced = y_true, y_score, groups["short"]
    for robust in (subgroup_auc, bpsn_auc, bnsp_auc):
        assert robust(*skewed).value == pytest.approx(robust(*balanced).value, abs=0.002)
    assert pinned_auc(*skewed).value < pinned_auc(*balanced).value - 0.2


# Oracles.


def compute_weights(members, sample_from):
    n_own, n = members.sum(), members.size
    if sample_from == "all":
        return members / n_own + 1 / n
    return np.where(members, 1 / n_own, 1 / (n - n_own))


def draw_rows(seed, n, dtype, share=0.3):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.4
    scores = ((rng.integers(0, 8, n) + 2 * y_true) / 10).astype(dtype)
    return y_true, scores, rng.random(n) < share


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
@every_source
def test_it_equals_a_double_loop_over_weighted_pairs(dtype, share, sample_from):
    y_true, y_score, members = draw_rows(0, 90, dtype, share)
    weight = compute_weights(members, sample_from)
    wins = pairs = 0.0
    for i in np.flatnonzero(y_true):
        for j in np.flatnonzero(~y_true):
            pair = weight[i] * weight[j]
            pairs += pair
            wins += pair * ((y_score[i] > y_score[j]) + 0.5 * (y_score[i] == y_score[j]))
    pinned = pinned_auc(y_true, y_score, members, sample_from=sample_from)
    assert pinned.value == pytest.approx(wins / pairs, abs=1e-12)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
@every_source
def test_it_equals_scikit_learn_with_the_weights_of_the_mixture(share, sample_from):
    metrics = pytest.importorskip("sklearn.metrics")
    y_true, y_score, members = draw_rows(1, 3000, np.float64, share)
    weight = compute_weights(members, sample_from)
    expected = metrics.roc_auc_score(y_true, y_score, sample_weight=weight)
    pinned = pinned_auc(y_true, y_score, members, sample_from=sample_from)
    assert pinned.value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("share", [0.1, 0.8])
@every_source
def test_the_mean_of_many_samples_tends_to_the_exact_form(share, sample_from):
    y_true, y_score, members = draw_rows(2, 2000, np.float64, share)
    rng = np.random.default_rng(0)
    options = {"method": "sampled", "sample_from": sample_from, "rng": rng}
    drawn = [pinned_auc(y_true, y_score, members, **options).value for _ in range(200)]
    exact = pinned_auc(y_true, y_score, members, sample_from=sample_from).value
    assert np.mean(drawn) == pytest.approx(exact, abs=4 * np.std(drawn) / 200**0.5 + 2e-4)


@st.composite
def draw_few_rows(draw):
    row = st.tuples(st.booleans(), st.integers(-3, 3), st.booleans())
    columns = np.array(draw(st.lists(row, max_size=30)), dtype=np.int64).reshape(-1, 3).T
    return columns[0].astype(bool), columns[1] / 10, columns[2].astype(bool)


@given(rows=draw_few_rows())
def test_pinned_to_all_rows_it_is_the_overall_auc(rows):
    y_true, y_score, _ = rows
    expected = roc_auc(y_true, y_score)
    if y_true.size:
        assert pinned_auc(y_true, y_score, np.ones(y_true.size)).value == expected.value


@every_source
@given(rows=draw_few_rows())
def test_negating_the_scores_maps_it_to_its_complement(rows, sample_from):
    y_true, y_score, members = rows
    pinned = pinned_auc(y_true, y_score, members, sample_from=sample_from).value
    negated = pinned_auc(y_true, -y_score, members, sample_from=sample_from).value
    assert negated == (None if pinned is None else pytest.approx(1 - pinned, abs=1e-12))
    assert pinned is None or 0 <= pinned <= 1


@given(rows=draw_few_rows())
def test_pinned_to_the_background_both_halves_are_the_same(rows):
    y_true, y_score, members = rows
    pinned = pinned_auc(y_true, y_score, members, sample_from="background").value
    assert pinned_auc(y_true, y_score, ~members, sample_from="background").value == pinned


# Sampling.


@every_source
def test_a_subgroup_of_more_than_half_of_the_rows_does_not_fail(sample_from):
    y_true, y_score, members = draw_rows(3, 100, np.float64, 0.9)
    options = {"method": "sampled", "sample_from": sample_from, "rng": np.random.default_rng(0)}
    pinned = pinned_auc(y_true, y_score, members, **options)
    assert 0 < pinned.value < 1


def test_a_sample_as_large_as_the_background_is_the_background():
    y_true, y_score, members = draw_rows(4, 100, np.float64)
    members = np.arange(100) < 50
    options = {"sample_from": "background", "rng": np.random.default_rng(0)}
    drawn = pinned_auc(y_true, y_score, members, method="sampled", **options)
    assert drawn.value == pytest.approx(roc_auc(y_true, y_score).value, abs=1e-12)


@every_source
def test_with_the_same_generator_the_order_of_the_rows_does_not_count(sample_from):
    y_true, y_score, members = draw_rows(5, 300, np.float64, 0.2)
    order = np.random.default_rng(1).permutation(300)
    pinned = [
        pinned_auc_equality_difference(
            y_true[rows],
            y_score[rows],
            {"g": members[rows]},
            method="sampled",
            sample_from=sample_from,
            rng=np.random.default_rng(2),
        ).to_dict()
        for rows in (slice(None), order)
    ]
    assert pinned[0] == pinned[1]


# Undefined and refused.


@pytest.mark.parametrize("method", ["exact", "sampled"])
@pytest.mark.parametrize(
    ("y_true", "members", "sample_from", "reason"),
    [
        ([0, 1], [0, 0], "all", "no subgroup rows"),
        ([0, 1], [1, 1], "background", "no background rows"),
        ([0, 0], [1, 0], "all", "no positives"),
        ([1, 1], [1, 0], "background", "no negatives"),
        ([], [], "all", "no subgroup rows and no background rows"),
    ],
)
def test_without_rows_it_is_undefined_with_the_reason(method, y_true, members, sample_from, reason):
    options = {"method": method, "sample_from": sample_from, "rng": np.random.default_rng(0)}
    pinned = pinned_auc(y_true, [0.1, 0.2][: len(y_true)], members, **options)
    assert (pinned.value, pinned.reason) == (None, reason)


def test_a_subgroup_of_one_class_is_defined_as_the_mixture_has_both():
    assert pinned_auc([0, 1, 1], [0.1, 0.2, 0.3], [0, 1, 0]).value == 1


def test_an_undefined_subgroup_makes_the_difference_undefined():
    groups = {"gay": [1, 0], "other_gender": [0, 0]}
    pinned = pinned_auc_equality_difference([0, 1], [0.1, 0.2], groups)
    assert pinned.value.reason == "undefined for other_gender (no subgroup rows)"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "fast"}, ValueError, "`method` must be one of exact, sampled; got 'fast'."),
        (
            {"sample_from": "x"},
            ValueError,
            "`sample_from` must be one of all, background; got 'x'.",
        ),
        (
            {"method": "sampled"},
            TypeError,
            "`rng` must be a numpy Generator, as in `numpy.random.default_rng(0)`; got NoneType.",
        ),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        pinned_auc([0, 1], [0.1, 0.2], [0, 1], **options)
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        pinned_auc_equality_difference([0, 1], [0.1, 0.2], {"g": [0, 1]}, **options)
