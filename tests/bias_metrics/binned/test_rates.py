"""Error rates from counts equal those of rows; bounds if a threshold cuts a bin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import (
    Rows,
    ScoreCounts,
    equal_error_range,
    equal_error_rate,
    rate_gaps,
    threshold_report,
)
from bias_metrics.binned.pairs import WideBins
from bias_metrics.metrics import GIVEN
from bias_metrics.table import SECOND
from bias_metrics.thresholds import compare_rate_gaps

THRESHOLD = 0.6


def draw_rows(seed, background="outside_subgroup", n=500):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    groups = {"gay": rng.random(n) < 0.3, "muslim": rng.random(n) < 0.2}
    scores = [1 / (1 + np.exp(-rng.normal(y_true, 1))) for _ in range(2)]
    return Rows(y_true, groups, background=background), *scores


def count_scores(rows, score, bits):
    return ScoreCounts.from_rows(rows, score, shard="all", bits=bits)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_a_threshold_between_bins_gives_the_gaps_of_the_rows(background):
    rows, score, _ = draw_rows(1, background)
    counts = count_scores(rows, score, 52)
    table = counts.rate_gaps(threshold=THRESHOLD, background=background)
    assert table == rate_gaps(rows, score, threshold=THRESHOLD)


@given(st.integers(0, 10**6), st.integers(0, 6))
def test_a_threshold_inside_a_bin_leaves_bounds_that_hold(seed, bits):
    rows, score, _ = draw_rows(seed)
    table = count_scores(rows, score, bits).rate_gaps(threshold=THRESHOLD)
    exact = rate_gaps(rows, score, threshold=THRESHOLD)
    for name, cells in exact.subgroups.items():
        for metric, cell in cells.items():
            own = table.subgroups[name][metric]
            assert own.low <= cell.low + 1e-12
            assert own.high >= cell.high - 1e-12
            assert own.low < own.value < own.high


@given(st.integers(0, 10**6))
def test_bounds_of_two_models_hold_those_of_the_paired_rows(seed):
    rows, a, b = draw_rows(seed)
    first, second = (count_scores(rows, model, 8) for model in (a, b))
    comparison = first.compare_rate_gaps(second, thresholds=(THRESHOLD, 0.5), confidence=0.9)
    exact = compare_rate_gaps(rows, a, b, threshold_a=THRESHOLD, threshold_b=0.5, confidence=0.9)
    assert (
        comparison.thresholds
        == exact.thresholds
        == {(GIVEN, None): THRESHOLD, (GIVEN, SECOND): 0.5}
    )
    for name, cells in comparison.subgroups.items():
        for metric, own in cells.items():
            cell = exact[metric, name]
            assert own.low <= cell.low
            assert own.high >= cell.high
            assert own.size_high >= cell.size_high


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at", [0.5, 0.6, 0.613])
def test_pairs_give_nearly_the_bounds_of_paired_rows(seed, at):
    rng = np.random.default_rng(seed)
    n = 2_000
    rows = Rows(rng.random(n) < 0.5, {"gay": rng.random(n) < 0.4, "muslim": rng.random(n) < 0.3})
    shared = rng.normal(rows.y_true, 1)
    a, b = (1 / (1 + np.exp(-shared - 0.3 * rng.normal(size=n))) for _ in range(2))
    pairs = ScoreCounts.from_pairs(rows, a, b, shard="all")
    first, second = (count_scores(rows, model, 12) for model in (a, b))
    comparison = first.compare_rate_gaps(second, pairs, thresholds=(0.5, at))
    alone = first.compare_rate_gaps(second, thresholds=(0.5, at))
    exact = compare_rate_gaps(rows, a, b, threshold_a=0.5, threshold_b=at)
    for name, cells in comparison.subgroups.items():
        for metric, own in cells.items():
            cell, wide = exact[metric, name], alone[metric, name]
            assert own.low <= cell.low + 1e-9
            assert own.high >= cell.high - 1e-9
            assert own.size_high >= cell.size_high - 1e-9
            assert own.high - own.low < wide.high - wide.low
            if at == 0.5:
                assert own.high - own.low == pytest.approx(cell.high - cell.low)
                sizes = cell.size_low, cell.size_high
                assert (own.size_low, own.size_high) == pytest.approx(sizes)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
@pytest.mark.parametrize("at", [1 + 3 / 16, 1.5, 1.53])
def test_scores_in_wide_bins_of_their_own_have_the_gaps_of_paired_rows(at, background):
    """Four bits tell sixteenths between 1 and 2 apart; a score at the threshold is flagged."""
    rows, *scores = draw_rows(2, background, n=2_000)
    a, b = (1 + np.floor(16 * score) / 16 for score in scores)
    pairs = ScoreCounts.from_pairs(rows, a, b, shard="all")
    first, second = (count_scores(rows, model, 12) for model in (a, b))
    options = {"thresholds": (1.5, at), "background": background}
    comparison = first.compare_rate_gaps(second, pairs, **options)
    exact = compare_rate_gaps(rows, a, b, threshold_a=1.5, threshold_b=at)
    for name, cells in comparison.subgroups.items():
        for metric, own in cells.items():
            cell = exact[metric, name]
            for what in ("value", "std_error", "low", "high", "size_low", "size_high"):
                assert getattr(own, what) == pytest.approx(getattr(cell, what), abs=1e-9), what


def test_the_rows_that_both_models_flag_are_between_two_numbers():
    rng = np.random.default_rng(5)
    rows = Rows(rng.random(800) < 0.5, {"gay": rng.random(800) < 0.5})
    a = rng.random(800)
    b = np.clip(a + 0.05 * rng.normal(size=800), 0, 1)
    first, second = (count_scores(rows, model, 12) for model in (a, b))
    pairs = ScoreCounts.from_pairs(rows, a, b, shard="all")
    known = WideBins.from_counts(first, second, pairs)
    of_rows = tuple(model.everyone.sum(axis=0) for model in (first, second, pairs))
    for at in (0.25, 0.3, 0.5, 0.77, 0.99):
        low, high = known.count_both_flagged(of_rows, (first.least >= at, second.least >= at))
        exact = int(((a >= at) & (b >= at)).sum())
        assert low <= exact <= high
        if at in {0.25, 0.5}:
            assert low == exact == high


def test_a_gap_without_rows_or_with_one_has_the_reason():
    rows = Rows([0, 0, 0, 1], {"gay": [1, 0, 0, 0]})
    table = count_scores(rows, [0.9, 0.1, 0.2, 0.3], 12).rate_gaps(threshold=0.5)
    cells = table.subgroups["gay"]
    assert cells["fnr_gap"].reason == "no subgroup positives"
    assert cells["fpr_gap"].reason == "fewer than 2 rows in a class"
    assert cells["fpr_gap"].value == 1.0


def test_errors_at_a_threshold_and_their_sums_are_those_of_the_rows():
    rows, score, _ = draw_rows(1)
    options = {"threshold": THRESHOLD, "groups": ["gay"]}
    report = count_scores(rows, score, 52).threshold_report(**options)
    exact = threshold_report(rows.y_true, score, rows.subgroups, **options)
    assert report == exact
    assert report.fped.value == exact.fped.value > 0


def test_half_of_the_rows_in_a_bin_that_a_threshold_cuts_count_as_flagged():
    rows = Rows([1, 1, 1, 1, 0], {"gay": [1, 1, 1, 1, 0]})
    counts = count_scores(rows, [0.55, 0.6, 0.7, 0.2, 0.9], 0)
    assert counts.count_flagged(0.65)[None] == {"positive": (0, 3), "negative": (0, 1)}
    assert counts.threshold_report(threshold=0.65).overall.n_true_positive == 1


def test_a_gap_without_rows_has_no_paired_difference():
    rows = Rows([0, 0, 0, 1], {"gay": [1, 0, 0, 0]})
    scores = [0.9, 0.1, 0.2, 0.3], [0.8, 0.1, 0.2, 0.3]
    pairs = ScoreCounts.from_pairs(rows, *scores, shard="all")
    first, second = (count_scores(rows, y_score, 12) for y_score in scores)
    found = first.compare_rate_gaps(second, pairs, thresholds=(0.5, 0.5)).subgroups["gay"]
    assert found["fnr_gap"].reason == "no subgroup positives"


def test_counts_of_other_rows_are_not_compared():
    rows, a, b = draw_rows(1)
    other = ScoreCounts.from_rows(rows, b, shard="other")
    with pytest.raises(ValueError, match="their shards differ"):
        count_scores(rows, a, 12).compare_rate_gaps(other, thresholds=(0.5, 0.5))


def test_pairs_of_other_scores_are_not_compared():
    rows, a, b = draw_rows(1)
    first, second = (count_scores(rows, model, 12) for model in (a, b))
    others = ScoreCounts.from_pairs(rows, a * 1e-9, b, shard="all")
    with pytest.raises(ValueError, match="of the same rows; they are of others"):
        first.compare_rate_gaps(second, others, thresholds=(0.5, 0.5))


def test_equal_errors_of_bins_with_one_score_are_those_of_the_rows():
    rows, score, _ = draw_rows(1)
    counts, exact = count_scores(rows, score, 52), equal_error_rate(rows.y_true, score)
    equal_error = counts.equal_error_rate()
    assert equal_error.threshold == exact.threshold
    assert equal_error.rate.value == pytest.approx(exact.rate.value, abs=1e-12)
    low, high = equal_error_range(rows.y_true, score)
    ordered = np.sort(score)
    at, to = np.searchsorted(ordered, [low, high])
    assert counts.equal_error_range() == (ordered[at - 1], ordered[to + 1])


@given(st.integers(0, 10**6), st.integers(0, 8))
def test_the_threshold_of_equal_errors_is_known_within_a_bin(seed, bits):
    rows, score, _ = draw_rows(seed)
    counts, exact = count_scores(rows, score, bits), equal_error_rate(rows.y_true, score)
    found, (low, high) = counts.equal_error_rate(), equal_error_range(rows.y_true, score)
    at = int(np.searchsorted(counts.least, found.threshold))
    around = np.concatenate(([-np.inf], counts.least, [np.inf]))
    assert around[at] <= exact.threshold <= around[at + 2]
    flags = score >= found.threshold
    assert found.false_positive_rate.value == pytest.approx(flags[~rows.y_true].mean())
    assert found.false_negative_rate.value == pytest.approx((~flags[rows.y_true]).mean())
    ends = counts.equal_error_range()
    assert ends[0] <= low
    assert ends[1] >= high


def test_an_empty_class_has_no_equal_errors():
    counts = count_scores(Rows([0, 0, 0], {"gay": [1, 0, 0]}), [0.9, 0.1, 0.2], 12)
    assert counts.equal_error_rate().threshold is None
    assert counts.equal_error_rate().rate.reason == "no positives"
    with pytest.raises(ValueError, match="must have positives and negatives; one class is empty"):
        counts.equal_error_range()


def test_gaps_at_an_estimated_threshold_allow_for_its_range():
    rows, a, b = draw_rows(1, n=2_000)
    first, second = (count_scores(rows, model, 52) for model in (a, b))
    ranges = equal_error_range(rows.y_true, a), equal_error_range(rows.y_true, b)
    at = [equal_error_rate(rows.y_true, model).threshold for model in (a, b)]
    options = {"threshold": at[0], "threshold_range": ranges[0]}
    assert first.rate_gaps(**options) == rate_gaps(rows, a, **options)
    exact = compare_rate_gaps(
        rows,
        a,
        b,
        threshold_a=at[0],
        threshold_b=at[1],
        threshold_range_a=ranges[0],
        threshold_range_b=ranges[1],
    )
    pairs = ScoreCounts.from_pairs(rows, a, b, shard="all")
    given = {"thresholds": tuple(at), "threshold_ranges": ranges}
    found, sure = (first.compare_rate_gaps(second, of, **given) for of in (pairs, None))
    without = first.compare_rate_gaps(second, pairs, thresholds=tuple(at))
    for name, cells in found.subgroups.items():
        for metric, own in cells.items():
            cell, wide, narrow = (table[metric, name] for table in (exact, sure, without))
            assert own.value == pytest.approx(cell.value)
            assert wide.low <= own.low <= cell.low + 1e-12
            assert cell.high - 1e-12 <= own.high <= wide.high
            assert own.low < narrow.low < narrow.high < own.high
