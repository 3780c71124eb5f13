"""`biasgate ui`: MLflow's pages on the runs of a store."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from biasgate.options import DEFAULT_STORE, READ, Store, example
from biasgate.printing import print_error
from biasgate.telling import USAGE, errors_told

if TYPE_CHECKING:
    from biasgate.tasks.mlflow_server.runs import Gateway

app = typer.Typer()


@app.command(rich_help_panel=READ, epilog=example("ui"))
def ui(
    store: Store = DEFAULT_STORE,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 5000,
) -> None:
    """Start MLflow on the runs of the store, for this machine only; print links to its pages.

    If MLFLOW_TRACKING_URI names a server, nothing is started: the links lead to its pages.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from biasgate.tasks.mlflow_server.local_store import require_store  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415

    with errors_told(verbose=False, places={"store": store}):
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            require_store(store)
        gateway = Gateway.of_store(store)
        if gateway.uri.startswith("http"):
            typer.echo("MLFLOW_TRACKING_URI is set: MLflow runs there. Runs of")
            _print_links(gateway.uri.rstrip("/"), gateway)
            return
        if _is_used(port):
            print_error(
                f"port {port} of 127.0.0.1 must be free; a program uses it, perhaps MLflow on "
                f"another store. Stop that, or choose a port: --port {_free_port()}"
            )
            raise typer.Exit(USAGE)
        address = f"http://127.0.0.1:{port}"
        typer.echo(f"MLflow starts on {address} in about 20 seconds (stop with Ctrl-C). Runs of")
        _print_links(address, gateway)
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--backend-store-uri", gateway.uri, "--workers", "1"]
    if gateway.artifacts:
        command += ["--default-artifact-root", gateway.artifacts]
    # Its job runner would be eight more processes of 250 MB, for features that are not used here.
    environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"} | os.environ
    # The server replaces this process, so that stopping this one stops the server.
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own command


def _print_links(address: str, gateway: Gateway) -> None:
    """Print the pages of each experiment; an experiment without evaluations has only its runs."""
    from biasgate.tasks.tracking import addresses, view  # noqa: PLC0415

    for name, one in gateway.experiments().items():
        if f"{view.TAG}{view.LATEST}" not in one.tags:
            typer.echo(f"  {name}: {address}/{addresses.runs_page(one.experiment_id)}")
            continue
        pages = {
            "candidates": addresses.view_page(one.experiment_id, view.LATEST),
            "charts": addresses.view_page(one.experiment_id, view.LATEST, charts=True),
            "all evaluations": addresses.view_page(one.experiment_id, view.ALL),
            "models": addresses.models_page(one.experiment_id),
        }
        typer.echo(f"  {name}:")
        for what, page in pages.items():
            typer.echo(f"    {what:<16}{address}/{page}")


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
