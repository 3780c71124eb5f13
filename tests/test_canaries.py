"""No command says, logs or keeps the text of a comment, also where it fails; frozen sets do."""

import csv
import hashlib
import os
import re
import sqlite3
import zipfile
from contextlib import closing

import pyarrow.parquet as pq
import pytest
import yaml
from prefect import settings
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.cleaning import ITEM_DEPTHS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server")]
N = 320
# Each comment has a word of its own, of letters that no other text puts in such an order.
LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
CANARY = re.compile(rb"(?=([g-v]{12}))")
FUNCTION = """\
def fine(texts):
    return [(len(text) % 7) / 7 for text in texts]

def fails(texts):
    raise ValueError(f"cannot score {texts}")
"""


def canary(file, number):
    return hashlib.sha256(f"{file} {number}".encode()).hexdigest()[:12].translate(LETTERS)


KNOWN = {canary(file, number).encode() for file in ("rows", "train") for number in range(N)}


def quoted(content):
    """Return the canaries in some bytes."""
    return {found[1] for found in CANARY.finditer(content)} & KNOWN


def write_inputs(folder):
    """Write two tables of comments, scores, functions, and evaluation files, good and bad."""
    for file in ("rows", "train"):
        with (folder / f"{file}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", "text", "label", "gay", "tall", "prediction"])
            for at in range(N):
                label, word = at % 3 == 0, "awful" if at % 3 == 0 else "pleasant"
                person = ["gay", "tall", "new"][at % 7 % 3]
                text = f"{canary(file, at)} this {person} person is {word}"
                given = [int(label), int(person == "gay"), int(person == "tall")]
                writer.writerow([f"{file}{at}", text, *given, round(label / 2 + at % 10 / 21, 4)])
    with (folder / "rows.csv").open(newline="") as stream:
        lines = [f"{row['id']},{row['prediction']}" for row in csv.DictReader(stream)]
    (folder / "scores.csv").write_text("\n".join(["id,prediction", *lines]))
    (folder / "own.py").write_text(FUNCTION)
    policy = {"version": 1, "name": "own", "allow_first": True}
    rule = {"metric": "auc", "scope": "overall", "floor": 0.1, "mode": "estimate"}
    (folder / "own.yaml").write_text(yaml.safe_dump(policy | {"rules": [rule]}))
    rows = {"name": "rows", "source": "table", "path": "rows.csv", "text": "text"}
    rows |= {"identities": ["gay", "tall"]}
    filed = {"name": "filed", "kind": "scores", "path": "scores.csv", "register": "shop"}
    called = {"name": "called", "kind": "python", "call": "own.py:fine", "version": "1"}
    trained = {"name": "trained", "kind": "tfidf"}
    trained["train_on"] = rows | {"name": "train", "path": "train.csv"}
    content = {"name": "good", "registered_model": "shop", "policy": "own.yaml"}
    content |= {"evaluation_sets": [rows], "candidates": [filed, called, trained]}
    content["mitigation"] = {"methods": ["reweight"]}
    changed = {
        "good": {},
        "raises": {"candidates": [called | {"call": "own.py:fails"}]},
        "labels": {"evaluation_sets": [rows | {"label": "text"}]},
        "ids": {"evaluation_sets": [rows | {"id": "text"}]},
        "identity": {"evaluation_sets": [rows | {"identities": ["text"]}]},
        "scores": {"candidates": [filed | {"path": "rows.csv", "score": "text"}]},
        "texts": {"candidates": [filed | {"path": "rows.csv"}]},
        "others": {"candidates": [filed | {"path": "train.csv"}]},
        "header": {"evaluation_sets": [rows | {"path": "bare.csv"}]},
        "rare": {"candidates": [trained | {"min_df": N + 1}]},
    }
    (folder / "bare.csv").write_text((folder / "rows.csv").read_text().partition("\n")[2])
    for name, more in changed.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content | {"name": name} | more))
    return list(changed)[1:]


def contents(path):
    """Yield what is in a file: its bytes, and what is packed in it."""
    yield path.read_bytes()
    if path.suffix == ".parquet":
        yield "\n".join(map(str, pq.read_table(path).to_pylist())).encode()
    elif path.suffix == ".db":
        with closing(sqlite3.connect(path)) as connection:
            connection.text_factory = lambda text: text.decode(errors="replace")
            yield "\n".join(connection.iterdump()).encode()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())


def test_no_command_says_or_keeps_a_comment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = write_inputs(tmp_path)
    given = set(tmp_path.iterdir())
    on_set = "out/rows/filed"
    commands = [
        "evaluate good.yaml --output out",
        "show out",
        "show out --markdown",
        f"compare {on_set} out/rows/called",
        "nightly good.yaml --output nights",
        "trend good",
        "history shop --all",
        "verify shop",
        "promote shop 1 --reason tried",
        "rollback shop --reason tried",
        "mitigate good.yaml --output mitigated --candidate trained",
        "policy check own.yaml",
        f"policy plan own.yaml {on_set}",
        "doctor",
        "clean --keep 1d",
        *(f"evaluate {name}.yaml --output out-{name}" for name in wrong),
    ]
    said, codes = {}, {}
    for command in commands:
        words = command.split()
        takes_none = words[0] in {"show", "compare", "policy"}
        result = CliRunner().invoke(app, [*words, *([] if takes_none else ["--store", "store"])])
        codes[command] = result.exit_code
        said[command] = f"{result.output}{result.stderr}{result.exception!r}".encode()
    assert {command: found for command, text in said.items() if (found := quoted(text))} == {}
    failed = [command for command, code in codes.items() if code not in {0, 3, 4}]
    expected = [f"evaluate {name}.yaml --output out-{name}" for name in wrong]
    assert failed == expected, {command: said[command][-600:] for command in failed}
    places = [path for path in tmp_path.rglob("*") if path.is_file() and path not in given]
    places += [path for path in settings.PREFECT_HOME.value().rglob("*") if path.is_file()]
    holding = {
        path.relative_to(tmp_path).parts[:2] if path.is_relative_to(tmp_path) else path.name
        for path in places
        if any(map(quoted, contents(path)))
    }
    # Frozen sets have the texts, and the log of the function that printed them says that it may.
    assert {("store", "sets")} <= holding <= {("store", "sets"), ("store", "logs")}
    store = tmp_path / "store"
    parts = {path.name for path in store.iterdir() if path.name[0] != "."}
    assert {"sets", "scores", "logs"} <= parts <= {*ITEM_DEPTHS, "mlflow.db", "mlartifacts"}
    for path in store.rglob("*"):
        os.utime(path, (0, 0))
    cleaned = CliRunner().invoke(app, ["clean", "--keep", "1d", "--yes", "--store", "store"])
    assert cleaned.exit_code == 0, cleaned.output
    assert not [path for path in (store / "logs").iterdir() if path.name[0] != "."]
