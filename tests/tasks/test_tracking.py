"""The keys under which MLflow gets the numbers."""

import pytest

from bias_metrics.aggregates import FINAL_SCORE_PARTS
from bias_metrics.rules import SUBGROUP_METRICS
from tasks.tracking import metric_keys, metric_name


def bias(*names):
    cells = {metric: {"value": 0.5} for metric in SUBGROUP_METRICS}
    means = {metric: {"value": None, "reason": "r"} for metric in FINAL_SCORE_PARTS}
    return {
        "overall": {"n": 2, "n_positive": 1, "auc": {"value": 0.9}},
        "subgroups": dict.fromkeys(names, cells),
        "power_mean": means,
        "final_score": {"value": None, "reason": "r"},
    }


def test_metric_keys_group_by_metric_and_leave_undefined_numbers_out():
    keys = metric_keys(bias("muslim"))
    assert keys["bpsn_auc/muslim"] == 0.5
    assert keys["auc/overall"] == 0.9
    assert not [key for key in keys if key.startswith(("power_mean", "final"))]


def test_two_names_that_would_share_a_metric_key_are_refused():
    assert metric_name("men & boys") == metric_name("men / boys") == "men _ boys"
    with pytest.raises(ValueError, match="must give different MLflow keys"):
        metric_keys(bias("men & boys", "men / boys"))
