"""What `mlflow.validate_evaluation_results` says when this gate says no.

The reason why the gate is not built on it; docs/guides/policies.md sums it up.
"""

from datetime import date

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.models import MetricThreshold
from mlflow.models.evaluation.base import EvaluationResult

from bias_metrics.gate.decide import decide, evidence_needed
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.verdict import Evidence
from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.gating.policy import Policy

NAN = float("nan")
TODAY = date(2026, 11, 21)


def of_mlflow(thresholds, candidate, baseline=None):
    """What mlflow says: pass, fail, or the name of another error."""
    results = [
        None if one is None else EvaluationResult(metrics=one, artifacts={})
        for one in (candidate, baseline)
    ]
    try:
        mlflow.validate_evaluation_results(
            validation_thresholds=thresholds,
            candidate_result=results[0],
            baseline_result=results[1],
        )
    except Exception as error:  # noqa: BLE001 - which one it is, is the result
        name = type(error).__name__
        return "fail" if name == "ModelValidationFailedException" else name
    return "pass"


def of_gate(rule, value, rival=None):
    """What the gate says of the same number."""
    cell = {"value": value, "low": value, "high": value, "reason": "undefined"}
    compared = None
    if rival is not None:
        change = None if value is None else value - rival
        compared = {"first": value, "second": rival, "value": change, "low": change, "high": change}
    evidence = dict.fromkeys(
        evidence_needed([rule]),
        Evidence(_content(cell), None if compared is None else _content(compared)),
    )
    return decide(evidence, [rule]).outcome


def _content(cell):
    rows = {"n": 1000, "n_positive": 500, "n_negative": 500}
    return {
        "overall": rows | {"auc": cell},
        "subgroups": {"g": rows | dict.fromkeys(SUBGROUP_METRICS, cell)},
    }


FLOOR = MetricThreshold(threshold=0.8, greater_is_better=True)
RELATIVE = MetricThreshold(min_relative_change=0.01, greater_is_better=True)
ABSOLUTE = MetricThreshold(min_absolute_change=0.01, greater_is_better=True)
AUC = {"metric": "auc", "scope": "overall"}


@pytest.mark.parametrize(
    ("case", "mlflow_says", "gate_says"),
    [
        (
            "floor met",
            of_mlflow({"auc": FLOOR}, {"auc": 0.9}),
            of_gate(Rule(**AUC, floor=0.8), 0.9),
        ),
        (
            "floor missed",
            of_mlflow({"auc": FLOOR}, {"auc": 0.7}),
            of_gate(Rule(**AUC, floor=0.8), 0.7),
        ),
        (
            "NaN at a floor",
            of_mlflow({"auc": FLOOR}, {"auc": NAN}),
            of_gate(Rule(**AUC, floor=0.8), NAN),
        ),
        (
            "NaN in a relative change",
            of_mlflow({"auc": RELATIVE}, {"auc": NAN}, {"auc": 0.9}),
            of_gate(Rule(**AUC, margin=0.01), NAN, 0.9),
        ),
        (
            "NaN of the champion",
            of_mlflow({"auc": RELATIVE}, {"auc": 0.5}, {"auc": NAN}),
            of_gate(Rule(**AUC, margin=0.01), 0.5, NAN),
        ),
        (
            "NaN in an absolute change",
            of_mlflow({"auc": ABSOLUTE}, {"auc": NAN}, {"auc": 0.9}),
            of_gate(Rule(**AUC, margin=0.01), NAN, 0.9),
        ),
        (
            "undefined",
            of_mlflow({"auc": FLOOR}, {"auc": None}),
            of_gate(Rule(**AUC, floor=0.8), None),
        ),
    ],
)
def test_the_same_number_before_both(case, mlflow_says, gate_says):
    expected = {
        "floor met": ("pass", "pass"),
        "floor missed": ("fail", "fail"),
        "NaN at a floor": ("fail", "error"),
        "NaN in a relative change": ("pass", "error"),
        "NaN of the champion": ("pass", "error"),
        "NaN in an absolute change": ("InvalidOperation", "error"),
        "undefined": ("TypeError", "error"),
    }
    assert (mlflow_says, gate_says) == expected[case]


def test_no_rules_pass_anything_there_and_are_refused_here():
    assert of_mlflow({}, {"auc": 0.1}) == "pass"
    with pytest.raises(ValueError, match="at least 1 item"):
        Policy.model_validate({"version": 1, "name": "p", "rules": []})


def test_a_missing_metric_fails_there_and_cannot_be_named_here():
    assert of_mlflow({"auc": FLOOR}, {}) == "fail"
    with pytest.raises(ValueError, match="`metric` must be one of auc"):
        Rule("accuracy", "overall", floor=0.8)


@pytest.mark.parametrize("option", ["min_absolute_change", "min_relative_change"])
def test_not_worse_than_by_a_margin_cannot_be_said_there(option):
    with pytest.raises(MlflowException, match="must be"):
        MetricThreshold(greater_is_better=True, **{option: -0.02})
    assert of_gate(Rule(**AUC, margin=0.02), 0.89, 0.9) == "pass"
    assert of_gate(Rule(**AUC, margin=0.02), 0.87, 0.9) == "fail"
