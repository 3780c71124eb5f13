"""The progress of a long step can be read on the Prefect server while it runs."""

import threading
import time

import httpx
import pytest
from prefect import flow, get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.common.progress import show_progress

pytestmark = pytest.mark.usefixtures("prefect_server")
KEY = "score-a-words-model-on-comments"


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr("biasgate.tasks.common.progress.INTERVAL_S", 0.02)


def published(key):
    """Return the progress artifacts with a key, the newest first."""
    named = ArtifactFilter(key=ArtifactFilterKey(any_=[key]))
    with get_client(sync_client=True) as client:
        artifacts = client.read_artifacts(artifact_filter=named)
    assert {artifact.type for artifact in artifacts} <= {"progress"}
    return sorted(artifacts, key=lambda artifact: artifact.created, reverse=True)


def wait_for(percent, key=KEY):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        artifacts = published(key)
        if artifacts and artifacts[0].data == percent:
            return artifacts[0]
        time.sleep(0.05)
    pytest.fail(f"never {percent}: {[artifact.data for artifact in published(key)]}")


def in_a_task(work):
    @task(name="work")
    def step():
        return work()

    @flow
    def one_step():
        return step()

    return one_step()


def test_the_server_shows_share_speed_and_time_left_while_the_step_runs():
    def work():
        with show_progress("score A words/model on comments", total=400) as advance:
            advance(100)
            seen = wait_for(25.0)
            advance(100, total=200)
        return seen

    seen = in_a_task(work)
    assert seen.task_run_id is not None
    assert seen.description.startswith("score A words/model on comments: 100 of 400 rows, ")
    assert seen.description.endswith(" left")
    assert wait_for(100.0).id == seen.id


def test_a_step_whose_total_is_unknown_and_one_outside_of_a_flow_publish_nothing():
    def work():
        with show_progress("read something") as advance:
            advance(5)
            time.sleep(0.2)

    in_a_task(work)
    with show_progress("read something", total=5) as advance:
        advance(5)
    assert published("read-something") == []


@pytest.mark.parametrize("mood", ["refuses", "hangs"])
def test_a_server_that_is_away_disturbs_nothing(monkeypatch, mood):
    asked, released = threading.Event(), threading.Event()

    def create(*_):
        asked.set()
        if mood == "hangs":
            released.wait()  # for ever: the step does not wait for it
        raise httpx.ConnectError(mood)

    def work():
        with show_progress("go on", total=2) as advance:
            advance(1)
            assert asked.wait(60)
            advance(1)
        return "done"

    monkeypatch.setattr("prefect.artifacts.create_progress_artifact", create)
    assert in_a_task(work) == "done"
    released.set()
