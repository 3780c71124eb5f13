"""A temporary Prefect server that ends with the command that started it, even if that is killed.

Without `PREFECT_API_URL`, Prefect starts a server for each flow. That server survives a kill of
the flow's process. A Ctrl-C in the terminal also stops it, so that the flow waits for it in vain,
and it starts no earlier than the flow. The server of this module has its own session, ends when
its standard input is closed, and starts while the flow is imported.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import httpx
from prefect.context import refresh_global_settings_context
from prefect.settings import get_current_settings

from biasgate.tasks.common.errors import ServerError
from biasgate.tasks.common.files import require_writable
from biasgate.tasks.common.prefect_artifacts import EPHEMERAL_SERVER

# The settings with which Prefect starts a server for a flow.
_SERVER_SETTINGS = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_FINAL": "1", EPHEMERAL_SERVER: "1"}
# Prefect writes each change of a task's state separately, which takes a third of a temporary
# server's time. Writing them in batches each second costs little; the rest is written at the end.
_BATCH_SETTINGS = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}
_PATIENCE_S = 5.0
_SLOW_START_S = 120.0  # on a busy machine; a server that ended is noticed at once


def start_server() -> Callable[[], None]:
    """Start a server if no address is set; return a function that waits until it answers.

    Child processes use the same server.
    """
    settings = get_current_settings()
    if settings.api.url:
        return lambda: None
    if "connection_url" not in settings.server.database.model_fields_set:
        require_writable(settings.home.absolute(), "PREFECT_HOME")
    server, url = launch_server()
    atexit.register(stop_server, server)
    os.environ |= {"PREFECT_API_URL": url, EPHEMERAL_SERVER: "1"}
    refresh_global_settings_context()

    def wait() -> None:
        try:
            limit_s = max(settings.server.ephemeral.startup_timeout_seconds, _SLOW_START_S)
            httpx.get(f"{url}/health", timeout=limit_s, trust_env=False).raise_for_status()
        except httpx.HTTPError as error:
            with suppress(subprocess.TimeoutExpired):  # the server may be about to end
                server.wait(timeout=0.5)
            exit_code = server.poll()
            reason = str(error) if exit_code is None else f"It ended with the code {exit_code}."
            msg = (
                f"Prefect's temporary server must start on this machine; it did not. {reason} Run "
                "again with --verbose for its own errors, or set PREFECT_API_URL to a running "
                "server."
            )
            raise ServerError(msg) from error

    return wait


def launch_server() -> tuple[subprocess.Popen[bytes], str]:
    """Start a server with the settings of this process; return its process and its API's URL."""
    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "biasgate.deployments.server_process"],
        env=_BATCH_SETTINGS | os.environ | settings | _SERVER_SETTINGS,
        stdin=subprocess.PIPE,  # the end of this process closes it
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    port = server.stdout.readline() if server.stdout else b""
    return server, f"http://127.0.0.1:{int(port or 0)}/api"


def stop_server(server: subprocess.Popen[bytes]) -> None:
    """Terminate the process of a server; kill it if it hangs."""
    server.terminate()
    try:
        server.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        server.kill()
    for stream in (server.stdin, server.stdout):
        if stream is not None:
            stream.close()
