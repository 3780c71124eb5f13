"""Clusters of counted rows: intervals hold those of the exact rows in clusters, and are near."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bias_metrics import Rows, ScoreCounts, compare_bias
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


def counted(rows, scores, n_batches=3, bits=12):
    alone = Rows(rows.y_true, rows.subgroups)
    counts = [ScoreCounts.of(alone, score, shard="all", bits=bits) for score in scores]
    totals = ClusterTotals.of(counts, in_batches(rows, scores, n_batches), rows.background)
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


def test_error_rates_have_no_intervals():
    rows, scores = clustered_rows(3, 400, 40)
    first, second = counted(rows, scores)
    pairs = ScoreCounts.of_pairs(Rows(rows.y_true, rows.subgroups), *scores, shard="all")
    found = first.compare_rate_gaps(second, pairs, thresholds=(0.5, 0.5))
    for cells in (found.first.subgroups["gay"], found.subgroups["gay"]):
        assert cells["fpr_gap"].low is None
        assert "what clusters do to error rates" in cells["fpr_gap"].reason
    gap = first.calibration_gaps()["gay"]["brier_gap"]
    assert gap.reason == "counts do not tell what clusters do to calibration"
    plain = ScoreCounts.of(Rows(rows.y_true, rows.subgroups), scores[0], shard="all")
    gap = plain.rate_gaps(threshold=0.5).subgroups["gay"]["fpr_gap"]
    assert found.first.subgroups["gay"]["fpr_gap"].value == gap.value


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
