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


@contextmanager
def mlflow_on_postgresql(folder):
    """Yield the address of a server that keeps artifacts itself, on a PostgreSQL of its own."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    pytest.importorskip("psycopg2", reason="needs psycopg2-binary")
    if not programs or os.geteuid() != 0:
        pytest.skip("needs PostgreSQL in /usr/lib/postgresql, and root to give it a user")
    home = Path(tempfile.mkdtemp())  # pytest's folders are closed to another user
    shutil.chown(home, "postgres")
    data, sockets = home / "data", f"-k {home} -c listen_addresses="

    def run(*command):
        subprocess.run([str(one) for one in command], check=True, user="postgres", cwd=home)

    run(programs[-1] / "initdb", "-D", data, "-U", "biasgate", "--auth=trust", "--no-sync")
    run(programs[-1] / "pg_ctl", "-D", data, "-w", "-l", home / "log", "-o", sockets, "start")
    try:
        run(programs[-1] / "createdb", "-h", home, "-U", "biasgate", "mlflow")
        with _serving(f"postgresql://biasgate@/mlflow?host={home}", folder) as uri:
            yield uri
    finally:
        run(programs[-1] / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home)


@contextmanager
def _serving(database, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
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
