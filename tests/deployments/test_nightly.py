"""Nightlies that a schedule starts: real server, real processes, no run made by hand."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from prefect import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    DeploymentFilter,
    DeploymentFilterName,
)
from prefect.settings import PREFECT_API_URL, temporary_settings

from deployments import nightly
from tasks.errors import InputError

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "deployments" / "prefect.yaml"
PREFECT = [sys.executable, "-m", "prefect"]
BIASGATE = [sys.executable, "-m", "biasgate"]
CONFIG = """\
name: nightly
evaluation_sets:
  - {name: rows, source: table, path: rows.csv, identities: [group]}
candidates:
  - {name: scores, kind: scores, path: scores.csv}
"""
EVERY_MINUTE = "* * * * *"
PATIENCE_S = 210


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
    assert_runs_on_schedule("biasgate", process, tmp_path / "command.log", prefect_services)
    assert_results_by_date(tmp_path / "nightly")


@pytest.mark.slow
def test_a_worker_runs_what_prefect_yaml_deploys(config, tmp_path, prefect_services, running):
    deployments = tmp_path / "prefect.yaml"
    often = SHIPPED.read_text("utf-8").replace("0 2 * * *", EVERY_MINUTE)
    deployments.write_text(often, "utf-8")
    deploy(config, deployments, prefect_services)
    command = [*PREFECT, "worker", "start", "--pool", "biasgate"]
    process = running(command, prefect_services)
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
    assert deployment.entrypoint == "flows.nightly.nightly"
    assert deployment.pull_steps == []
    assert deployment.parameters == {
        "config": str(config),
        "output": str(config.parent / "nightly"),
        "store": str(config.parent / "store"),
    }


def test_a_schedule_without_a_server_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(nightly, "PREFECT_API_URL", SimpleNamespace(value=lambda: None))
    with pytest.raises(InputError, match="needs a Prefect server that stays; none is set"):
        nightly.serve(tmp_path, tmp_path, tmp_path, EVERY_MINUTE)


def test_a_cron_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"must be five fields .* got 'every night'"):
        nightly.serve(tmp_path, tmp_path, tmp_path, "every night")


def test_prefect_yaml_names_no_machine():
    [deployment] = yaml.safe_load(SHIPPED.read_text("utf-8"))["deployments"]
    assert all("{{ $BIASGATE_" in value for value in deployment["parameters"].values())


def deploy(config, file, environment):
    """Do what the comment in prefect.yaml says."""
    folder = config.parent
    environment = environment | {
        "BIASGATE_CONFIG": str(config),
        "BIASGATE_OUTPUT": str(folder / "nightly"),
        "BIASGATE_STORE": str(folder / "store"),
    }
    for command in (
        ["work-pool", "create", "biasgate", "--type", "process", "--overwrite"],
        ["--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
    ):
        done = subprocess.run(
            [*PREFECT, *command],
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def assert_runs_on_schedule(deployment, process, log, environment):
    """Wait for a completed run that the schedule made; it has published its summary."""
    run, artifacts = ask(lambda client: finished_run(client, deployment, process), environment)
    assert run is not None, log.read_text("utf-8")[-4000:]
    assert run.auto_scheduled
    assert run.created_by.type == "SCHEDULE"
    assert (run.state.type.value, run.state.name) == ("COMPLETED", "Passed")
    [artifact] = artifacts
    assert artifact.key == "biasgate-nightly"
    assert "| scores | rows | passed | 0 |" in artifact.data


async def finished_run(client, deployment, process):
    of_this = DeploymentFilter(name=DeploymentFilterName(any_=[deployment]))
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        await asyncio.sleep(1)
        for run in await client.read_flow_runs(deployment_filter=of_this):
            if run.state.is_final():
                of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
                return run, await client.read_artifacts(artifact_filter=of_run)
    return None, []


def assert_results_by_date(output):
    folders = sorted(output.glob("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T*Z"))
    assert folders
    report = json.loads((folders[0] / "rows" / "scores" / "report.json").read_text("utf-8"))
    assert report["bias"]["overall"]["n"] == 400
    assert (folders[0] / "summary.json").exists()


def ask(question, environment):
    """Ask the Prefect server of the test."""

    async def asked():
        async with get_client() as client:
            return await question(client)

    with temporary_settings({PREFECT_API_URL: environment["PREFECT_API_URL"]}):
        return asyncio.run(asked())
