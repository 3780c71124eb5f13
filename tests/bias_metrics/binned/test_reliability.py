"""Reliability from counts is that of the rows."""

import numpy as np
import pytest

from bias_metrics import Rows, ScoreCounts, calibration_report


def made(digits, n=997):
    rng = np.random.default_rng(7)
    score = rng.beta(0.6, 3, n)
    score = score if digits is None else score.round(digits)
    rows = Rows(rng.random(n) < score, {"gay": rng.random(n) < 0.2, "nobody": np.zeros(n, bool)})
    return rows, score


@pytest.mark.parametrize("digits", [None, 2, 1])
@pytest.mark.parametrize("n_bins", [2, 7, 10])
def test_bins_with_one_score_each_give_the_curves_of_the_rows(digits, n_bins):
    rows, score = made(digits)
    counts = ScoreCounts.of(rows, score, shard="all", bits=52)
    exact = calibration_report(rows, score, n_bins=n_bins, confidence=0.9)
    found = counts.reliability(n_bins=n_bins, confidence=0.9)
    assert found["nobody"] == ()
    for name, known in ((None, exact.overall), ("gay", exact.subgroups["gay"])):
        assert [vars(one) for one in found[name]] == [
            pytest.approx(vars(one), abs=1e-12) for one in known.reliability
        ]


def test_a_mean_score_is_known_within_a_bin():
    rows, score = made(None)
    counts = ScoreCounts.of(rows, score, shard="all", bits=6)
    curve = counts.reliability()[None]
    assert sum(one.n for one in curve) == rows.n
    assert sum(one.n * one.share_positive for one in curve) == pytest.approx(rows.y_true.sum())
    assert sum(one.n * one.mean_score for one in curve) / rows.n == pytest.approx(
        score.mean(), rel=2**-7
    )


def test_scores_that_are_no_probabilities_and_one_bin_are_refused():
    rows, score = made(None)
    with pytest.raises(ValueError, match=r"must be probabilities; they are from .* to 1.64665"):
        ScoreCounts.of(rows, 2 * score, shard="all").reliability()
    with pytest.raises(ValueError, match="`n_bins` must be at least 2; got 1"):
        ScoreCounts.of(rows, score, shard="all").reliability(n_bins=1)
