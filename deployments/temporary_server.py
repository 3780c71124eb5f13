"""Prefect's temporary server, which ends with the command that started it, however that ends.

Without `PREFECT_API_URL` Prefect starts a server of its own for a flow. It runs on after a kill of
the flow's process, for ever, and a Ctrl-C in the terminal reaches it, too, so that the flow waits
for it in vain. This one is in a session of its own, and ends when its standard input is closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import httpx
from prefect.server.api.server import SubprocessASGIServer
from prefect.settings import get_current_settings

from biasgate.tasks.common.errors import ServerError
from biasgate.tasks.common.files import require_writable

# As Prefect starts it.
_EPHEMERAL = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}
_TRIES = 3  # Prefect starts one that ended with the code 3 again and again, without end


class TemporaryServer(SubprocessASGIServer):
    """The server that Prefect starts in this process when it needs one.

    Prefect keeps one instance for each process and looks it up; the first one that is made stays.
    """

    _n_tries = 0

    def start(self, timeout: int | None = None) -> None:
        """Start the server, or say in one sentence that it cannot be started."""
        settings = get_current_settings()
        if "connection_url" not in settings.server.database.model_fields_set:
            require_writable(settings.home.absolute(), "PREFECT_HOME")
        self._n_tries = 0
        try:
            super().start(timeout)
        except ServerError:
            raise
        except (RuntimeError, httpx.HTTPError) as error:
            why = f"Prefect says: {error}"
            raise _not_started(why) from error

    def _run_uvicorn_command(self) -> subprocess.Popen[Any]:
        if self._n_tries == _TRIES:
            why = f"It ended {_TRIES} times before it answered."
            raise _not_started(why)
        self._n_tries += 1
        _let_go(self.server_process)
        settings = get_current_settings().to_environment_variables(exclude_unset=True)
        return subprocess.Popen(  # noqa: S603 - this project's own module
            [sys.executable, "-P", "-m", "biasgate.deployments.server_process", str(self.port)],
            env=os.environ | _EPHEMERAL | settings,
            stdin=subprocess.PIPE,  # its other end is open for as long as this process lives
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        """End the server."""
        process = self.server_process
        super().stop()
        _let_go(process)


def _let_go(process: subprocess.Popen[Any] | None) -> None:
    if process is not None and process.stdin is not None:
        process.stdin.close()


def _not_started(why: str) -> ServerError:
    return ServerError(
        f"Prefect's temporary server must start on this machine; it did not. {why} Run again with "
        "--verbose for its own errors, or set PREFECT_API_URL to a server that runs."
    )
