"""Stores that were moved, copied or made by another MLflow version, and unknown models."""

import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.evaluations import evaluate, run, write_inputs
from typer.testing import CliRunner

from biasgate import require_champion
from biasgate.cli import app
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import read_history


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Silence Prefect as the command does, which sets its level before Prefect is imported."""
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


@pytest.fixture(scope="module")
def evaluated(prefect_server, tmp_path_factory):
    """A folder in which an evaluation made a registered candidate champion."""
    del prefect_server
    folder = write_inputs(tmp_path_factory.mktemp("evaluated"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, said = evaluate("--store", folder / "store")
    assert code == 0, said
    assert "models:/toxicity/1 is champion now" in said
    return folder


@pytest.fixture
def moved(evaluated, tmp_path):
    """The store of the evaluation, at another place; where it was there is nothing."""
    shutil.copytree(evaluated / "store", tmp_path / "kept")
    shutil.move(evaluated / "store", tmp_path / "elsewhere with space")
    yield tmp_path / "elsewhere with space"
    shutil.move(tmp_path / "kept", evaluated / "store")


def test_a_moved_store_still_verifies(moved):
    code, said = run("verify", "toxicity", "--store", moved)
    assert "BROKEN" not in said
    assert "match the verdict" in said
    assert code == 0, said


def test_a_champion_of_a_moved_store_can_be_required(moved):
    assert require_champion("toxicity", moved) == "models:/toxicity/1"


@pytest.mark.evaluates
def test_a_moved_store_goes_on_evaluating_what_it_knows(moved, evaluated, monkeypatch, tmp_path):
    monkeypatch.chdir(evaluated)
    code, said = run("evaluate", "file.yaml", "--output", tmp_path / "out", "--store", moved)
    assert code == 0, said
    assert "models:/toxicity/1 is champion already" in said
    assert not (evaluated / "store").exists()  # nothing is written to the old place
    code, said = run("history", "toxicity", "--store", moved)
    assert code == 0
    assert "promotion" in said


def test_the_history_says_all_of_date_and_reason_in_a_narrow_terminal(evaluated, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    command = ["history", "toxicity", "--store", str(evaluated / "store")]
    said = CliRunner().invoke(app, command).output
    [entry] = read_history("toxicity", Gateway.from_store(evaluated / "store"))
    assert entry.opened[:19].replace("T", " ") in said
    assert entry.reason in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80


def test_a_copied_store_does_not_read_or_change_the_first(evaluated, tmp_path):
    copy = Path(shutil.copytree(evaluated / "store", tmp_path / "copy"))
    Gateway.from_store(copy)
    for store in (evaluated / "store", copy):
        rows = stored_paths(store)
        assert rows
        assert all(row.startswith((store / "mlartifacts").as_uri()) for row in rows)


def stored_paths(store):
    with closing(sqlite3.connect(store / "mlflow.db")) as connection, connection:
        rows = connection.execute(
            "SELECT artifact_uri FROM runs UNION SELECT source FROM model_versions"
        )
        return [one for (one,) in rows if one.startswith("file:")]


def test_a_database_copied_without_its_artifacts_is_left_alone(evaluated, tmp_path):
    shutil.copy(evaluated / "store" / "mlflow.db", tmp_path)
    Gateway.from_store(tmp_path)
    assert stored_paths(tmp_path) == stored_paths(evaluated / "store")


def test_artifacts_that_are_nowhere_are_a_finding(evaluated, tmp_path):
    copy = Path(shutil.copytree(evaluated / "store", tmp_path / "copy"))
    Gateway.from_store(copy)
    shutil.rmtree(copy / "mlartifacts")
    code, said = run("verify", "toxicity", "--store", copy)
    assert "artifacts must be at" in said
    assert code == 3


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("451aebb31d03", "its schema is older. Make a copy of the database, then run: mlflow db"),
        ("ffffffffffff", "a newer MLflow wrote it"),
    ],
)
def test_a_database_of_another_mlflow_says_what_to_do(evaluated, tmp_path, revision, message):
    shutil.copy(evaluated / "store" / "mlflow.db", tmp_path)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
    code, said = run("history", "toxicity", "--store", tmp_path)
    assert message in said
    assert code == 2


def test_a_database_that_is_none_is_named(tmp_path):
    (tmp_path / "mlflow.db").write_text("no database, " * 100)
    code, said = run("history", "toxicity", "--store", tmp_path)
    assert "mlflow.db must be the MLflow database of the store" in said
    assert code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["history", "toxicity"],
        ["verify", "toxicity"],
        ["promote", "toxicity", "1"],
        ["rollback", "toxicity", "--reason", "any"],
        ["ui"],
    ],
    ids=" ".join,
)
def test_a_folder_that_is_no_store_is_refused_and_nothing_is_written_there(
    tmp_path, monkeypatch, command
):
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("a server was started"))
    (tmp_path / ".biasgate").mkdir()
    (tmp_path / ".biasgate" / "mlflow.db").touch()
    code, said = run(*command, "--store", tmp_path)
    assert "it does not contain MLflow runs" in said
    assert f"Did you mean {tmp_path / '.biasgate'}?" in said
    assert code == 2
    assert [one.name for one in tmp_path.iterdir()] == [".biasgate"]


def test_a_model_is_never_the_folder_that_has_its_name(evaluated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(evaluated / "out", tmp_path / "toxicty")
    for store in (evaluated / "store", tmp_path / "none"):
        code, said = run("verify", "toxicty", "--store", store)
        assert (code, "with a slash: biasgate verify ./toxicty" in said) == (2, True), said
    assert run("verify", "./toxicty")[0] == 0
    for name in ("toxicity", "toxicity/"):  # a model that verifies, a folder that does not
        shutil.copytree(tmp_path / "toxicty", tmp_path / "toxicity", dirs_exist_ok=True)
        next((tmp_path / "toxicity").glob("*/*/verdict.json")).unlink(missing_ok=True)
        code, said = run("verify", name, "--store", evaluated / "store")
        assert code == (3 if name.endswith("/") else 0), said


@pytest.mark.parametrize("place", ["./out", "out/deep", "../out", "/no/such"])
def test_the_path_of_no_folder_is_not_taken_for_a_model(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    code, said = run("verify", place)
    told = "must be the folder of an evaluation; it does not exist."
    assert (code, told in said, "store" in said) == (2, True, False), said
    (tmp_path / "empty").mkdir()
    code, said = run("verify", "./empty")
    assert (code, "empty must be the `--output` of an evaluation" in said) == (2, True), said


@pytest.mark.parametrize(
    "command",
    [
        ["history", "toxicty"],
        ["verify", "toxicty"],
        ["verify", "toxicty", "1"],
        ["promote", "toxicty", "1"],
        ["rollback", "toxicty", "--reason", "any"],
    ],
    ids=" ".join,
)
def test_an_unknown_model_is_refused_with_those_that_are_known(evaluated, command):
    code, said = run(*command, "--store", evaluated / "store")
    assert "model 'toxicty' must be in the registry" in said
    assert "(known: toxicity). Did you mean 'toxicity'?" in said
    assert code == 2
