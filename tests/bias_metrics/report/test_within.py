"""Metrics from pairs of rows within strata, against a double loop, and their coverage."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import Rows, evaluate_bias
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.report import measure_within_strata

N = 400


def draw_rows(seed=0):
    rng = np.random.default_rng(seed)
    y_true = rng.random(N) < 0.4
    groups = {"gay": rng.random(N) < 0.3, "muslim": rng.random(N) < 0.2}
    score = np.round(y_true + rng.normal(size=N) + 0.4 * groups["gay"], 1)
    return y_true, groups, score, rng.integers(0, 60, N)


def compare_pairs(higher, lower, score, strata):
    wins = [
        (score[i] > score[j]) + (score[i] == score[j]) / 2
        for i in np.flatnonzero(higher)
        for j in np.flatnonzero(lower)
        if strata[i] == strata[j]
    ]
    return sum(wins) / len(wins)


@pytest.mark.parametrize("step", [0.1, 9.0], ids=["many scores", "two scores"])
@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_each_number_is_the_share_of_pairs_of_one_stratum(background, step):
    y_true, groups, score, strata = draw_rows()
    score = np.ceil(score.clip(-5, 5) / step)
    values = measure_within_strata(Rows(y_true, groups, background=background), score, strata)
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
            expected = compare_pairs(higher, lower, score, strata) - centre
            assert values[name][metric].value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("clustered", [False, True])
def test_one_stratum_has_nearly_the_intervals_of_all_pairs(clustered):
    y_true, groups, score, codes = draw_rows()
    clusters = codes if clustered else None
    rows = Rows(y_true, groups, clusters=clusters)
    values = measure_within_strata(rows, score, np.zeros(N, int))
    whole = evaluate_bias(y_true, score, groups, clusters=clusters, intervals="cells").subgroups
    for name in groups:
        for metric in SUBGROUP_METRICS:
            cell, other = values[name][metric], getattr(whole[name], metric)
            assert cell.value == pytest.approx(other.value, abs=1e-12)
            assert cell.std_error == pytest.approx(other.std_error, rel=0.05)
            ratio = (cell.high - cell.low) / (other.high - other.low)
            assert (0.95 if clustered else 0.98) < ratio <= 1


@pytest.mark.parametrize("n_clusters", [2, 30])
@pytest.mark.parametrize("nested", [True, False], ids=["strata in clusters", "strata across"])
def test_the_error_of_clusters_is_that_of_the_sums_of_their_pairs(nested, n_clusters):
    y_true, groups, score, strata = draw_rows()
    own = groups["gay"]
    clusters = strata % n_clusters if nested else np.arange(N) * 7 % n_clusters
    rows = Rows(y_true, {"gay": own}, clusters=clusters)
    value = measure_within_strata(rows, score, strata)["gay"]["negative_aeg"]
    pairs = [
        (i, j, (score[i] > score[j]) + (score[i] == score[j]) / 2)
        for i in np.flatnonzero(own & ~y_true)
        for j in np.flatnonzero(~own & ~y_true)
        if strata[i] == strata[j]
    ]
    share = sum(win for *_, win in pairs) / len(pairs)
    moves = np.zeros(n_clusters)
    for i, j, win in pairs:
        # Where both rows are of one cluster, the pair is counted once.
        for row in [i] if nested else [i, j]:
            moves[clusters[row]] += (win - share) / len(pairs)
    asked = (own if nested else True) & ~y_true
    n = np.unique(clusters[asked]).size
    assert value.value == pytest.approx(share - 0.5)
    assert value.std_error == pytest.approx(math.sqrt(moves @ moves * n / (n - 1)))
    of_sides = (len({clusters[row] for row in side}) for side in list(zip(*pairs, strict=True))[:2])
    assert value.n_clusters == min(of_sides)
    assert (value.low is None) == (n_clusters < 20)


def test_clusters_count_if_one_of_their_rows_has_one_row_to_be_compared_with():
    pair, alone = np.arange(80) // 2, np.arange(40, 80)  # 40 strata of two rows, 40 of one
    strata = np.append(pair, alone)
    y_true = np.arange(120) % 2 == 0
    clusters = np.append(pair // 2, alone)
    rows = Rows(y_true, {"all": np.ones(120, bool)}, clusters=clusters)
    score = np.arange(120) * 7 % 120
    value = measure_within_strata(rows, score, strata)["all"]["subgroup_auc"]
    assert value.n_clusters == 20
    assert value.low < value.value < value.high


def test_repeats_of_pairs_that_are_all_alike_are_no_evidence():
    rows = np.arange(100)
    y_true, gay = rows % 2 == 1, rows % 4 < 2
    once = measure_within_strata(Rows(y_true, {"gay": gay}), y_true, np.zeros(100, int))
    many = np.repeat(rows, 10)
    repeated = Rows(y_true[many], {"gay": gay[many]}, clusters=many)
    values = measure_within_strata(repeated, y_true[many], np.zeros(1000, int))
    for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
        cell, other = values["gay"][metric], once["gay"][metric]
        assert (cell.value, cell.std_error, cell.n_clusters) == (1, 0, 25)
        assert (cell.low, cell.high) == pytest.approx((other.low, other.high), abs=1e-12)


def test_what_has_no_pair_or_too_few_clusters_is_undefined_with_the_reason():
    y_true, groups, score, strata = draw_rows()
    alone = measure_within_strata(Rows(y_true, {"gay": groups["gay"]}), score, np.arange(N))
    assert alone["gay"]["bpsn_auc"].reason == "no stratum has rows of both sides"
    few = measure_within_strata(Rows(y_true, groups, clusters=strata % 15), score, strata % 15)
    assert few["gay"]["bpsn_auc"].reason == "15 clusters where 20 are needed"
    assert few["gay"]["bpsn_auc"].low is None
    plain = measure_within_strata(Rows(y_true, groups), score, strata % 15)
    assert few["gay"]["positive_aeg"].value == plain["gay"]["positive_aeg"].value
    one = np.zeros(N, bool)
    one[np.flatnonzero(y_true)[0]] = True
    found = measure_within_strata(Rows(y_true, {"one": one}), score, np.zeros(N, int))["one"]
    for metric, lower, centre in (("bnsp_auc", ~y_true, 0), ("positive_aeg", y_true & ~one, 0.5)):
        cell = found[metric]
        assert (cell.low, cell.reason) == (None, "fewer than 2 rows of a side in the strata")
        expected = compare_pairs(one, lower, score, np.zeros(N)) - centre
        assert cell.value == pytest.approx(expected)
    one[np.flatnonzero(y_true)[1]] = True
    cell = measure_within_strata(Rows(y_true, {"two": one}), score, np.zeros(N, int))["two"][
        "bnsp_auc"
    ]
    assert cell.low < cell.value < cell.high
    with pytest.raises(ValueError, match="one value for each of the 400 rows"):
        measure_within_strata(Rows(y_true, groups), score, strata[:-1])
    with pytest.raises(ValueError, match="no `sample_weight`"):
        measure_within_strata(Rows(y_true, groups, sample_weight=np.ones(N)), score, strata)


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
        cell = measure_within_strata(rows, score, strata)["gay"]["bpsn_auc"]
        above, below = above + (cell.low > true), below + (cell.high < true)
        whole = evaluate_bias(y_true, score, {"gay": gay}, intervals=False)
        moved += whole.subgroups["gay"].bpsn_auc.value < cell.value
    most = 0.025 + 2 * math.sqrt(0.025 * 0.975 / times)
    assert above / times <= most
    assert below / times <= most
    assert above + below > 0.01 * times
    assert moved / times > 0.95
