"""Concurrent promoters in separate processes."""

import multiprocessing
import os
import shutil
import traceback
from concurrent.futures import ProcessPoolExecutor

import pytest
from support.postgresql import mlflow_on_postgresql
from support.promoted import (
    MODEL,
    frozen_set,
    judge_against_now,
    judged_version,
    local,
    promote_one,
    registered_version,
    scores_of,
)

from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import verify_model

FORK = multiprocessing.get_context("fork")
ROUNDS = 30
DECISIONS, WORKERS, GOOD = 25, 8, 5  # every fifth candidate is good enough
pytestmark = pytest.mark.slow


# ------------------------------------------------------------------ two promoters, many times


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Three versions: 1 is champion; 2 and 3 passed against it."""
    folder = tmp_path_factory.mktemp("judged")
    gateway = local(folder)
    frozen_set(folder)
    first = judged_version(gateway, folder, folder / "first")
    assert promote_one([first[1]], first[0], gateway).promoted
    rivals = [
        judged_version(gateway, folder, folder / name, champion=first, seed=seed)
        for seed, name in enumerate(("second", "third"), 1)
    ]
    assert [verdict.outcome for _, verdict, _ in rivals] == ["pass", "pass"]
    return folder, [verdict for _, verdict, _ in rivals]


def promote_version_at(barrier, uri, number, verdict, results):
    try:
        gateway = Gateway(uri)
        version = gateway.resolve(f"models:/{MODEL}/{number}")
        barrier.wait(60)
        decision = promote_one([verdict], version, gateway)
    except Exception:  # noqa: BLE001 - whatever it is, the test tells it
        decision = {"error": traceback.format_exc()}
    results.put((number, decision))
    results.close()
    results.join_thread()
    # Without ending what is the parent's, such as Prefect's server.
    os._exit(isinstance(decision, dict))


def test_of_two_promoters_at_once_one_moves_the_alias_and_the_other_is_to_judge_again(
    judged, tmp_path
):
    folder, verdicts = judged
    winners = []
    for round_ in range(ROUNDS):
        database = shutil.copy(folder / "mlflow.db", tmp_path / f"{round_}.db")
        uri = f"sqlite:///{database}"
        barrier, results = FORK.Barrier(2), FORK.Queue()
        racers = [
            FORK.Process(target=promote_version_at, args=(barrier, uri, number, verdict, results))
            for number, verdict in zip(("2", "3"), verdicts, strict=True)
        ]
        for racer in racers:
            racer.start()
        decisions = dict(results.get(timeout=120) for _ in racers)
        for racer in racers:
            racer.join(60)
            assert racer.exitcode == 0, decisions
        [winner] = [number for number, one in decisions.items() if one.promoted]
        [loser] = [number for number, one in decisions.items() if one.champion_moved]
        gateway = Gateway(uri)
        assert {winner, loser} == {"2", "3"}
        assert gateway.get_alias(MODEL, "champion").version == winner
        assert gateway.get_alias(MODEL, "previous_champion").version == "1"
        assert "open" not in {item.state for item in Ledger(gateway, MODEL).read_entries()}
        assert all(finding.holds for finding in verify_model(MODEL, None, gateway, folder))
        winners.append(winner)
    assert len(winners) == ROUNDS


# ------------------------------------------------------------------ many decisions, PostgreSQL


@pytest.fixture
def server(tmp_path):
    """An MLflow server with its own PostgreSQL."""
    with mlflow_on_postgresql(tmp_path) as uri:
        yield uri


def judge_and_decide(uri, store, folder, number):
    """Judge against the current champion; repeat while the champion moves."""
    gateway = Gateway(uri)
    name = f"candidate-{number}"
    version = registered_version(gateway, folder, name)
    scores = scores_of(store, seed=number, noise=1.6 if number % GOOD == 0 else 30.0)
    moved = True
    while moved:
        verdict = judge_against_now(gateway, store, folder / name / "judged", version, scores)
        decision = promote_one([verdict], version, gateway)
        moved = decision.champion_moved
    return number, version.version, verdict.outcome, decision


def test_decisions_from_eight_processes_are_neither_lost_nor_doubled(server, tmp_path):
    store = tmp_path / "store"
    frozen_set(store)
    with ProcessPoolExecutor(WORKERS, mp_context=FORK) as workers:
        arguments = (server, store, tmp_path / "made")
        futures = [
            workers.submit(judge_and_decide, *arguments, number) for number in range(DECISIONS)
        ]
        decided = [future.result() for future in futures]
    gateway = Gateway(server)
    good = {number for number, _, outcome, _ in decided if outcome == "pass"}
    assert good == set(range(0, DECISIONS, GOOD))
    assert sorted(number for number, *_ in decided) == list(range(DECISIONS))
    versions = gateway.list_versions(MODEL)
    assert len(versions) == len({version for _, version, *_ in decided}) == DECISIONS
    assert len({version.tags["biasgate.comments.run_id"] for version in versions}) == DECISIONS
    entries = Ledger(gateway, MODEL).read_entries()
    assert [item.number for item in entries] == list(range(1, len(entries) + 1))
    done = [item for item in entries if item.state == "done"]
    promoted = {version for _, version, _, decision in decided if decision.promoted}
    assert len(done) == len(promoted) == len({item.content.version for item in done})
    # Whoever passed was promoted, or told that a later version was champion or is better.
    stayed = {
        version: decision.sentence
        for number, version, _, decision in decided
        if number in good and not decision.promoted
    }
    assert promoted | stayed.keys() == {
        version for number, version, *_ in decided if number in good
    }
    assert all("passed, but champion of" in sentence for sentence in stayed.values())
    assert all("`promote: newer`: " in sentence for sentence in stayed.values())
    order = [int(item.content.version) for item in done]
    assert order == sorted(order)
    # Every promotion replaced the one before: none was lost.
    replaced = ["", *(item.content.version for item in done)]
    assert [item.content.replaces for item in done] == replaced[:-1]
    assert gateway.get_alias(MODEL, "champion").version == replaced[-1]
    assert all(item.state != "open" for item in entries)
