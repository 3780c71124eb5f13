"""Rows without a score, counted by subgroup."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import Rows, marked_rows, rate_gaps

MISSING = [1, 1, 0, 0, 0, 1, 0, 0]
GAY = [1, 1, 1, 0, 0, 0, 0, 0]
DEAF = [0, 0, 1, 1, 0, 0, 0, 0]


def test_the_shares_of_eight_rows_are_those_counted_by_hand():
    marked = marked_rows(MISSING, {"gay": GAY, "deaf": DEAF})
    gay, deaf = marked.subgroups["gay"], marked.subgroups["deaf"]
    assert (marked.overall.n, marked.overall.n_marked) == (8, 3)
    assert marked.overall.rate.value == 3 / 8
    assert marked.overall.gap is None
    assert (gay.n, gay.n_marked, gay.rate.value) == (3, 2, 2 / 3)
    assert gay.gap.value == pytest.approx(2 / 3 - 1 / 5)
    assert deaf.gap.value == pytest.approx(0 - 3 / 6)


def test_without_identities_as_background_only_such_rows_are_compared():
    marked = marked_rows(MISSING, {"gay": GAY, "deaf": DEAF}, background="no_identity")
    assert marked.subgroups["gay"].gap.value == pytest.approx(2 / 3 - 1 / 4)


def test_the_interval_of_a_share_is_wilsons():
    # Wilson (1927) with z = 1.959964: 3 of 8, solved by hand from |p - 3/8| = z sqrt(p (1-p) / 8).
    marked = marked_rows(MISSING, {"gay": GAY}).overall.rate
    for end in (marked.low, marked.high):
        reach = 1.959963984540054 * math.sqrt(end * (1 - end) / 8)
        assert abs(end - 3 / 8) == pytest.approx(reach)


@given(seed=st.integers(0, 2**32), n=st.integers(1, 60))
def test_a_naive_loop_counts_the_same(seed, n):
    rng = np.random.default_rng(seed)
    missing, gay = rng.random(n) < 0.3, rng.random(n) < 0.5
    share = marked_rows(missing, {"gay": gay}).subgroups["gay"]
    own = sum(1 for a, b in zip(missing, gay, strict=True) if a and b)
    others = sum(1 for a, b in zip(missing, gay, strict=True) if a and not b)
    n_own = sum(gay)
    assert (share.n, share.n_marked) == (n_own, own)
    if n_own == 0:
        assert share.rate.reason == "no rows"
        assert share.gap.value is None
    elif n_own < n:
        assert share.gap.value == pytest.approx(own / n_own - others / (n - n_own))


@given(seed=st.integers(0, 2**32))
def test_the_order_of_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    missing, gay, cluster = rng.random(90) < 0.3, rng.random(90) < 0.5, rng.integers(0, 25, 90)
    order = rng.permutation(90)
    first = marked_rows(missing, {"gay": gay}, clusters=cluster).to_dict()
    second = marked_rows(missing[order], {"gay": gay[order]}, clusters=cluster[order]).to_dict()
    for turned, other in (
        (first["overall"], second["overall"]),
        (first["subgroups"]["gay"], second["subgroups"]["gay"]),
    ):
        assert turned["rate"] == pytest.approx(other["rate"])


def test_the_gap_is_that_of_flagged_rows_where_a_missing_score_is_a_flag():
    rng = np.random.default_rng(0)
    missing, gay, cluster = rng.random(200) < 0.2, rng.random(200) < 0.4, rng.integers(0, 40, 200)
    missing_gap = marked_rows(missing, {"gay": gay}, clusters=cluster).subgroups["gay"].gap
    # All rows harmless: a false positive is a flag.
    as_errors = rate_gaps(
        Rows(np.zeros(200), {"gay": gay}, clusters=cluster), missing.astype(float), threshold=0.5
    )
    gap = as_errors.subgroups["gay"]["fpr_gap"]
    assert (missing_gap.value, missing_gap.low, missing_gap.high) == (gap.value, gap.low, gap.high)


def test_clusters_make_the_interval_wider_if_their_rows_go_together():
    cluster = np.repeat(np.arange(40), 10)
    missing = cluster % 4 == 0
    by_row = marked_rows(missing, {"gay": cluster < 20}).overall.rate
    by_cluster = marked_rows(missing, {"gay": cluster < 20}, clusters=cluster).overall.rate
    assert by_cluster.low < by_row.low < by_row.high < by_cluster.high
    assert by_cluster.n_clusters == 40


def test_too_few_clusters_give_no_interval():
    cluster = np.arange(40) % 5
    marked = marked_rows(cluster == 0, {"gay": cluster < 3}, clusters=cluster).overall
    assert marked.rate.value == 0.2
    assert (marked.rate.low, marked.rate.high) == (None, None)
    assert "5 clusters where 20 are needed" in marked.rate.reason


def test_a_share_of_0_or_1_has_an_interval_within_0_and_1():
    none = marked_rows(np.zeros(50), {"a": np.ones(50)}).overall.rate
    every = marked_rows(np.ones(50), {"a": np.ones(50)}).overall.rate
    assert (none.low, every.high) == (0, 1)
    assert 0 < none.high < 0.1
    assert 0.9 < every.low < 1


def test_plain_values_and_records_say_the_same():
    marked = marked_rows(MISSING, {"gay": GAY})
    plain = marked.to_dict()
    assert plain["overall"].keys() == {"n", "n_marked", "rate"}
    [row] = marked.rows()
    assert row["gap"] == plain["subgroups"]["gay"]["gap"]["value"]
    assert row["high"] == plain["subgroups"]["gay"]["rate"]["high"]
