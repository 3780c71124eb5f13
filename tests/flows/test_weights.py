"""Rows with sampling weights, from the evaluation file to `verify`."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
import yaml
from support.cells import counts_of
from support.evaluations import FILE, POLICY, run, write_inputs

pytestmark = pytest.mark.evaluates
SUPPORT = POLICY.replace(
    "rules: [",
    "rules: [{metric: bnsp_auc, scope: each, floor: 0.2, min_positives: 60}, ",
)
AT_THRESHOLD = POLICY.replace(
    "rules: [", "rules: [{metric: fpr_gap, scope: each, ceiling: 0.2, threshold: equal_errors}, "
)


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """A folder with an evaluation of weighted rows, and two refused evaluations."""
    del prefect_server
    folder = write_inputs(tmp_path_factory.mktemp("weights"))
    rows = pd.read_csv(folder / "rows.csv")
    rows["drawn"] = np.where(np.arange(len(rows)) % 4 == 0, 9.0, 1.0)
    rows.to_csv(folder / "rows.csv", index=False)
    (folder / "own.yaml").write_text(SUPPORT)
    (folder / "at.yaml").write_text(AT_THRESHOLD)
    content = yaml.safe_load(FILE)
    content["evaluation_sets"][0]["weight"] = "drawn"
    files = {
        "weighted": content,
        "threshold": content | {"policy": "at.yaml"},
        "analysed": content | {"analyses": ["intersections"]},
    }
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
            patch.setattr(logging.getLogger(name), "disabled", True)
        yield (
            folder,
            {
                name: run("evaluate", f"{name}.yaml", "--output", name, "--store", "store")
                for name in files
            },
        )


def test_support_counts_the_effective_number_of_rows(home):
    folder, done = home
    assert done["weighted"][0] == 4, done["weighted"][1]
    results = folder / "weighted" / "rows" / "file"
    verdict = json.loads((results / "verdict.json").read_text("utf-8"))
    report = json.loads((results / "report.json").read_text("utf-8"))
    gay = counts_of(report["bias"], "gay")
    assert gay["n_positive"] > 60 > gay["effective"]["positive"] > 30
    lacking = next(check for check in verdict["results"] if check["metric"] == "bnsp_auc")
    assert lacking["outcome"] == "insufficient"
    assert lacking["n_positive"] == int(gay["effective"]["positive"])
    assert lacking["lack"]["needed"] == 60


def test_the_report_says_what_weighted_rows_do_not_have(home):
    folder, done = home
    report = json.loads((folder / "weighted/rows/file/report.json").read_text("utf-8"))
    assert report["evaluation_set"]["choices"]["weights"] == "probability"
    assert any("sampling weights" in warning for warning in report["warnings"])
    assert done["weighted"][0] in {0, 3, 4}
    assert "the rows have sampling weights" in run("show", "weighted", "--all")[1]


def test_rules_at_a_threshold_are_refused(home):
    code, printed = home[1]["threshold"]
    assert code == 2
    assert "which are not measured for sampling weights" in printed


def test_analyses_are_refused(home):
    code, printed = home[1]["analysed"]
    assert code == 2
    assert "must have no sampling weights; it has `weight`" in printed
