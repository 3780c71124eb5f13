"""A schedule that is stopped ends cleanly; a night that is due while it starts is not left out."""

import asyncio
import logging
import signal
import sys
import time
from datetime import UTC, datetime, timedelta

import httpx
import psutil
import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.schedules import Cron
from support.endless import CANDIDATE, SLOW
from support.evaluations import write_inputs
from support.served import PATIENCE_S, ask, wait_for_deployment

from biasgate.deployments.night_runner import _Server
from biasgate.deployments.nightly import deployment_name, schedule_since
from biasgate.flows.nightly import nightly

# In the background of a shell, Ctrl-C is ignored.
HEEDING_CTRL_C = """\
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("biasgate", run_name="__main__", alter_sys=True)
"""
EVERY_MINUTE = "* * * * *"


def _answer(code):
    request = httpx.Request("POST", "http://127.0.0.1/api")
    return httpx.HTTPStatusError(str(code), request=request, response=httpx.Response(code))


def of_deployment(one):
    """A filter for the runs of one deployment."""
    return FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[one]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")]
)
def test_a_schedule_that_is_stopped_cancels_its_night_and_ends_quietly(
    tmp_path, prefect_services, running, number, name
):
    config = write_inputs(tmp_path) / "file.yaml"
    (tmp_path / "slow.py").write_text(SLOW, "utf-8")
    config.write_text(config.read_text().replace("policy: own.yaml\n", CANDIDATE), "utf-8")
    command = [sys.executable, "-c", HEEDING_CTRL_C, "nightly", "file.yaml", "--output", "out"]
    process = running([*command, "--cron", EVERY_MINUTE], prefect_services)
    log = tmp_path / "command.log"
    until = time.monotonic() + 3 * PATIENCE_S  # the first night is due a minute later
    while "scoring slow" not in log.read_text("utf-8"):
        assert process.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < until, log.read_text("utf-8")
        time.sleep(0.2)
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE_S) == 0
    said = log.read_text("utf-8")
    assert f"stopped by {name}: a night that runs is cancelled" in " ".join(said.split())
    assert "never awaited" not in said
    assert "Traceback" not in said
    deployment = wait_for_deployment(deployment_name(config), prefect_services, paused=True)
    runs = ask(
        lambda client: client.read_flow_runs(flow_run_filter=of_deployment(deployment.id)),
        prefect_services,
    )
    assert "CANCELLED" in {one.state.type.value for one in runs}
    assert "RUNNING" not in {one.state.type.value for one in runs}


@pytest.mark.slow
def test_a_schedule_outlives_its_server_and_ends_within_seconds_without_one(
    tmp_path, mortal_prefect, running
):
    environment, start = mortal_prefect
    write_inputs(tmp_path)
    server = start()
    command = [sys.executable, "-m", "biasgate", "nightly", "file.yaml", "--output", "out"]
    process = running([*command, "--cron", "0 2 * * *"], environment)
    said_within(tmp_path, process, "waiting for the nights of nightly/")
    kill(server)
    said_within(tmp_path, process, "no Prefect server answers at http://127.0.0.1:")
    server = start()
    said_within(tmp_path, process, "Prefect's server answers again")
    kill(server)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    said = said_within(tmp_path, None, "the schedule could not be paused")
    assert "its nights wait as Late until this command runs again" in said
    assert "Traceback" not in said
    assert "never awaited" not in said


def said_within(folder, process, words):
    """Wait until the command says some words; return all that it says."""
    until = time.monotonic() + PATIENCE_S
    while words not in (said := " ".join((folder / "command.log").read_text("utf-8").split())):
        assert process is not None, said
        assert process.poll() is None, said
        assert time.monotonic() < until, said
        time.sleep(0.2)
    return said


def kill(server):
    """End a server at once, with its helpers."""
    for one in [*psutil.Process(server.pid).children(recursive=True), server]:
        one.kill()
    server.wait()


@pytest.mark.parametrize("lost", [httpx.ConnectError("no route"), _answer(503)])
def test_a_server_that_is_gone_is_asked_again_and_what_it_says_is_raised(lost, caplog):
    caplog.set_level(logging.INFO)
    answers = [lost, lost, None, _answer(404)]

    async def ask():
        answer = answers.pop(0)
        if answer:
            raise answer

    request = _Server().asked(ask)
    for _ in range(3):
        asyncio.run(request())
    told = caplog.text
    assert told.count("no Prefect server answers") == 1
    assert told.count("answers again") == 1
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        asyncio.run(request())


@pytest.mark.usefixtures("prefect_server")
def test_nights_that_are_due_while_the_command_starts_are_scheduled():
    made = nightly.to_deployment("starting", schedule=Cron(EVERY_MINUTE, timezone="UTC"))
    deployment = made.apply()
    began = datetime.now(UTC)
    schedule_since(deployment, began - timedelta(seconds=150))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=of_deployment(deployment), limit=200)
    due = sorted(one.expected_start_time for one in runs)
    assert began - timedelta(seconds=150) <= due[0] < began - timedelta(seconds=60)
    assert {one.state.type.value for one in runs} == {"SCHEDULED"}
