"""Comparisons from counts have the differences of exact comparisons, with wider bounds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import Rows, ScoreCounts, compare_bias, evaluate_bias
from bias_metrics.binned.pairs import WideBins
from bias_metrics.binned.report import iterate_compared_rows
from bias_metrics.metrics import PAIRS
from bias_metrics.report import Measurement, Pairing


def draw_two_models(seed, n=600):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    groups = {name: rng.random(n) < share for name, share in {"gay": 0.3, "muslim": 0.2}.items()}
    shared = rng.normal(1.5 * y_true, 1)
    scores = [shared + 0.4 * rng.normal(size=n) + shift * groups["gay"] for shift in (0, 0.5)]
    return Rows(y_true, groups), *scores


def count_scores(rows, *scores, **options):
    return [ScoreCounts.from_rows(rows, score, shard="all", **options) for score in scores]


def list_differences(comparison):
    return {**comparison.subgroups, None: comparison.overall}


@given(st.integers(0, 10**6), st.sampled_from(["outside_subgroup", "no_identity"]))
def test_every_interval_holds_that_of_the_paired_comparison(seed, background):
    rows, a, b = draw_two_models(seed)
    options = {"background": background, "confidence": 0.9}
    first, second = count_scores(rows, a, b, bits=6)
    differences = list_differences(first.compare(second, **options))
    exact = list_differences(compare_bias(rows.y_true, a, b, rows.subgroups, **options))
    assert differences.keys() == exact.keys()
    for name, of_group in exact.items():
        for metric, cell in of_group.items():
            own = differences[name][metric]
            assert own.low <= cell.low
            assert own.high >= cell.high
            if cell.size_high is not None:
                assert own.size_low <= cell.size_low
                assert own.size_high >= cell.size_high


def test_values_and_bounds_are_those_of_the_two_reports():
    rows, a, b = draw_two_models(1)
    first, second = count_scores(rows, a, b)
    value = first.compare(second).subgroups["gay"].bpsn_auc
    own, other = (model.report().subgroups["gay"].bpsn_auc for model in (first, second))
    assert (value.first, value.second, value.value) == (
        own.value,
        other.value,
        own.value - other.value,
    )
    assert value.low <= own.low - other.high
    assert value.high >= own.high - other.low
    assert value.std_error == own.std_error + other.std_error
    assert value.p_value is None
    assert (value.size_low, value.size_high) == (None, None)  # of gaps alone


def test_an_undefined_number_has_an_undefined_difference():
    rows = Rows([0, 1, 0], {"gay": [1, 0, 0]})
    first, second = count_scores(rows, [0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    comparison = first.compare(second)
    assert comparison.subgroups["gay"].subgroup_auc.reason == "no subgroup positives"
    assert comparison.subgroups["gay"].positive_aeg.size_high is None


@pytest.mark.parametrize("inside", [[1, 0, 0], [0, 1, 0], [1, 1, 1]])
def test_an_undefined_number_says_which_class_lacks_as_that_of_rows_does(inside):
    rows, scores = Rows([0, 1, 0], {"gay": inside}), [0.1, 0.2, 0.3]
    [counts] = count_scores(rows, scores)
    exact = evaluate_bias(rows.y_true, scores, rows.subgroups).subgroups["gay"]
    for metric, cell in counts.report().subgroups["gay"].items():
        assert (cell.value, cell.reason) == (exact[metric].value, exact[metric].reason)


def test_counts_of_other_rows_are_refused():
    rows, a, b = draw_two_models(1)
    first, second = count_scores(rows, a, b)
    with pytest.raises(ValueError, match="must be of the same rows; their shards differ"):
        first.compare(ScoreCounts.from_rows(rows, b, shard="others"))
    renamed = Rows(rows.y_true, dict(zip("ab", rows.subgroups.values(), strict=True)))
    with pytest.raises(ValueError, match="must be of the same rows; their names differ"):
        first.compare(ScoreCounts.from_rows(renamed, b, shard="all"))
    fewer = rows.select_rows(np.arange(rows.n) > 0)
    with pytest.raises(ValueError, match="of the same rows; their numbers of rows differ"):
        second.compare(ScoreCounts.from_rows(fewer, b[1:], shard="all"))


def draw_paired_counts(seed, noise=0.4, n=20_000, bits=12):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    groups = {"gay": rng.random(n) < 0.3, "muslim": rng.random(n) < 0.1}
    shared = rng.normal(1.5 * y_true, 1)
    a, b = (1 / (1 + np.exp(-shared - noise * rng.normal(size=n))) for _ in range(2))
    rows = Rows(y_true, groups)
    return (
        rows,
        (a, b),
        count_scores(rows, a, b, bits=bits),
        (ScoreCounts.from_pairs(rows, a, b, shard="all")),
    )


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
@pytest.mark.parametrize(("noise", "wider"), [(0.1, 2.6), (0.4, 1.4), (1.0, 1.15)])
def test_pairs_of_wide_bins_give_nearly_the_intervals_of_paired_rows(noise, wider, background):
    rows, scores, (first, second), pairs = draw_paired_counts(1, noise)
    options = {"confidence": 0.9, "background": background}
    differences = list_differences(first.compare(second, pairs, **options))
    alone = list_differences(first.compare(second, **options))
    exact = list_differences(compare_bias(rows.y_true, *scores, rows.subgroups, **options))
    for name in ("gay", "muslim"):
        for metric, cell in exact[name].items():
            own, width = differences[name][metric], cell.high - cell.low
            assert own.low <= cell.low
            assert own.high >= cell.high
            assert own.high - own.low < wider * width
            assert alone[name][metric].low < own.low
            if cell.size_high is not None:
                assert own.size_low <= cell.size_low + 0.01 * width
                assert own.size_high >= cell.size_high - 0.01 * width
    assert differences[None]["auc"].high - differences[None]["auc"].low < (
        alone[None]["auc"].high - alone[None]["auc"].low
    )


@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.5, 3.0]))
def test_the_covariance_is_known_within_what_is_open(seed, noise):
    rows, (a, b), (first, second), pairs = draw_paired_counts(seed, noise, 1_000, bits=52)
    known = WideBins.from_counts(first, second, pairs)
    of_counts = [
        iterate_compared_rows(model, "outside_subgroup") for model in (first, second, pairs)
    ]
    ranked = Pairing(*(Measurement(rows, score) for score in (a, b)))
    for (key, *one), (_, *other), (_, *both) in zip(*of_counts, strict=True):
        if key.group is None:
            continue
        y, x = zip(one, other, both, strict=True)
        found, open_ = known.measure_joint(y, x, flip=PAIRS[key.metric].flip)
        exact = ranked.measure_errors(key.group)[key.metric].joint_moments
        assert abs(found.covariance - exact.covariance) <= open_ + 1e-15


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_scores_in_wide_bins_of_their_own_are_related_as_those_of_the_rows(background):
    """Four bits tell sixteenths between 1 and 2 apart."""
    rows, scores, *_ = draw_paired_counts(4, n=3_000)
    rows = Rows(rows.y_true, rows.subgroups, background=background)
    a, b = (1 + np.floor(16 * score) / 16 for score in scores)
    first, second = count_scores(rows, a, b)
    pairs = ScoreCounts.from_pairs(rows, a, b, shard="all")
    known = WideBins.from_counts(first, second, pairs)
    of_counts = [iterate_compared_rows(model, background) for model in (first, second, pairs)]
    ranked = Pairing(*(Measurement(rows, score) for score in (a, b)))
    for (key, *one), (_, *other), (_, *both) in zip(*of_counts, strict=True):
        y, x = zip(one, other, both, strict=True)
        found, open_ = known.measure_joint(
            y, x, flip=key.group is not None and PAIRS[key.metric].flip
        )
        assert open_ == pytest.approx(0, abs=1e-15)
        if key.group is not None:
            exact = ranked.measure_errors(key.group)[key.metric].joint_moments
            assert found.covariance == pytest.approx(exact.covariance)
            near = 0.02 * np.abs(exact.third_moments).max()  # but for 1 - 1 / n
            assert found.third_moments == pytest.approx(exact.third_moments, abs=near)
    options = {"confidence": 0.9, "background": background}
    found = first.compare(second, pairs, **options).subgroups
    for name, cells in compare_bias(rows.y_true, a, b, rows.subgroups, **options).subgroups.items():
        for metric, cell in cells.items():
            own = found[name][metric]
            for what in ("value", "std_error", "low", "high", "size_low", "size_high"):
                assert getattr(own, what) == pytest.approx(getattr(cell, what), abs=3e-5), what


def test_pairs_of_one_wide_bin_tell_nothing():
    """Errors may then add up as far as without pairs."""
    rows, scores, *_ = draw_paired_counts(4, n=3_000)
    a, b = (1 + score / 17 for score in scores)
    first, second = count_scores(rows, a, b, bits=8)
    pairs = ScoreCounts.from_pairs(rows, a, b, shard="all")
    assert pairs.bins.size == 1
    found, alone = first.compare(second, pairs), first.compare(second)
    for metric, cell in found.subgroups["gay"].items():
        known = alone.subgroups["gay"][metric].std_error
        assert cell.std_error == pytest.approx(known, rel=2e-3)


def test_pairs_add_up_like_other_counts():
    rows, (a, b), (first, second), pairs = draw_paired_counts(2, n=3_000)
    half = np.arange(rows.n) % 2 == 0
    parts = [
        ScoreCounts.from_pairs(rows.select_rows(of), a[of], b[of], shard=shard)
        for shard, of in (("one", half), ("two", ~half))
    ]
    added = replace(parts[1] + parts[0], shards=pairs.shards)
    assert added.to_bytes() == pairs.to_bytes()
    assert first.compare(second, added) == first.compare(second, pairs)


def test_scores_below_0_and_any_size_have_pairs():
    rng = np.random.default_rng(3)
    rows = Rows(rng.random(500) < 0.5, {"gay": rng.random(500) < 0.5})
    scores = [rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500) for _ in range(2)]
    first, second = count_scores(rows, *scores)
    pairs = ScoreCounts.from_pairs(rows, *scores, shard="all")
    value = first.compare(second, pairs).subgroups["gay"].bpsn_auc
    exact = compare_bias(rows.y_true, *scores, rows.subgroups).subgroups["gay"].bpsn_auc
    assert value.low <= exact.low + 1e-4
    assert value.high >= exact.high - 1e-4


def test_pairs_of_other_rows_or_too_wide_bins_are_refused():
    rows, (a, b), (first, second), pairs = draw_paired_counts(2, n=500)
    with pytest.raises(ValueError, match="of the same rows; they are of others"):
        first.compare(second, ScoreCounts.from_pairs(rows, a[::-1].copy(), b, shard="all"))
    with pytest.raises(ValueError, match="of the same rows; they are of others"):
        first.compare(second, ScoreCounts.from_pairs(rows, a * 1e-9, b, shard="all"))
    with pytest.raises(ValueError, match="their shards differ"):
        first.compare(second, ScoreCounts.from_pairs(rows, a, b, shard="other"))
    wide = count_scores(rows, a, b, bits=2)
    with pytest.raises(ValueError, match="must have at least 4 bits; got 2"):
        wide[0].compare(wide[1], pairs)


def test_a_number_without_an_error_has_no_paired_difference():
    rows = Rows([0, 1, 0, 1], {"gay": [1, 1, 0, 0]})
    scores = [0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.5]
    pairs = ScoreCounts.from_pairs(rows, *scores, shard="all")
    first, second = count_scores(rows, *scores)
    value = first.compare(second, pairs).subgroups["gay"].bpsn_auc
    assert value.value == 0
    assert value.low is None
