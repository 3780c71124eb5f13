"""Error rates by counts: those of the rows, and bounds where a threshold cuts a bin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import Rows, ScoreCounts, compare_rate_gaps, rate_gaps, threshold_report

THRESHOLD = 0.6


def made(seed, background="outside_subgroup", n=500):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    groups = {"gay": rng.random(n) < 0.3, "muslim": rng.random(n) < 0.2}
    scores = [1 / (1 + np.exp(-rng.normal(y_true, 1))) for _ in range(2)]
    return Rows(y_true, groups, background=background), *scores


def counts_of(rows, score, bits):
    return ScoreCounts.of(rows, score, shard="all", bits=bits)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_a_threshold_between_bins_gives_the_gaps_of_the_rows(background):
    rows, score, _ = made(1, background)
    counts = counts_of(rows, score, 52)
    found = counts.rate_gaps(threshold=THRESHOLD, background=background)
    assert found == rate_gaps(rows, score, threshold=THRESHOLD)


@given(st.integers(0, 10**6), st.integers(0, 6))
def test_a_threshold_inside_a_bin_leaves_bounds_that_hold(seed, bits):
    rows, score, _ = made(seed)
    found = counts_of(rows, score, bits).rate_gaps(threshold=THRESHOLD)
    exact = rate_gaps(rows, score, threshold=THRESHOLD)
    for name, cells in exact.subgroups.items():
        for metric, cell in cells.items():
            own = found.subgroups[name][metric]
            assert own.low <= cell.low + 1e-12
            assert own.high >= cell.high - 1e-12
            assert own.low < own.value < own.high


@given(st.integers(0, 10**6))
def test_bounds_of_two_models_hold_those_of_the_paired_rows(seed):
    rows, a, b = made(seed)
    first, second = (counts_of(rows, one, 8) for one in (a, b))
    found = first.compare_rate_gaps(second, thresholds=(THRESHOLD, 0.5), confidence=0.9)
    exact = compare_rate_gaps(rows, a, b, threshold_a=THRESHOLD, threshold_b=0.5, confidence=0.9)
    assert found.to_dict()["thresholds"] == [THRESHOLD, 0.5]
    for name, cells in exact.subgroups.items():
        for metric, cell in cells.items():
            own = found.subgroups[name][metric]
            assert own.low <= cell.low
            assert own.high >= cell.high
            assert own.size_high >= cell.size_high


def test_a_gap_without_rows_or_with_one_has_the_reason():
    rows = Rows([0, 0, 0, 1], {"gay": [1, 0, 0, 0]})
    found = counts_of(rows, [0.9, 0.1, 0.2, 0.3], 12).rate_gaps(threshold=0.5)
    cells = found.subgroups["gay"]
    assert cells["fnr_gap"].reason == "no subgroup positives"
    assert cells["fpr_gap"].reason == "fewer than 2 rows in a class"
    assert cells["fpr_gap"].value == 1.0


def test_errors_at_a_threshold_are_those_of_the_rows_without_the_sums():
    rows, score, _ = made(1)
    found = counts_of(rows, score, 52).threshold_report(threshold=THRESHOLD, groups=["gay"])
    rng = np.random.default_rng(0)
    exact = threshold_report(
        rows.y_true, score, rows.subgroups, threshold=THRESHOLD, rng=rng, n_permutations=1
    )
    assert (found.overall, found.subgroups) == (exact.overall, exact.subgroups)
    assert found.worst_group_accuracy == exact.worst_group_accuracy
    assert found.groups == ("gay",)
    assert found.fped.value.reason == "counts do not tell what chance alone would give"


def test_half_of_the_rows_in_a_bin_that_a_threshold_cuts_count_as_flagged():
    rows = Rows([1, 1, 1, 1, 0], {"gay": [1, 1, 1, 1, 0]})
    counts = counts_of(rows, [0.55, 0.6, 0.7, 0.2, 0.9], 0)
    assert counts.flagged(0.65)[None] == {"positive": (0, 3), "negative": (0, 1)}
    assert counts.threshold_report(threshold=0.65).overall.n_true_positive == 1


def test_counts_of_other_rows_are_not_compared():
    rows, a, b = made(1)
    other = ScoreCounts.of(rows, b, shard="other")
    with pytest.raises(ValueError, match="their shards differ"):
        counts_of(rows, a, 12).compare_rate_gaps(other, thresholds=(0.5, 0.5))
