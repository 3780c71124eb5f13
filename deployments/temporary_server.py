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

from prefect.server.api.server import SubprocessASGIServer
from prefect.settings import get_current_settings

# As Prefect starts it.
_EPHEMERAL = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}


class TemporaryServer(SubprocessASGIServer):
    """The server that Prefect starts in this process when it needs one.

    Prefect keeps one instance for each process and looks it up; the first one that is made stays.
    """

    def _run_uvicorn_command(self) -> subprocess.Popen[Any]:
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
        if process is not None and process.stdin is not None:
            process.stdin.close()
