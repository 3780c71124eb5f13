"""Intervals of pooled nights: as wide as nights differ, and none before the fifth."""

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from bias_metrics import evaluate_bias, night_clusters, with_night_variance

CELL = {"value": 0.9, "std_error": 0.01, "low": 0.88, "high": 0.92, "p_value": 0.5}
GAP = {
    "first": -0.3,
    "second": 0.1,
    "value": -0.4,
    "std_error": 0.01,
    "low": -0.42,
    "high": -0.38,
    "size_low": 0.18,
    "size_high": 0.22,
}


def wider(cell, std_error, n_nights=5, name="auc"):
    found = {"subgroups": {"gay": {name: cell, "n": 3}}, "thresholds": [0.5, 0.5]}
    nights = {"subgroups": {"gay": {name: {"std_error": std_error}}}}
    changed = with_night_variance(found, nights, n_nights=n_nights, confidence=0.9)
    assert changed["thresholds"] == [0.5, 0.5]
    assert changed["subgroups"]["gay"]["n"] == 3
    return changed["subgroups"]["gay"][name]


@pytest.mark.parametrize("std_error", [0.005, 0.01, None])
def test_nights_that_differ_no_more_than_rows_change_nothing(std_error):
    assert wider(CELL, std_error) == CELL


def reach(ratio, n_nights=5):
    """How many times as far: Student's quantile for what only nights show."""
    few = t.ppf(0.95, n_nights - 1) / norm.ppf(0.95)
    return math.hypot(1.0, few * math.sqrt(ratio**2 - 1))


@pytest.mark.parametrize("n_nights", [5, 6, 40])
def test_what_only_nights_show_has_the_quantile_of_few_nights(n_nights):
    found = wider(CELL, 0.02, n_nights)
    far = 0.02 * reach(2.0, n_nights)
    assert (found["low"], found["high"]) == pytest.approx((0.9 - far, 0.9 + far), abs=1e-9)
    assert (found["std_error"], found["p_value"]) == (0.02, None)
    beyond = wider(CELL, 0.1)
    assert (beyond["low"], beyond["high"]) == (pytest.approx(0.9 - 0.02 * reach(10)), 1.0)


def test_a_share_ends_at_0_and_1_but_a_difference_of_shares_goes_on():
    low = wider({**CELL, "value": 0.1, "low": 0.08, "high": 0.12}, 0.1)
    assert (low["low"], low["high"]) == (0.0, pytest.approx(0.1 + 0.02 * reach(10)))
    ends = {"value": 0.9, "low": 0.88, "high": 0.92}
    for name, other in (("negative_aeg", {}), ("auc", {"first": 0.95, "second": 0.05})):
        cell = ends | {"std_error": 0.01} | other
        assert wider(cell, 0.1, name=name)["high"] == pytest.approx(0.9 + 0.02 * reach(10))


def test_a_gap_and_its_growth_are_stretched_about_their_own_values():
    found, far = wider(GAP, 0.02, name="negative_aeg"), 0.02 * reach(2.0)
    assert (found["low"], found["high"]) == pytest.approx((-0.4 - far, -0.4 + far), abs=1e-9)
    sizes = found["size_low"], found["size_high"]
    assert sizes == pytest.approx((0.2 - far, 0.2 + far), abs=1e-9)


@pytest.mark.parametrize("cell", [CELL, GAP])
def test_before_the_fifth_night_there_is_no_interval_but_of_what_cannot_vary(cell):
    found = wider(cell, 0.01, n_nights=4)
    assert found["low"] is found["high"] is found.get("size_high") is None
    assert found["reason"] == "how much nights differ is not known before night 5"
    assert found["value"] == cell["value"]
    assert wider(cell | {"reason": "few rows"}, 0.01, n_nights=4)["reason"] == "few rows"
    exact = cell | {"std_error": 0.0}
    assert wider(exact, 0.0, n_nights=1) == exact


def test_there_is_at_least_one_night():
    with pytest.raises(ValueError, match="`n_nights` must be at least 1; got 0"):
        with_night_variance({}, {}, n_nights=0, confidence=0.9)


@pytest.mark.parametrize(("n_nights", "cancels"), [(19, False), (20, True)])
def test_a_shift_of_whole_nights_does_not_cancel_while_nights_are_few(n_nights, cancels):
    rng = np.random.default_rng(4)
    nights = np.repeat(np.arange(n_nights), 400)
    labels, group = rng.random((2, nights.size)) < 0.5
    shift = rng.normal(0, 0.5, n_nights)[nights]
    scores = rng.normal(labels, 1) + shift
    found = {}
    for name, clusters in (
        ("rows", None),
        ("nights", nights),
        ("few", night_clusters(nights, labels)),
    ):
        report = evaluate_bias(labels, scores, {"group": group}, clusters=clusters)
        found[name] = report.subgroups["group"]
    for metric in ("bpsn_auc", "bnsp_auc"):  # each compares toxic rows with harmless ones
        of_nights, few, rows = (
            getattr(found[name], metric).std_error for name in ("nights", "few", "rows")
        )
        assert (few == of_nights) == cancels
        assert cancels or few > 2 * max(of_nights, rows)
    gap = found["few"].positive_aeg.std_error  # toxic rows alone
    assert gap == pytest.approx(found["nights"].positive_aeg.std_error, rel=0.05)


def test_clusters_of_nights_are_the_nights_of_each_class():
    nights, labels = np.repeat([7, 8], 3), np.array([True, False, True] * 2)
    found = night_clusters(nights, labels)
    assert len(set(zip(found, nights, labels, strict=True))) == len(set(found)) == 4
