"""A model of the registry behind `mlflow models serve`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

PATIENCE_S = 180


@contextmanager
def served(model: str, log: Path, tracking_uri: str | None = None) -> Iterator[str]:
    """Start the server, yield the address of its scoring, stop it.

    `model` is a folder, or `models:/name/version` in the registry at `tracking_uri`. A server that
    does not start raises a RuntimeError with the end of its log.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", model]
    command += ["--env-manager", "local", "-h", "127.0.0.1", "-p", str(port)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "MLFLOW_DISABLE_TELEMETRY": "true"}
    if tracking_uri is not None:
        environment["MLFLOW_TRACKING_URI"] = tracking_uri
    with log.open("wb") as stream:
        server = subprocess.Popen(  # noqa: S603 - this environment's own MLflow
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        try:
            _wait_for_server(f"http://127.0.0.1:{port}/ping", server, log)
            yield f"http://127.0.0.1:{port}/invocations"
        finally:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait_for_server(ping: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(ping, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.3)
    msg = f"the model server did not start:\n{log.read_text('utf-8')[-2000:]}"
    raise RuntimeError(msg)
