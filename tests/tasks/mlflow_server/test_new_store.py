"""The database of a store is created atomically, and unfinished databases are replaced."""

import os
import sqlite3
import threading
from contextlib import closing

import pytest
import sqlalchemy
from mlflow.store.db import utils
from mlflow.store.tracking.dbmodels.initial_models import Base as InitialTables

from benchmarks.campaigns.new_stores import campaign
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server import local_store
from biasgate.tasks.mlflow_server.local_store import DATABASE
from biasgate.tasks.mlflow_server.runs import Gateway


@pytest.fixture
def _made_by_mlflow(monkeypatch):
    """Let MLflow create the tables; other tests use a copy."""
    monkeypatch.setattr(local_store, "_create_tables", local_store._create_tables.make)


def is_used(store):
    gateway = Gateway.from_store(store)
    run = gateway.ensure_run(gateway.ensure_experiment("any"), "key", "name")
    return gateway.client.get_run(run).info.status == "RUNNING"


def leave_half(store, seconds_ago=3600.0):
    """Create the unfinished database that MLflow has after its first step."""
    engine = sqlalchemy.create_engine(f"sqlite:///{store / DATABASE}")
    InitialTables.metadata.create_all(engine)
    engine.dispose()
    age(store / DATABASE, seconds_ago)


def age(file, seconds_ago):
    then = file.stat().st_mtime - seconds_ago
    os.utime(file, (then, then))


def execute(store, command):
    with closing(sqlite3.connect(store / DATABASE)) as connection, connection:
        return connection.execute(command).fetchall()


@pytest.mark.usefixtures("_made_by_mlflow")
def test_a_database_whose_making_fails_does_not_appear_and_is_made_next_time(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(utils, "_upgrade_db", lambda _: pytest.fail("the power went off"))
        with pytest.raises(pytest.fail.Exception, match="power"):
            _ = Gateway.from_store(tmp_path).client
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []
    assert is_used(tmp_path)


def test_an_unfinished_database_that_holds_nothing_is_made_again(tmp_path):
    leave_half(tmp_path)
    assert is_used(tmp_path)


def test_an_empty_file_in_its_place_is_made_a_database(tmp_path):
    (tmp_path / DATABASE).touch()
    age(tmp_path / DATABASE, 3600)
    assert is_used(tmp_path)


def test_an_unfinished_database_that_holds_a_run_is_left_alone(tmp_path):
    leave_half(tmp_path)
    execute(tmp_path, "INSERT INTO runs (run_uuid, name) VALUES ('r', 'precious')")
    before = (tmp_path / DATABASE).read_bytes()
    Gateway.from_store(tmp_path)
    assert (tmp_path / DATABASE).read_bytes() == before


def test_a_database_that_another_program_is_making_is_waited_for(tmp_path, monkeypatch):
    leave_half(tmp_path, seconds_ago=0)
    waited = []

    def finish(_):
        waited.append(True)
        command = "INSERT INTO experiments (experiment_id, name, lifecycle_stage) "
        execute(tmp_path, command + "VALUES (0, 'theirs', 'active')")

    monkeypatch.setattr(local_store.time, "sleep", finish)
    Gateway.from_store(tmp_path)
    assert waited == [True]
    assert execute(tmp_path, "SELECT name FROM experiments") == [("theirs",)]


def test_the_journal_of_a_database_that_is_missing_is_not_applied_to_the_new_one(tmp_path):
    journal = tmp_path / f"{DATABASE}-journal"
    journal.write_bytes(b"of another database")
    assert is_used(tmp_path)
    assert not journal.exists()


@pytest.mark.usefixtures("_made_by_mlflow")
def test_two_at_once_make_one_database(tmp_path, monkeypatch):
    made, create, together = [], local_store._create_tables, threading.Barrier(2)
    monkeypatch.setattr(local_store, "_create_tables", lambda *places: made.append(create(*places)))

    def open_store():
        together.wait()
        Gateway.from_store(tmp_path)

    threads = [threading.Thread(target=open_store) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [None]


@pytest.mark.usefixtures("_made_by_mlflow")
def test_the_default_experiment_of_mlflow_keeps_its_files_in_the_store(tmp_path):
    Gateway.from_store(tmp_path)
    [(place,)] = execute(tmp_path, "SELECT artifact_location FROM experiments")
    assert place.startswith((tmp_path / "mlartifacts").as_uri())


def test_that_a_database_is_created_is_said_only_of_a_new_store(tmp_path, caplog):
    with caplog.at_level("INFO", "biasgate.steps"):
        Gateway.from_store(tmp_path)
        assert "creating the store's MLflow database" in caplog.text
        caplog.clear()
        Gateway.from_store(tmp_path)
    assert caplog.text == ""


@pytest.mark.usefixtures("_made_by_mlflow")
def test_the_database_is_in_the_folder_that_was_named(tmp_path):
    name = "a#b + *.* [c] ä"
    Gateway.from_store(tmp_path / name)
    assert (tmp_path / name / DATABASE).is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["what?", "100%"])
def test_what_has_a_meaning_in_addresses_is_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(InputError, match=f"must not have `[{name[-1]}]` in its path"):
        Gateway.from_store(tmp_path / name)
    assert list((tmp_path / name).iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "times"), [("kill", 8), ("pair", 3), ("full disk", 3)])
def test_no_store_dies_while_it_is_made(tmp_path, kind, times):
    trials = list(campaign(tmp_path, kind, times))
    assert len(trials) == times
    assert [trial for trial in trials if trial.problems] == []
