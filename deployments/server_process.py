"""The process of Prefect's temporary server. It ends when its standard input is closed.

It watches its input before it imports Prefect. The import takes seconds, and the command that
started the process may be killed meanwhile. The port is also open from the start: it answers
requests after the import.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import traceback

from biasgate.tasks.common.garbage import raise_gc_threshold


def run_server() -> None:
    """Print the port and run Prefect's server until standard input is closed."""
    raise_gc_threshold()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    import uvicorn  # noqa: PLC0415 - the process must watch its input first

    _lock_before_reading()
    factory = "prefect.server.api.server:create_app"
    level = os.environ.get("PREFECT_SERVER_LOGGING_LEVEL", "ERROR").lower()
    config = uvicorn.Config(factory, factory=True, log_level=level, lifespan="on")
    uvicorn.Server(config).run([listening])


def _lock_before_reading() -> None:
    """Begin each transaction on SQLite with the write lock.

    Prefect's transactions begin with a read. If another transaction wrote meanwhile, SQLite refuses
    their write at once, and Prefect's client retries only after 2, 4, 8, 16 and 32 seconds.
    """
    from prefect.server.database import configurations  # noqa: PLC0415 - as above

    sqlite = configurations.AioSqliteConfiguration
    begin = sqlite.begin_transaction
    sqlite.begin_transaction = (  # type: ignore[method-assign]
        lambda self, session, with_for_update=True: begin(self, session, with_for_update=True)  # noqa: ARG005
    )


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    try:
        run_server()
    except (Exception, SystemExit):  # noqa: BLE001 - any error ends the process
        if os.environ.get("PREFECT_SERVER_LOGGING_LEVEL") != "CRITICAL":
            traceback.print_exc()
        os._exit(3)  # a normal exit is aborted, because the thread holds standard input
