"""The report: its shape, its JSON form, and the three steps that produce it."""

import dataclasses
import json

import numpy as np
import pytest

from bias_metrics import evaluate_bias
from bias_metrics.report.steps import measure_subgroup, rank_scores, summarise_bias

SUBGROUP_METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


@pytest.fixture
def rows():
    """400 rows with ties; the third group is empty."""
    rng = np.random.default_rng(5)
    y_true = rng.random(400) < 0.3
    y_score = (rng.integers(0, 40, 400) / 40 + 0.2 * y_true).astype(np.float32)
    groups = {"muslim": rng.random(400) < 0.3, "jewish": rng.random(400) < 0.2}
    return y_true, y_score, groups | {"hindu": np.zeros(400, dtype=bool)}


def leaves(node):
    if isinstance(node, dict):
        return [leaf for child in node.values() for leaf in leaves(child)]
    return node if isinstance(node, list) else [node]


def test_a_report_as_a_dict_has_exactly_these_keys(rows):
    report = evaluate_bias(*rows, power_mean_groups=["muslim", "jewish"]).to_dict()
    value = {"value", "std_error", "low", "high"}
    parts = ["overall", "subgroups", "power_mean", "final_score", "worst"]
    assert list(report) == ["background", *parts]
    assert report["background"] == "outside_subgroup"
    assert list(report["overall"]) == ["n", "n_positive", "auc"]
    assert list(report["subgroups"]) == ["muslim", "jewish", "hindu"]
    for bias in report["subgroups"].values():
        assert list(bias) == ["n", "n_positive", "n_negative", *SUBGROUP_METRICS]
    assert all(report["subgroups"]["muslim"][name].keys() == value for name in SUBGROUP_METRICS)
    assert list(report["power_mean"]) == ["power", "groups", *SUBGROUP_METRICS[:3]]
    assert report["power_mean"]["power"] == -5.0
    assert report["power_mean"]["groups"] == ["muslim", "jewish"]
    assert report["overall"]["auc"].keys() == report["final_score"].keys() == value


def test_an_undefined_metric_as_a_dict_has_a_null_value_and_a_reason(rows):
    report = evaluate_bias(*rows).to_dict()
    nothing = {"value": None, "std_error": None, "low": None, "high": None}
    cell = nothing | {"reason": "no subgroup positives"}
    assert report["subgroups"]["hindu"]["bnsp_auc"] == cell
    assert report["power_mean"]["bnsp_auc"] == nothing | {"reason": "undefined for hindu"}
    assert report["worst"]["bnsp_auc"]["undefined"] == {"hindu": cell["reason"]}
    assert report["final_score"]["value"] is None


def test_a_report_passes_through_strict_json_unchanged(rows):
    report = evaluate_bias(*rows).to_dict()
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_a_report_as_a_dict_holds_plain_python_values_only(rows):
    report = evaluate_bias(*rows, sample_weight=np.ones(400, dtype=np.float32)).to_dict()
    assert {type(leaf) for leaf in leaves(report)} == {int, float, str, type(None)}


def test_counts_are_those_of_the_rows(rows):
    y_true, _, groups = rows
    report = evaluate_bias(*rows)
    assert (report.counts[None].n, report.counts[None].n_positive) == (400, int(y_true.sum()))
    overall = report.to_dict()["overall"]
    assert (overall["n"], overall["n_positive"]) == (report.counts[None].n, report.counts[None].n_positive)
    for name, mask in groups.items():
        bias = report.subgroups[name]
        assert bias.n == mask.sum()
        assert bias.n_positive == (mask & y_true).sum()
        assert bias.n_negative == (mask & ~y_true).sum()
        as_dict = bias.to_dict()
        counts = [as_dict[key] for key in ("n", "n_positive", "n_negative")]
        assert counts == [bias.n, bias.n_positive, bias.n_negative]


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
    by_steps = summarise_bias(everyone, measured, **options)
    assert by_steps == evaluate_bias(*rows, sample_weight=weight, intervals=False, **options)


def test_the_defaults_of_the_last_step_are_those_of_evaluate_bias(rows):
    y_true, y_score, groups = rows
    everyone = rank_scores(y_true, y_score)
    measured = {
        name: measure_subgroup(everyone, y_true[mask], y_score[mask])
        for name, mask in groups.items()
    }
    assert summarise_bias(everyone, measured) == evaluate_bias(*rows, intervals=False)


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
