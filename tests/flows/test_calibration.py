"""Calibration, from the evaluation file to the report, the verdict and `verify`."""

import csv
import json
import logging

import pytest
from support.cells import cell
from support.evaluations import POLICY, run, write_inputs
from support.records import check_records

pytestmark = pytest.mark.evaluates
RULES = POLICY.replace(
    "rules: [",
    "rules: [{metric: calibration_gap, scope: each, ceiling: 0.3, margin: 0.05}, ",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """A folder with the verdict on the calibration of a file of scores, and the printed text."""
    del prefect_server
    folder = write_inputs(tmp_path_factory.mktemp("calibration"))
    (folder / "own.yaml").write_text(RULES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
            patch.setattr(logging.getLogger(name), "disabled", True)
        yield folder, run("evaluate", "file.yaml", "--output", "out", "--store", "store")


def results(home):
    return home[0] / "out" / "rows" / "file"


def test_rules_on_calibration_are_judged(home):
    assert home[1][0] == 0, home[1][1]
    verdict = json.loads((results(home) / "verdict.json").read_text("utf-8"))
    judged = [check for check in verdict["results"] if check["metric"] == "calibration_gap"]
    assert {check["outcome"] for check in judged if check["kind"] == "ceiling"} == {"pass"}


def test_the_report_has_the_calibration_in_numbers_words_and_a_picture(home):
    assert "report.json" in check_records(home[0] / "out")
    report = json.loads((results(home) / "report.json").read_text("utf-8"))
    found, gap = report["calibration"], cell(report["bias"], "calibration_gap", "gay")
    assert gap["low"] is not None
    assert " ".join(found["sentence"].split()) in run("show", "out", "--all")[1]
    assert (results(home) / "reliability.png").stat().st_size > 1000
    with (results(home) / "bias_metrics.csv").open(newline="", encoding="utf-8") as stream:
        rows = {(row["metric"], row["group"]): row for row in csv.DictReader(stream)}
    assert float(rows["calibration_gap", "gay"]["low"]) == gap["low"]


@pytest.mark.usefixtures("home")
def test_the_verdict_is_recomputed_with_its_calibration():
    code, printed = run("verify", "toxicity", "--store", "store")
    assert code == 0, printed
