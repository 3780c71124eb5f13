"""`biasgate ui`: MLflow's pages on the runs of a store."""

from __future__ import annotations

import os
import socket
import sys
from typing import Annotated

import typer

from biasgate.options import DEFAULT_STORE, Store
from biasgate.printing import print_error
from biasgate.telling import USAGE, errors_told

app = typer.Typer()


@app.command()
def ui(
    store: Store = DEFAULT_STORE,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 5000,
) -> None:
    """Start MLflow on the runs of the store, for this machine only."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from biasgate.tasks.mlflow_server.moved_store import require_store  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415
    from biasgate.tasks.tracking.log_runs import runs_page  # noqa: PLC0415

    with errors_told(verbose=False, places={"store": store}):
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            require_store(store)
        gateway = Gateway.of_store(store)
        if gateway.uri.startswith("http"):
            print_error(f"MLFLOW_TRACKING_URI is set: runs and their pages are at {gateway.uri}.")
            raise typer.Exit(USAGE)
        if _is_used(port):
            print_error(
                f"port {port} of 127.0.0.1 must be free; a program uses it, perhaps MLflow on "
                f"another store. Stop that, or choose a port: --port {_free_port()}"
            )
            raise typer.Exit(USAGE)
        experiments = gateway.experiments()
    address = f"http://127.0.0.1:{port}"
    typer.echo(f"MLflow starts on {address} in about 20 seconds (stop with Ctrl-C). Runs of")
    for name, experiment_id in experiments.items():
        typer.echo(f"  {name}: {address}/{runs_page(experiment_id)}")
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--backend-store-uri", gateway.uri, "--workers", "1"]
    if gateway.artifacts:
        command += ["--default-artifact-root", gateway.artifacts]
    # Its job runner would be eight more processes of 250 MB, for features that are not used here.
    environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"} | os.environ
    # The server replaces this process, so that stopping this one stops the server.
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own command


def _is_used(port: int) -> bool:
    """Whether a server on this machine already uses the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
