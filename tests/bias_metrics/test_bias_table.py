"""The table of all numbers: every one is that of the result it comes from, under its key."""

import numpy as np
import pytest

from bias_metrics import (
    Rows,
    calibration_report,
    compare_bias,
    compare_calibration,
    compare_rate_gaps,
    evaluate_bias,
    rate_gaps,
)
from bias_metrics.metrics import CALIBRATION_GAP
from bias_metrics.table import BiasTable, Key, RowCounts

N = 400
RNG = np.random.default_rng(0)
Y_TRUE = RNG.random(N) < 0.4
FIRST, SECOND = (np.clip(0.4 * Y_TRUE + 0.6 * RNG.random(N), 0, 1) for _ in range(2))
MASKS = {"gay": RNG.random(N) < 0.3, "jewish": RNG.random(N) < 0.3, "any": RNG.random(N) < 0.5}
ROWS = Rows(Y_TRUE, MASKS)


@pytest.fixture(scope="module")
def compared():
    return compare_bias(Y_TRUE, FIRST, SECOND, MASKS, power_mean_groups=["gay"])


@pytest.fixture(scope="module")
def table(compared):
    at = {"threshold_a": 0.5, "threshold_b": 0.6}
    changes = compare_calibration(ROWS, FIRST, SECOND).subgroups
    return BiasTable.of(
        compared.first,
        {"given": rate_gaps(ROWS, FIRST, threshold=0.5)},
        calibration_report(ROWS, FIRST).gaps,
        categories=["any", "unknown"],
    ).with_differences(
        "champion",
        compared,
        {"given": compare_rate_gaps(ROWS, FIRST, SECOND, **at)},
        {name: cells[CALIBRATION_GAP] for name, cells in changes.items()},
    )


def test_every_number_of_a_report_and_of_a_comparison_is_there(table, compared):
    report = compared.first
    for against, found in ((None, report), ("champion", compared)):
        assert table[Key("auc", against=against)] == found.overall.auc
        assert table[Key("final_score", against=against)] == found.overall.final_score
        for name in MASKS:
            cell = found.subgroups[name].bpsn_auc
            assert table[Key("bpsn_auc", name, against=against)] == cell
    assert table["bnsp_auc"] == report.overall.bnsp_auc
    assert table["fpr_gap", "gay", "given"].value == pytest.approx(
        (FIRST >= 0.5)[~Y_TRUE & MASKS["gay"]].mean()
        - (FIRST >= 0.5)[~Y_TRUE & ~MASKS["gay"]].mean()
    )
    change = table["newly_flagged", "gay", "given", "champion"]
    newly = (FIRST >= 0.5) & (SECOND < 0.6) & ~Y_TRUE & MASKS["gay"]
    assert change.value == newly.sum() / (~Y_TRUE & MASKS["gay"]).sum()
    assert table["fpr_gap", "gay", "given", "champion"].first == table["fpr_gap", "gay", "given"]
    gap = table[CALIBRATION_GAP, "gay"]
    assert table[Key(CALIBRATION_GAP, "gay", against="champion")].first == gap


def test_it_knows_its_groups_rivals_rows_and_thresholds(table):
    assert (table.groups, table.categories, table.rivals) == (
        ["gay", "jewish"],
        ("any",),
        ["champion"],
    )
    assert table.covered == ("gay",)
    assert table.thresholds == {("given", None): 0.5, ("given", "champion"): 0.6}
    gay = MASKS["gay"]
    assert table.rows["gay"] == RowCounts((gay & Y_TRUE).sum(), (gay & ~Y_TRUE).sum())
    assert table.rows[None] == RowCounts(Y_TRUE.sum(), (~Y_TRUE).sum())


def test_it_is_a_mapping_that_can_be_changed_number_by_number(table):
    assert len(table) == len(list(table)) == len(dict(table))
    assert ("bpsn_auc", "nobody") not in table
    assert dict(table.mapped(lambda one: one)) == dict(table)
    assert set(dict(table.mapped(lambda one: one.value)).values()) == {
        one.value for one in table.values()
    }


def test_weighted_rows_keep_what_they_are_worth():
    weight = RNG.random(N) + 0.5
    report = evaluate_bias(Y_TRUE, FIRST, MASKS, sample_weight=weight)
    table = BiasTable.of(report)
    assert table.rows["gay"].effective == report.counts["gay"].effective
    assert table.rows[None].effective == report.counts[None].effective
