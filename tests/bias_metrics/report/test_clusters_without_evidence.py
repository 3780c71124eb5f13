"""Clusters change only numbers that have a standard error."""

import numpy as np
import pytest

from bias_metrics import evaluate_bias

N = 400
CLUSTERS = np.arange(N) // 10


@pytest.fixture
def rows():
    rng = np.random.default_rng(6)
    y_true = rng.random(N) < 0.4
    return y_true, rng.normal(size=N) + y_true, {"gay": rng.random(N) < 0.3}


def test_cells_alone_allow_for_clusters_and_aggregates_have_no_interval(rows):
    table = evaluate_bias(*rows, intervals="cells", clusters=CLUSTERS)
    whole = evaluate_bias(*rows, clusters=CLUSTERS)
    assert table.subgroups == whole.subgroups
    assert table.overall.auc == whole.overall.auc
    assert table.subgroups["gay"].bpsn_auc.row_std_error is not None
    assert table.overall.final_score.value == whole.overall.final_score.value
    assert table.overall.final_score.low is None
    assert whole.overall.final_score.low is not None


def test_a_single_positive_has_no_standard_error_by_cluster_either(rows):
    _, y_score, groups = rows
    value = evaluate_bias(np.arange(N) == 7, y_score, groups, clusters=CLUSTERS).overall.auc
    assert value.value is not None
    assert (value.std_error, value.reason) == (None, "fewer than 2 rows in a class")


def test_an_undefined_cell_stays_undefined_by_cluster(rows):
    y_true, y_score, groups = rows
    harmless = {"gay": groups["gay"] & ~y_true}
    cells = evaluate_bias(y_true, y_score, harmless, clusters=CLUSTERS).subgroups["gay"]
    assert (cells.bnsp_auc.value, cells.bnsp_auc.reason) == (None, "no subgroup positives")
    assert cells.bpsn_auc.row_std_error is not None
