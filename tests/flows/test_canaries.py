"""Texts that are also cluster or id: comments do not leave the frozen sets."""

import sqlite3
from contextlib import closing

import pytest
from support.contents import contents
from support.evaluations import COMMENT, change, evaluate, write_inputs


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A working directory with a valid evaluation."""
    monkeypatch.chdir(write_inputs(tmp_path))
    return tmp_path


def places(folder):
    return {name for name, text in contents(folder) if COMMENT in text}


@pytest.mark.evaluates
@pytest.mark.usefixtures("prefect_server")
def test_clusters_that_are_the_comments_are_numbers_in_scores_evidence_and_mlflow(home):
    change("file.yaml", "text: text", "text: text\n    cluster: text")
    code, printed = evaluate("--store", home / "store", "--submission")
    assert code in {0, 3, 4}, printed
    assert COMMENT not in printed
    assert list((home / "out").rglob("evidence.parquet"))
    assert places(home / "out") == set()
    assert {name for name in places(home / "store") if "/sets/" not in name} == set()
    assert places(home / "store" / "sets")
    with closing(sqlite3.connect(home / "store" / "mlflow.db")) as database:
        assert COMMENT not in "\n".join(database.iterdump())
    database.close()


@pytest.mark.usefixtures("prefect_server")
def test_ids_that_are_the_comments_are_refused_before_anything_is_kept(home):
    change("rows.csv", f"{COMMENT} ", f"this is a {COMMENT} ")
    change("file.yaml", "    text: text\n", "    id: text\n")
    code, printed = evaluate("--store", home / "store")
    assert "an id must not look like a comment" in printed
    assert COMMENT not in printed
    assert code == 2
    assert places(home / "store") == set()
