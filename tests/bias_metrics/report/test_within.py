"""Metrics from pairs of rows of one stratum: a double loop, and how often intervals hold."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import Rows, evaluate_bias
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.report import within_strata

N = 400


def draw(seed=0):
    rng = np.random.default_rng(seed)
    y_true = rng.random(N) < 0.4
    groups = {"gay": rng.random(N) < 0.3, "muslim": rng.random(N) < 0.2}
    score = np.round(y_true + rng.normal(size=N) + 0.4 * groups["gay"], 1)
    return y_true, groups, score, rng.integers(0, 60, N)


def double_loop(higher, lower, score, strata):
    wins = [
        (score[i] > score[j]) + (score[i] == score[j]) / 2
        for i in np.flatnonzero(higher)
        for j in np.flatnonzero(lower)
        if strata[i] == strata[j]
    ]
    return sum(wins) / len(wins)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_each_number_is_the_share_of_pairs_of_one_stratum(background):
    y_true, groups, score, strata = draw()
    found = within_strata(Rows(y_true, groups, background=background), score, strata)
    for name, own in groups.items():
        other = ~own if background == "outside_subgroup" else ~(groups["gay"] | groups["muslim"])
        sides = {
            "subgroup_auc": (own & y_true, own & ~y_true, 0),
            "bpsn_auc": (other & y_true, own & ~y_true, 0),
            "bnsp_auc": (own & y_true, other & ~y_true, 0),
            "positive_aeg": (own & y_true, other & y_true, 0.5),
            "negative_aeg": (own & ~y_true, other & ~y_true, 0.5),
        }
        for metric, (higher, lower, centre) in sides.items():
            expected = double_loop(higher, lower, score, strata) - centre
            assert found[name][metric].value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("clustered", [False, True])
def test_one_stratum_has_nearly_the_intervals_of_all_pairs(clustered):
    y_true, groups, score, codes = draw()
    clusters = codes if clustered else None
    rows = Rows(y_true, groups, clusters=clusters)
    found = within_strata(rows, score, np.zeros(N, int))
    whole = evaluate_bias(y_true, score, groups, clusters=clusters, intervals="cells").subgroups
    for name in groups:
        for metric in SUBGROUP_METRICS:
            cell, other = found[name][metric], getattr(whole[name], metric)
            assert cell.value == pytest.approx(other.value, abs=1e-12)
            assert cell.std_error == pytest.approx(other.std_error, rel=0.05)
            ratio = (cell.high - cell.low) / (other.high - other.low)
            assert (0.95 if clustered else 0.98) < ratio <= 1


def test_repeats_of_pairs_that_are_all_alike_are_no_evidence():
    rows = np.arange(100)
    y_true, gay = rows % 2 == 1, rows % 4 < 2
    once = within_strata(Rows(y_true, {"gay": gay}), y_true, np.zeros(100, int))
    many = np.repeat(rows, 10)
    repeated = Rows(y_true[many], {"gay": gay[many]}, clusters=many)
    found = within_strata(repeated, y_true[many], np.zeros(1000, int))
    for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
        cell, other = found["gay"][metric], once["gay"][metric]
        assert (cell.value, cell.std_error, cell.n_clusters) == (1, 0, 25)
        assert (cell.low, cell.high) == pytest.approx((other.low, other.high), abs=1e-12)


def test_what_has_no_pair_or_too_few_clusters_is_undefined_with_the_reason():
    y_true, groups, score, strata = draw()
    alone = within_strata(Rows(y_true, {"gay": groups["gay"]}), score, np.arange(N))
    assert alone["gay"]["bpsn_auc"].reason == "no stratum has rows of both sides"
    few = within_strata(Rows(y_true, groups, clusters=strata % 15), score, strata % 15)
    assert few["gay"]["bpsn_auc"].reason == "15 clusters where 20 are needed"
    assert few["gay"]["bpsn_auc"].low is None
    one = np.zeros(N, bool)
    one[np.flatnonzero(y_true)[0]] = True
    cell = within_strata(Rows(y_true, {"one": one}), score, np.zeros(N, int))["one"]["bnsp_auc"]
    assert (cell.low, cell.reason) == (None, "fewer than 2 rows of a side in the strata")
    one[np.flatnonzero(y_true)[1]] = True
    cell = within_strata(Rows(y_true, {"two": one}), score, np.zeros(N, int))["two"]["bnsp_auc"]
    assert cell.low < cell.value < cell.high
    with pytest.raises(ValueError, match="one value for each of the 400 rows"):
        within_strata(Rows(y_true, groups), score, strata[:-1])
    with pytest.raises(ValueError, match="no `sample_weight`"):
        within_strata(Rows(y_true, groups, sample_weight=np.ones(N)), score, strata)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [1.2, 2.4])
@pytest.mark.parametrize("by", ["article", "length"])
def test_intervals_hold_as_often_as_asked_and_articles_do_not_count(gap, by):
    """Articles, or lengths, about an identity have higher scores; within one it changes nothing."""
    rng, times = np.random.default_rng(2), 600
    true = NormalDist().cdf(gap / math.sqrt(2))
    above = below = moved = 0
    for _ in range(times):
        n_strata = 100 if by == "article" else 5
        strata = rng.integers(0, n_strata, 1500)
        about = rng.random(n_strata) if by == "article" else np.linspace(0.1, 0.9, 5)
        gay, y_true = rng.random(1500) < 0.5 * about[strata], rng.random(1500) < 0.4
        score = gap * y_true + rng.normal(size=1500) + 2 * about[strata]
        rows = Rows(y_true, {"gay": gay}, clusters=strata if by == "article" else None)
        cell = within_strata(rows, score, strata)["gay"]["bpsn_auc"]
        above, below = above + (cell.low > true), below + (cell.high < true)
        whole = evaluate_bias(y_true, score, {"gay": gay}, intervals=False)
        moved += whole.subgroups["gay"].bpsn_auc.value < cell.value
    most = 0.025 + 2 * math.sqrt(0.025 * 0.975 / times)
    assert above / times <= most
    assert below / times <= most
    assert above + below > 0.01 * times
    assert moved / times > 0.95
