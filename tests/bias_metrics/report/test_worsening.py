"""What a comparison lists as worse: rarely anything if nothing got worse, and what did."""

import pytest

from bias_metrics import compare_bias
from bias_metrics.report.worsening import worsened

simulated = pytest.importorskip("benchmarks._worsening")
CHANGES = {one.name: one for one in simulated.CHANGES}
FEW = 60


def cell(first, second, low, high, **sizes):
    return {"first": first, "second": second, "value": first - second, "low": low, "high": high} | (
        sizes
    )


def compared(**cells):
    same = cell(0.1, 0.1, 0.0, 0.0, size_low=0.0, size_high=0.0)
    aucs = dict.fromkeys(("subgroup_auc", "bpsn_auc", "bnsp_auc"), same)
    gaps = dict.fromkeys(("positive_aeg", "negative_aeg"), same)
    return {"subgroups": {"gay": aucs | gaps | cells}}


def test_a_gap_that_only_turns_is_not_listed_however_sure_the_turn():
    turned = cell(-0.072, 0.057, -0.19, -0.07, size_low=-0.150, size_high=0.178)
    assert worsened(compared(negative_aeg=turned)) == []


def test_a_gap_that_is_shown_to_grow_is_listed_with_its_growth():
    grown = cell(-0.2, 0.1, -0.4, -0.2, size_low=0.04, size_high=0.16)
    [found] = worsened(compared(negative_aeg=grown))
    assert found == {
        "metric": "negative_aeg",
        "group": "gay",
        "first": -0.2,
        "second": 0.1,
        "worse_by": 0.1,
        "worse_by_at_least": 0.04,
    }


@pytest.mark.parametrize(
    ("high", "listed"), [(-0.01, [0.01]), (0.01, [])], ids=["shown", "not shown"]
)
def test_an_auc_is_listed_where_its_whole_interval_is_below_0(high, listed):
    found = worsened(compared(bpsn_auc=cell(0.8, 0.85, -0.09, high)))
    assert [one["worse_by_at_least"] for one in found] == listed


def test_what_has_no_interval_is_not_listed():
    lacking = cell(0.7, 0.9, None, None)
    undefined = dict.fromkeys(("first", "second", "value", "low", "high"))
    assert worsened(compared(bpsn_auc=lacking, positive_aeg=undefined)) == []


def test_gaps_that_change_their_sign_differ_in_most_samples_and_are_seldom_listed():
    change = CHANGES["equal gaps of opposite sign, 4 groups"]
    rng = simulated.np.random.default_rng(5)
    differ = 0
    for _ in range(12):
        labels, first, second, members = simulated.sample(change, rng)
        found = compare_bias(labels, first, second, members).to_dict()["subgroups"]
        gaps = [one["negative_aeg"] for one in found.values()]
        differ += any(
            one["p_holm"] < 0.05 and abs(one["first"]) > abs(one["second"]) for one in gaps
        )
    assert differ >= 4
    assert simulated.listed(change, FEW // 2) <= 0.1


def test_a_gap_where_none_was_is_listed():
    assert simulated.listed(CHANGES["a gap of .18 where none was"], FEW) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("change", simulated.CHANGES, ids=lambda one: one.name)
def test_little_is_listed_where_nothing_grew_and_most_where_it_did(change):
    share = simulated.listed(change, simulated.DRAWS)
    assert simulated.as_demanded(change, share, simulated.DRAWS), share
