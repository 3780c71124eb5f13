"""Plausible mistakes of a new user of the command: what it says, and that nothing was started."""

import gzip
import logging
import os
import socket

import pytest
from support.evaluations import COMMENT, N, change, evaluate, frame, run, write_inputs
from support.published import publish

from biasgate import cli
from biasgate.tasks.mlflow_server.runs import Gateway


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Silence Prefect as the command does, which sets its level before Prefect is imported."""
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


@pytest.fixture
def begun(monkeypatch):
    """What was begun: commands of this test must refuse before any flow starts."""
    started = []
    monkeypatch.setattr(cli, "set_task_runner", lambda *_: started.append("flow"))
    return started


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a sound evaluation, where the commands run."""
    monkeypatch.chdir(write_inputs(tmp_path))
    return tmp_path


WRONG_FILES = {
    "unknown key": ("evaluation_sets:", "evaluation_set:", "Did you mean 'evaluation_sets'?"),
    "unknown key of a set": ("identities:", "identites:", "Did you mean 'identities'?"),
    "unknown source": ("source: table", "source: tabel", "Did you mean 'table'?"),
    "misspelt source": ("source: table", "sorce: table", "Did you write 'sorce' instead?"),
    "a format as source": ("source: table", "source: csv", "Write `source: table`: it reads CSV"),
    "a format as kind": ("kind: scores", "kind: csv", "Write `kind: scores` for a file of scores."),
    "unknown kind": ("kind: scores", "kind: score", "Did you mean 'scores'?"),
    "unknown option": ("text: text", "identity_rows: rate", "Did you mean 'rated'?"),
    "unknown policy": ("own.yaml", "defualt", "Did you mean 'default'?"),
    "unknown identity": ("[gay]", "[gays]", "must have the column 'gays'; it has 'id', "),
    "unknown file": ("scores.csv", "score.csv", "does not exist. Did you mean 'scores.csv'?"),
    "a folder as file": ("path: rows.csv", "path: .", "must be a file; it is a folder"),
    "a term that is no list": (
        "[gay]",
        "{gay: gay}\n    terms: {gay: gay}",
        "terms.gay: must be a list; got 'gay'.",
    ),
    "identities that are no list": ("[gay]", "gay", "must be a list of columns, as in [gay]"),
    "two characters between cells": (
        "text: text",
        "separator: '||'",
        "separator: String should have at most 1 character",
    ),
    "ids that are the texts": ("text: text", "text: id", "must be different columns"),
    "no slice of that name": ("text: text", "slices: [shrt]", "must have the column 'shrt'"),
    "no cluster of that name": ("text: text", "cluster: txt", "Did you mean 'text'?"),
    "a file for a registered model": (
        "kind: scores\n    path: scores.csv",
        "kind: mlflow\n    model: model.pkl",
        "must be a registered model, `models:/NAME/VERSION` or `models:/NAME@ALIAS`",
    ),
    "a variable within braces": (
        "policy: own.yaml",
        "model_card: {contact: ${WHO}}",
        "Within braces, put quotes around a value that has a `${VARIABLE}`.",
    ),
    "a version of no registered model": (
        "registered_model: toxicity\n",
        "",
        "add `registered_model: toxicity`",
    ),
    "a name that is no folder": (
        "  - name: file",
        "  - name: my/model",
        "must be at most 100 letters, digits, spaces and characters of `_.-`, and start with",
    ),
    "a model that could not be named with an alias": (
        "registered_model: toxicity",
        "registered_model: team@x",
        "registered_model: must be at most 100 letters, digits, spaces and characters of `_.-`",
    ),
    "a candidate with an alias": ("- name: file", "- name: team@x", "candidates.0.name: must be"),
    "MLflow's own experiment": (
        "name: mistakes",
        "name: Default",
        "`name` must not be Default, which is MLflow's own experiment",
    ),
    "a name too long for MLflow": (
        "identities: [gay]",
        f"identities: {{{'a' * 300}: gay}}",
        "with 300 characters",
    ),
    "comments as a list that is complete": (
        "text: text",
        "population: these_rows",
        "is for phrases made from templates: set `cluster` to the column of their template.",
    ),
    "phrases alone for promotion": (
        "text: text",
        "text: text\n    cluster: text\n    population: these_rows",
        "promotion needs another required set that is",
    ),
    "an analysis that is no list": (
        "policy: own.yaml",
        "policy: own.yaml\nanalyses: intersections",
        "analyses: must be a list of analyses, as in [intersections]; got 'intersections'.",
    ),
    "any analysis with sampling weights": (
        "candidates:",
        "    weight: id\nanalyses: [intersections]\ncandidates:",
        "analysis intersections: evaluation set 'rows' must have no sampling weights;",
    ),
    "a word for a section": ("own.yaml", "[own.yaml]", "policy: must be text"),
}
MODEL = """\
  - name: model
    kind: tfidf
    train_on: {name: t, source: table, path: rows.csv, text: text, identities: [gay]}
"""


@pytest.mark.usefixtures("home")
def test_a_missing_evaluation_file_is_refused_with_a_similar_one(begun):
    code, said = run("evaluate", "fille.yaml", "--output", "out")
    assert "fille.yaml does not exist. Did you mean 'file.yaml'?" in said
    assert (code, begun) == (2, [])


def test_results_of_another_evaluation_are_not_overwritten_unasked(home, begun):
    publish(home / "out", candidates={"one": {}})
    before = (home / "out/summary.json").read_bytes()
    code, said = evaluate()
    assert "out must be new, or have results of evaluation 'mistakes'; it has those" in said
    assert (code, begun) == (2, [])
    assert (home / "out/summary.json").read_bytes() == before


@pytest.mark.parametrize("name", list(WRONG_FILES))
def test_a_wrong_evaluation_file_is_refused_with_a_hint(home, begun, name):
    old, new, message = WRONG_FILES[name]
    change("file.yaml", old, new)
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
    "bzip2": (lambda b: b"BZh" + b, "it is compressed with bzip2"),
    "no header": (lambda b: b.split(b"\n", 1)[1], "its first line is not a header"),
    "other case": (lambda b: b.replace(b"label", b"Label"), "Did you mean 'Label'?"),
    "a column twice": (lambda b: b.replace(b"text", b"label", 1), "the column 'label' once"),
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
    assert "rows.csv does not exist. It is a broken link to nowhere.csv." in said
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


@pytest.mark.parametrize("command", ["evaluate", "nightly", "mitigate", "count"])
def test_a_store_inside_the_results_is_refused_before_work(home, begun, command):
    config = "file.yaml"
    if command == "count":
        (home / "count.yaml").write_text("source: shards")
        command, config = "evaluate", "count.yaml"
    before = sorted(home.iterdir())
    for places in (["--output", "."], ["--output", "o", "--store", "o/s"]):
        code, said = run(command, config, *places)
        assert (code, "must be separate folders, neither inside the other" in said) == (2, True), (
            said
        )
    code, said = run("demo", "--output", "..")
    assert (code, "must be separate folders, neither inside the other" in said) == (2, True), said
    assert (begun, sorted(home.iterdir())) == ([], before)


def test_where_no_model_is_registered_the_command_says_how_one_is(home):
    Gateway.from_store(home / "store").ensure_experiment("any")
    code, said = run("history", "toxicity", "--store", home / "store")
    assert "(known: none). An evaluation with `registered_model: NAME` registers" in said
    assert code == 2


def test_a_port_in_use_is_refused_and_a_free_one_is_named(home, monkeypatch):
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("a server was started"))
    Gateway.from_store(home / "store").ensure_experiment("any")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = run("ui", "--store", home / "store", "--port", port)
    assert f"port {port} of 127.0.0.1 must be free" in said
    assert "choose a port: --port " in said
    assert code == 2


# ------------------------------------------------------------------ found in the rows


@pytest.fixture
def trained(monkeypatch):
    """What was trained."""
    calls = []
    monkeypatch.setattr(
        "biasgate.tasks.scoring.training.train_and_register",
        lambda *_, **__: calls.append("trained"),
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
        "got words such as 'toxic', 'fine' (file {folder}/other.csv, column label). Map each word",
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
        'got 0,5 (file {folder}/other.csv, column label, row 0, id 1000). Set `decimal: ","`',
    ),
    "labels that are percentages": ({"label": [0, 100] * (N // 2)}, "required: true", "by 100."),
    "labels that are codes": (
        {"label": [-1, 1] * (N // 2)},
        "required: true",
        "If the numbers are codes, map each to a label, as in `label_values:",
    ),
    "labels that are missing": (
        {"label": [1, None, 0, 0] * (N // 4)},
        "required: true",
        'rows have none. Remove these rows: `t.dropna(subset=["label"])`.',
    ),
    "words for an identity": (
        {"gay": ["said", "unsaid"] * (N // 2)},
        "required: true",
        "0 for none, in pandas `t['gay'].map({{'said': ..., 'unsaid': ...}})`.",
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


FUNCTION = """\
  - {name: own, kind: python, call: "own.py:score", version: "1"}
"""


def test_a_file_without_the_function_is_refused_before_any_flow_starts(home, begun):
    (home / "own.py").write_text("def scores(texts): return [0.5] * len(texts)\n")
    change("file.yaml", "candidates:\n", f"candidates:\n{FUNCTION}")
    code, said = evaluate()
    assert "own.py has no 'score'. Did you mean 'scores'?" in said
    assert (code, begun) == (2, [])


@pytest.mark.usefixtures("prefect_server")
def test_a_function_that_cannot_be_imported_is_refused_before_any_candidate_scores(home):
    (home / "own.py").write_text("import not_there_at_all\ndef score(texts): return texts\n")
    change("file.yaml", "policy: own.yaml", f"{FUNCTION}policy: own.yaml")
    code, said = evaluate("--store", home / "store")
    assert "'not_there_at_all' must be installed" in said
    assert "scoring file on rows" not in said
    assert code == 2


@pytest.mark.usefixtures("prefect_server")
def test_a_wrong_training_set_is_refused_before_another_is_trained_on(home, trained):
    frame().assign(label=2).to_csv(home / "other.csv", index=False)
    second = MODEL.replace("model", "second").replace("rows.csv", "other.csv")
    change("file.yaml", "candidates:\n", f"candidates:\n{MODEL}{second}")
    code, said = evaluate("--store", home / "store")
    assert "got 2.0" in said
    assert (code, trained) == (2, [])
