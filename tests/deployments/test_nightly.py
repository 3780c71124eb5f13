"""Nightly evaluations started by a schedule, with a real server and real processes."""

import asyncio
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import yaml
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    DeploymentFilter,
    DeploymentFilterName,
)
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.cells import n_of
from support.made import decision_of, summary_of
from support.served import PATIENCE_S, ask, wait_for_deployment
from support.workers import SHIPPED, WORKER, deploy

from biasgate.deployments import nightly
from biasgate.flows.states import conclude
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.processes import describe_this_process
from biasgate.tasks.outcomes import WORDS

BIASGATE = [sys.executable, "-m", "biasgate"]
CONFIG = """\
name: nightly
evaluation_sets:
  - {name: rows, source: table, path: rows.csv, identities: [group]}
candidates:
  - {name: scores, kind: scores, path: scores.csv}
"""
EVERY_MINUTE = "* * * * *"


@pytest.fixture
def config(tmp_path):
    rows = [(i, i % 2, i % 4 // 2, 0.4 * (i % 2) + 0.005 * (i % 97)) for i in range(400)]
    table = "".join(f"{i},{y},{g}\n" for i, y, g, _ in rows)
    (tmp_path / "rows.csv").write_text("id,label,group\n" + table)
    scores = "".join(f"{i},{score}\n" for i, _, _, score in rows)
    (tmp_path / "scores.csv").write_text("id,prediction\n" + scores)
    (tmp_path / "nightly.yaml").write_text(CONFIG)
    return tmp_path / "nightly.yaml"


@pytest.mark.slow
def test_the_cron_of_the_nightly_command_runs_it(config, tmp_path, prefect_services, running):
    command = [*BIASGATE, "nightly", config.name, "--output", "nightly", "--store", "store"]
    process = running([*command, "--cron", EVERY_MINUTE], prefect_services)
    name = nightly.get_deployment_name(config)
    assert_runs_on_schedule(name, process, tmp_path / "command.log", prefect_services)
    assert_results_by_date(tmp_path / "nightly")


@pytest.mark.slow
def test_a_second_evaluation_leaves_the_first_ones_schedule_alone(
    config, tmp_path, prefect_services, running
):
    other = tmp_path / "other.yaml"
    other.write_text(CONFIG.replace("name: nightly", "name: Other one"), "utf-8")
    names = [nightly.get_deployment_name(path) for path in (config, other)]
    processes = []
    for number, file in enumerate((config, other)):
        command = [*BIASGATE, "nightly", str(file), "--output", "out", "--cron", "0 2 * * *"]
        processes.append(running(command, prefect_services, f"serve{number}"))
        wait_for_deployment(names[number], prefect_services, paused=False)
    again = subprocess.run(
        [*BIASGATE, "nightly", str(other), "--output", "out", "--cron", "0 3 * * *"],
        env=prefect_services,
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert again.returncode == 2
    assert f"is already served by process {processes[1].pid} on" in again.stderr
    processes[1].terminate()
    processes[1].wait(timeout=60)
    wait_for_deployment(names[1], prefect_services, paused=True)
    first = wait_for_deployment(names[0], prefect_services, paused=False)
    assert first.parameters["config"] == str(config)
    [schedule] = first.schedules
    assert schedule.active
    # A killed process leaves its schedule active, and is replaced at once.
    processes[0].kill()
    processes[0].wait()
    command = [*BIASGATE, "nightly", str(config), "--output", "out", "--cron", "0 4 * * *"]
    running(command, prefect_services, "restarted")
    wait_for_deployment(names[0], prefect_services, paused=False, cron="0 4 * * *")


@pytest.mark.slow
def test_a_worker_runs_what_prefect_yaml_deploys(config, tmp_path, prefect_services, running):
    deployments = tmp_path / "prefect.yaml"
    often = SHIPPED.read_text("utf-8").replace("0 2 * * *", EVERY_MINUTE)
    deployments.write_text(often, "utf-8")
    deploy(config, deployments, prefect_services)
    process = running(WORKER, prefect_services)
    assert_runs_on_schedule("worker", process, tmp_path / "command.log", prefect_services)
    assert_results_by_date(tmp_path / "nightly")


@pytest.mark.slow
def test_prefect_yaml_deploys_the_nightly_at_two(config, prefect_services):
    deploy(config, SHIPPED, prefect_services)

    async def read(client):
        return await client.read_deployment_by_name("nightly/worker")

    deployment = ask(read, prefect_services)
    [schedule] = deployment.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone) == ("0 2 * * *", "UTC")
    assert deployment.entrypoint == "biasgate.flows.nightly.nightly"
    assert deployment.pull_steps == []
    assert deployment.parameters == {
        "config": str(config),
        "output": str(config.parent / "nightly"),
        "store": str(config.parent / "store"),
    }


def test_a_schedule_without_a_server_is_refused(monkeypatch, config, tmp_path):
    monkeypatch.setattr(nightly, "PREFECT_API_URL", SimpleNamespace(value=lambda: None))
    with pytest.raises(InputError, match="needs a running Prefect server; none is set"):
        nightly.serve(config, tmp_path, tmp_path, EVERY_MINUTE)


def test_a_server_that_does_not_answer_is_told_with_its_address():
    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(InputError, match=r"no Prefect server answers at PREFECT_API_URL http://"),
    ):
        nightly.refuse_second_process("any")


def test_each_evaluation_file_has_a_deployment_of_its_own(config, tmp_path):
    (tmp_path / "b").mkdir()
    names = []
    for path, name in (
        (config, "nightly"),
        (tmp_path / "other.yaml", "nightly"),
        (tmp_path / "b" / "nightly.yaml", "nightly"),
        (tmp_path / "b" / "spaced.yaml", "My Evaluation_2 . night"),
    ):
        file = CONFIG.replace("name: nightly", f"name: {name}") + "policy: report-only\n"
        path.write_text(file, "utf-8")
        names.append(nightly.get_deployment_name(path))
    assert len(set(names)) == len(names)
    assert names[3].startswith("my-evaluation-2-night-")
    config.write_text(CONFIG, "utf-8")  # the default policy; it is not part of the name
    assert names[0] == nightly.get_deployment_name(config)


NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
LONG_AGO, JUST_NOW = NOW - timedelta(seconds=61), NOW - timedelta(seconds=5)
KILLED = describe_this_process().rsplit(" ", 1)[0] + " 0"


@pytest.mark.parametrize(
    ("paused", "process", "heard", "served"),
    [
        (False, describe_this_process(), LONG_AGO, "process "),
        (True, describe_this_process(), JUST_NOW, "process "),  # paused by hand
        (False, KILLED, JUST_NOW, None),
        (False, "elsewhere 7 99", JUST_NOW, "a process on elsewhere, last seen 5 s ago"),
        (False, "elsewhere 7 99", LONG_AGO, None),
        (False, "elsewhere 7 99", None, None),
        (True, "elsewhere 7 99", JUST_NOW, None),
        (False, None, JUST_NOW, "a process on an unknown machine, last seen 5 s ago"),
    ],
    ids=[
        *("alive", "alive but paused by hand", "killed", "elsewhere", "elsewhere long ago"),
        *("elsewhere never heard of", "elsewhere and paused", "unknown"),
    ],
)
def test_a_deployment_is_served_while_its_process_lives(paused, process, heard, served):
    description = None if process is None else f"Evaluates x.\n\nServed by process {process}"
    deployment = SimpleNamespace(paused=paused, description=description, last_polled=heard)
    server = nightly.describe_server(deployment, NOW)
    assert (server is None) == (served is None)
    assert (server or "").startswith(served or "")


@pytest.mark.parametrize(
    ("outcome", "fail_when_blocked", "state"),
    [
        ("pass", True, ("COMPLETED", "Passed")),
        ("fail", True, ("FAILED", "Blocked")),
        ("insufficient", True, ("FAILED", "Undecided")),
        ("fail", False, ("COMPLETED", "Blocked")),
    ],
)
def test_a_blocked_night_is_failed_only_where_the_deployment_says_so(
    outcome, fail_when_blocked, state
):
    summary = summary_of(decisions=[decision_of("c", outcome, "So it was.")], outcome=outcome)
    concluded = conclude(summary, fail_when_blocked=fail_when_blocked)
    assert (concluded.type.value, concluded.name) == state
    assert concluded.message == f"c: {WORDS[outcome].text}. So it was."


def test_a_cron_that_is_none_is_refused(config, tmp_path):
    with pytest.raises(InputError, match=r"each in its range: minute, hour.* got 'every night'"):
        nightly.serve(config, tmp_path, tmp_path, "every night")
    with pytest.raises(InputError, match="for a day that exists; got '0 2 30 2"):
        nightly.serve(config, tmp_path, tmp_path, "0 2 30 2 *")


def test_the_next_night_is_told_in_utc():
    since = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    due = [nightly.find_next_night("0 2 * * *", since + timedelta(hours=n)) for n in (0, 1)]
    assert [f"{night:%d %H:%M}" for night in due] == ["29 02:00", "30 02:00"]


def test_prefect_yaml_names_no_machine():
    [deployment] = yaml.safe_load(SHIPPED.read_text("utf-8"))["deployments"]
    assert all("{{ $BIASGATE_" in value for value in deployment["parameters"].values())


def assert_runs_on_schedule(deployment, process, log, environment):
    """Wait for a completed run that the schedule made; it has published its summary."""
    run, artifacts = ask(lambda client: wait_for_run(client, deployment, process), environment)
    assert run is not None, log.read_text("utf-8")[-4000:]
    assert run.auto_scheduled
    assert run.created_by.type == "SCHEDULE"
    assert (run.state.type.value, run.state.name) == ("COMPLETED", "Passed")
    # If its server answers late, Prefect retries: then there are two equal artifacts.
    [(key, summary)] = {(artifact.key, artifact.data) for artifact in artifacts}
    assert key == "biasgate-nightly-nightly"
    assert summary.startswith("**Passed with exceptions**: scores\n")


async def wait_for_run(client, deployment, process):
    by_name = DeploymentFilter(name=DeploymentFilterName(any_=[deployment]))
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        await asyncio.sleep(1)
        for run in await client.read_flow_runs(deployment_filter=by_name):
            # A run that overlaps another is cancelled.
            if run.state.is_final() and not run.state.is_cancelled():
                by_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
                return run, await client.read_artifacts(artifact_filter=by_run)
    return None, []


def assert_results_by_date(output):
    folders = sorted(output.glob("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T*Z"))
    assert folders
    report = json.loads((folders[0] / "rows" / "scores" / "report.json").read_text("utf-8"))
    assert n_of(report["bias"]) == 400
    assert (folders[0] / "summary.json").exists()
