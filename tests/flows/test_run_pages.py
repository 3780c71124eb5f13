"""Pages of Prefect and MLflow on an evaluation."""

import base64
import json
import logging
import os
import re
import socket
import time
import zlib

import pytest
from prefect import flow, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterParentFlowRunId,
    LogFilter,
    LogFilterFlowRunId,
)
from support.cells import read_table
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.prefect_artifacts import make_artifact_key
from biasgate.tasks.common.prefect_task import format_run_name, log_message, task
from biasgate.tasks.mlflow_server.runs import Experiment, Gateway
from biasgate.tasks.records import Summary
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking import prefect_pages
from biasgate.tasks.tracking.resume import EvaluationRun

pytestmark = pytest.mark.slow
CANDIDATES = ["words", "shifted"]


def run_id(state):
    return state.state_details.flow_run_id


def with_stages(run):
    """Return the ids of a flow run and its stages."""
    below = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run]))
    with get_client(sync_client=True) as client:
        return [run, *(run.id for run in client.read_flow_runs(flow_run_filter=below))]


def logged_by(run, at_least):
    """Return the log lines of a flow run and its stages, which arrive a few seconds late."""
    of_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=with_stages(run)))
    deadline, lines = time.monotonic() + 60, []
    with get_client(sync_client=True) as client:
        while at_least not in lines and time.monotonic() < deadline:
            lines = [record.message for record in client.read_logs(log_filter=of_run, limit=200)]
            time.sleep(0.2)
    return lines


def test_task_runs_name_candidate_and_set(first):
    of_run = FlowRunFilter(id=FlowRunFilterId(any_=with_stages(run_id(first.state))))
    with get_client(sync_client=True) as client:
        names = [step.name for step in client.read_task_runs(flow_run_filter=of_run, limit=200)]
    expected = {"freeze comments", "train words", "check policy for comments"}
    for title in ("words on comments", "shifted on comments"):
        steps = ("score", "summarise", "explain", "report", "draw", "decide", "log")
        expected |= {f"{step} {title}" for step in steps} | {f"measure gay of {title}"}
    assert expected <= set(names)


@pytest.mark.parametrize(
    "sentence",
    [
        "evaluation small: words, shifted on comments, judged by policy fair",
        "scoring words on comments: 240 rows",
        "decided shifted on comments: fail by policy fair",
        "decided words on comments: pass by policy fair",
    ],
)
def test_the_log_of_a_run_says_what_happened_in_sentences(first, sentence):
    assert sentence in logged_by(run_id(first.state), sentence)


def test_scoring_has_one_progress_artifact_for_each_candidate_and_set(first):
    runs = with_stages(run_id(first.state))
    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=runs))
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=of_run, limit=200)
    scoring = sorted(
        (artifact.key, artifact.description.partition(":")[0])
        for artifact in found
        if artifact.type == "progress" and artifact.key.startswith("score-")
    )
    assert scoring == [
        ("score-shifted-on-comments", "score shifted on comments"),
        ("score-words-on-comments", "score words on comments"),
    ]


@pytest.fixture(scope="module")
def artifacts(first):
    """Artifacts of the whole evaluation, by key."""
    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run_id(first.state)]))
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=of_run, limit=200)
    return {artifact.key: artifact for artifact in found if artifact.type != "progress"}


def test_an_evaluation_shows_its_outcome_as_a_summary(artifacts, first):
    page = artifacts["biasgate-small"]
    assert page.type == "markdown"
    assert page.data.startswith("## small: Blocked")
    assert re.search(r"\*\*Blocked[^*]*\*\*: shifted\n\n- .*\n- Worst identity: gay: ", page.data)
    assert str(first.output / "report.html") in page.data


def test_the_table_lists_the_worst_identity_of_a_candidate_first(artifacts):
    rows = json.loads(artifacts["biasgate-small-identities"].data)
    of_shifted = [row for row in rows if row["candidate"] == "shifted"]
    assert of_shifted[0]["identity"] == "gay"
    assert re.fullmatch(r"✕ 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", of_shifted[0]["BPSN AUC"])
    assert of_shifted[-1]["Subgroup AUC"] == "no evidence"


def test_prefect_and_mlflow_lead_to_each_other(artifacts, first, world):
    link = artifacts["biasgate-small-mlflow"].data
    parent = first.run("evaluate small")
    experiment = parent.info.experiment_id
    root, run = "http://127.0.0.1:5000/#/experiments", parent.info.run_id
    assert f"]({root}/{experiment}/runs/{run}?workflowType=machine_learning)" in link
    assert f"`biasgate ui --store {world.store}`" in artifacts["biasgate-small-mlflow"].description
    flow_run = str(run_id(first.state))
    for run in (parent, first.run("words on comments")):
        assert run.data.tags["biasgate.prefect_flow_run"] == flow_run
        assert run.data.tags["biasgate.prefect_flow_run_page"].endswith(f"/flow-run/{flow_run}")
    assert f"/flow-run/{flow_run})" in parent.data.tags["mlflow.note.content"]


def test_a_server_that_refuses_artifacts_does_not_fail_an_evaluation(monkeypatch, caplog, first):
    def refuse(*_):
        raise ConnectionError

    monkeypatch.setattr(prefect_pages, "publish_markdown", refuse)
    summary = Summary.read((first.output / "summary.json").read_bytes())
    run = EvaluationRun(summary.run_id, Workplace(first.output.parents[1] / "store"))
    with caplog.at_level(logging.INFO, "biasgate.steps"):
        prefect_pages.show_results.fn(summary, str(first.output), run)
    assert "the results are not on Prefect's pages (ConnectionError)" in caplog.messages


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        (("biasgate", "My evaluation_2 ."), "biasgate-my-evaluation-2"),
        (("biasgate", "עברית"), "biasgate-[0-9a-f]{8}"),
        (("<script>", "\ud800"), "script-[0-9a-f]{8}"),
        (("biasgate", 99 * "a"), "biasgate-a{82}-[0-9a-f]{8}"),
    ],
)
def test_keys_of_artifacts_are_those_that_prefect_takes(parts, key):
    found = make_artifact_key(*parts)
    assert re.fullmatch(key, found)
    assert re.fullmatch("[a-z0-9-]{1,100}", found)


@pytest.mark.usefixtures("prefect_server")
def test_what_is_said_is_logged_on_the_server_where_the_terminal_is_mute(monkeypatch, capfd):
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.CRITICAL)

    @task(name="work")
    def work():
        log_message("this was done", aside=True)

    @flow
    def mute():
        work()

    state = mute(return_state=True)
    assert "this was done" in logged_by(run_id(state), "this was done")
    assert "this was done" not in "".join(capfd.readouterr())


def test_a_run_is_named_by_the_folders_that_it_is_of():
    parameters = {"set_folder": "/store/sets/my-set-0123abcd", "folder": "/w/results/rows/words"}
    assert format_run_name("x {set_folder!e}", parameters) == "x my-set"
    assert format_run_name("x {folder!m}", parameters) == "x words on rows"


def test_outside_of_a_run_a_sentence_is_for_the_terminal_alone(caplog):
    with caplog.at_level(logging.INFO, "biasgate.steps"):
        log_message("loading")
        log_message("by the way", aside=True)
    assert [record.message for record in caplog.records if record.name == "biasgate.steps"] == [
        "loading"
    ]


def test_notes_link_report_table_view_and_comparison(first):
    run = first.run("shifted on comments")
    links = run.data.tags["mlflow.note.content"].partition("\n")[0]
    of_run = f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}/artifacts"
    assert f"[Report]({of_run}/report.html?" in links
    assert f"[Table]({of_run}/bias_metrics.json?" in links
    assert links.count("&viewStateShareKey=biasgate)") == 3
    links = first.run("evaluate small").data.tags["mlflow.note.content"].partition("\n")[0]
    compared = re.search(r"\[Compare the runs\]\(#/compare-runs\?runs=(\S+)\)", links)[1]
    assert all(first.run(f"{name} on comments").info.run_id in compared for name in CANDIDATES)


def test_runs_have_metrics_and_tags_to_sort_by(first):
    run = first.run("shifted on comments")
    bias = read_table(first.read("comments/shifted/report.json")["bias"])
    worst = bias.worst("bpsn_auc").value
    results = first.read("comments/shifted/verdict.json")["results"]
    found = run.data.metrics
    assert (found["worst/bpsn_auc"], found["worst_bound/bpsn_auc"]) == (
        worst.value,
        worst.low,
    )
    assert found["checks/failed"] == sum(check["outcome"] == "fail" for check in results) > 0
    assert found["checks/insufficient"] == 0
    assert run.data.tags["biasgate.worst.bpsn_auc"] == "gay"
    assert run.data.tags["biasgate.worse_than_champion"] == "There was no champion to compare with."
    assert run.data.tags["mlflow.source.name"] == "first.yaml"


def test_the_experiment_has_saved_views_of_the_evaluation_and_of_all(world, first):
    run = first.run("evaluate small")
    tags = world.gateway.client.get_experiment(run.info.experiment_id).tags
    views = {}
    for key in ("biasgate", "biasgate-all"):
        saved = json.loads(tags[f"mlflow.sharedViewState.{key}"])
        packed = saved["state"].removeprefix("deflate;")
        views[saved["name"]] = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert views["Latest evaluation"]["searchFilter"] == (
        f"tags.mlflow.parentRunId = '{run.info.run_id}'"
    )
    found = world.gateway.client.search_runs(
        [run.info.experiment_id], views["All evaluations"]["searchFilter"]
    )
    assert {run.info.run_name for run in found} == {f"{name} on comments" for name in CANDIDATES}


def test_the_models_of_the_experiment_are_what_was_judged(world, first):
    run = first.run("shifted on comments")
    [blocked] = world.gateway.client.search_logged_models(
        [run.info.experiment_id],
        filter_string="metrics.`checks/failed` > 0",
        datasets=[{"dataset_name": "comments"}],
    )
    assert (blocked.name, blocked.model_type, str(blocked.status)) == ("shifted", "scores", "READY")
    [metric] = [metric for metric in blocked.metrics if metric.key == "worst/bpsn_auc"]
    assert (metric.run_id, metric.dataset_name) == (run.info.run_id, "comments")
    found = world.gateway.client.search_logged_models([run.info.experiment_id])
    [words] = [model for model in found if model.name == "words"]
    assert words.source_run_id == first.run("train words").info.run_id
    assert json.loads(words.tags["mlflow.modelVersions"]) == [{"name": "toxicity", "version": "1"}]


def test_a_model_that_is_judged_again_is_the_same_one(world, first):
    run = first.run("shifted on comments")
    key = {"kind": "scores", "tags": {}}
    model = next(
        model
        for model in world.gateway.client.search_logged_models([run.info.experiment_id])
        if model.name == "shifted"
    )
    again = world.gateway.ensure_logged_model(
        run.info.experiment_id, model.tags["biasgate.candidate_key"], "shifted", version=None, **key
    )
    assert again == model.model_id


def test_pictures_are_logged_under_fixed_keys_for_the_grid_of_candidates(world, first):
    run = first.run("shifted on comments")
    listed = {
        artifact.path for artifact in world.gateway.client.list_artifacts(run.info.run_id, "images")
    }
    names = [
        f"images/{key}+step+0+timestamp+0+biasgate" for key in ("harm", "heatmap", "intervals")
    ]
    assert listed == {f"{name}{end}" for name in names for end in (".png", "+compressed.webp")}
    assert run.data.tags["mlflow.loggedImages"] == "true"


@pytest.mark.usefixtures("first")
def test_the_ui_prints_links_to_the_views_of_experiments_that_have_them(world, monkeypatch):
    monkeypatch.setattr(os, "execve", lambda *_: None)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    done = CliRunner().invoke(app, ["ui", "--store", str(world.store), "--port", port])
    assert done.exit_code == 0, done.output
    kind = "workflowType=machine_learning"
    experiment = f"http://127.0.0.1:{port}/#/experiments/1"
    assert (
        f"    candidates      {experiment}/runs?{kind}&viewStateShareKey=biasgate\n" in done.output
    )
    charts = f"{experiment}/runs?{kind}&compareRunsMode=CHART&viewStateShareKey=biasgate\n"
    assert f"    charts          {charts}" in done.output
    assert f"    models          {experiment}/models?{kind}\n" in done.output


def test_the_ui_prints_links_to_a_server_that_runs_elsewhere_and_starts_none(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("a server was started"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking.example:5000/")
    monkeypatch.setattr(Gateway, "list_experiments", lambda _: {"old": Experiment("7", {})})
    done = CliRunner().invoke(app, ["ui", "--store", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "old: http://tracking.example:5000/#/experiments/7/runs?" in done.output
