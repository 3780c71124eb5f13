"""The keys under which numbers are logged to MLflow."""

import pytest

from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from biasgate.tasks.data.identity_names import metric_name
from biasgate.tasks.tracking.log_runs import metric_keys


def report(*names):
    cells = {metric: {"value": 0.5} for metric in SUBGROUP_METRICS}
    means = {metric: {"value": None, "reason": "r"} for metric in FINAL_SCORE_PARTS}
    measured = {
        "overall": {"n": 2, "n_positive": 1, "auc": {"value": 0.9}},
        "subgroups": dict.fromkeys(names, cells),
        "power_mean": means,
        "final_score": {"value": None, "reason": "r"},
    }
    sums = {
        "equal_error_rate": {"value": 0.2},
        "fped": {"value": 0.7},
        "fned": {"value": None, "reason": "r"},
        "worst_group_accuracy": {"value": 0.4},
    }
    thresholds = {"equal_errors": {"threshold": 0.3} | sums}
    return {"bias": measured, "thresholds": thresholds}


def test_metric_keys_group_by_metric_and_leave_undefined_numbers_out():
    keys = metric_keys(report("muslim"))
    assert keys["bpsn_auc/muslim"] == 0.5
    assert keys["auc/overall"] == 0.9
    assert not [key for key in keys if key.startswith(("power_mean", "final"))]


def test_of_errors_at_a_threshold_only_those_of_all_identities_together_are_metrics():
    at = {key: value for key, value in metric_keys(report("muslim")).items() if "equal" in key}
    assert at == {
        "threshold/equal_errors": 0.3,
        "equal_error_rate/equal_errors": 0.2,
        "fped/equal_errors": 0.7,
        "worst_group_accuracy/equal_errors": 0.4,
    }


def test_two_names_that_would_share_a_metric_key_are_refused():
    assert metric_name("men & boys") == metric_name("men / boys") == "men _ boys"
    with pytest.raises(ValueError, match="must give different MLflow keys"):
        metric_keys(report("men & boys", "men / boys"))
