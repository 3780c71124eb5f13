"""What a comparison lists as worse: rarely anything if nothing got worse, and what did."""

import pytest
from support.gate_cells import content, evidence_of

from bias_metrics import compare_bias
from bias_metrics.gate import losses as worsening
from bias_metrics.gate.losses import Losses
from bias_metrics.metrics import SUBGROUP_METRICS

simulated = pytest.importorskip("benchmarks._worsening")
CHANGES = {one.name: one for one in simulated.CHANGES}
FEW, DRAWS = 60, 400


def build_cell(first, second, low, high, **sizes):
    return {"first": first, "second": second, "value": first - second, "low": low, "high": high} | (
        sizes
    )


def build_comparison(**cells):
    same = build_cell(0.1, 0.1, 0.0, 0.0, size_low=0.0, size_high=0.0)
    aucs = dict.fromkeys(("subgroup_auc", "bpsn_auc", "bnsp_auc"), same)
    gaps = dict.fromkeys(("positive_aeg", "negative_aeg"), same)
    return {"subgroups": {"gay": aucs | gaps | cells}}


def list_losses(comparison, **looked_at):
    looked_at = looked_at or dict.fromkeys(comparison["subgroups"], SUBGROUP_METRICS)
    table = evidence_of(content(None), comparison).table
    return Losses.from_table(table, "champion", looked_at, 0.98)


def test_a_gap_that_only_turns_is_not_listed_however_sure_the_turn():
    turned = build_cell(-0.072, 0.057, -0.19, -0.07, size_low=-0.150, size_high=0.178)
    assert not list_losses(build_comparison(negative_aeg=turned)).cells


def test_a_gap_that_is_shown_to_grow_is_listed_with_its_growth():
    grown = build_cell(-0.2, 0.1, -0.4, -0.2, size_low=0.04, size_high=0.16)
    [cell_] = list_losses(build_comparison(negative_aeg=grown)).cells
    assert cell_.to_dict() == {
        "metric": "negative_aeg",
        "group": "gay",
        "first": -0.2,
        "second": 0.1,
        "worse_by": 0.1,
        "worse_by_at_least": 0.04,
        "low": 0.04,
        "high": 0.16,
        "without": [],
    }


@pytest.mark.parametrize(
    ("high", "listed"), [(-0.01, [0.01]), (0.01, [])], ids=["shown", "not shown"]
)
def test_an_auc_is_listed_where_its_whole_interval_is_below_0(high, listed):
    listed_losses = list_losses(build_comparison(bpsn_auc=build_cell(0.8, 0.85, -0.09, high))).cells
    assert [loss.worse_by_at_least for loss in listed_losses] == listed


def test_what_has_no_interval_is_not_listed():
    lacking = build_cell(0.7, 0.9, None, None)
    undefined = dict.fromkeys(("first", "second", "value", "low", "high"))
    listed_losses = list_losses(build_comparison(bpsn_auc=lacking, positive_aeg=undefined))
    assert (listed_losses.cells, listed_losses.n_bounds) == ((), 3)


def test_the_largest_shown_loss_comes_first_not_the_largest_estimate():
    unsure, sure = build_cell(0.5, 0.8, -0.59, -0.01), build_cell(0.7, 0.8, -0.15, -0.05)
    listed_losses = list_losses(build_comparison(bpsn_auc=unsure, bnsp_auc=sure)).cells
    assert [(loss.metric, loss.worse_by_at_least) for loss in listed_losses] == [
        ("bnsp_auc", 0.05),
        ("bpsn_auc", 0.01),
    ]


def test_only_the_metrics_that_are_looked_at_are_counted_and_listed():
    low = build_cell(0.7, 0.8, -0.15, -0.05)
    listed_losses = list_losses(
        build_comparison(bpsn_auc=low, bnsp_auc=low), gay=("bnsp_auc", "positive_aeg")
    )
    assert [loss.metric for loss in listed_losses.cells] == ["bnsp_auc"]
    assert (listed_losses.n_bounds, listed_losses.confidence) == (2, 0.98)


def test_a_gap_at_the_given_thresholds_is_listed_with_its_threshold():
    wider = build_cell(0.3, 0.1, 0.1, 0.3, size_low=0.1, size_high=0.3)
    comparison = build_comparison() | {
        "thresholds": {"given": {"subgroups": {"gay": {"fpr_gap": wider}}}}
    }
    [listed_losses] = list_losses(comparison, gay=("fpr_gap",)).cells
    assert (listed_losses.metric, listed_losses.threshold, listed_losses.worse_by_at_least) == (
        "fpr_gap",
        "given",
        0.1,
    )


def build_losses(**lows):
    """Return losses of identities in the BPSN AUC, with their lower bounds."""
    low = {
        name: build_comparison(bpsn_auc=build_cell(0, 0, -1, -bound))
        for name, bound in lows.items()
    }
    return list_losses(
        {"subgroups": {name: table["subgroups"]["gay"] for name, table in low.items()}}
    )


def attribute_steps(before, *steps):
    """Attribute losses whose next measurements are known; return also what was left out."""
    causes_asked, remaining = [], list(steps)

    def measure_next(causes):
        causes_asked.append(list(causes))
        return remaining.pop(0)

    cells = before.attribute_losses(measure_next).cells
    return {cell.group: list(cell.without) for cell in cells}, causes_asked


def test_what_is_no_longer_shown_without_the_rows_of_the_largest_comes_from_these():
    attribution = attribute_steps(build_losses(x=0.2, y=0.1), build_losses(y=-0.01))
    assert attribution == ({"x": [], "y": ["x"]}, [["x"]])


def test_what_is_still_shown_is_the_next_cause():
    attribution = attribute_steps(
        build_losses(x=0.3, y=0.2, z=0.1), build_losses(y=0.1, z=0.2), build_losses(y=-0.1)
    )
    # z leads once x is left out, and y is no longer shown once z is left out too.
    assert attribution == ({"x": [], "y": ["x", "z"], "z": []}, [["x"], ["x", "z"]])


def test_two_harms_of_their_own_are_both_causes_without_a_further_measurement():
    attribution = attribute_steps(build_losses(x=0.3, y=0.2), build_losses(y=0.2))
    assert attribution == ({"x": [], "y": []}, [["x"]])


def test_a_cell_that_is_shown_only_among_fewer_is_no_cause():
    attribution = attribute_steps(build_losses(x=0.3, y=0.2, z=-0.1), build_losses(y=-0.1, z=0.1))
    assert attribution == ({"x": [], "y": ["x"]}, [["x"]])


def test_one_identity_or_rows_that_cannot_be_measured_leave_each_loss_its_own():
    assert attribute_steps(build_losses(x=0.2, y=-0.1)) == ({"x": []}, [])
    attribution = attribute_steps(build_losses(x=0.3, y=0.2, z=0.1), None)
    assert attribution == ({"x": [], "y": [], "z": []}, [["x"]])


def test_no_more_causes_are_sought_than_can_be_measured_soon(monkeypatch):
    monkeypatch.setattr(worsening, "MAX_CAUSES", 1)
    attribution = attribute_steps(build_losses(x=0.3, y=0.2, z=0.1), build_losses(y=0.2, z=-0.1))
    assert attribution == ({"x": [], "y": [], "z": ["x"]}, [["x"]])


@pytest.mark.evaluates
def test_gaps_that_change_their_sign_differ_in_most_samples_and_are_seldom_listed():
    change = CHANGES["equal gaps of opposite sign, 4 groups"]
    rng = simulated.np.random.default_rng(5)
    differ = 0
    for _ in range(12):
        labels, first, second, members = simulated.draw_sample(change, rng)
        subgroups = compare_bias(labels, first, second, members).subgroups
        gaps = [cells.negative_aeg for cells in subgroups.values()]
        differ += any(
            difference.p_holm < 0.05 and abs(difference.first) > abs(difference.second)
            for difference in gaps
        )
    assert differ >= 4
    assert simulated.simulate_listings(change, FEW // 2) <= 0.1


@pytest.mark.evaluates
def test_a_gap_where_none_was_is_listed():
    assert simulated.simulate_listings(CHANGES["a gap of .18 where none was"], FEW) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("change", simulated.CHANGES, ids=lambda kind: kind.name)
def test_little_is_listed_where_nothing_grew_and_most_where_it_did(change):
    share = simulated.simulate_listings(change, DRAWS)
    assert simulated.is_as_required(change, share, DRAWS), share
