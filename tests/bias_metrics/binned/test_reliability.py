"""Reliability from counts equals that of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bias_metrics import Rows, ScoreCounts, calibration_report
from bias_metrics.binned.bin_counts import compute_bins


def draw_rows(digits, n=997):
    rng = np.random.default_rng(7)
    score = rng.beta(0.6, 3, n)
    score = score if digits is None else score.round(digits)
    rows = Rows(rng.random(n) < score, {"gay": rng.random(n) < 0.2, "nobody": np.zeros(n, bool)})
    return rows, score


@pytest.mark.parametrize("digits", [None, 2, 1])
@pytest.mark.parametrize("n_bins", [2, 7, 10])
def test_bins_with_one_score_each_give_the_curves_of_the_rows(digits, n_bins):
    rows, score = draw_rows(digits)
    counts = ScoreCounts.from_rows(rows, score, shard="all", bits=52)
    exact = calibration_report(rows, score, n_bins=n_bins, confidence=0.9)
    curves = counts.reliability(n_bins=n_bins, confidence=0.9)
    assert curves["nobody"] == ()
    for name, known in ((None, exact.overall), ("gay", exact.subgroups["gay"])):
        assert [vars(one) for one in curves[name]] == [
            pytest.approx(vars(point), abs=1e-12) for point in known.reliability
        ]


def test_a_mean_score_is_known_within_a_bin():
    rows, score = draw_rows(None)
    counts = ScoreCounts.from_rows(rows, score, shard="all", bits=6)
    curve = counts.reliability()[None]
    assert sum(point.n for point in curve) == rows.n
    assert sum(point.n * point.share_positive for point in curve) == pytest.approx(
        rows.y_true.sum()
    )
    assert sum(point.n * point.mean_score for point in curve) / rows.n == pytest.approx(
        score.mean(), rel=2**-7
    )


def test_scores_that_are_no_probabilities_and_one_bin_are_refused():
    rows, score = draw_rows(None)
    with pytest.raises(ValueError, match=r"must be probabilities; they are from .* to 1.64665"):
        ScoreCounts.from_rows(rows, 2 * score, shard="all").reliability()
    with pytest.raises(ValueError, match="`n_bins` must be at least 2; got 1"):
        ScoreCounts.from_rows(rows, score, shard="all").reliability(n_bins=1)


@settings(max_examples=30)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["outside_subgroup", "no_identity"]),
    st.sampled_from([40, 400, 4_000]),
    st.sampled_from([3, 12]),
    st.sampled_from([0.02, 0.3]),
)
def test_gaps_of_calibration_hold_those_of_exact_scores(seed, background, n, bits, share):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < share
    groups = {name: rng.random(n) < of for name, of in {"gay": 0.3, "trans": 0.05}.items()}
    rows = Rows(y_true, groups, background=background)
    score = 1 / (1 + np.exp(2 - rng.normal(2 * y_true + 0.3 * groups["gay"], 1)))
    counts = ScoreCounts.from_rows(rows, score, shard="all", bits=bits)
    gaps = counts.calibration_gaps(confidence=0.9, background=background)
    exact = calibration_report(rows, score, confidence=0.9).gaps
    for name, gap in gaps.items():
        real = exact[name]
        assert gap.reason == real.reason
        if real.low is not None:
            assert gap.low <= real.low + 1e-12
            assert gap.high >= real.high - 1e-12
            assert bits < 12 or gap.high - gap.low < real.high - real.low + 0.002


def test_a_gap_reaches_as_far_as_scores_can_move_in_their_bins_and_hardly_farther():
    rng = np.random.default_rng(9)
    y_true, gay, score = rng.random(9_000) < 0.4, rng.random(9_000) < 0.3, rng.random(9_000)
    rows = Rows(y_true, {"gay": gay})
    counts = ScoreCounts.from_rows(rows, score, shard="all", bits=1)
    at = np.searchsorted(counts.bins, compute_bins(score, 1))
    least, most = counts.least[at], counts.most[at]
    first, last = (
        calibration_report(rows, np.where(gay, *ends)).gaps["gay"]
        for ends in ((least, most), (most, least))
    )
    found = counts.calibration_gaps()["gay"]
    assert found.low <= first.low < last.high <= found.high
    assert found.high - found.low < 1.15 * (last.high - first.low)


@pytest.mark.parametrize("share", [0.2, 0.02])
def test_scores_in_bins_of_their_own_give_the_exact_gaps_of_calibration(share):
    rng = np.random.default_rng(4)
    y_true, gay = rng.random(900) < share, rng.random(900) < 0.1
    score = rng.random(900)
    two = np.isin(np.arange(900), [np.flatnonzero(y_true)[0], np.flatnonzero(~y_true)[0]])
    rows = Rows(y_true, {"gay": gay, "two": two, "one": np.arange(900) == 0})
    gaps = ScoreCounts.from_rows(rows, score, shard="all", bits=52).calibration_gaps()
    exact = calibration_report(rows, score).gaps
    for name in ("gay", "two"):
        for what in ("value", "std_error", "low", "high"):
            own, real = getattr(gaps[name], what), getattr(exact[name], what)
            assert own == pytest.approx(real, abs=1e-12)
    assert (gaps["one"].low, exact["one"].low) == (None, None)
    assert gaps["one"].reason == exact["one"].reason


def test_scores_that_are_no_probabilities_and_empty_groups_have_no_gaps():
    rows = Rows([0, 1, 0, 1], {"gay": [0, 0, 0, 0], "all": [1, 1, 1, 1]})
    gaps = ScoreCounts.from_rows(rows, [0.1, 0.2, 0.3, 0.4], shard="all").calibration_gaps()
    assert gaps["gay"].reason == "subgroup: no rows"
    assert gaps["all"].reason == "background: no rows"
    gaps = ScoreCounts.from_rows(rows, [0.1, 0.2, 0.3, 1.4], shard="all").calibration_gaps()
    assert "scores must be probabilities" in gaps["gay"].reason
