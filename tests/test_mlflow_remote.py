"""An evaluation logged on a server with PostgreSQL, and its view with two hundred runs."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, RunTag
from support.browser import links_of, mlflow_page
from support.postgresql import mlflow_on_postgresql
from support.several_candidates import IDENTITIES, evaluate, write_files

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.slow

EVALUATIONS = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory, prefect_home):
    """A server on which `shifted` was judged beside a champion, on two sets."""
    folder = tmp_path_factory.mktemp("remote")
    with mlflow_on_postgresql(folder) as uri:
        prefect_home(folder / "prefect")
        write_files(folder, identities=IDENTITIES[:4], rows=800, only=("shifted",))
        for file in ("first.yaml", "second.yaml"):
            evaluate(folder, file, folder / "store", MLFLOW_TRACKING_URI=uri)
        yield uri


@pytest.fixture(scope="module")
def links(server, tmp_path_factory):
    command = [sys.executable, "-m", "biasgate", "ui"]
    done = subprocess.run(
        command,
        env=os.environ | {"MLFLOW_TRACKING_URI": server},
        cwd=tmp_path_factory.mktemp("elsewhere"),
        check=True,
        capture_output=True,
        text=True,
    )
    return links_of(done.stdout, "toxicity")


@pytest.fixture
def page(browser, tmp_path, request):
    with mlflow_page(browser, tmp_path / f"{request.node.name}.png") as page:
        yield page


def test_the_view_opens_from_the_link_that_the_ui_prints(page, links):
    page.goto(links["charts"])
    playwright.expect(page.get_by_text("2 matching runs")).to_be_visible()
    page.get_by_text("Pictures side by side").scroll_into_view_if_needed()
    grid = page.get_by_role("table").filter(has_text="intervals").first
    playwright.expect(grid.locator("img")).to_have_count(8)
    page.goto(links["models"])
    playwright.expect(page.get_by_role("link", name="shifted", exact=True)).to_be_visible()


def test_a_view_of_two_hundred_runs_asks_as_often_as_one_of_ten(page, links, server):
    add_evaluations(server)
    asked = Counter()
    page.on("request", lambda one: asked.update([one.url.partition("?")[0].rpartition("/")[2]]))
    page.goto(links["all evaluations"] + "&compareRunsMode=CHART")
    # MLflow loads a hundred, and more when asked.
    playwright.expect(page.get_by_text("100 matching runs")).to_be_visible()
    playwright.expect(page.locator(".js-plotly-plot")).to_have_count(3)
    assert asked["search"] <= 10
    assert asked["list"] <= 20  # artifacts of the ten runs that are drawn


def add_evaluations(uri):
    """Copy the runs of the latest evaluation as those of many nights."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("toxicity").experiment_id
    runs = client.search_runs([experiment], "tags.`biasgate.verdict` LIKE '%'")[:2]
    for _ in range(EVALUATIONS):
        parent = client.create_run(experiment, run_name="evaluate toxicity").info.run_id
        client.set_terminated(parent)
        for run in runs:
            made = client.create_run(experiment, run_name=run.info.run_name).info.run_id
            tags = {**run.data.tags, "mlflow.parentRunId": parent}
            metrics = run.data.metrics.items()
            client.log_batch(
                made,
                metrics=[Metric(key, value, 0, 0) for key, value in metrics],
                tags=[RunTag(key, value) for key, value in tags.items()],
            )
            client.set_terminated(made)
