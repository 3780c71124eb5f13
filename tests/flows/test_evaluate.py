"""The flow `evaluate` from end to end: results, MLflow runs, and protected comments."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from prefect import get_client
from support.cells import as_evaluated, cell, counts_of
from support.contents import contents
from support.html_page import read_page
from support.records import KINDS, check_record, check_records

from bias_metrics import evaluate_bias
from biasgate.flows.own_runs import STAGES
from biasgate.tasks.analysing import analyse
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.markdown import escape_markdown
from biasgate.tasks.common.progress import format_duration
from biasgate.tasks.records import Summary
from biasgate.tasks.remembering import reading
from biasgate.tasks.reporting.model_card import shorten_card
from biasgate.tasks.reporting.page.page import build_evaluation_page
from biasgate.tasks.reporting.page.writing import read_judged, render_page
from biasgate.tasks.scoring.scored_set import ScoredSet

CANDIDATES = ["words", "shifted"]
FILES = {
    "report.json",
    "evidence.parquet",
    "policy.json",
    "verdict.json",
    "attestation.json",
    "bias_metrics.csv",
    "model_card.md",
    "harm.png",
    "heatmap.png",
    "distributions.png",
    "reliability.png",
    "intervals.png",
    "details.json",
    "report.html",
    "terms.csv",
}


def scores_of(world, report):
    digests = report["evaluation_set"]["digest"], report["candidate"]["digest"]
    folder = world.store / "scores" / digests[0][:16] / digests[1][:16]
    table = ScoredSet.open(str(folder)).table()
    return dict(zip(table["id"].to_pylist(), table["score"].to_pylist(), strict=True))


@pytest.mark.parametrize("candidate", CANDIDATES)
def test_each_candidate_gets_a_folder_of_results(first, candidate):
    folder = first.output / "comments" / candidate
    assert {path.name for path in folder.iterdir()} == FILES
    assert all(path.stat().st_size for path in folder.iterdir())


def test_the_guide_names_each_file_that_is_written(first):
    guide = (Path(__file__).parents[2] / "docs/guides/results.md").read_text("utf-8")
    whole = {path.name for path in first.output.iterdir() if path.is_file()}
    others = {analyse.FOLDER, reading.FILE, "submission.csv"}
    assert {name for name in whole | FILES | others if name not in guide} == set()


@pytest.mark.parametrize("candidate", CANDIDATES)
def test_the_report_equals_one_call_of_the_library(world, first, candidate):
    report = first.read(f"comments/{candidate}/report.json")
    scores = world.shifted if candidate == "shifted" else scores_of(world, report)
    alone = evaluate_bias(
        [bool(row["label"]) for row in world.rows],
        [scores[row["id"]] for row in world.rows],
        {
            identity: [row["mention"] == identity for row in world.rows]
            for identity in ("gay", "muslim", "deaf")
        },
        power_mean_groups=["gay", "muslim"],
    )
    assert as_evaluated(report["bias"]) == alone.to_dict()


def test_reports_verdicts_and_the_summary_have_exactly_the_keys_of_their_types(first):
    names = check_records(first.output)
    assert sorted(names) == sorted(
        [*["report.json", "verdict.json", "details.json"] * 2, "summary.json"]
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_key_that_a_type_lacks_or_that_a_file_lacks_is_refused(first, name):
    content = first.read(name if name == "summary.json" else f"comments/words/{name}")
    check_record(content, name)
    with pytest.raises(InputError, match="more differs"):
        check_record(content | {"more": 1}, name)
    del content[next(iter(content))]
    with pytest.raises(InputError, match="Field required"):
        check_record(content, name)


def test_the_verdict_says_who_is_blocked_and_for_what(first):
    assert first.read("comments/words/verdict.json")["outcome"] == "pass"
    verdict = first.read("comments/shifted/verdict.json")
    failed = {
        (check["metric"], check["group"])
        for check in verdict["results"]
        if check["outcome"] == "fail"
    }
    assert verdict["outcome"] == "fail"
    assert ("bpsn_auc", "gay") in failed
    assert "muslim" not in {group for _, group in failed}


def test_the_summary_is_the_flows_result(first):
    summary = first.state.result()
    assert summary.to_dict() == first.read("summary.json")
    outcomes = {decision.candidate: decision.outcome for decision in summary.decisions}
    assert outcomes == {"words": "pass", "shifted": "fail"}


def test_one_run_per_candidate_and_set_lies_under_one_parent(first):
    parent = first.run("evaluate small")
    children = [run for run in first.runs if "mlflow.parentRunId" in run.data.tags]
    assert {run.info.run_name for run in children} == {f"{name} on comments" for name in CANDIDATES}
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert {run.info.run_name for run in first.runs if run not in children} == {
        "evaluate small",
        "train words",
    }
    assert {run.info.status for run in first.runs} == {"FINISHED"}


def test_metrics_are_logged_under_metric_and_identity_and_undefined_ones_are_not(first):
    bias = first.read("comments/words/report.json")["bias"]
    metrics = first.run("words on comments").data.metrics
    assert metrics["auc/overall"] == cell(bias, "auc")["value"]
    assert metrics["bpsn_auc/muslim"] == cell(bias, "bpsn_auc", "muslim")["value"]
    assert metrics["n_positive/gay"] == counts_of(bias, "gay")["n_positive"]
    assert cell(bias, "subgroup_auc", "deaf")["value"] is None
    at = first.read("comments/words/report.json")["thresholds"]["equal_errors"]
    assert metrics["fped/equal_errors"] == at["fped"]["value"]
    of_deaf = {key for key in metrics if key.endswith("/deaf")}
    defined = {"bpsn_auc", "negative_aeg", "calibration_gap", "n_rows", "n_positive"}
    assert of_deaf == {f"{name}/deaf" for name in defined}


def test_seconds_of_stages_and_of_scoring_are_metrics_of_the_run_that_took_them(first, logged):
    found = first.run("evaluate small").data.metrics
    assert found.keys() == {f"seconds/{name}" for name in STAGES}
    for name in STAGES:
        printed = (
            f"{name}: 2 candidates on comments: done in {format_duration(found[f'seconds/{name}'])}"
        )
        assert printed in logged
    scored = [first.run(f"{name} on comments").data.metrics for name in CANDIDATES]
    for metrics in scored:
        whole = metrics["seconds/score"] * metrics["comments_per_second"]
        assert whole == pytest.approx(metrics["n_rows/overall"])
    assert 0 < sum(metrics["seconds/score"] for metrics in scored) < found["seconds/score"]


def test_runs_tell_their_verdict_where_mlflow_shows_a_description(first):
    notes = {run.info.run_name: run.data.tags.get("mlflow.note.content") for run in first.runs}
    _, passed, printed, explained = notes["words on comments"].split("\n\n")
    assert passed == "**Passed for 0 of 3 identities**: words on comments"
    by_estimates, no_rule = printed.split("- Passed for no identity on its own.\n- Exception: ")[
        1
    ].split("\n- Exception: ")
    assert by_estimates.startswith("4 checks were decided by the point estimate")
    assert no_rule.startswith("no blocking rule covers deaf.\n")
    look = escape_markdown(first.read("comments/words/report.json")["look_first"]["sentence"])
    assert explained == f"- {look}"
    assert "\n\n**Blocked**: shifted on comments\n\n" in notes["shifted on comments"]
    assert " of 3 passed, 1 failed (gay)" in notes["shifted on comments"]
    assert "\n\n**Blocked**: shifted\n\n" in notes["evaluate small"]


def test_the_evaluation_set_is_the_runs_dataset(first):
    digest = first.read("comments/words/report.json")["evaluation_set"]["digest"]
    for candidate in CANDIDATES:
        [used] = first.run(f"{candidate} on comments").inputs.dataset_inputs
        assert used.dataset.name == "comments"
        assert digest.startswith(used.dataset.digest)
        assert len(used.dataset.digest) == 36
        assert {tag.key: tag.value for tag in used.tags} == {"mlflow.data.context": "evaluation"}


def test_results_are_among_the_runs_artifacts(world, first):
    run = first.run("shifted on comments")
    listed = {artifact.path for artifact in world.gateway.client.list_artifacts(run.info.run_id)}
    assert listed == FILES | {"bias_metrics.json", "images"}


def test_the_page_of_the_evaluation_is_written_and_logged_with_its_run(world, first):
    run = first.run("evaluate small")
    with world.gateway.open_run_files(run.info.run_id) as logged:
        assert {path.name for path in logged.iterdir()} == {"report.html", "images"}
        page = (logged / "report.html").read_bytes()
    assert page == (first.output / "report.html").read_bytes()
    found = read_page(page)
    board = found.one("table", class_="board").one("tbody")
    names = [row.one("bdi").text for row in board.find("tr")]
    assert names == CANDIDATES


def test_the_page_can_be_made_again_from_what_was_published(first):
    summary = Summary.from_dict(first.read("summary.json"))
    judged = {
        ("comments", verdict.candidate.name): read_judged(first.output, verdict)
        for verdict in summary.verdicts
    }
    again = render_page(build_evaluation_page(summary, judged, output=str(first.output)))
    assert again == (first.output / "report.html").read_bytes()


def marked(world, pairs):
    marks = [row["mark"] for row in world.rows]
    marks += [line.split()[-1] for line in _training_comments(world)]
    return sorted({name for name, text in pairs for mark in marks if mark in text})


def _training_comments(world):
    lines = (world.folder / "train.csv").read_text("utf-8").splitlines()[1:]
    return [line.split(",")[1] for line in lines]


def test_comments_lie_in_the_frozen_sets_and_nowhere_in_mlflow(world, first):
    del first
    artifacts = dict(contents(world.store / "mlartifacts"))
    assert any("model.skops/" in name and "neighbour" in text for name, text in artifacts.items())
    assert marked(world, artifacts.items()) == []
    assert len(marked(world, contents(world.store / "sets"))) == 2


def test_no_comment_is_in_mlflows_database(world, first):
    del first
    with closing(sqlite3.connect(world.store / "mlflow.db")) as database:
        dump = "\n".join(database.iterdump())
    database.close()
    assert "shifted on comments" in dump
    assert marked(world, [("mlflow.db", dump)]) == []


def test_no_comment_is_in_the_results_or_scores(world, first):
    assert marked(world, contents(first.output)) == []
    assert marked(world, contents(world.store / "scores")) == []


def test_no_comment_is_logged(world, first, logged):
    assert first.state.is_completed()
    sent = _logs_sent_to_prefect(at_least=10)
    assert any(line.startswith("Beginning flow run 'evaluate") for line in logged)
    assert marked(world, [("log", line) for line in [*logged, *sent]]) == []


def _logs_sent_to_prefect(at_least):
    """Return the log lines on Prefect's server, which arrive a few seconds late."""
    deadline = time.monotonic() + 30
    lines = []
    with get_client(sync_client=True) as client:
        while len(lines) < at_least and time.monotonic() < deadline:
            lines = [record.message for record in client.read_logs(limit=200)]
            time.sleep(0.2)
    assert len(lines) >= at_least
    return lines


def test_the_model_card_is_the_description_of_the_version(world, first):
    card = (first.output / "comments" / "words" / "model_card.md").read_text("utf-8")
    found = world.gateway.client.get_model_version("toxicity", "1").description
    assert found == shorten_card(card)
    assert "# Model card: words" in found
    digest = first.read("comments/words/report.json")["evaluation_set"]["digest"]
    assert digest in card
    assert "- deaf: undefined: subgroup_auc, bnsp_auc, positive_aeg" in card
