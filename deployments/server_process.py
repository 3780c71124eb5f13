"""The process of Prefect's temporary server. It ends when its standard input is closed.

It watches its input from the first moment: Prefect's import takes seconds, more on a busy machine,
and the command that started it may be killed meanwhile.
"""

from __future__ import annotations

import os
import sys
import threading


def serve(port: int) -> None:
    """Run Prefect's server until standard input is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import uvicorn  # noqa: PLC0415 - after the watch has begun

    create = "prefect.server.api.server:create_app"
    uvicorn.run(create, factory=True, host="127.0.0.1", port=port, log_level="error", lifespan="on")


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
