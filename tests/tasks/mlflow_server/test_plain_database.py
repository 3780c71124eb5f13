"""Databases with computed content are refused by every command that opens them."""

import shutil
import sqlite3
from contextlib import closing
from functools import partial

import pytest
from support.promoted import MODEL, frozen_set, judged_version, local, promote_one
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server import local_store
from biasgate.tasks.mlflow_server.local_store import DATABASE, open_read_only
from biasgate.tasks.mlflow_server.runs import Gateway

TWO_FACED = """ALTER TABLE registered_model_aliases RENAME TO rma;
CREATE VIEW registered_model_aliases AS SELECT alias, CASE WHEN alias = 'champion'
AND NOT ('A' LIKE 'a') THEN 2 ELSE version END AS version, name, workspace FROM rma;"""
ENDLESS = """ALTER TABLE registered_model_aliases RENAME TO rma;
CREATE VIEW registered_model_aliases AS WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1
FROM x) SELECT alias, version, name, workspace FROM rma, x WHERE n < 0;"""
COMPUTED = """ALTER TABLE registered_model_aliases RENAME TO rma;
CREATE TABLE registered_model_aliases (alias, name, workspace, version AS
(length(name) - length(name) + 2), PRIMARY KEY (name, alias, workspace));
INSERT INTO registered_model_aliases SELECT alias, name, workspace FROM rma;"""
VIRTUAL = """ALTER TABLE registered_model_aliases RENAME TO rma;
CREATE VIRTUAL TABLE registered_model_aliases USING fts4(alias, version, name, workspace);"""
TRIGGER = """CREATE TRIGGER other AFTER INSERT ON model_version_tags BEGIN
UPDATE registered_model_aliases SET version = 2; END;"""
OWN_NAME = """DROP TRIGGER prevent_secrets_aad_mutation;
CREATE TRIGGER prevent_secrets_aad_mutation AFTER INSERT ON model_version_tags BEGIN
UPDATE registered_model_aliases SET version = 2; END;"""
KEYLESS = """ALTER TABLE registered_model_aliases RENAME TO rma;
CREATE TABLE registered_model_aliases AS SELECT * FROM rma;
INSERT INTO registered_model_aliases SELECT * FROM rma;"""

OTHER_KEY = """ALTER TABLE registered_model_aliases RENAME TO rma;
CREATE TABLE registered_model_aliases (alias, name, workspace, version, n INTEGER PRIMARY KEY);
INSERT INTO registered_model_aliases SELECT alias, name, workspace, version, NULL FROM rma;"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        gateway = local(folder / "store")
        frozen_set(folder / "store")
        first = judged_version(gateway, folder / "store", folder / "first")
        assert promote_one([first[1]], first[0], gateway).promoted
    return folder / "store"


@pytest.fixture
def store(made, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return shutil.copytree(made, tmp_path / "store")


def change(store, script):
    with closing(sqlite3.connect(store / DATABASE)) as connection:
        connection.executescript(script)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (TWO_FACED, "it has a view named 'registered_model_aliases'"),
        (ENDLESS, "it has a view named 'registered_model_aliases'"),
        (COMPUTED, "column 'version' of table 'registered_model_aliases' is computed"),
        (VIRTUAL, "it has a virtual table named 'registered_model_aliases'"),
        (TRIGGER, "it has a trigger named 'other'"),
        (OWN_NAME, "it has a trigger named 'prevent_secrets_aad_mutation'"),
        (KEYLESS, "'registered_model_aliases' of MLflow's database must have the primary key"),
        (OTHER_KEY, "'registered_model_aliases' of MLflow's database must have the primary key"),
    ],
)
def test_what_computes_is_refused_on_every_road(store, monkeypatch, script, message):
    uri = f"sqlite:///{store / DATABASE}"
    change(store, script)
    addresses = (uri, f"{uri}?timeout=5", uri.replace("sqlite", "sqlite+pysqlite"))
    for road in (
        lambda: local(store),
        *(partial(Gateway.from_uri, address) for address in addresses),
    ):
        with pytest.raises(InputError, match=message):
            road()
    result = CliRunner().invoke(app, ["verify", MODEL, "--store", str(store)])
    assert result.exit_code not in {0, None}
    assert "MLflow's database must" in " ".join(result.output.split())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert CliRunner().invoke(app, ["verify", MODEL, "--store", str(store)]).exit_code != 0


def test_the_settings_are_the_ones_of_mlflow(store):
    gateway = local(store)
    with gateway.client._tracking_client.store.ManagedSessionMaker() as session:
        theirs = session.connection().connection.dbapi_connection
        with open_read_only(store / DATABASE) as ours:
            for question in ("SELECT 'A' LIKE 'a'", "PRAGMA foreign_keys", "PRAGMA busy_timeout"):
                assert ours.execute(question).fetchall() == theirs.execute(question).fetchall()


def test_a_query_that_does_not_end_is_stopped(store, monkeypatch):
    assert local_store.DEADLINE_S < 120
    monkeypatch.setattr(local_store, "DEADLINE_S", 0.1)
    endless = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT sum(n) FROM x"
    with (
        pytest.raises(InputError, match=r"must answer within 0\.1 s; it did not"),
        open_read_only(store / DATABASE) as connection,
    ):
        connection.execute(endless).fetchall()
