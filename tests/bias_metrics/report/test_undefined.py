"""An undefined metric is None with a reason, not 0, NaN or a missing group."""

import numpy as np
import pytest

import bias_metrics
from bias_metrics import MetricValue, evaluate_bias, roc_auc

SUBGROUP_METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")
Y_TRUE = [0, 0, 1, 1, 0, 1]
Y_SCORE = [0.1, 0.2, 0.7, 0.8, 0.3, 0.6]

# labels, membership, and the reason of each of the five metrics (None: it has a value)
CASES = {
    "an empty subgroup": (
        *(Y_TRUE, [0, 0, 0, 0, 0, 0]),
        (
            "no subgroup negatives and no subgroup positives",
            *("no subgroup negatives", "no subgroup positives"),
            *("no subgroup positives", "no subgroup negatives"),
        ),
    ),
    # physical_disability in Table 6 of Borkan et al. (2019) keeps the same two metrics.
    "a subgroup without positives": (
        *(Y_TRUE, [1, 1, 0, 0, 0, 0]),
        ("no subgroup positives", None, "no subgroup positives", "no subgroup positives", None),
    ),
    "a subgroup without negatives": (
        *(Y_TRUE, [0, 0, 1, 1, 0, 0]),
        ("no subgroup negatives", "no subgroup negatives", None, None, "no subgroup negatives"),
    ),
    "a subgroup of all rows": (
        *(Y_TRUE, [1, 1, 1, 1, 1, 1]),
        (
            *(None, "no background positives", "no background negatives"),
            *("no background positives", "no background negatives"),
        ),
    ),
    "a background without positives": (
        *(Y_TRUE, [1, 0, 1, 1, 0, 1]),
        (None, "no background positives", None, "no background positives", None),
    ),
    "a background without negatives": (
        *(Y_TRUE, [1, 1, 1, 0, 1, 0]),
        (None, None, "no background negatives", None, "no background negatives"),
    ),
    "no positives at all": (
        *([0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]),
        (
            *("no subgroup positives", "no background positives", "no subgroup positives"),
            *("no background positives and no subgroup positives", None),
        ),
    ),
    "no negatives at all": (
        *([1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]),
        (
            *("no subgroup negatives", "no subgroup negatives", "no background negatives"),
            *(None, "no background negatives and no subgroup negatives"),
        ),
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def assert_value_or_reason(measured, reason):
    assert (measured.value is None) == (reason is not None)
    if reason is not None:
        assert measured.reason == reason


@every_case
@pytest.mark.parametrize("position", range(5), ids=SUBGROUP_METRICS)
def test_a_metric_without_the_rows_it_needs_is_none_with_the_reason(case, position):
    labels, members, reasons = case
    metric = getattr(bias_metrics, SUBGROUP_METRICS[position])
    assert_value_or_reason(metric(labels, Y_SCORE, members), reasons[position])


@every_case
def test_a_report_keeps_every_group_and_says_what_it_lacks(case):
    labels, members, reasons = case
    report = evaluate_bias(labels, Y_SCORE, {"g": members})
    for metric, reason in zip(SUBGROUP_METRICS, reasons, strict=True):
        assert_value_or_reason(getattr(report.subgroups["g"], metric), reason)


@every_case
def test_rows_of_weight_zero_leave_a_metric_as_undefined_as_absent_rows(case):
    labels, members, reasons = case
    report = evaluate_bias(
        [*labels, 0, 0, 1, 1],
        [*Y_SCORE, 0.5, 0.5, 0.5, 0.5],
        {"g": [*members, 0, 1, 0, 1]},
        sample_weight=[1, 1, 1, 1, 1, 1, 0, 0, 0, 0],
    )
    for metric, reason in zip(SUBGROUP_METRICS, reasons, strict=True):
        assert_value_or_reason(getattr(report.subgroups["g"], metric), reason)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([], "no negatives and no positives"),
        ([0, 0], "no positives"),
        ([1, 1], "no negatives"),
    ],
)
def test_overall_auc_needs_positives_and_negatives(labels, reason):
    assert roc_auc(labels, [0.5] * len(labels)) == MetricValue(None, reason)


def test_no_rows_at_all_give_a_report_without_numbers():
    report = evaluate_bias([], [], {"g": []})
    assert (report.counts[None].n, report.counts[None].n_positive, report.counts["g"].n) == (
        0,
        0,
        0,
    )
    assert report.overall.final_score.value is None


def test_a_power_mean_over_an_undefined_group_is_undefined_and_names_it():
    groups = {"small": [1, 1, 0, 0, 0, 0], "g": [0, 1, 1, 0, 1, 0], "none": [0] * 6}
    report = evaluate_bias(Y_TRUE, Y_SCORE, groups)
    assert report.overall.subgroup_auc == MetricValue(None, "undefined for small, none")
    assert report.overall.bpsn_auc == MetricValue(None, "undefined for none")
    assert report.overall.bnsp_auc == MetricValue(None, "undefined for small, none")
    assert report.overall.final_score == MetricValue(
        None,
        "undefined: power mean of subgroup_auc (undefined for small, none); "
        "power mean of bpsn_auc (undefined for none); "
        "power mean of bnsp_auc (undefined for small, none)",
    )


def test_naming_the_groups_defines_the_power_means_and_the_final_score():
    groups = {"none": [0] * 6, "g": [0, 1, 1, 0, 1, 0]}
    report = evaluate_bias(Y_TRUE, Y_SCORE, groups, power_mean_groups=["g"])
    alone = evaluate_bias(Y_TRUE, Y_SCORE, {"g": groups["g"]})
    assert report.covered == ("g",)
    assert report.overall == alone.overall
    assert report.overall.final_score.value is not None
    assert list(report.subgroups) == ["none", "g"]


@pytest.mark.parametrize(("groups", "named"), [({}, None), ({"g": [1, 0, 0, 1, 0, 0]}, [])])
def test_power_means_over_no_groups_are_undefined(groups, named):
    report = evaluate_bias(Y_TRUE, Y_SCORE, groups, power_mean_groups=named)
    means = {report.overall[metric] for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc")}
    assert means == {MetricValue(None, "no subgroups")}
    assert report.overall.auc.value is not None
    assert report.overall.final_score.value is None


def test_a_metric_of_exactly_zero_makes_the_power_mean_zero_and_not_undefined():
    perfect, reversed_ = [1, 0, 1, 0, 0, 0], [0, 1, 0, 1, 0, 0]
    scores = [0.1, 0.8, 0.7, 0.2, 0.3, 0.6]
    report = evaluate_bias(Y_TRUE, scores, {"perfect": perfect, "reversed": reversed_})
    assert report.subgroups["perfect"].subgroup_auc.value == 1.0
    assert report.subgroups["reversed"].subgroup_auc.value == 0.0
    assert report.overall.subgroup_auc.value == 0.0


def test_a_background_of_very_little_weight_is_measured_exactly():
    arrays = ([0, 1, 1], [0.2, 0.1, 0.9], [1, 1, 0])
    for weight in (1e-12, 1e-6):
        assert bias_metrics.bpsn_auc(*arrays, sample_weight=[1, 1, weight]).value == 1


@pytest.mark.parametrize("ratio", [1e2, 1e5, 1e9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_subgroup_that_outweighs_its_background_costs_no_digits(ratio, dtype):
    rng = np.random.default_rng(5)
    y_true, inside = rng.random(2000) < 0.3, rng.random(2000) < 0.9
    y_score = np.round(rng.random(2000) + 0.3 * y_true, 1).astype(dtype)
    weight = np.where(inside, ratio, 1.0) * rng.random(2000)
    weight[:50] = 0.5  # rows of equal score and weight
    table = bias_metrics.evaluate_bias(y_true, y_score, {"g": inside}, sample_weight=weight)
    below, above = inside & ~y_true, ~inside & y_true
    wins = (y_score[above, None] > y_score[below]) + 0.5 * (y_score[above, None] == y_score[below])
    expected = np.average(np.average(wins, axis=1, weights=weight[below]), weights=weight[above])
    assert table.subgroups["g"].bpsn_auc.value == pytest.approx(expected, rel=1e-12)


def test_rounding_of_fractional_weights_never_leaves_the_range():
    rng = np.random.default_rng(0)
    for _ in range(50):
        weight = rng.random(40) + 0.001
        labels = np.arange(40) % 2 == 0
        members = rng.random(40) < 0.9
        arrays = (labels, np.where(labels, 0.9, 0.1), members)
        for name in ("bpsn_auc", "bnsp_auc"):
            measured = getattr(bias_metrics, name)(*arrays, sample_weight=weight).value
            if measured is not None:
                assert measured <= 1
                assert measured == pytest.approx(1, abs=1e-12)
