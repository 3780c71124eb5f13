"""Notifications of an evaluation; the receiver's address is not stored or printed."""

import sqlite3
from contextlib import closing, contextmanager

import pytest
from prefect import get_client
from support.receiver import TOKEN, receiving

pytestmark = pytest.mark.slow

HOOK = {"kind": "webhook", "url": "${HOOK}", "when": ["pass", "block", "insufficient", "error"]}
SCORES = {"name": "shifted", "kind": "scores", "path": "shifted.csv"}


def files_with(text, folder):
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_a_block_is_told_and_the_address_is_kept_nowhere(world, first, logged, monkeypatch):
    del first
    with receiving() as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        result = world.evaluate("told", candidates=[SCORES], notifications=[HOOK])
    [message] = arrived
    assert result.state.name == "Blocked"
    assert message["outcome"] == "block"
    assert message["run_id"] == result.state.result().run_id
    assert not any(row["mark"] in str(message) for row in world.rows)
    assert files_with(TOKEN.encode(), world.folder) == []
    with closing(sqlite3.connect(world.store / "mlflow.db")) as database:
        assert TOKEN not in "\n".join(database.iterdump())
    database.close()
    with get_client(sync_client=True) as client:
        assert TOKEN not in str(client.read_flow_runs(limit=5))
        assert TOKEN not in str([record.message for record in client.read_logs(limit=200)])
    assert not [line for line in logged if TOKEN in line]


def test_a_receiver_that_fails_changes_nothing(world, first, logged, monkeypatch):
    del first
    with receiving(500) as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        result = world.evaluate("untold", candidates=[SCORES], notifications=[HOOK])
    assert len(arrived) == 1
    assert result.state.name == "Blocked"
    assert result.state.is_completed()
    sentence = "notification 1 (webhook) was not delivered: the receiver answered 500."
    assert sentence in logged


def test_a_bar_counts_the_identities_that_are_measured(world, first, monkeypatch):
    del first
    bars = {}

    @contextmanager
    def progress(what, total, unit):
        bars[what] = (total, unit, [])
        yield bars[what][2].append

    monkeypatch.setattr("biasgate.flows.evaluate.show_progress", progress)
    result = world.evaluate("counted", candidates=[SCORES])
    [(total, unit, steps)] = bars.values()
    [name] = bars
    assert name.startswith("measuring shifted on ")
    assert (total, unit) == (sum(steps), "identities")
    assert total == result.state.result().verdicts[0].holds_for.of


def test_a_crash_is_told_by_the_kind_of_its_error(world, first, monkeypatch):
    del first
    monkeypatch.setattr("biasgate.flows.score.look_up_rivals", lambda *_: 1 / 0)
    with receiving() as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        result = world.evaluate("crashed", candidates=[SCORES], notifications=[HOOK])
    assert result.state.is_failed()
    assert arrived == [{"evaluation": "small", "outcome": "error", "error": "ZeroDivisionError"}]
