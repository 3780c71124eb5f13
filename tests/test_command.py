"""The command line: published numbers, exit codes, and bad input reported with its place."""

import gc
import gzip
import json
import logging
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import numpy as np
import pandas as pd
import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.sorting import FlowRunSort
from support.cells import cell, counts_of, groups_of, n_of
from typer.testing import CliRunner

from biasgate import __main__ as start
from biasgate.cli import app

pytestmark = pytest.mark.usefixtures("prefect_server")
METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")
N = 400


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Silence Prefect as the command does, which sets its level before Prefect is imported."""
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


@pytest.fixture
def biasgate(store):
    """Run the command in this process."""

    def biasgate(*arguments):
        runner = CliRunner()
        return runner.invoke(app, [*map(str, arguments), "--store", str(store)])

    return biasgate


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, N)
    return pd.DataFrame(
        {
            "id": np.arange(N) + 1000,
            "label": label,
            "gay": rng.integers(0, 2, N),
            "prediction": np.round(label + 1.2 * rng.random(N), 3) / 3,
        }
    )


@pytest.fixture
def evaluation(frame, tmp_path):
    """Write a sound evaluation, changed as asked, and return its file."""

    def evaluation(*, rows=None, scores=None, rows_name="rows.csv", more="", options=""):
        write(tmp_path / rows_name, frame[["id", "label", "gay"]] if rows is None else rows)
        write(tmp_path / "scores.csv", frame[["id", "prediction"]] if scores is None else scores)
        path = tmp_path / "evaluation.yaml"
        text = f"""\
            name: command
            evaluation_sets:
              - {{name: rows, source: table, path: {rows_name}, identities: [gay]{options}}}
            candidates:
              - {{name: file, kind: scores, path: scores.csv}}
            {more}
            """
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    return evaluation


def write(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content.to_csv(path, index=False)


def said(result):
    return " ".join((result.output + result.stderr).split())


@pytest.mark.slow
def test_toxic_bert_on_civil_comments_gives_the_published_numbers(
    biasgate, real_data, reference, monkeypatch, tmp_path
):
    monkeypatch.setenv("BIASGATE_REAL_DATA", str(real_data))
    config = Path(__file__).parents[1] / "docs" / "reproduce" / "toxic_bert.yaml"
    expected = pd.read_csv(reference / "toxic_bert_expected.csv")
    result = biasgate("evaluate", config, "--output", tmp_path, "--submission")
    folder = tmp_path / "civil_comments_test" / "toxic_bert"
    report = json.loads((folder / "report.json").read_text())
    submission = pd.read_csv(folder / "submission.csv")
    assert result.exit_code == 3  # the default policy blocks it
    assert re.search("toxic_bert +BLOCKED", said(result))
    assert report["schema_version"] == 1
    assert report["candidate"]["name"] == "toxic_bert"
    bias = report["bias"]
    assert cell(bias, "auc")["value"] == pytest.approx(0.901940, abs=5e-7)
    assert cell(bias, "final_score")["value"] == pytest.approx(0.870540, abs=5e-7)
    means = {"subgroup_auc": 0.838888, "bpsn_auc": 0.837799, "bnsp_auc": 0.903534}
    for metric, value in means.items():
        assert cell(bias, metric)["value"] == pytest.approx(value, abs=1e-6)
    assert groups_of(bias) == expected["subgroup"].tolist()
    for row in expected.to_dict("records"):
        found = counts_of(bias, row["subgroup"])
        assert (found["n_positive"], found["n_negative"]) == (row["n_pos"], row["n_neg"])
        assert n_of(bias, row["subgroup"]) == row["n"]
        for metric in METRICS:
            value = cell(bias, metric, row["subgroup"])["value"]
            assert value == pytest.approx(row[metric], abs=1e-9)
        errors = report["thresholds"]["given"]["subgroups"][row["subgroup"]]
        for rate, short in (("false_positive_rate", "fpr"), ("false_negative_rate", "fnr")):
            assert errors[rate]["value"] == pytest.approx(row[f"{short}_at_0_5"], abs=1e-12)
    everything = said(CliRunner().invoke(app, ["show", str(tmp_path), "--all"]))
    assert (
        "Look first at homosexual_gay_or_lesbian (its lowest AUC is bpsn_auc 0.783 "
        "[95% CI 0.755 to 0.811])." in everything
    )
    assert "At the threshold 0.5: 1.4% of harmless comments flagged" in everything
    assert "are left out" not in everything  # no identity is that small
    original = pd.read_csv(real_data / "toxic_bert_submission.csv")
    pd.testing.assert_frame_equal(submission, original)


def test_a_pass_exits_0_and_writes_report_verdict_and_figures(biasgate, evaluation, tmp_path):
    result = biasgate("evaluate", evaluation(), "--output", tmp_path / "out")
    assert result.exit_code == 0, said(result)
    files = {path.name for path in (tmp_path / "out" / "rows" / "file").iterdir()}
    assert files == {
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
    }
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["outcome"] == "pass"
    assert re.search(r"file +PASSED \(exceptions\)", said(result))


def test_after_the_results_of_a_table_a_line_names_its_file_which_runs_again(
    biasgate, frame, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", frame)
    columns = ["--label", "label", "--identities", "gay", "--score", "prediction"]
    result = biasgate("evaluate", "rows.csv", *columns)
    assert result.exit_code == 0, said(result)
    last = " ".join(result.stdout.split()).partition("To keep this evaluation: ")[2]
    file = Path(last.removeprefix("copy ").partition(", or ")[0])
    assert last == f"copy {file}, or add `--save my_evaluation.yaml`."
    assert biasgate("evaluate", "rows.csv", *columns, "--save", "mine.yaml").exit_code == 0
    assert Path("mine.yaml").read_text() == file.read_text()
    given = [*columns, "--output", "out"]
    assert "or replace `--output` by `--save" in said(biasgate("evaluate", "rows.csv", *given))
    for option in ("--json", "--quiet"):
        assert "To keep" not in biasgate("evaluate", "rows.csv", *given, option).output
    assert "To keep" not in biasgate("evaluate", file, "--output", "out").output


def test_json_is_the_summary_on_standard_output_and_nothing_else(biasgate, evaluation, tmp_path):
    result = biasgate("evaluate", evaluation(), "--output", tmp_path / "out", "--json")
    assert result.exit_code == 0, said(result)
    assert result.stdout == (tmp_path / "out" / "summary.json").read_text("utf-8")
    assert result.stderr == "", "steps are not told"


def test_the_first_line_says_what_is_done_without_control_characters(biasgate, tmp_path):
    missing = tmp_path / "missing.yaml"
    result = biasgate("evaluate", missing, "--output", tmp_path / "out")
    assert result.stderr.startswith(f"  reading {missing} ...\n")
    assert "\x1b" not in result.stderr


@pytest.mark.evaluates
def test_a_blocked_night_is_reported_as_before_where_prefect_shows_it_as_failed(
    biasgate, evaluation, tmp_path
):
    rule = "{metric: auc, scope: overall, floor: 1.0}"
    (tmp_path / "own.yaml").write_text(f"version: 1\nname: own\nrules: [{rule}]")
    config = evaluation(more="policy: own.yaml")
    arguments = ["nightly", config, "--output", tmp_path / "out", "--fail-when-blocked"]
    result = biasgate(*arguments)
    assert result.exit_code == 3, said(result)
    assert re.search("file +BLOCKED", said(result))
    with get_client(sync_client=True) as client:
        nights = FlowFilter(name=FlowFilterName(any_=["nightly"]))
        runs = client.read_flow_runs(flow_filter=nights, sort=FlowRunSort.START_TIME_DESC)
    newest = next(one for one in runs if one.start_time is not None)  # others may be scheduled
    assert (newest.state.type.value, newest.state.name) == ("FAILED", "Blocked")


@pytest.mark.evaluates
def test_a_night_ends_with_its_outcome_where_replies_of_prefects_server_are_lost(
    biasgate, evaluation, tmp_path, monkeypatch
):
    """The client asks again, and the server answers with the state alone that it has already."""
    real, lost = httpx.Client.send, []

    def send(client, request, **options):
        answer = real(client, request, **options)
        ends = request.url.path.endswith("/set_state") and b'"Passed"' in request.content
        if ends and request.url.path not in lost:
            lost.append(request.url.path)
            msg = "the connection was reset"
            raise httpx.ReadError(msg)
        return answer

    monkeypatch.setattr(httpx.Client, "send", send)
    result = biasgate("nightly", evaluation(), "--output", tmp_path / "out")
    assert len(lost) == 2, "of `evaluate`, and of `nightly`"
    assert result.exit_code == 0, said(result)
    assert re.search(r"file +PASSED \(exceptions\)", said(result))


@pytest.mark.evaluates
@pytest.mark.parametrize(
    ("rule", "code", "word"),
    [
        ("{metric: auc, scope: overall, floor: 1.0}", 3, "BLOCKED"),
        (
            "{metric: auc, scope: overall, floor: 0.1, min_positives: 9999}",
            4,
            "UNDECIDED",
        ),
    ],
)
def test_a_verdict_other_than_pass_has_its_exit_code(
    biasgate, evaluation, tmp_path, rule, code, word
):
    (tmp_path / "own.yaml").write_text(f"version: 1\nname: own\nrules: [{rule}]")
    config = evaluation(more="policy: own.yaml")
    result = biasgate("evaluate", config, "--output", tmp_path / "out")
    assert result.exit_code == code
    assert word in said(result)
    suites = ET.parse(tmp_path / "out" / "junit.xml").getroot()  # noqa: S314 - our own
    assert [one.get("failures") for one in suites] == ["1", "1"]


@pytest.mark.evaluates
def test_a_policy_that_only_reports_does_not_say_that_a_blocked_candidate_passed(
    biasgate, evaluation, tmp_path
):
    rule = "{metric: auc, scope: overall, floor: 1.0}"
    (tmp_path / "own.yaml").write_text(f"version: 1\nname: own\nreport_only: true\nrules: [{rule}]")
    config = evaluation(more="policy: own.yaml")
    result = biasgate("evaluate", config, "--output", tmp_path / "out")
    assert result.exit_code == 0
    assert re.search("file +REPORTED", result.stdout)
    assert "The verdict is: blocked." in said(result)
    assert "passed" not in said(result).lower()


@pytest.fixture
def two(evaluation, frame, tmp_path):
    """An evaluation of a good and an upside-down candidate."""

    def two(more="policy: own.yaml"):
        rule = "{metric: auc, scope: overall, floor: 0.6}"
        (tmp_path / "own.yaml").write_text(f"version: 1\nname: own\nrules: [{rule}]")
        config = evaluation(more=more)
        frame.assign(prediction=-frame["prediction"])[["id", "prediction"]].to_csv(
            tmp_path / "bad.csv", index=False
        )
        one = "- {name: file, kind: scores, path: scores.csv}"
        other = "- {name: bad, kind: scores, path: bad.csv}"
        text = config.read_text("utf-8").replace(one, f"{one}\n  {other}")
        config.write_text(text, "utf-8")
        return config

    return two


def failures(output):
    suites = ET.parse(output / "junit.xml").getroot()  # noqa: S314 - our own
    return int(suites.get("failures")) + int(suites.get("errors"))


@pytest.mark.evaluates
def test_of_several_candidates_the_worst_outcome_counts(biasgate, two, tmp_path):
    result = biasgate("evaluate", two(), "--output", tmp_path / "out")
    assert result.exit_code == 3
    assert failures(tmp_path / "out") == 3


@pytest.mark.evaluates
def test_the_candidate_that_is_named_decides_the_exit_code(biasgate, two, tmp_path):
    options = "--output", tmp_path / "out", "--candidate", "file"
    result = biasgate("evaluate", two(), *options)
    assert result.exit_code == 0, said(result)
    assert re.search("bad +BLOCKED", said(result))
    assert failures(tmp_path / "out") == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["outcome_of"] == ["file"]


@pytest.mark.evaluates
def test_the_file_says_whose_outcome_counts_and_the_command_overrides_it(biasgate, two, tmp_path):
    config = two("policy: own.yaml\n            outcome_of: [file]")
    assert biasgate("evaluate", config, "--output", tmp_path / "out").exit_code == 0
    options = "--output", tmp_path / "more", "--candidate", "bad", "--candidate", "file"
    assert biasgate("evaluate", config, *options).exit_code == 3


def test_a_candidate_that_is_not_in_the_file_is_refused_before_any_work(biasgate, two, tmp_path):
    options = "--output", tmp_path / "out", "--candidate", "fil"
    result = biasgate("evaluate", two(), *options)
    assert result.exit_code == 2
    assert "`--candidate` must be one of file, bad in" in said(result)
    result = biasgate("evaluate", two("outcome_of: [fil]"), "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "`outcome_of` must name candidates; got fil (known: file, bad)" in said(result)
    assert not (tmp_path / "out").exists()


def bad_inputs():
    """Return what is changed, and what the message says, by name."""

    def last(column, value):
        return lambda t: t.astype({column: object}).assign(**{column: [*t[column][:-1], value]})

    return {
        "missing column": (
            {"rows": lambda t: t.drop(columns="gay")},
            "rows.csv must have the column 'gay'",
        ),
        "unknown identity": (
            {"policy": "{metric: bpsn_auc, scope: martian, floor: 0.5}"},
            "must be known to the evaluation set; got 'martian' (known: gay)",
        ),
        "duplicate id": (
            {"rows": last("id", 1000)},
            "id 1000 is in rows 0 and 399",
        ),
        "duplicate id in scores": (
            {"scores": last("id", 1000)},
            "got a second 1000 (file {folder}/scores.csv, row 399, id 1000)",
        ),
        "ids of the set alone": (
            {"scores": lambda t: t[:-2]},
            "2 of the set have no score, such as id 1398",
        ),
        "ids of the scores alone": (
            {"rows": lambda t: t[:-2]},
            "2 have a score but are not in the set, such as id 1398",
        ),
        "NaN score": (
            {"scores": last("prediction", float("nan"))},
            "(file {folder}/scores.csv, column prediction, row 399, id 1399)",
        ),
        "infinite score": (
            {"scores": last("prediction", float("inf"))},
            "got inf (file {folder}/scores.csv, column prediction, row 399, id 1399)",
        ),
        "two-valued scores": (
            {"scores": lambda t: t.assign(prediction=t["prediction"].round().clip(0, 1))},
            "all are 0 and 1, which looks like class labels",
        ),
        "label outside [0, 1]": (
            {"rows": last("label", 1.5)},
            "got 1.5 (file {folder}/rows.csv, column label, row 399, id 1399)",
        ),
        "empty file": ({"rows": b""}, "rows.csv must not be empty"),
        "header alone": ({"rows": lambda t: t[:0]}, "must have rows"),
        "truncated gzip": (
            {
                "rows": lambda t: gzip.compress(t.to_csv(index=False).encode())[:-20],
                "rows_name": "rows.csv.gz",
            },
            "rows.csv.gz is truncated",
        ),
        "not UTF-8": ({"rows": b"id,label,gay\n1,0,\xe9\n"}, "rows.csv must be UTF-8"),
        "no positives": ({"rows": lambda t: t.assign(label=0)}, "measured rows have no positives"),
    }


@pytest.mark.parametrize("name", list(bad_inputs()))
def test_bad_input_is_told_with_its_place_and_leaves_no_output(
    biasgate, evaluation, frame, tmp_path, store, name
):
    change, message = bad_inputs()[name]
    tables = {"rows": frame[["id", "label", "gay"]], "scores": frame[["id", "prediction"]]}
    given = {
        part: change[part](tables[part]) if callable(change[part]) else change[part]
        for part in ("rows", "scores")
        if part in change
    }
    if "policy" in change:
        text = f"version: 1\nname: own\nrules: [{change['policy']}]"
        (tmp_path / "own.yaml").write_text(text)
        given["more"] = "policy: own.yaml"
    if "rows_name" in change:
        given["rows_name"] = change["rows_name"]
    result = biasgate("evaluate", evaluation(**given), "--output", tmp_path / "out")
    assert message.format(folder=tmp_path) in said(result)
    assert "Traceback" not in said(result)
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()
    assert not list((store / "work").glob("*"))


def test_a_task_runner_that_is_not_installed_is_refused_before_any_work(
    biasgate, evaluation, tmp_path, monkeypatch
):
    for name in ("BIASGATE_TASK_RUNNER", "BIASGATE_TASK_RUNNER_OPTIONS"):
        monkeypatch.setenv(name, "")  # the command sets both; this takes that back
    result = biasgate(
        "evaluate", evaluation(), "--output", tmp_path / "out", "--task-runner", "nowhere:Runner"
    )
    assert "must be `module:class` of a Prefect task runner" in said(result)
    assert "got 'nowhere:Runner'" in said(result)
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_the_command_starts_without_the_slow_libraries_and_can_still_silence_them():
    slow = {"prefect", "mlflow", "pandas", "pydantic", "numpy", "importlib.metadata"}
    code = f"import sys, biasgate.cli; print({slow} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_a_name_in_the_way_is_told_before_anything_is_imported(tmp_path):
    (tmp_path / "bias_metrics.py").write_text("raise SystemExit('the wrong library')")
    done = subprocess.run(
        [sys.executable, "-m", "biasgate", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"Python finds {tmp_path / 'bias_metrics.py'}" in done.stderr
    assert "rename it" in done.stderr


def test_a_command_looks_for_garbage_in_cycles_less_often_than_python_does(monkeypatch):
    usual = gc.get_threshold()
    monkeypatch.setattr(sys, "argv", ["biasgate", "--version"])
    try:
        gc.set_threshold(700)
        with pytest.raises(SystemExit):
            start.main()
        assert gc.get_threshold()[0] > 700
    finally:
        gc.set_threshold(*usual)


def test_a_missing_extra_is_told_with_the_command_that_mends_it(monkeypatch):
    monkeypatch.setattr(start.importlib.util, "find_spec", lambda _name: None)
    assert 'pip install ".[app]" in a checkout of biasgate' in start.describe_missing_extra()


def test_a_crash_exits_1_and_names_the_way_to_its_traceback(
    biasgate, evaluation, tmp_path, monkeypatch
):
    def crash(*_arguments):
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr("biasgate.tasks.reading_evaluation.read_evaluation", crash)
    result = biasgate("evaluate", evaluation(), "--output", tmp_path / "out")
    assert result.exit_code == 1
    assert "RuntimeError: the disk is gone" in said(result)
    assert "--verbose" in said(result)
