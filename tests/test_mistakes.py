"""Plausible mistakes of a new user, by the command: what is said, and that nothing was begun."""

import gzip
import logging
import os
import shutil
import socket
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from biasgate import cli, require_champion
from biasgate.cli import app
from tasks.mlflow_gateway import Gateway

N = 400
COMMENT = "secretword"
POLICY = """\
version: 1
name: own
allow_first: true
rules: [{metric: auc, scope: overall, floor: 0.6}]
"""
FILE = """\
name: mistakes
registered_model: toxicity
evaluation_sets:
  - name: rows
    source: table
    path: rows.csv
    text: text
    identities: [gay]
candidates:
  - name: file
    kind: scores
    path: scores.csv
    register: toxicity
policy: own.yaml
"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Silence Prefect as the command does, which sets its level before Prefect is imported."""
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


@pytest.fixture
def begun(monkeypatch):
    """What was begun: commands of this test must refuse before any flow starts."""
    started = []
    monkeypatch.setattr(cli, "_run_tasks_by", lambda *_: started.append("flow"))
    return started


def frame():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, N)
    return pd.DataFrame(
        {
            "id": np.arange(N) + 1000,
            "label": label,
            "gay": rng.integers(0, 2, N),
            "text": [f"{COMMENT} {one}" for one in range(N)],
            "prediction": np.round(label + 1.2 * rng.random(N), 3) / 3,
        }
    )


def write_inputs(folder):
    """Write a sound evaluation into a folder."""
    rows = frame()
    rows.drop(columns="prediction").to_csv(folder / "rows.csv", index=False)
    rows[["id", "prediction"]].to_csv(folder / "scores.csv", index=False)
    (folder / "own.yaml").write_text(POLICY)
    (folder / "file.yaml").write_text(FILE)
    return folder


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a sound evaluation, where the commands run."""
    monkeypatch.chdir(write_inputs(tmp_path))
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    return result.exit_code, " ".join((result.output + result.stderr).split())


def evaluate(*arguments):
    return run("evaluate", "file.yaml", "--output", "out", *arguments)


def change(name, old, new):
    path = Path(name)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


WRONG_FILES = {
    "unknown key": ("evaluation_sets:", "evaluation_set:", "Did you mean 'evaluation_sets'?"),
    "unknown key of a set": ("identities:", "identites:", "Did you mean 'identities'?"),
    "unknown source": ("source: table", "source: tabel", "Did you mean 'table'?"),
    "misspelt source": ("source: table", "sorce: table", "Is it meant by 'sorce'?"),
    "unknown kind": ("kind: scores", "kind: score", "Did you mean 'scores'?"),
    "unknown option": ("text: text", "identity_rows: rate", "Did you mean 'rated'?"),
    "unknown policy": ("own.yaml", "defualt", "Did you mean 'default'?"),
    "unknown identity": ("[gay]", "[gays]", "must have the column 'gays'; it has 'id', "),
    "unknown file": ("scores.csv", "score.csv", "does not exist. Did you mean 'scores.csv'?"),
    "a folder as file": ("path: rows.csv", "path: .", "must be a file; it is a folder"),
    "identities that are no list": ("[gay]", "gay", "must be a list of columns, as in [gay]"),
    "two characters between cells": (
        "text: text",
        "separator: '||'",
        "separator: String should have at most 1 character",
    ),
    "ids that are the texts": ("text: text", "text: id", "must be different columns"),
    "no slice of that name": ("text: text", "slices: [shrt]", "must have the column 'shrt'"),
    "no cluster of that name": ("text: text", "cluster: txt", "Did you mean 'text'?"),
    "a word for a section": ("own.yaml", "[own.yaml]", "policy: must be text"),
}
MODEL = """\
  - name: model
    kind: tfidf
    train_on: {name: t, source: table, path: rows.csv, text: text, identities: [gay]}
"""


@pytest.mark.parametrize("name", list(WRONG_FILES))
def test_a_wrong_evaluation_file_is_refused_with_a_hint(home, begun, name):
    old, new, message = WRONG_FILES[name]
    change(
        "file.yaml",
        "candidates:\n",
        f"candidates:\n{MODEL}" if "model" in name else "candidates:\n",
    )
    change("file.yaml", old, new) if "model" not in name else change(
        "file.yaml", "    text: text\n", "    required: true\n"
    )
    code, said = evaluate()
    assert message in said
    assert "Traceback" not in said
    assert (code, begun) == (2, [])
    assert not (home / "out").exists()


def test_a_model_is_refused_on_a_set_without_text(home, begun):
    change("file.yaml", "    text: text\n", "")
    change("file.yaml", "candidates:\n", f"candidates:\n{MODEL}")
    code, said = evaluate()
    assert "set 'rows' must have text for candidate 'model' of kind tfidf" in said
    assert (code, begun) == (2, [])
    assert not (home / "out").exists()


def rewrite(path, change):
    path.write_bytes(change(path.read_bytes()))


WRONG_TABLES = {
    "semicolons": (lambda b: b.replace(b",", b";"), 'set `separator: ";"`'),
    "tabs": (lambda b: b.replace(b",", b"\t"), r'set `separator: "\t"`'),
    "UTF-16": (lambda b: b.decode().encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
    "Latin-1 header": (lambda b: b.replace(b"gay", b"ga\xff"), "must be UTF-8. Line 1 is not"),
    "gzip": (gzip.compress, "is compressed with gzip, so its name must end in .gz"),
    "Excel": (lambda b: b"PK\x03\x04" + b, "it is a zip archive or an Excel workbook"),
    "Parquet": (lambda b: b"PAR1" + b, "is Parquet, so its name must end in .parquet"),
    "bzip2": (lambda b: b"BZh" + b, "it is with bzip2"),
    "no header": (lambda b: b.split(b"\n", 1)[1], "its first line is no header"),
    "other case": (lambda b: b.replace(b"label", b"Label"), "Did you mean 'Label'?"),
    "a column twice": (
        lambda b: b.replace(b"text", b"label", 1),
        "must have the column 'label' once",
    ),
    "nothing": (lambda _: b"", "must not be empty"),
}


@pytest.mark.parametrize("name", list(WRONG_TABLES))
def test_a_wrong_table_is_refused_before_any_flow_starts(home, begun, name):
    altered, message = WRONG_TABLES[name]
    rewrite(home / "rows.csv", altered)
    code, said = evaluate()
    assert message in said
    assert COMMENT not in said
    assert (code, begun) == (2, [])
    assert not (home / "out").exists()


def test_a_link_to_nothing_is_named(home, begun):
    (home / "rows.csv").unlink()
    (home / "rows.csv").symlink_to("nowhere.csv")
    code, said = evaluate()
    assert "rows.csv does not exist. It is a link to nowhere.csv." in said
    assert (code, begun) == (2, [])


UNWRITABLE = {
    "a file in the way": (["--output", "rows.csv"], "output", "rows.csv"),
    "a file as parent": (["--output", "rows.csv/out"], "output", "Not a directory"),
    "where nothing can be": (["--output", "/proc/out"], "output", "(/proc)"),
    "a store that is a file": (["--output", "o", "--store", "rows.csv"], "store", "rows.csv"),
    "a link to nothing": (["--output", "link"], "output", "No such file or directory"),
}


@pytest.mark.parametrize("name", list(UNWRITABLE))
def test_a_place_that_cannot_be_written_is_refused_before_work(home, begun, name):
    (home / "link").symlink_to("/nowhere/at/all")
    options, what, reason = UNWRITABLE[name]
    before = sorted(home.iterdir())
    code, said = run("evaluate", "file.yaml", *options)
    assert f"{what} " in said
    assert "must be a folder that can be written to; got: " in said
    assert reason in said
    assert (code, begun) == (2, [])
    assert sorted(home.iterdir()) == before


def test_a_port_in_use_is_refused_and_a_free_one_is_named(home, monkeypatch):
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("a server was started"))
    Gateway.of_store(home / "store").experiment("any")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = run("ui", "--store", home / "store", "--port", port)
    assert f"port {port} of 127.0.0.1 must be free" in said
    assert "choose a port: --port " in said
    assert code == 2


# ------------------------------------------------------------------ the registry


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
    assert "the rows in" in said
    assert code == 0, said


def test_a_champion_of_a_moved_store_can_be_required(moved):
    assert require_champion("toxicity", moved) == "models:/toxicity/1"


def test_a_moved_store_goes_on_evaluating_what_it_knows(moved, evaluated, monkeypatch, tmp_path):
    monkeypatch.chdir(evaluated)
    code, said = run("evaluate", "file.yaml", "--output", tmp_path / "out", "--store", moved)
    assert code == 0, said
    assert "models:/toxicity/1 is champion already" in said
    assert not (evaluated / "store").exists()  # nothing is written to the old place
    code, said = run("history", "toxicity", "--store", moved)
    assert code == 0
    assert "promotion" in said


def test_a_copied_store_does_not_read_or_change_the_first(evaluated, tmp_path):
    copy = Path(shutil.copytree(evaluated / "store", tmp_path / "copy"))
    Gateway.of_store(copy)
    for store in (evaluated / "store", copy):
        rows = stored_paths(store)
        assert rows
        assert all(row.startswith((store / "mlartifacts").as_uri()) for row in rows)


def stored_paths(store):
    with sqlite3.connect(store / "mlflow.db") as connection:
        rows = connection.execute(
            "SELECT artifact_uri FROM runs UNION SELECT source FROM model_versions"
        )
        return [one for (one,) in rows if one.startswith("file:")]


def test_a_database_copied_without_its_artifacts_is_left_alone(evaluated, tmp_path):
    shutil.copy(evaluated / "store" / "mlflow.db", tmp_path)
    Gateway.of_store(tmp_path)
    assert stored_paths(tmp_path) == stored_paths(evaluated / "store")


def test_artifacts_that_are_nowhere_are_a_finding(evaluated, tmp_path):
    copy = Path(shutil.copytree(evaluated / "store", tmp_path / "copy"))
    Gateway.of_store(copy)
    shutil.rmtree(copy / "mlartifacts")
    code, said = run("verify", "toxicity", "--store", copy)
    assert "artifacts must be at" in said
    assert code == 3


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("451aebb31d03", "it has an older one. Make a copy of the database, then run: mlflow db"),
        ("ffffffffffff", "a newer MLflow made it"),
    ],
)
def test_a_database_of_another_mlflow_says_what_to_do(evaluated, tmp_path, revision, message):
    shutil.copy(evaluated / "store" / "mlflow.db", tmp_path)
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
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


# ------------------------------------------------------------------ found in the rows


@pytest.fixture
def trained(monkeypatch):
    """What was trained."""
    calls = []
    monkeypatch.setattr(
        "tasks.scoring.training.train_and_register", lambda *_, **__: calls.append("trained")
    )
    return calls


SET = """\
evaluation_sets:
  - {name: other, source: table, path: other.csv, identities: [gay], text: text, OPTION}
"""
WRONG_ROWS = {
    "labels that are words": (
        {"label": ["toxic", "fine"] * (N // 2)},
        "required: true",
        "got words such as 'toxic', 'fine' (file {folder}/other.csv, column label). Say what each",
    ),
    "labels that are comments": ({}, "label: text", "column text, row 0, id 1000)"),
    "slices that are words": (
        {"short": ["yes", "no"] * (N // 2)},
        "slices: [short]",
        "got yes (file {folder}/other.csv, column short, row 0, id 1000)",
    ),
    "a decimal comma": (
        {"label": ["0,5", "1,0"] * (N // 2)},
        "required: true",
        "with a point for decimals; got 0,5",
    ),
    "one class": ({"label": 0}, "required: true", "measured rows have no positives"),
    "an unknown group": ({}, "power_mean_groups: [gays]", "Did you mean 'gay'?"),
}


@pytest.mark.parametrize("name", list(WRONG_ROWS))
@pytest.mark.usefixtures("prefect_server")
def test_wrong_rows_of_any_set_are_refused_before_training(home, trained, name):
    columns, option, message = WRONG_ROWS[name]
    frame().assign(**columns).to_csv(home / "other.csv", index=False)
    change("file.yaml", "evaluation_sets:\n", SET.replace("OPTION", option))
    change("file.yaml", "candidates:\n", f"candidates:\n{MODEL}")
    code, said = evaluate("--store", home / "store")
    assert message.format(folder=home) in said
    assert COMMENT not in said
    assert (code, trained) == (2, [])
    assert not (home / "out").exists()


@pytest.mark.usefixtures("prefect_server")
def test_a_wrong_training_set_is_refused_before_another_is_trained_on(home, trained):
    frame().assign(label=2).to_csv(home / "other.csv", index=False)
    second = MODEL.replace("model", "second").replace("rows.csv", "other.csv")
    change("file.yaml", "candidates:\n", f"candidates:\n{MODEL}{second}")
    code, said = evaluate("--store", home / "store")
    assert "got 2.0" in said
    assert (code, trained) == (2, [])
