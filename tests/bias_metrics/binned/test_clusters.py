"""Clusters of counted rows: intervals hold those of the exact rows in clusters, and are near."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bias_metrics import (
    Rows,
    ScoreCounts,
    compare_bias,
    compare_rate_gaps,
    equal_error_range,
    rate_gaps,
    threshold_report,
)
from bias_metrics.binned import ClusterTotals

GROUPS = {"gay": 0.3, "muslim": 0.1, "trans": 0.02}


def clustered_rows(seed, n, n_clusters, background="outside_subgroup", effect=0.7):
    """Rows of clusters that differ in size and score, with the scores of two models."""
    rng = np.random.default_rng(seed)
    shares = rng.gamma(0.5, size=n_clusters) + 1e-9
    clusters = rng.choice(n_clusters, n, p=shares / shares.sum())
    y_true = rng.random(n) < 0.3
    groups = {name: rng.random(n) < share for name, share in GROUPS.items()}
    shared = rng.normal(1.5 * y_true, 1) + effect * rng.normal(size=n_clusters)[clusters]
    scores = [
        1 / (1 + np.exp(2 - shared - 0.4 * rng.normal(size=n) - shift * groups["gay"]))
        for shift in (0, 0.5)
    ]
    return Rows(y_true, groups, clusters=clusters, background=background), scores


def in_batches(rows, scores, n_batches):
    def batches():
        for number in range(n_batches):
            some = rows.clusters % n_batches == number
            if some.any():
                yield rows.within(some), [of_model[some] for of_model in scores]

    return batches


def counted(rows, scores, n_batches=3, bits=12, thresholds=()):
    alone = Rows(rows.y_true, rows.subgroups)
    counts = [ScoreCounts.of(alone, score, shard="all", bits=bits) for score in scores]
    batches = in_batches(rows, scores, n_batches)
    totals = ClusterTotals.of(counts, batches, rows.background, thresholds)
    return [of_model.in_clusters(totals, at) for at, of_model in enumerate(counts)]


def numbers_of(report):
    others = report.power_mean.by_metric() | {"final": report.final_score}
    found = {name: bias.by_metric() for name, bias in report.subgroups.items()}
    return found | {None: others | {"auc": report.overall.auc}}


@settings(max_examples=15)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["outside_subgroup", "no_identity"]),
    st.sampled_from([15, 60, 900]),
    st.sampled_from([4, 12]),
)
def test_every_interval_holds_that_of_the_exact_rows(seed, background, n_clusters, bits):
    rows, scores = clustered_rows(seed, 3_000, n_clusters, background)
    first, second = counted(rows, scores, bits=bits)
    options = {"background": background, "confidence": 0.9}
    exact = compare_bias(rows.y_true, *scores, rows.subgroups, clusters=rows.clusters, **options)
    found = first.compare(second, **options)
    for own, real in ((found.first, exact.first), (found.second, exact.second)):
        mine = numbers_of(own)
        for name, cells in numbers_of(real).items():
            for metric, cell in cells.items():
                assert mine[name][metric].n_clusters == cell.n_clusters or name is None
                assert (mine[name][metric].low is None) == (cell.low is None)
                if cell.low is not None:
                    assert mine[name][metric].low <= cell.low + 1e-12
                    assert mine[name][metric].high >= cell.high - 1e-12
    for name, cells in exact.subgroups.items():
        for metric, cell in cells.items():
            own = found.subgroups[name][metric]
            assert (own.low is None) == (cell.low is None)
            assert (own.reason, own.n_clusters) == (cell.reason, cell.n_clusters)
            if cell.low is not None:
                assert own.low <= cell.low + 1e-12
                assert own.high >= cell.high - 1e-12


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
@pytest.mark.parametrize("n_clusters", [40, 2_000])
def test_scores_in_bins_of_their_own_give_the_exact_intervals(n_clusters, background):
    rows, scores = clustered_rows(1, 6_000, n_clusters, background)
    first, second = counted(rows, scores, bits=52)
    exact = compare_bias(
        rows.y_true, *scores, rows.subgroups, clusters=rows.clusters, background=background
    )
    found = first.compare(second, background=background)
    mine = numbers_of(found.first)
    for name, cells in numbers_of(exact.first).items():
        for metric, cell in cells.items():
            if name is not None or metric == "auc":
                own = mine[name][metric]
                for what in ("value", "std_error", "low", "high", "row_std_error"):
                    assert getattr(own, what) == pytest.approx(getattr(cell, what), abs=1e-10)
    for name, cells in exact.subgroups.items():
        for metric, cell in cells.items():
            own = found.subgroups[name][metric]
            for what in ("std_error", "low", "high", "size_low", "size_high"):
                assert getattr(own, what) == pytest.approx(getattr(cell, what), abs=1e-10)


def test_other_rows_a_single_row_and_another_background_are_refused_or_undefined():
    rows, (a, b) = clustered_rows(2, 400, 40)
    alone = {**rows.subgroups, "one": np.arange(rows.n) == 7}
    rows = rows.grouped(alone)
    first, second = counted(rows, (a, b))
    cell = first.compare(second).subgroups["one"]
    assert {one.low for one in cell.values()} == {None}
    with pytest.raises(ValueError, match="must be that of the clusters, outside_subgroup; got no_"):
        first.report(background="no_identity")
    with pytest.raises(ValueError, match="must be of both models, the first of them the candidate"):
        second.compare(first)
    counts = [ScoreCounts.of(Rows(rows.y_true, alone), a, shard="all")]
    for other, score in ((rows, a + 1), (rows.within(np.arange(rows.n) > 0), a[1:])):
        with pytest.raises(ValueError, match="must be those that were counted; they are others"):
            ClusterTotals.of(counts, in_batches(other, [score], 2))
    totals = ClusterTotals.of(counts, in_batches(rows, [a], 2))
    totals.refuse_others(counts)
    with pytest.raises(ValueError, match="must be those that were counted; they are others"):
        replace(totals, n=1).refuse_others(counts)


def same(found, exact):
    """Say whether two results hold the same, numbers but for rounding."""
    assert type(found) is type(exact)
    for name, cells in exact.subgroups.items():
        for metric, cell in cells.items():
            own = found.subgroups[name][metric]
            for what, value in vars(cell).items():
                is_number = isinstance(value, float | tuple)
                known = pytest.approx(value, rel=0, abs=1e-12) if is_number else value
                assert getattr(own, what) == known, (metric, what)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
@pytest.mark.parametrize(("n_clusters", "effect"), [(15, 0.7), (60, 3.0), (900, 0.7)])
@pytest.mark.parametrize("bits", [4, 12])
def test_error_rates_are_those_of_rows_in_clusters(background, n_clusters, effect, bits):
    """Whether or not the threshold is inside a bin."""
    rows, scores = clustered_rows(3, 6_000, n_clusters, background, effect)
    at = 0.5, 0.4321
    first, second = counted(rows, scores, bits=bits, thresholds=[at, (at[0], None)])
    equal = [one.equal_error_rate().threshold for one in (first, second)]
    spans = [one.equal_error_range(confidence=0.9) for one in (first, second)]
    for (a, b), (span, other) in ((at, (None, None)), (equal, spans)):
        exact = compare_rate_gaps(
            rows,
            *scores,
            threshold_a=a,
            threshold_b=b,
            threshold_range_a=span,
            threshold_range_b=other,
            confidence=0.9,
        )
        options = {"confidence": 0.9, "background": background}
        ranges = span, other
        found = first.compare_rate_gaps(
            second, thresholds=(a, b), threshold_ranges=ranges, **options
        )
        same(found, exact)
        same(found.first, exact.first)
        same(found.second, exact.second)
        same(first.rate_gaps(threshold=a, threshold_range=span, **options), exact.first)
        same(second.rate_gaps(threshold=b, threshold_range=other, **options), exact.second)
    own = first.threshold_report(threshold=at[0])
    real = threshold_report(rows.y_true, scores[0], rows.subgroups, threshold=at[0])
    assert own == real


def test_the_threshold_of_equal_errors_is_as_uncertain_as_clusters_make_it():
    rows, (score, _) = clustered_rows(4, 4_000, 50, effect=2.0)
    [first] = counted(rows, [score], bits=52)
    low, high = equal_error_range(rows.y_true, score, clusters=rows.clusters)
    ordered = np.sort(score)
    at, to = np.searchsorted(ordered, [low, high])
    assert first.equal_error_range() == (ordered[at - 1], ordered[to + 1])
    plain = ScoreCounts.of(Rows(rows.y_true, rows.subgroups), score, shard="all", bits=52)
    assert plain.equal_error_range()[1] < high


def test_models_that_decide_alike_are_not_apart():
    """A difference of exactly 0, although both are sums over many clusters."""
    rows, (score, _) = clustered_rows(5, 4_000, 300)
    first, second = counted(rows, [score, score**3], thresholds=[(0.5, 0.125)])
    found = first.compare_rate_gaps(second, thresholds=(0.5, 0.125)).subgroups["gay"]["fpr_gap"]
    assert (found.value, found.low, found.high, found.std_error) == (0, 0, 0, 0)


def test_a_subgroup_without_a_class_has_the_reason_of_rows():
    rows, (score, _) = clustered_rows(6, 400, 40)
    groups = {"none": np.zeros(rows.n, bool), "harmless": ~rows.y_true & rows.subgroups["gay"]}
    rows = rows.grouped(groups)
    [first] = counted(rows, [score], thresholds=[(0.5,)])
    same(first.rate_gaps(threshold=0.5), rate_gaps(rows, score, threshold=0.5))
    assert first.rate_gaps(threshold=0.5).subgroups["none"]["fpr_gap"].value is None
    [bare] = counted(rows.grouped({}), [score], thresholds=[(0.5,)])
    assert bare.rate_gaps(threshold=0.5).subgroups == {}


def test_the_first_of_three_models_is_compared_with_each():
    rows, (a, b) = clustered_rows(6, 2_000, 100)
    c = (a + 2 * b) / 3
    first, second, third = counted(rows, [a, b, c], thresholds=[(0.5, None, 0.4)])
    for one, score in ((second, b), (third, c)):
        mine = first.compare(one).subgroups["gay"].bpsn_auc
        options = {"subgroups": rows.subgroups, "clusters": rows.clusters}
        real = compare_bias(rows.y_true, a, score, **options).subgroups["gay"].bpsn_auc
        assert (mine.std_error, mine.low) == pytest.approx((real.std_error, real.low), rel=1e-2)
    found = first.compare_rate_gaps(third, thresholds=(0.5, 0.4))
    same(found, compare_rate_gaps(rows, a, c, threshold_a=0.5, threshold_b=0.4))
    same(first.rate_gaps(threshold=0.5), rate_gaps(rows, a, threshold=0.5))
    with pytest.raises(ValueError, match="must be added up at the thresholds"):
        second.rate_gaps(threshold=0.5)


def test_rows_of_one_class_have_no_threshold_of_equal_errors():
    rows, (score, _) = clustered_rows(6, 400, 40)
    [first] = counted(rows.labelled(np.ones(rows.n, bool)), [score], thresholds=[(0.5,)])
    (totals, _) = first.clusters
    assert [one.thresholds for one in totals.rates] == [[0.5]]
    totals.refuse_others([first])


def test_another_threshold_than_clusters_were_added_up_at_is_refused():
    rows, scores = clustered_rows(3, 400, 40)
    first, second = counted(rows, scores, thresholds=[(0.5, 0.5)])
    wanted = r"must be added up at the thresholds that are asked for, 0\.5, 0\.6; they are not"
    with pytest.raises(ValueError, match=wanted):
        first.compare_rate_gaps(second, thresholds=(0.5, 0.6))
    with pytest.raises(ValueError, match="must be that of the clusters, outside_subgroup; got no_"):
        first.rate_gaps(threshold=0.5, background="no_identity")
    plain = ScoreCounts.of(Rows(rows.y_true, rows.subgroups), scores[1], shard="all")
    with pytest.raises(ValueError, match="must be of both models, the first of them the candidate"):
        first.compare_rate_gaps(plain, thresholds=(0.5, 0.5))


@pytest.mark.parametrize("sizes", [[1] * 60, [60]])
def test_sums_of_single_rows_and_of_one_cluster_are_possible(sizes):
    rng = np.random.default_rng(0)
    clusters, score = np.repeat(np.arange(len(sizes)), sizes), rng.random(60)
    rows = Rows(np.arange(60) % 2, {"gay": rng.random(60) < 0.5}, clusters=clusters)
    counts = counted(rows, [score], n_batches=1)
    counts[0].clusters[0].refuse_others(counts)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, lambda rows, _: rows[0] + 1),
        (1, lambda rows, _: rows[1] - 1),
        (2, lambda rows, _: rows[0] + 1),  # more clusters than rows
        (3, lambda _, n: n + 1),  # more than there are
        (4, lambda _, n: n + 1),
        (5, lambda rows, _: rows[0] - 1),  # smaller than if each row is a cluster
        (6, lambda rows, _: rows[1] ** 2 + 1),  # larger than if all are one
        (7, lambda rows, _: rows[0] * rows[1] + 1),
        (7, lambda *_: -1.0),
        (7, lambda *_: float("inf")),
    ],
)
def test_sums_over_clusters_that_no_rows_have_are_refused(place, wrong):
    rows, scores = clustered_rows(3, 400, 40)
    counts = counted(rows, scores)
    totals, _ = counts[0].clusters
    sums = [list(one) for one in totals.rows]
    sums[1][place] = wrong(sums[1], totals.n)
    with pytest.raises(ValueError, match="must be those that were counted; they are others"):
        replace(totals, rows=sums).refuse_others(counts)
    moves = [[list(one) for one in of_model] for of_model in totals.moves]
    moves[1][2][3] = totals.rows[2][7] + 1  # more pairs in order than there are
    with pytest.raises(ValueError, match="must be those that were counted; they are others"):
        replace(totals, moves=moves).refuse_others(counts)


@pytest.mark.parametrize(
    "changed",
    [
        {"models": [1]},
        {"thresholds": [0.5]},
        {"thresholds": [0.5, float("nan")]},
        {"thresholds": [0.5, 0.1]},
        {"subgroups": {}},
        {"classes": [1.0]},
        *({"at": (place, by)} for place in range(16) for by in (-1e7, 1e7)),
        {"at": (32, 1e12)},
    ],
)
def test_sums_of_errors_that_contradict_the_counts_or_each_other_are_refused(changed):
    rows, scores = clustered_rows(3, 400, 40)
    counts = counted(rows, scores, thresholds=[(0.5, 0.5)])
    totals, _ = counts[0].clusters
    [of_both] = [one for one in totals.rates if one.thresholds == [0.5, 0.5]]
    in_another_order = dict(sorted(of_both.subgroups.items()))
    replace(totals, rates=[replace(of_both, subgroups=in_another_order)]).refuse_others(counts)
    if "at" in changed:
        place, by = changed["at"]
        sums = list(of_both.classes)
        sums[place] += by
        changed = {"classes": sums}
    with pytest.raises(ValueError, match="must be those that were counted; they are others"):
        replace(totals, rates=[replace(of_both, **changed)]).refuse_others(counts)


def test_gaps_of_calibration_have_no_intervals():
    rows, scores = clustered_rows(3, 400, 40)
    first, _ = counted(rows, scores)
    gap = first.calibration_gaps()["gay"]["brier_gap"]
    assert gap.reason == "counts do not tell what clusters do to calibration"


@pytest.mark.parametrize("bits", [0, 2])
def test_pairs_of_one_cluster_that_may_matter_are_allowed_for(bits):
    rows, scores = clustered_rows(8, 6_000, 6_000, effect=0.05)
    first, _ = counted(rows, scores, bits=bits)
    totals, _ = first.clusters
    unsure = [totals.sums(0, at, flip=False).unsure for at in range(len(totals.rows))]
    assert any(unsure)
    exact = compare_bias(rows.y_true, *scores, rows.subgroups, clusters=rows.clusters).first
    mine = numbers_of(first.report())
    for name, cells in numbers_of(exact).items():
        for metric, cell in cells.items():
            assert mine[name][metric].low <= cell.low + 1e-12
            assert mine[name][metric].high >= cell.high - 1e-12
