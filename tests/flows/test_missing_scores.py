"""Comments that a model refuses to score, from the evaluation to `verify`."""

import json
import logging
import math

import mlflow
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from support.cells import n_of
from support.evaluations import FILE, POLICY, run, write_inputs
from support.services import KEY, judged, serving

from biasgate.tasks.scoring.kinds import http_requests

pytestmark = pytest.mark.slow

LIMITED = POLICY + "max_missing: {each: LIMIT, gap: LIMIT}\n"


def start(tmp_path_factory, patch):
    folder = write_inputs(tmp_path_factory.mktemp("missing"))
    rows = pd.read_csv(folder / "rows.csv")
    # The model refuses 40 of the 200 or so comments that mention gay, and 4 others.
    gay = np.flatnonzero(rows["gay"])[:40]
    other = np.flatnonzero(rows["gay"] == 0)[:4]
    rows.loc[np.r_[gay, other], "text"] = [f"REFUSE {i}" for i in range(44)]
    rows.to_csv(folder / "rows.csv", index=False)
    scores = pd.read_csv(folder / "scores.csv")
    scores["partly"] = scores["prediction"].where(~rows["text"].str.startswith("REFUSE"))
    scores[["id", "partly"]].to_csv(folder / "partly.csv", index=False)
    for limit in ("0.5", "0.02"):
        (folder / f"limited{limit}.yaml").write_text(LIMITED.replace("LIMIT", limit))
    patch.chdir(folder)
    patch.setattr(http_requests, "WAIT_S", 0.001)
    patch.setenv("SERVICE_KEY", KEY)
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        patch.setattr(logging.getLogger(name), "disabled", True)
    return folder, rows.set_index("text")["label"]


def evaluated(name, content, *options):
    with open(f"{name}.yaml", "w", encoding="utf-8") as stream:  # noqa: PTH123
        yaml.safe_dump(content, stream)
    return run("evaluate", f"{name}.yaml", "--output", name, "--store", "store", *options)


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """A folder with an evaluation of a judge that refuses some comments."""
    del prefect_server
    with pytest.MonkeyPatch.context() as patch, serving("openai-chat") as service:
        folder, labels = start(tmp_path_factory, patch)

        def answer(request):
            text = request.json["messages"][-1]["content"].removeprefix("Is this toxic? ")
            return judged(text, 0.2 + 0.6 * labels[text] + (len(text) % 7) / 50)

        service.answer = answer
        content = yaml.safe_load(FILE) | {"candidates": [service.candidate(concurrency=16)]}
        del content["registered_model"]
        done = {"unruled": evaluated("unruled", content)}
        for limit in ("0.5", "0.02"):
            ruled = content | {"policy": f"limited{limit}.yaml"}
            done[limit] = evaluated(limit, ruled)
        yield folder, done


def results(folder, name):
    place = folder / name / "rows" / "served"
    return (
        json.loads((place / "report.json").read_text("utf-8")),
        json.loads((place / "verdict.json").read_text("utf-8")),
    )


def test_without_a_rule_a_gate_with_missing_scores_fails_closed(home):
    folder, done = home
    report, verdict = results(folder, "unruled")
    assert done["unruled"][0] == 4, done["unruled"][1]
    assert verdict["outcome"] == "insufficient"
    [unmet] = [check for check in verdict["results"] if check["outcome"] != "pass"]
    assert unmet["rule"] == "max_missing"
    assert "44 of 400 comments have no score (44 refused)" in done["unruled"][1]
    assert "To pass: a score for every comment, or `max_missing`" in done["unruled"][1]
    assert report["missing"]["reasons"] == {"refused": 44}


def test_refusals_are_reported_by_identity_with_intervals(home):
    folder, done = home
    report, _ = results(folder, "unruled")
    gay = report["missing"]["subgroups"]["gay"]
    assert gay["n_marked"] == 40
    assert gay["rate"]["value"] == 40 / gay["n"]
    assert 0 < gay["gap"]["low"] < gay["gap"]["value"] < gay["gap"]["high"]
    assert "44 of 400 comments have no score (44 refused)" in done["unruled"][1]
    assert "significantly more often so for gay" in done["unruled"][1]
    table = pd.read_csv(folder / "unruled/rows/served/bias_metrics.csv")
    of_gay = table[table["group"] == "gay"].set_index("metric")
    assert of_gay.loc["n_missing", "value"] == 40
    assert of_gay.loc["missing_gap", "low"] == gay["gap"]["low"]


def test_rows_without_a_score_are_in_no_other_number_and_in_the_evidence(home):
    folder, _ = home
    report, _ = results(folder, "unruled")
    assert n_of(report["bias"]) == 356
    assert report["evaluation_set"]["choices"]["n_rows_missing"] == 44
    rows = pq.read_table(folder / "unruled/rows/served/evidence.parquet")
    assert rows.num_rows == 400
    assert sum(map(math.isnan, rows["score/candidate"].to_pylist())) == 44


def test_a_limit_that_is_kept_passes_and_one_that_is_not_blocks(home):
    folder, done = home
    assert done["0.5"][0] == 0, done["0.5"][1]
    assert done["0.02"][0] == 3, done["0.02"][1]
    _, verdict = results(folder, "0.02")
    unmet = {
        (check["metric"], check["group"])
        for check in verdict["results"]
        if check["outcome"] == "fail"
    }
    assert unmet == {("missing_rate", "gay"), ("missing_gap", "gay")}


def test_mlflow_has_the_shares_by_identity(home):
    folder, _ = home
    report, _ = results(folder, "unruled")
    client = mlflow.MlflowClient(f"sqlite:///{folder / 'store' / 'mlflow.db'}")
    found = [
        run.data.metrics
        for experiment in client.search_experiments()
        for run in client.search_runs([experiment.experiment_id])
        if "missing_rate/gay" in run.data.metrics
    ]
    gay = report["missing"]["subgroups"]["gay"]
    assert found[0]["missing_rate/gay"] == gay["rate"]["value"]
    assert found[0]["missing_gap/gay"] == gay["gap"]["value"]
    assert found[0]["missing_rate/overall"] == 0.11


def test_no_comment_is_quoted(home):
    folder, done = home
    for place in (folder / "unruled").rglob("*"):
        if place.suffix in {".json", ".csv", ".html", ".md", ".xml"}:
            assert "REFUSE 1" not in place.read_text("utf-8")
    assert "REFUSE" not in "".join(text for _, text in done.values())


@pytest.mark.slow
def test_a_champion_without_some_scores_is_compared_where_both_have_one(
    tmp_path_factory, prefect_server, monkeypatch
):
    del prefect_server
    folder, _ = start(tmp_path_factory, monkeypatch)
    first = yaml.safe_load(FILE) | {"policy": "limited0.5.yaml"}
    partly = {"path": "partly.csv", "score": "partly", "allow_missing": True}
    first["candidates"][0] |= partly
    code, text = evaluated("first", first)
    assert code == 0, text
    code, text = run("verify", "toxicity", "--store", "store")
    assert code == 0, text
    margin = POLICY.replace("floor: 0.6}", "floor: 0.6, margin: 0.1}")
    (folder / "margin.yaml").write_text(margin)
    (folder / "allowed.yaml").write_text(margin + "max_missing: 0.5\n")
    second = yaml.safe_load(FILE) | {"policy": "margin.yaml"}
    code, text = evaluated("second", second)
    assert code == 4, text
    verdict = json.loads((folder / "second/rows/file/verdict.json").read_text("utf-8"))
    [unmet] = [check for check in verdict["results"] if check["outcome"] == "insufficient"]
    assert (unmet["rule"], unmet["role"], unmet["n_marked"]) == ("max_missing", "champion", 44)
    code, text = evaluated("third", second | {"policy": "allowed.yaml"})
    assert code == 0, text
    verdict = json.loads((folder / "third/rows/file/verdict.json").read_text("utf-8"))
    report = json.loads((folder / "third/rows/file/report.json").read_text("utf-8"))
    assert n_of(report["bias"]) == 400
    compared = next(check for check in verdict["results"] if check["kind"] == "champion")
    assert compared["value"] == compared["rival"]  # the same scores, where both have one
    assert -0.1 < compared["low"] < 0 < compared["high"] < 0.1
