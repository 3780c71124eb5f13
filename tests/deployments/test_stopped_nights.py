"""A schedule that is stopped ends cleanly; a night that is due while it starts is not left out."""

import signal
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.schedules import Cron
from support.endless import CANDIDATE, SLOW
from support.evaluations import write_inputs
from support.served import PATIENCE_S, ask, wait_for_deployment

from biasgate.deployments.nightly import deployment_name, schedule_since
from biasgate.flows.nightly import nightly

# In the background of a shell, Ctrl-C is ignored.
HEEDING_CTRL_C = """\
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("biasgate", run_name="__main__", alter_sys=True)
"""
EVERY_MINUTE = "* * * * *"


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
