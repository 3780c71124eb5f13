"""Models are measured once, for numbers at any confidence."""

import numpy as np
import pytest

from bias_metrics import Rows, calibration_report, compare_bias, compare_calibration, evaluate_bias
from bias_metrics.calibration import MeasuredCalibration
from bias_metrics.report import Measurement, Pairing, ReportOptions, measurement

N, LEVELS = 600, (0.9, 0.99)
KINDS = {
    "rows": {},
    "weights": {"sample_weight": True},
    "clusters": {"clusters": True},
    "weights and clusters": {"sample_weight": True, "clusters": True},
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def given(request):
    rng = np.random.default_rng(3)
    y_true = rng.random(N) < 0.4
    subgroups = {name: rng.random(N) < share for name, share in (("gay", 0.3), ("deaf", 0.1))}
    first, second = (rng.normal(y_true).clip(-3, 3) / 8 + 0.5 for _ in range(2))
    known = {"sample_weight": rng.lognormal(size=N), "clusters": rng.integers(0, 60, N)}
    return y_true, first, second, subgroups, {name: known[name] for name in request.param}


def test_a_report_at_any_confidence_is_that_of_evaluate_bias(given):
    y_true, first, _, subgroups, options = given
    rows = Rows(y_true, subgroups, **options)
    measured = Measurement(rows, first)
    for level in LEVELS:
        expected = evaluate_bias(y_true, first, subgroups, confidence=level, **options)
        assert measured.report(ReportOptions.from_arguments(rows, confidence=level)) == expected


def test_a_report_of_some_subgroups_is_that_of_these_alone(given):
    y_true, first, second, subgroups, options = given
    rows = Rows(y_true, subgroups, **options)
    pairing = Pairing(Measurement(rows, first), Measurement(rows, second))
    pairing.compare_models(ReportOptions.from_arguments(rows))
    asked = ReportOptions.from_arguments(rows, confidence=0.9, power_mean_groups=["gay"])
    alone = {"gay": subgroups["gay"]}
    expected = compare_bias(y_true, first, second, alone, confidence=0.9, **options)
    assert pairing.compare_models(asked, ["gay"]) == expected


def test_a_comparison_is_the_same_after_a_report(given):
    y_true, first, second, subgroups, options = given
    rows = Rows(y_true, subgroups, **options)
    models = Measurement(rows, first), Measurement(rows, second)
    for model in models:
        model.report(ReportOptions.from_arguments(rows))
    expected = compare_bias(y_true, first, second, subgroups, **options)
    assert Pairing(*models).compare_models(ReportOptions.from_arguments(rows)) == expected


def test_a_comparison_at_any_confidence_is_that_of_compare_bias(given, monkeypatch):
    y_true, first, second, subgroups, options = given
    rows = Rows(y_true, subgroups, **options)
    expected = [
        compare_bias(y_true, first, second, subgroups, confidence=level, **options)
        for level in LEVELS
    ]
    pairing = Pairing(Measurement(rows, first), Measurement(rows, second))
    assert (
        pairing.compare_models(ReportOptions.from_arguments(rows, confidence=LEVELS[0]))
        == expected[0]
    )
    for name in ("measure_joint_moments", "rank_rows"):
        monkeypatch.setattr(measurement, name, None)  # no cell is measured again
    assert (
        pairing.compare_models(ReportOptions.from_arguments(rows, confidence=LEVELS[1]))
        == expected[1]
    )


def test_numbers_are_the_same_where_influences_are_too_many_to_wait(given, monkeypatch):
    y_true, first, _, subgroups, options = given
    rows = Rows(y_true, subgroups, **options)
    expected = Measurement(rows, first).report(ReportOptions.from_arguments(rows))
    monkeypatch.setattr(measurement, "MAX_STORED_SUMS", 0)
    assert Measurement(rows, first).report(ReportOptions.from_arguments(rows)) == expected


def test_a_model_beside_itself_is_that_beside_its_copy(given):
    y_true, first, _, subgroups, options = given
    rows = Rows(y_true, subgroups, **options)
    model, copy = Measurement(rows, first), Measurement(rows, first.copy())
    expected = Pairing(model, copy).compare_models(ReportOptions.from_arguments(rows))
    assert Pairing(model, model).compare_models(ReportOptions.from_arguments(rows)) == expected


def test_subgroups_that_were_measured_elsewhere_are_taken(given):
    y_true, first, _, subgroups, options = given
    rows = Rows(y_true, subgroups, **options)
    elsewhere, here = (Measurement(rows, first) for _ in range(2))
    here.adopt_subgroups({name: elsewhere.measure_subgroup(name) for name in subgroups})
    assert here.report(ReportOptions.from_arguments(rows)) == elsewhere.report(
        ReportOptions.from_arguments(rows)
    )
    assert here.measure_subgroup("gay") is elsewhere.measure_subgroup("gay")


def test_calibration_at_any_confidence_is_measured_once(given):
    y_true, first, second, subgroups, options = given
    rows = Rows(y_true, subgroups, **options)
    one = MeasuredCalibration(rows, {"y_score": first})
    both = MeasuredCalibration(rows, {"y_score_a": first, "y_score_b": second})
    for level in LEVELS:
        expected = calibration_report(rows, first, confidence=level)
        assert one.report(level).to_dict() == expected.to_dict()
        changes = compare_calibration(rows, first, second, confidence=level)
        assert both.compare_models(level).to_dict() == changes.to_dict()
        assert both.compare_models(level, ["gay"]).subgroups["gay"] == changes.subgroups["gay"]
