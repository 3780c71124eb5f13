"""A tracking server over HTTP instead of the local store: the same results, the same gate."""

import dataclasses
import os
import shutil
import socket
import sys
import time

import httpx
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def server(running, tmp_path, monkeypatch):
    """Start an MLflow server that keeps artifacts itself; evaluations find it by its URI."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--workers", "1"]
    command += ["--port", str(port), "--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    command += ["--artifacts-destination", str(tmp_path / "artifacts")]
    environment = os.environ | {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    process = running(command, environment, name="mlflow")
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{uri}/health", trust_env=False, timeout=5).status_code == 200:
                break
        except httpx.TransportError:
            time.sleep(0.5)
    else:
        pytest.fail((tmp_path / "mlflow.log").read_text()[-2000:])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return tmp_path


def test_a_server_gets_runs_artifacts_and_the_champion(world, server):
    folder = server / "world"
    shutil.copytree(world.folder, folder, ignore=shutil.ignore_patterns("store", "output"))
    remote = dataclasses.replace(world, folder=folder)
    first = remote.evaluate("first")
    assert first.registry == {"champion": "1", "versions": 1}
    assert {run.info.status for run in remote.runs()} == {"FINISHED"}
    found = {path.name for path in (server / "artifacts").rglob("*") if path.is_file()}
    assert found >= {"report.json", "verdict.json", "heatmap.png", "model.skops"}
    assert not (remote.store / "mlflow.db").exists()
    champion = {"name": "champion", "kind": "mlflow", "model": "models:/toxicity@champion"}
    again = remote.evaluate("again", candidates=[champion])
    one, other = (
        result.read(f"comments/{name}/report.json")["bias"]
        for result, name in ((first, "words"), (again, "champion"))
    )
    assert one == other
