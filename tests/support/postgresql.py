"""MLflow's server on PostgreSQL, as a team runs it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from support.stack.postgresql import Postgresql, as_user, programs

from biasgate.tasks.common.errors import InputError


@contextmanager
def mlflow_on_postgresql(folder):
    """Yield the address of a server that keeps artifacts itself, on a PostgreSQL of its own."""
    with _databases() as cluster:
        cluster.run("CREATE DATABASE mlflow")
        place = f"{cluster.user}:{cluster.password}@127.0.0.1:{cluster.port}"
        with _serving(f"postgresql+psycopg2://{place}/mlflow", folder) as uri:
            yield uri


@contextmanager
def _databases():
    skip_without_postgresql()
    home = reachable_folder()  # pytest's folders are closed to another user
    cluster = Postgresql(home / "postgres", free_port(), "biasgate", "secret")
    cluster.make()
    with subprocess.Popen(
        cluster.command(), cwd=cluster.folder, stderr=subprocess.DEVNULL, **as_user()
    ) as process:
        try:
            ready = [programs() / "pg_isready", "-h", "127.0.0.1", "-p", str(cluster.port)]
            while subprocess.run(ready, check=False, stdout=subprocess.DEVNULL).returncode:
                assert process.poll() is None
                time.sleep(0.2)
            yield cluster
        finally:
            process.send_signal(3)  # an immediate end
    shutil.rmtree(home)


def skip_without_postgresql():
    """Skip the test where PostgreSQL cannot run."""
    pytest.importorskip("psycopg2", reason="needs psycopg2-binary")
    try:
        programs()
        as_user()
    except InputError as error:
        pytest.skip(str(error))


def reachable_folder():
    """Make a folder that PostgreSQL's user can reach."""
    home = Path(tempfile.mkdtemp(prefix="biasgate-"))
    home.chmod(0o755)
    return home


def free_port():
    """Return a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def _serving(database, folder):
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--backend-store-uri", database, "--workers", "2"]
    command += ["--artifacts-destination", str(folder / "artifacts"), "--serve-artifacts"]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait(uri)
            yield uri
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)


def _wait(uri):
    for _ in range(480):
        try:
            if httpx.get(f"{uri}/health").status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise TimeoutError
