"""MLflow keys of logged numbers."""

from dataclasses import replace

import pytest
from support.cells import with_number
from support.judging import given
from support.made import bias_of, number

from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.data.identity_names import sanitize_name
from biasgate.tasks.records import Value
from biasgate.tasks.records.bound import Bound
from biasgate.tasks.scoring.scored_set import ScoresRecord
from biasgate.tasks.tracking.log_runs import collect_metrics, compute_cost_metrics


def report(*names):
    cells = {metric: number(0.5) for metric in SUBGROUP_METRICS}
    at = given(0.3)["given"]
    at = replace(
        at,
        equal_error_rate=Value(value=0.2),
        fped=replace(at.fped, value=0.7),
    )
    table = bias_of(dict.fromkeys(names, cells), auc=number(0.9))
    table = with_number(table, number(0.4), "fpr_gap", names[0], "equal_errors")
    return table, {"equal_errors": at}


def test_metric_keys_group_by_metric_and_leave_undefined_numbers_out():
    keys = collect_metrics(*report("muslim"))
    assert keys["bpsn_auc/muslim"] == 0.5
    assert keys["auc/overall"] == 0.9
    assert not [key for key in keys if key.startswith(("power_mean", "final"))]


def test_of_errors_at_a_threshold_only_those_of_all_identities_together_are_metrics():
    at = {key: value for key, value in collect_metrics(*report("muslim")).items() if "equal" in key}
    assert at == {
        "threshold/equal_errors": 0.3,
        "equal_error_rate/equal_errors": 0.2,
        "fped/equal_errors": 0.7,
    }


def test_the_seconds_of_scoring_are_those_of_the_whole_set_whoever_made_which_part():
    known = {"candidate_digest": "c", "set_digest": "s", "precision": "float64", "n_shards": 2}
    known |= {
        "n_rows": 600,
        "bound": Bound(what="nothing", digest=None, files=[], not_bound=None),
        "made": "2026-11-01",
    }
    record = ScoresRecord(**known, rows_per_second=50.0)
    assert compute_cost_metrics(record) == {"comments_per_second": 50, "seconds/score": 12}
    assert compute_cost_metrics(replace(record, rows_per_second=None)) == {}


def test_two_names_that_would_share_a_metric_key_are_refused():
    assert sanitize_name("men & boys") == sanitize_name("men / boys") == "men _ boys"
    with pytest.raises(ValueError, match="must give different MLflow keys"):
        collect_metrics(*report("men & boys", "men / boys"))
