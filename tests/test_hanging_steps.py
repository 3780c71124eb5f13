"""A candidate that never answers: the time limit of steps ends the run.

Each trial is a real command or worker, whose step waits for a socket: no error can be raised there.
"""

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import psutil
import pytest
import yaml
from support.evaluations import FILE, write_inputs
from support.receiver import receiving
from support.served import ask
from support.services import serving
from support.workers import SHIPPED, WORKER, deploy

pytestmark = pytest.mark.slow

LIMIT_S = 20  # a busy machine needs some seconds to open a candidate
HOOK = {"kind": "webhook", "url": "${HOOK}", "when": ["error"]}
PATIENCE_S = 300


@pytest.fixture
def service():
    with serving("mlflow") as found:
        yield found


@pytest.fixture
def folder(tmp_path, service, monkeypatch, prefect_home):
    """An evaluation of a file, and of a service that takes each request and never answers."""
    monkeypatch.setenv("SERVICE_KEY", "key")
    write_inputs(tmp_path)
    prefect_home(tmp_path / "home")
    served = service.candidate()
    content = yaml.safe_load(FILE.replace("    register: toxicity\n", ""))
    content["candidates"].append(served)
    content |= {"notifications": [HOOK], "step_timeout_s": LIMIT_S}
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(content), "utf-8")
    (tmp_path / "temporary").mkdir()
    service.always = "hang"
    return tmp_path


def evaluate(folder, hook):
    """Run the command; return its exit code, what it says, and the processes that it started."""
    environment = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    environment |= {"PREFECT_HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary")}
    environment["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = str(PATIENCE_S)
    command = [sys.executable, "-m", "biasgate", "evaluate", "file.yaml", "--output", "out"]
    with subprocess.Popen(
        [*command, "--store", "store", "--yes", "--json"],
        cwd=folder,
        env=environment | {"HOOK": hook},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        started = set()
        while process.poll() is None:
            started |= set(psutil.Process(process.pid).children(recursive=True))
            time.sleep(0.1)
        return process.returncode, process.stdout.read(), started


def selected(database, statement):
    with closing(sqlite3.connect(database)) as connection:
        return sorted(connection.execute(statement).fetchall())


def test_a_run_whose_step_hangs_ends_with_one_sentence_and_the_next_one_resumes(folder, service):
    with receiving() as (address, arrived):
        code, said, started = evaluate(folder, address)
    assert code == 1
    told = "step 'score served on rows' took longer than its limit of 20 s, "
    assert said.startswith(f"error: {told}`step_timeout_s` in file.yaml, so the run")
    assert said.endswith("Run it again to resume.\n")
    assert said.count("\n") == 1
    assert arrived == [{"evaluation": "mistakes", "outcome": "error", "error": "TimedOut"}]
    assert started
    assert [one for one in started if one.is_running()] == []
    assert list((folder / "temporary").iterdir()) == []
    prefect = folder / "home" / "prefect.db"
    flows = selected(prefect, "select name, state_type, state_name from flow_run")
    states = {name.partition(" ")[0].rstrip(":"): state for name, *state in flows}
    assert states["evaluate"] == states["score"] == ["FAILED", "TimedOut"], flows
    [[message]] = selected(prefect, "select message from log where level = 50")
    assert message.startswith(told)
    steps = dict(selected(prefect, "select name, state_name from task_run"))
    timed_out = {name for name, state in steps.items() if state == "TimedOut"}
    assert {one.partition("-")[0].partition(":")[0] for one in timed_out} == {
        "score served on rows",
        "score",
    }  # and its stage
    assert {state for name, state in steps.items() if name not in timed_out} == {"Completed"}
    [kept] = (folder / "store" / "scores").glob("*/*/record.json")
    before = kept.stat().st_mtime_ns
    service.always = None
    with receiving() as (address, arrived):
        code, said, _ = evaluate(folder, address)
    assert code == 3, said  # the scores of the service are random
    assert kept.stat().st_mtime_ns == before
    assert arrived == []
    assert selected(folder / "store" / "mlflow.db", "select distinct status from runs") == [
        ("FINISHED",)
    ]


def test_a_night_of_a_worker_whose_step_hangs_is_failed_with_its_reason(
    folder, prefect_services, running
):
    file = folder / "file.yaml"
    deploy(file, SHIPPED, prefect_services)
    with receiving() as (address, arrived):
        places = {"HOOK": address, "SERVICE_KEY": "key", "TMPDIR": str(folder / "temporary")}
        worker = running(WORKER, prefect_services | places)

        async def night(client):
            deployment = await client.read_deployment_by_name("nightly/worker")
            run = await client.create_flow_run_from_deployment(
                deployment.id, parameters={"yes": True}
            )
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline and worker.poll() is None:
                if (await client.read_flow_run(run.id)).state.is_final():
                    break
                await asyncio.sleep(1)

        ask(night, prefect_services)
        deadline = time.monotonic() + PATIENCE_S
        while psutil.Process(worker.pid).children(recursive=True) and time.monotonic() < deadline:
            time.sleep(1)
        time.sleep(5)  # for what the worker says of the exit code
    found = ask(lambda client: client.read_flow_runs(), prefect_services)
    log = (folder / "command.log").read_text("utf-8")
    begun = [one for one in found if str(file) in one.name and not one.state.is_scheduled()]
    states = {one.name.partition(" ")[0]: one.state for one in begun}
    assert states.keys() == {"nightly", "evaluate"}, log
    assert {(one.type.value, one.name) for one in states.values()} == {("FAILED", "TimedOut")}, log
    assert "took longer than its limit of 20 s" in states["nightly"].message, log
    assert "took longer than its limit of 20 s" in log
    assert arrived == [{"evaluation": "mistakes", "outcome": "error", "error": "TimedOut"}]
    assert [one.name for one in (folder / "temporary").iterdir() if "biasgate" in one.name] == []
    assert list((folder / "nightly").iterdir()) == []
