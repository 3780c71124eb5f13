"""A threshold that is carried over to a successor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import transfer_threshold

BEFORE = [0.9, 0.8, 0.7, 0.3, 0.2, 0.1]
AFTER = [0.5, 0.1, 0.4, 0.6, 0.2, 0.3]
GAY = [1, 1, 0, 1, 0, 0]
Y_TRUE = [1, 1, 0, 0, 1, 0]


def transfer_flags(**options):
    return transfer_threshold(BEFORE, AFTER, {"gay": GAY}, **{"threshold": 0.7} | options)


def test_the_threshold_of_six_rows_is_the_one_counted_by_hand():
    transfer = transfer_flags()
    # Three of six are flagged before: 0.9, 0.8 and 0.7. Afterwards 0.6, 0.5 and 0.4.
    assert (transfer.rate_before, transfer.after, transfer.rate_after) == (1 / 2, 0.4, 1 / 2)
    assert transfer.overall.change.value == 0
    gay = transfer.subgroups["gay"]
    assert (gay.n, gay.n_before, gay.n_after, gay.n_gained, gay.n_lost) == (3, 2, 2, 1, 1)


def test_at_the_same_recall_only_toxic_rows_count():
    transfer = transfer_flags(match="recall", y_true=Y_TRUE)
    # Two of three toxic rows before: 0.9 and 0.8; afterwards 0.5 and 0.2.
    assert (transfer.rate_before, transfer.after, transfer.rate_after) == (2 / 3, 0.2, 2 / 3)
    assert transfer.overall.n_after == 5


def test_where_no_threshold_gives_the_rate_the_nearest_is_taken_and_of_two_the_higher():
    tied = transfer_threshold(BEFORE, [0.5, 0.5, 0.5, 0.5, 0.1, 0.1], {}, threshold=0.7)
    assert (tied.after, tied.rate_after) == (0.5, 4 / 6)
    between = transfer_threshold([1, 0, 0, 0], [0.5, 0.5, 0.1, 0.1], {}, threshold=1)
    assert (between.after, between.rate_after) == (np.nextafter(0.5, 1), 0)


def test_a_threshold_that_is_decided_already_is_kept():
    transfer = transfer_flags(threshold_after=0.6)
    assert (transfer.after, transfer.rate_after, transfer.overall.n_lost) == (0.6, 1 / 6, 3)


def test_a_threshold_that_flags_nothing_stays_one():
    transfer = transfer_flags(threshold=1.0)
    assert transfer.after > max(AFTER)
    assert (transfer.overall.n_before, transfer.overall.n_after) == (0, 0)


@given(seed=st.integers(0, 2**32))
def test_a_naive_search_over_all_thresholds_finds_none_nearer(seed):
    rng = np.random.default_rng(seed)
    before, after = rng.random(30).round(1), rng.random(30).round(1)
    transfer = transfer_threshold(before, after, {}, threshold=0.5)
    n_flagged = (before >= 0.5).sum()
    distances = [abs((after >= threshold).sum() - n_flagged) for threshold in [*after, 2.0]]
    assert abs((after >= transfer.after).sum() - n_flagged) == min(distances)


@given(seed=st.integers(0, 2**32))
def test_only_the_order_of_the_scores_matters_for_who_is_flagged(seed):
    rng = np.random.default_rng(seed)
    before, after, gay = rng.random(40), rng.random(40), rng.random(40) < 0.5
    plain = transfer_threshold(before, after, {"gay": gay}, threshold=0.6)
    moved = transfer_threshold(before, after**3 - 7, {"gay": gay}, threshold=0.6)
    assert plain.subgroups == moved.subgroups


def test_the_same_model_keeps_its_flags():
    transfer = transfer_threshold(BEFORE, BEFORE, {"gay": GAY}, threshold=0.7)
    assert transfer.after == 0.7
    assert (transfer.overall.n_gained, transfer.overall.n_lost) == (0, 0)
    assert transfer.overall.change.low < 0 < transfer.overall.change.high


def test_intervals_hold_the_true_change_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        old, new = rng.random(400) < 0.3, rng.random(400) < 0.4
        transfer = transfer_threshold(old * 1.0, old * 1.0, {}, threshold=0.5)
        assert transfer.overall.n_gained == 0
        mixed = np.r_[old, new] * 1.0
        by_cluster = transfer_threshold(
            np.r_[old, old] * 1.0, mixed, {"half": np.r_[old * 0, old * 0 + 1]}, threshold=0.5
        )
        change = by_cluster.subgroups["half"].change
        held += change.low <= 0.1 <= change.high
    assert 275 <= held <= 295


def test_clusters_widen_the_interval_and_few_clusters_have_none():
    before = np.repeat(np.arange(40) % 2, 10) * 1.0
    after = np.repeat(np.arange(40) % 4 < 2, 10) * 1.0
    cluster = np.repeat(np.arange(40), 10)
    plain = transfer_threshold(before, after, {}, threshold=0.5).overall.change
    wide = transfer_threshold(before, after, {}, threshold=0.5, clusters=cluster).overall.change
    few = transfer_threshold(before, after, {}, threshold=0.5, clusters=cluster % 5).overall.change
    assert wide.low < plain.low < plain.high < wide.high
    assert (few.low, few.reason) == (None, "5 clusters where 20 are needed")


def test_the_interval_of_forty_clusters_is_worked_out_by_hand():
    """Ten clusters of ten rows move the share by 10 / 400, ten others by as much the other way."""
    clusters = np.repeat(np.arange(40), 10)
    before, after = (clusters % 2) * 1.0, (clusters % 4 < 2) * 1.0
    transfer = transfer_threshold(before, after, {}, threshold=0.5, clusters=clusters).overall
    assert (transfer.n_gained, transfer.n_lost, transfer.change.value) == (100, 100, 0)
    reach = 2.022691 * np.sqrt(40 / 39 * 20 * (10 / 400) ** 2)  # Student's t of 39, at 95 %
    assert (transfer.change.low, transfer.change.high) == pytest.approx((-reach, reach), rel=1e-6)
    assert transfer.change.n_clusters == 40
    by_row = transfer_threshold(
        before, after, {"some": clusters < 30}, threshold=0.5, clusters=2 * clusters
    )
    assert by_row.subgroups["some"].change.n_clusters == 30


def test_the_interval_of_ten_rows_is_worked_out_by_hand():
    """Three of ten rows are gained and one is lost: the exact intervals of both, joined."""
    before = [1, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    after = [0, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    change = transfer_threshold(before, after, {}, threshold=1, threshold_after=1).overall.change
    # Clopper and Pearson's table: 3 of 10 [.0667, .6525], 1 of 10 [.0025, .4450].
    low = 0.2 - np.hypot(0.3 - 0.0667, 0.4450 - 0.1)
    high = 0.2 + np.hypot(0.6525 - 0.3, 0.1 - 0.0025)
    assert change.value == 0.2
    assert (change.low, change.high) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("clusters", [None, np.arange(20)])
@pytest.mark.parametrize("to", [0.0, 1.0])
def test_where_every_flag_changes_the_interval_ends_at_all_rows(to, clusters):
    before = np.full(20, 1 - to)
    transfer = transfer_threshold(
        before, np.full(20, to), {}, threshold=0.5, threshold_after=0.5, clusters=clusters
    )
    change, end = transfer.overall.change, 1.0 if to else -1.0
    assert (change.value, change.high if to else change.low) == (end, end)
    assert abs(change.low if to else change.high) < 1


def test_a_subgroup_without_rows_is_undefined():
    transfer = transfer_threshold(BEFORE, AFTER, {"none": [0] * 6}, threshold=0.7)
    assert transfer.subgroups["none"].change.reason == "no rows"
    assert transfer.to_dict()["subgroups"]["none"]["change"]["value"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"match": "recall"}, "`y_true` must be given"),
        ({"match": "recall", "y_true": [0] * 6}, "must have positive rows"),
        ({"match": "precision"}, "`match` must be one of"),
        ({"threshold": float("nan")}, "threshold"),
    ],
)
def test_what_cannot_be_matched_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        transfer_flags(**options)
