"""A stopped schedule ends cleanly; a night that is due while a schedule starts is not skipped."""

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

from biasgate.deployments.night_runner import _ServerState
from biasgate.deployments.nightly import get_deployment_name, schedule_nights
from biasgate.flows.nightly import nightly

# In the background of a shell, Ctrl-C is ignored.
HEEDING_CTRL_C = """\
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("biasgate", run_name="__main__", alter_sys=True)
"""
EVERY_MINUTE = "* * * * *"


def make_error(code):
    request = httpx.Request("POST", "http://127.0.0.1/api")
    return httpx.HTTPStatusError(str(code), request=request, response=httpx.Response(code))


def filter_runs(deployment_id):
    """Return a filter for the runs of a deployment."""
    return FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[deployment_id]))


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
    output = log.read_text("utf-8")
    assert f"stopped by {name}: a night that runs is cancelled" in " ".join(output.split())
    assert "never awaited" not in output
    assert "Traceback" not in output
    deployment = wait_for_deployment(get_deployment_name(config), prefect_services, paused=True)
    runs = ask(
        lambda client: client.read_flow_runs(flow_run_filter=filter_runs(deployment.id)),
        prefect_services,
    )
    assert "CANCELLED" in {run.state.type.value for run in runs}
    assert "RUNNING" not in {run.state.type.value for run in runs}


@pytest.mark.slow
def test_a_schedule_outlives_its_server_and_ends_within_seconds_without_one(
    tmp_path, mortal_prefect, running
):
    environment, start = mortal_prefect
    write_inputs(tmp_path)
    server = start()
    command = [sys.executable, "-m", "biasgate", "nightly", "file.yaml", "--output", "out"]
    process = running([*command, "--cron", "0 2 * * *"], environment)
    wait_for_words(tmp_path, process, "waiting for the nights of nightly/")
    kill_server(server)
    wait_for_words(tmp_path, process, "no Prefect server answers at http://127.0.0.1:")
    server = start()
    wait_for_words(tmp_path, process, "Prefect's server answers again")
    kill_server(server)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    output = wait_for_words(tmp_path, None, "the schedule could not be paused")
    assert "its nights wait as Late until this command runs again" in output
    assert "Traceback" not in output
    assert "never awaited" not in output


def wait_for_words(folder, process, words):
    """Wait until the command prints some words; return all that it printed."""
    deadline = time.monotonic() + PATIENCE_S
    while words not in (output := " ".join((folder / "command.log").read_text("utf-8").split())):
        assert process is not None, output
        assert process.poll() is None, output
        assert time.monotonic() < deadline, output
        time.sleep(0.2)
    return output


def kill_server(server):
    """Kill a server and its child processes."""
    for process in [*psutil.Process(server.pid).children(recursive=True), server]:
        process.kill()
    server.wait()


@pytest.mark.parametrize("lost", [httpx.ConnectError("no route"), make_error(503)])
def test_a_server_that_is_gone_is_asked_again_and_what_it_says_is_raised(lost, caplog):
    caplog.set_level(logging.INFO)
    answers = [lost, lost, None, make_error(404)]

    async def ask():
        answer = answers.pop(0)
        if answer:
            raise answer

    request = _ServerState().wrap_request(ask, default=None)
    for _ in range(3):
        asyncio.run(request())
    log = caplog.text
    assert log.count("no Prefect server answers") == 1
    assert log.count("answers again") == 1
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        asyncio.run(request())


@pytest.mark.usefixtures("prefect_server")
def test_nights_that_are_due_while_the_command_starts_are_scheduled():
    local = nightly.to_deployment("starting", schedule=Cron(EVERY_MINUTE, timezone="UTC"))
    deployment = local.apply()
    start = datetime.now(UTC)
    schedule_nights(deployment, start - timedelta(seconds=150))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=filter_runs(deployment), limit=200)
    due = sorted(run.expected_start_time for run in runs)
    assert start - timedelta(seconds=150) <= due[0] < start - timedelta(seconds=60)
    assert {run.state.type.value for run in runs} == {"SCHEDULED"}
