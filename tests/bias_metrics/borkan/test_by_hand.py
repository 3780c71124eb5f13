"""Evidence 1: values counted by hand, left as fractions of pairs."""

import math

import numpy as np
import pytest

import bias_metrics
from bias_metrics import MetricValue, evaluate_bias, final_score, power_mean, roc_auc

SUBGROUP_METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


def join_scores(background_negatives, subgroup_negatives, background_positives, subgroup_positives):
    """Return labels, scores and membership of four lists of scores."""
    parts = (background_negatives, subgroup_negatives, background_positives, subgroup_positives)
    labels = np.repeat([False, False, True, True], [len(part) for part in parts])
    members = np.repeat([False, True, False, True], [len(part) for part in parts])
    return labels, np.concatenate(parts), members


# Without ties; each fraction can be counted on the fingers.
TWELVE_ROWS = join_scores([0.1, 0.2, 0.3], [0.21, 0.31, 0.55], [0.5, 0.8, 0.9], [0.4, 0.6, 0.71])
TWELVE_EXPECTED = {
    "subgroup_auc": 8 / 9,
    "bpsn_auc": 8 / 9,
    "bnsp_auc": 9 / 9,
    "positive_aeg": -5 / 18,
    "negative_aeg": 7 / 18,
}
# Every comparison of two of the four parts holds at least one tie, worth one half.
TIED_ROWS = join_scores([0.2, 0.5], [0.5, 0.7], [0.5, 0.9], [0.5, 0.7])
TIED_EXPECTED = {
    "subgroup_auc": (1 / 2 + 0 + 1 + 1 / 2) / 4,
    "bpsn_auc": (1 / 2 + 0 + 1 + 1) / 4,
    "bnsp_auc": (1 + 1 / 2 + 1 + 1) / 4,
    "positive_aeg": (1 / 2 + 0 + 1 + 0) / 4 - 1 / 2,
    "negative_aeg": (1 + 1 / 2 + 1 + 1) / 4 - 1 / 2,
}


@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
@pytest.mark.parametrize(
    ("rows", "expected"),
    [(TWELVE_ROWS, TWELVE_EXPECTED), (TIED_ROWS, TIED_EXPECTED)],
    ids=["twelve rows", "ties"],
)
def test_each_subgroup_metric_is_the_fraction_of_pairs_counted_by_hand(metric, rows, expected):
    measured = getattr(bias_metrics, metric)(*rows)
    assert measured.value == pytest.approx(expected[metric], abs=1e-15)
    assert measured.reason is None


def test_overall_auc_of_the_twelve_rows_is_17_of_18_pairs():
    labels, scores, _ = TWELVE_ROWS
    assert roc_auc(labels, scores).value == 17 / 18


def test_a_tie_counts_one_half_in_the_overall_auc():
    labels, scores, _ = TIED_ROWS
    wins_of_positives = (1 + 1 / 2 + 1 / 2 + 0) * 2 + 4 + (3 + 1 / 2)
    assert roc_auc(labels, scores).value == wins_of_positives / 16


def test_background_auc_of_the_twelve_rows_is_1():
    labels, scores, members = TWELVE_ROWS
    assert roc_auc(labels[~members], scores[~members]).value == 1


def test_scores_that_are_all_equal_give_one_half_and_no_gap():
    labels, scores, members = TWELVE_ROWS
    report = evaluate_bias(labels, np.full_like(scores, 0.3), {"g": members})
    cells = report.subgroups["g"]
    assert report.overall.auc.value == 1 / 2
    assert [getattr(cells, name).value for name in SUBGROUP_METRICS] == [0.5, 0.5, 0.5, 0, 0]


def test_a_row_of_weight_3_counts_in_three_times_as_many_pairs():
    # Positive .4 ties with the negative .4 of weight 3 and beats the negative .1 of weight 1.
    measured = roc_auc([0, 0, 1], [0.1, 0.4, 0.4], sample_weight=[1, 3, 1])
    assert measured.value == (1 * 1 + 3 * 1 / 2) / 4


def test_a_wide_subgroup_around_the_same_centre_has_gaps_of_zero():
    # The gap asks who scores higher, not whether the distributions are equal.
    rows = join_scores([0.2, 0.3], [0.0, 0.5], [0.7, 0.8], [0.5, 1.0])
    assert bias_metrics.positive_aeg(*rows).value == 2 / 4 - 1 / 2
    assert bias_metrics.negative_aeg(*rows).value == 2 / 4 - 1 / 2


@pytest.mark.parametrize(("gap", "label"), [("positive_aeg", True), ("negative_aeg", False)])
def test_a_gap_is_positive_when_the_subgroup_scores_higher(gap, label):
    rows = ([label] * 4, [0.1, 0.2, 0.8, 0.9], [False, False, True, True])
    assert getattr(bias_metrics, gap)(*rows).value == 4 / 4 - 1 / 2


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (-1, 2 / (2 + 4)),
        (1, (1 / 2 + 1 / 4) / 2),
        (2, math.sqrt((1 / 4 + 1 / 16) / 2)),
        (-5, ((2**5 + 4**5) / 2) ** (-1 / 5)),
    ],
)
def test_power_mean_of_a_half_and_a_quarter_is_the_formula_worked_out(power, expected):
    assert power_mean([1 / 2, 1 / 4], power) == pytest.approx(expected, abs=1e-15)


def test_the_default_power_is_minus_5():
    assert power_mean([1 / 2, 1 / 4]) == power_mean([1 / 2, 1 / 4], -5)


def test_final_score_is_a_quarter_of_each_part():
    means = {"subgroup_auc": 1 / 2, "bpsn_auc": 1 / 4, "bnsp_auc": 1 / 8}
    means = {name: MetricValue(value) for name, value in means.items()}
    expected = (1 + 1 / 2 + 1 / 4 + 1 / 8) / 4
    assert final_score(MetricValue(1.0), means) == MetricValue(expected)


def test_a_report_of_the_twelve_rows_holds_every_number_counted_by_hand():
    labels, scores, members = TWELVE_ROWS
    groups = {"g": members, "rest": ~members}
    report = evaluate_bias(labels, scores, groups, power=-1)
    assert report.overall.auc.value == 17 / 18
    for name, expected in TWELVE_EXPECTED.items():
        measured = getattr(report.subgroups["g"], name).value
        assert measured == pytest.approx(expected, abs=1e-15)
    # For the rest the subgroup AUC is 1, and BPSN and BNSP change places.
    subgroup, crossed = 2 / (9 / 8 + 1), 2 / (9 / 8 + 1)
    expected = {"subgroup_auc": subgroup, "bpsn_auc": crossed, "bnsp_auc": crossed}
    means = {name: report.overall[name].value for name in expected}
    assert means == pytest.approx(expected, abs=1e-15)
    assert report.overall.final_score.value == pytest.approx(
        (17 / 18 + subgroup + crossed + crossed) / 4, abs=1e-15
    )


def test_each_metric_function_equals_its_cell_in_the_report():
    labels, scores, members = TIED_ROWS
    cells = evaluate_bias(labels, scores, {"g": members}).subgroups["g"]
    for name in SUBGROUP_METRICS:
        assert getattr(bias_metrics, name)(*TIED_ROWS) == getattr(cells, name)
