"""The stack without Docker: it starts, keeps artifacts in S3, and ends all processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient
from support.postgresql import reachable_folder, skip_without_postgresql
from support.running_stack import free_ports
from support.stack.servers import MARK

pytestmark = pytest.mark.slow

STACK = [sys.executable, "-m", "support.stack"]
TESTS = str(Path(__file__).parents[1])


@pytest.fixture
def folder():
    skip_without_postgresql()
    made = reachable_folder()
    yield made / "stack"
    shutil.rmtree(made)


def run(command, folder, environment):
    path = os.pathsep.join(filter(None, [TESTS, environment.get("PYTHONPATH")]))
    return subprocess.run(
        [*STACK, command, str(folder)],
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_stack_starts_keeps_what_it_is_given_and_leaves_no_process(folder):
    ports = free_ports()
    environment = os.environ | ports
    try:
        done = run("up", folder, environment)
        assert done.returncode == 0, done.stderr
        uri = f"http://127.0.0.1:{ports['STACK_MLFLOW_PORT']}"
        api = f"http://127.0.0.1:{ports['STACK_PREFECT_PORT']}/api"
        printed = [f"export PREFECT_API_URL={api}", f"export MLFLOW_TRACKING_URI={uri}"]
        assert done.stdout.splitlines() == printed
        again = run("up", folder, os.environ)  # the ports of the first start are remembered
        assert (again.returncode, again.stdout, again.stderr) == (0, done.stdout, "")
        assert run("status", folder, os.environ).stdout.count(" runs ") == 5
        kept = write_artifact(uri)
        assert list((folder / "s3" / "mlflow").rglob("kept.txt"))
        other = run("up", folder.parent / "other", environment)
        assert other.returncode == 2
        assert "must be free" in other.stderr
        assert list_processes(folder)
        assert run("down", folder, os.environ).returncode == 0
        assert list_processes(folder) == []
        assert run("up", folder, os.environ).returncode == 0
        assert MlflowClient(uri).list_artifacts(kept)[0].path == "kept.txt"
    finally:
        assert run("down", folder, os.environ).returncode == 0
    assert list_processes(folder) == []


def write_artifact(uri):
    client = MlflowClient(uri)
    run_id = client.create_run(client.create_experiment("kept")).info.run_id
    client.log_text(run_id, "kept", "kept.txt")
    client.set_terminated(run_id)
    return run_id


def list_processes(folder):
    """Return the processes of a stack; those of PostgreSQL are recognized by their folder."""
    processes = []
    for process in psutil.process_iter():
        try:
            is_of_stack = (
                process.environ().get(MARK) == str(folder) or str(folder) in process.cmdline()
            )
        except psutil.Error:
            continue
        if is_of_stack and process.status() != psutil.STATUS_ZOMBIE:
            processes.append(process)
    return processes
