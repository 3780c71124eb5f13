"""The process of Prefect's temporary server. It ends when its standard input is closed.

It watches its input from the first moment: Prefect's import takes seconds, more on a busy machine,
and the command that started it may be killed meanwhile. Whatever keeps it from starting, it ends
with the code 3, upon which Prefect tries another port at once instead of waiting for this one.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback


def serve(port: int) -> None:
    """Run Prefect's server until standard input is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import uvicorn  # noqa: PLC0415 - after the watch has begun

    create = "prefect.server.api.server:create_app"
    level = os.environ.get("PREFECT_SERVER_LOGGING_LEVEL", "ERROR").lower()
    uvicorn.run(create, factory=True, host="127.0.0.1", port=port, log_level=level, lifespan="on")


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    try:
        serve(int(sys.argv[1]))
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it is
        if os.environ.get("PREFECT_SERVER_LOGGING_LEVEL") != "CRITICAL":
            traceback.print_exc()
        os._exit(3)  # an exit in order is aborted, as the thread holds standard input
