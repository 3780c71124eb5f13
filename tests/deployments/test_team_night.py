"""A night on the servers of a team, started by its schedule only, with its pages in a browser."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient
from prefect import get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.browser import mlflow_page
from support.evaluations import write_inputs
from support.running_stack import running_stack

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.slow

DEPLOYMENTS = Path(__file__).parents[2] / "deployments"
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]
NO_BLOCK = "00000000-0000-0000-0000-000000000000"
PATIENCE_S = 600


@pytest.fixture(scope="module")
def stack():
    """The servers, on free ports; an error at the worker's start is an error of the test."""
    with (
        running_stack() as (_, found),
        temporary_settings({PREFECT_API_URL: os.environ["PREFECT_API_URL"]}),
    ):
        yield found


@pytest.fixture(scope="module")
def night(stack, tmp_path_factory):
    """The first run that the schedule started."""
    del stack
    folder = write_inputs(tmp_path_factory.mktemp("evaluation"))
    every_minute = (
        (DEPLOYMENTS / "prefect.yaml").read_text("utf-8").replace("0 2 * * *", "* * * * *")
    )
    (folder / "prefect.yaml").write_text(every_minute, "utf-8")
    paths = {"CONFIG": "file.yaml", "OUTPUT": "nightly", "STORE": "store"}
    variables = {f"BIASGATE_{key}": str(folder / name) for key, name in paths.items()}
    run_prefect(["deploy", "--all", "--prefect-file", "prefect.yaml"], folder, variables)
    with get_client(sync_client=True) as client:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            runs = [run for run in list_runs(client) if run.state and run.state.is_completed()]
            if runs:
                break
            time.sleep(2)
        deployment = client.read_deployment_by_name("nightly/worker")
        client.pause_deployment(deployment.id)
    assert runs, "no night ended"
    return folder, runs[0]


def list_runs(client):
    name = DeploymentFilterName.model_validate({"any_": ["worker"]})
    return client.read_flow_runs(deployment_filter=DeploymentFilter(name=name))


def run_prefect(command, folder, variables):
    result = subprocess.run(
        [*PREFECT, *command],
        env=os.environ | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_schedule_started_it_and_it_ended_with_a_verdict(night):
    folder, run = night
    assert run.auto_scheduled
    assert run.created_by.type == "SCHEDULE"
    assert run.state.name == "Passed"
    aliases = MlflowClient().search_registered_models()[0].aliases
    assert {name: str(version) for name, version in aliases.items()} == {"champion": "1"}
    assert list((folder / "nightly").glob("*/report.html"))


def test_of_two_nights_that_are_due_at_once_one_is_skipped_and_says_so(night):
    del night
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("nightly/worker").id
        run_ids = [client.create_flow_run_from_deployment(deployment).id for _ in range(2)]
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            states = [client.read_flow_run(run_id).state for run_id in run_ids]
            if all(state.is_final() for state in states):
                break
            time.sleep(2)
    assert {state.name for state in states} == {"Passed", "Cancelled"}
    [skipped] = [state for state in states if state.is_cancelled()]
    assert skipped.message == "Deployment concurrency limit reached."


def test_artifacts_are_in_s3(night, stack):
    del night
    assert list((stack.folder / "s3" / "mlflow").rglob("verdict.json"))


def test_the_automations_are_accepted(night, stack):
    folder, _ = night
    content = (DEPLOYMENTS / "automations.yaml").read_text("utf-8")
    (folder / "automations.yaml").write_text(content.replace("BLOCK_ID", NO_BLOCK), "utf-8")
    home = {"PREFECT_HOME": str(stack.folder / "home")}
    output = run_prefect(["automation", "create", "--from-file", "automations.yaml"], folder, home)
    assert "biasgate: no night has ended" in output + run_prefect(
        ["automation", "ls"], folder, home
    )


@pytest.fixture
def page(browser, tmp_path, request):
    with mlflow_page(browser, tmp_path / f"{request.node.name}.png") as page:
        yield page


def test_prefects_page_shows_the_night_with_its_verdict(page, night):
    root = os.environ["PREFECT_API_URL"].removesuffix("/api")
    page.goto(f"{root}/runs/flow-run/{night[1].id}")
    playwright.expect(page.get_by_text("Passed").first).to_be_visible()
    page.goto(f"{root}/deployments")
    playwright.expect(page.get_by_text("worker").first).to_be_visible()


def test_mlflows_page_shows_the_run_of_the_night(page, night):
    del night
    experiment = MlflowClient().get_experiment_by_name("mistakes")
    page.goto(f"{os.environ['MLFLOW_TRACKING_URI']}/#/experiments/{experiment.experiment_id}/runs")
    playwright.expect(page.get_by_text("evaluate").first).to_be_visible()


def test_the_report_shows_the_verdict(page, night):
    [report] = sorted((night[0] / "nightly").glob("*/report.html"))[:1]
    page.goto(report.as_uri())
    playwright.expect(page.get_by_role("heading", name="Verdict")).to_be_visible()
