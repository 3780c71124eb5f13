"""Shape and JSON form of a report, and the three steps that produce it."""

import dataclasses
import json

import numpy as np
import pytest

from bias_metrics import evaluate_bias
from bias_metrics.report.steps import ReportOptions, measure_subgroup, rank_scores, summarise_bias

SUBGROUP_METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


@pytest.fixture
def rows():
    """400 rows with ties; the third group is empty."""
    rng = np.random.default_rng(5)
    y_true = rng.random(400) < 0.3
    y_score = (rng.integers(0, 40, 400) / 40 + 0.2 * y_true).astype(np.float32)
    groups = {"muslim": rng.random(400) < 0.3, "jewish": rng.random(400) < 0.2}
    return y_true, y_score, groups | {"hindu": np.zeros(400, dtype=bool)}


def iterate_leaves(node):
    if isinstance(node, dict):
        return [leaf for child in node.values() for leaf in iterate_leaves(child)]
    if isinstance(node, list):
        return [leaf for child in node for leaf in iterate_leaves(child)]
    return [node]


def test_a_report_as_a_dict_has_exactly_these_keys(rows):
    report = evaluate_bias(*rows, power_mean_groups=["muslim", "jewish"]).to_dict()
    numbers, counts = report.pop("numbers"), report.pop("counts")
    assert report == {
        "confidence": 0.95,
        "background": "outside_subgroup",
        "power": -5.0,
        "covered": ["muslim", "jewish"],
    }
    names = ["muslim", "jewish", "hindu"]
    assert [row["group"] for row in counts] == [None, *names]
    assert all(list(row) == ["group", "n_positive", "n_negative"] for row in counts)
    assert [(number["metric"], number.get("group")) for number in numbers] == [
        ("auc", None),
        *((metric, None) for metric in SUBGROUP_METRICS[:3]),
        ("final_score", None),
        *((metric, name) for name in names for metric in SUBGROUP_METRICS),
    ]
    value = ["value", "std_error", "low", "high"]
    assert list(numbers[0]) == ["metric", *value]
    assert list(numbers[5]) == ["metric", "group", *value]


def test_an_undefined_metric_as_a_dict_has_a_null_value_and_a_reason(rows):
    table = evaluate_bias(*rows)
    numbers = {(one["metric"], one.get("group")): one for one in table.to_dict()["numbers"]}
    nothing = {"value": None, "std_error": None, "low": None, "high": None}
    assert numbers["bnsp_auc", "hindu"] == {
        "metric": "bnsp_auc",
        "group": "hindu",
        **nothing,
        "reason": "no subgroup positives",
    }
    assert numbers["bnsp_auc", None] == {
        "metric": "bnsp_auc",
        **nothing,
        "reason": "undefined for hindu",
    }
    assert numbers["final_score", None]["value"] is None
    assert table.worst("bnsp_auc").to_dict()["undefined"] == {"hindu": "no subgroup positives"}


def test_a_report_passes_through_strict_json_unchanged(rows):
    report = evaluate_bias(*rows).to_dict()
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_a_report_as_a_dict_holds_plain_python_values_only(rows):
    report = evaluate_bias(*rows, sample_weight=np.ones(400, dtype=np.float32)).to_dict()
    assert {type(leaf) for leaf in iterate_leaves(report)} == {int, float, str, type(None)}


def test_counts_are_those_of_the_rows(rows):
    y_true, _, groups = rows
    report = evaluate_bias(*rows)
    assert (report.counts[None].n, report.counts[None].n_positive) == (400, int(y_true.sum()))
    for name, mask in groups.items():
        counts = report.counts[name]
        assert counts.n == mask.sum()
        assert counts.n_positive == (mask & y_true).sum()
        assert counts.n_negative == (mask & ~y_true).sum()


def test_counts_leave_out_rows_of_weight_zero(rows):
    weight = np.arange(400) % 2
    report = evaluate_bias(*rows, sample_weight=weight)
    assert report.counts[None].n == 200
    assert report.counts["muslim"].n == rows[2]["muslim"][1::2].sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_three_steps_give_the_very_report_of_evaluate_bias(rows, weighted):
    y_true, y_score, groups = rows
    weight = np.random.default_rng(0).random(400) if weighted else None
    options = {"power": -2.0, "power_mean_groups": ["muslim", "jewish"]}
    everyone = rank_scores(y_true, y_score, sample_weight=weight)
    measured = {
        name: measure_subgroup(
            everyone,
            y_true[mask],
            y_score[mask],
            sample_weight=weight[mask] if weighted else None,
        )
        for name, mask in groups.items()
    }
    asked = ReportOptions(power=-2.0, groups=("muslim", "jewish"), confidence=None)
    by_steps = summarise_bias(everyone, measured, asked)
    assert by_steps == evaluate_bias(*rows, sample_weight=weight, intervals=False, **options)


def test_measuring_one_group_more_changes_no_other_group(rows):
    y_true, y_score, groups = rows
    alone = evaluate_bias(y_true, y_score, {"muslim": groups["muslim"]})
    assert evaluate_bias(*rows).subgroups["muslim"] == alone.subgroups["muslim"]


def test_the_background_holds_the_rows_of_other_identities():
    # The only background positive mentions another identity, and still counts.
    groups = {"muslim": [1, 0], "jewish": [0, 1]}
    report = evaluate_bias([0, 1], [0.2, 0.9], groups)
    assert report.subgroups["muslim"].bpsn_auc.value == 1.0


def test_float32_scores_are_compared_as_float32():
    # As float64 these two differ; rounded to float32 they tie.
    close = np.array([0.1, 0.1 + 1e-12])
    assert evaluate_bias([0, 1], close, {}).overall.auc.value == 1
    assert evaluate_bias([0, 1], close.astype(np.float32), {}).overall.auc.value == 1 / 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.bool_])
def test_scores_of_every_numeric_dtype_are_accepted(dtype):
    scores = np.array([0, 1, 0, 1], dtype=dtype)
    assert evaluate_bias([0, 0, 1, 1], scores, {}).overall.auc.value == 2 / 4


@pytest.mark.parametrize(
    ("dtype", "ranked"),
    [(np.float16, np.float32), (np.float32, np.float32), (np.int8, np.float64)],
)
def test_half_precision_is_ranked_as_float32_and_whole_numbers_as_float64(dtype, ranked):
    everyone = rank_scores([0, 1], np.array([0, 1], dtype=dtype))
    assert everyone.positive.scores.dtype == everyone.negative.scores.dtype == ranked


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint8, np.float32])
def test_labels_and_masks_may_be_boolean_or_zeros_and_ones(dtype):
    labels, mask = np.array([0, 1, 0, 1], dtype=dtype), np.array([0, 0, 1, 1], dtype=dtype)
    report = evaluate_bias(labels, [0.1, 0.6, 0.7, 0.8], {"g": mask})
    assert report.subgroups["g"].bpsn_auc.value == 0
    assert report.overall.auc.value == 3 / 4


def test_reports_and_values_cannot_be_changed(rows):
    report = evaluate_bias(*rows)
    for frozen, name in [(report, "background"), (report.overall.auc, "value")]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, 1.0)
