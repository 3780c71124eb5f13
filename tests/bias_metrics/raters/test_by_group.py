"""Metrics by the labels of each group of raters."""

import math

import numpy as np
import pytest
from support.rated import draw_votes, expected_numbers

from bias_metrics import rater_group_bias
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.raters.expected import OVERALL

COMMENT = np.repeat(np.arange(4), 2)
SCORES = np.array([0.1, 0.3, 0.6, 0.9])
VOTES = np.array([0, 0, 0, 1, 1, 0, 1, 1], dtype=bool)


@pytest.fixture(scope="module")
def voted():
    """Return votes of two groups of 30 raters on 300 comments, with strict and mild raters."""
    return draw_votes(np.random.default_rng(0), 300, n_raters=30, strictness=1.0)


def measured(voted, *, with_raters=False, **options):
    if with_raters:
        options["rater"] = voted["rater"]
    given = (voted[name] for name in ("comment", "vote", "rater_group", "y_score", "subgroups"))
    return rater_group_bias(*given, **options)


def test_the_auc_of_a_group_is_the_share_of_its_weighted_pairs():
    # Toxic with 0, 1/2, 1/2 and 1: pairs (1,0) and (2,0) weigh 1/2, (3,0) 1, (2,1) and (1,2) 1/4,
    # (3,1) and (3,2) 1/2; only (1,2) is in the wrong order.
    found = rater_group_bias(COMMENT, VOTES, ["a"] * 8, SCORES, {})
    assert found.groups["a"].numbers[OVERALL].value == pytest.approx(1 - 0.25 / 3.5)
    assert found.groups["a"].counts() == {
        "n_comments": 4,
        "n_votes": 8,
        "n_raters": None,
        "toxic": 0.5,
    }
    assert found.differences == {}


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_a_group_has_the_expected_numbers_of_its_votes(voted, background):
    found = measured(voted, background=background).groups["a"]
    mine = voted["rater_group"] == "a"
    toxic = np.bincount(voted["comment"][mine], voted["vote"][mine], 300)
    known, _ = expected_numbers(
        toxic, 2, voted["y_score"], voted["subgroups"], background=background
    )
    for key, number in found.numbers.items():
        assert number.value == pytest.approx(known[key].value)
        assert number.std_error == pytest.approx(known[key].std_error)
    assert list(found.numbers) == [OVERALL, *(("g", metric) for metric in SUBGROUP_METRICS)]


def test_comments_that_a_group_did_not_rate_do_not_count():
    fewer = rater_group_bias(COMMENT[2:], VOTES[2:], ["a"] * 6, SCORES, {})
    alone = rater_group_bias(COMMENT[2:] - 1, VOTES[2:], ["a"] * 6, SCORES[1:], {})
    assert fewer == alone


def test_a_difference_is_measured_on_comments_that_both_rated(voted):
    mine = (voted["rater_group"] == "b") | (voted["comment"] < 200)
    some = voted | {name: voted[name][mine] for name in ("comment", "vote", "rater_group")}
    both = voted["comment"] < 200
    shared = voted | {name: voted[name][both] for name in ("comment", "vote", "rater_group")}
    found, alone = measured(some), measured(shared)
    assert found.groups["b"] == measured(voted).groups["b"]
    assert found.differences == alone.differences
    one = alone.differences["a", "b"]["g", "bpsn_auc"]
    first, second = (alone.groups[name].numbers["g", "bpsn_auc"].value for name in "ab")
    assert one.value == pytest.approx(first - second)
    assert one.low < one.value < one.high


def test_groups_that_vote_alike_differ_by_0():
    comment, vote = np.tile(np.arange(40), 2), np.tile(np.arange(40) % 3 == 0, 2)
    groups = np.repeat(["a", "b"], 40)
    found = rater_group_bias(comment, vote, groups, np.sin(np.arange(40)), {})
    one = found.differences["a", "b"][OVERALL]
    assert (one.value, one.low, one.high) == (0, 0, 0)


def test_strict_and_mild_raters_widen_an_interval_as_votes_summed_by_rater_say(voted):
    with_raters, without = measured(voted, with_raters=True), measured(voted)
    errors = [one.groups["a"].numbers[OVERALL].std_error for one in (with_raters, without)]
    assert errors[0] > 1.02 * errors[1]
    # By hand: the derivative of the AUC by each vote, from moving that vote a little.
    mine = voted["rater_group"] == "a"
    comment, vote = voted["comment"][mine], voted["vote"][mine].astype(float)
    rater, scores = voted["rater"][mine], voted["y_score"]
    fraction = np.bincount(comment, vote, 300) / 2
    above = (scores[:, None] > scores) + (scores[:, None] == scores) / 2
    np.fill_diagonal(above, 0)
    other = 1 - np.eye(300)
    pairs = fraction @ other @ (1 - fraction)
    auc = fraction @ above @ (1 - fraction) / pairs
    of_toxic = (above - auc * other) @ (1 - fraction) / pairs
    of_harmless = (above - auc * other).T @ fraction / pairs
    each = np.where(vote > 0, of_toxic[comment], of_harmless[comment]) / 2
    by_rater = np.bincount(np.unique(rater, return_inverse=True)[1], each)
    more = (by_rater @ by_rater) * 30 / 29 - each @ each
    assert errors[0] ** 2 - errors[1] ** 2 == pytest.approx(more)


def test_fewer_than_20_raters_have_no_interval(voted):
    few = voted | {"rater": np.char.add(voted["rater_group"], (np.arange(1200) % 2).astype(str))}
    found = measured(few, with_raters=True)
    number = found.groups["a"].numbers[OVERALL]
    assert (number.low, number.reason) == (None, "2 raters where 20 are needed")
    assert number.std_error > 0
    difference = found.differences["a", "b"][OVERALL]
    assert (difference.low, difference.reason) == (None, "2 raters where 20 are needed")


def test_clusters_of_comments_widen_an_interval(voted):
    order = np.argsort(np.argsort(voted["y_score"]))
    found = measured(voted, clusters=order // 6)
    narrow, wide = (one.groups["a"].numbers[OVERALL] for one in (measured(voted), found))
    assert wide.std_error > narrow.std_error
    one = found.differences["a", "b"][OVERALL]
    assert one.low < one.value < one.high
    few = measured(voted, clusters=order // 60).groups["a"].numbers[OVERALL]
    assert (few.low, few.reason) == (None, "5 clusters where 20 are needed")


def test_undefined_numbers_are_null_with_their_reason():
    found = rater_group_bias(COMMENT, VOTES, ["a"] * 4 + ["b"] * 4, SCORES, {"g": [1, 0, 0, 0]})
    numbers = found.groups["a"].numbers
    assert numbers["g", "bnsp_auc"].reason == "no subgroup positives"
    assert numbers["g", "bpsn_auc"].reason == "fewer than 2 effective rows in a class"
    one = found.differences["a", "b"][OVERALL]
    assert (one.value, one.reason) == (None, "no positives and no negatives")


def test_scores_that_are_all_tied_say_nothing(voted):
    flat = voted | {"y_score": np.zeros(300)}
    number = measured(flat).groups["a"].numbers[OVERALL]
    assert number.value == 0.5
    assert number.std_error == pytest.approx(0)
    assert number.low < 0.5 < number.high


def test_records_name_the_group_or_both(voted):
    found = measured(voted)
    rows = found.rows()
    assert len(rows) == 3 * 6
    assert {(row["group"], row["minus"]) for row in rows} == {("a", None), ("b", None), ("a", "b")}
    plain = found.to_dict()
    assert plain["groups"]["a"]["subgroups"]["g"]["bpsn_auc"]["value"] == rows[2]["value"]
    assert plain["differences"][0]["first"] == "a"
    assert "a: 600 votes on 300 comments" in str(found)


def test_no_votes_have_no_groups():
    found = rater_group_bias([], [], [], SCORES, {})
    assert found.groups == {}
    assert found.rows() == []


@pytest.mark.parametrize("wrong", [-1, 4, 0.5])
def test_a_comment_must_be_a_row_number(wrong):
    with pytest.raises(ValueError, match=r"`comment` must be row numbers of `y_score`"):
        rater_group_bias([0, wrong], [0, 1], ["a", "a"], SCORES, {})


def test_a_rater_must_be_in_one_group():
    with pytest.raises(ValueError, match=r"`rater` must be in one group; got 'r' in two"):
        rater_group_bias([0, 1], [0, 1], ["a", "b"], SCORES, {}, rater=["r", "r"])


def test_a_rater_must_vote_once_on_each_comment():
    with pytest.raises(ValueError, match=r"once .* got 'r' again on comment 2 \(row 2\)"):
        rater_group_bias([2, 1, 2], [0, 1, 1], ["a"] * 3, SCORES, {}, rater=["r"] * 3)


def test_a_rater_must_have_a_name():
    with pytest.raises(ValueError, match=r"`rater` must not be missing; got None \(row 1\)"):
        rater_group_bias([2, 1], [0, 1], ["a"] * 2, SCORES, {}, rater=["r", None])
    with pytest.raises(ValueError, match=r"`rater_group` must have 2 rows like `vote`; got 1"):
        rater_group_bias([2, 1], [0, 1], ["a"], SCORES, {})


def test_an_error_is_finite_where_every_vote_is_alike():
    found = rater_group_bias(np.arange(4), [1, 1, 0, 0], ["a"] * 4, SCORES[::-1], {})
    number = found.groups["a"].numbers[OVERALL]
    assert number.value == 1
    assert not math.isnan(number.low)
