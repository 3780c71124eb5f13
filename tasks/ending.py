"""The end of a process that cannot wait for its own threads: after a signal, or a step that hangs.

Threads and servers that wait for each other cannot hold it up.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import NoReturn

import psutil

from biasgate.tasks.common.own_folders import remove_own_folders
from biasgate.tasks.common.progress import show_cursor

# For processes that end slowly.
_PATIENCE_S = 2.0


def kept_in(store: Path) -> str:
    """Return what is not lost, and how to go on."""
    kept = f"finished scores, frozen sets and trained models are kept in {store}"
    return f"{kept}. Run it again to resume."


def end_at_once(code: int, patience_s: float, *last: Callable[[], object]) -> NoReturn:
    """End this process and all that it started.

    `patience_s`: how long to wait for `last`. `*last`: what to do before, all at the same time;
    servers may not answer. Errors do not matter.
    """
    from biasgate.tasks.common.steps import hold_steps  # noqa: PLC0415 - numpy

    hold_steps()
    threads = [
        threading.Thread(target=copy_context().run, args=(_attempt, one), daemon=True)
        for one in last
    ]
    until = time.monotonic() + patience_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, until - time.monotonic()))
    exit_at_once(code)


def exit_at_once(code: int) -> NoReturn:
    """Kill the child processes, remove the own folders, and end."""
    with suppress(psutil.Error):
        children = psutil.Process().children(recursive=True)
        for child in children:
            with suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, timeout=_PATIENCE_S)
    remove_own_folders()
    show_cursor()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def end_mlflow_runs(store: Path, status: str) -> None:
    """End the runs of this process in MLflow."""
    if "mlflow" in sys.modules:  # otherwise it has no runs
        from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415

        Gateway.of_store(store).end_own_runs(status)


def _attempt(what: Callable[[], object]) -> None:
    with suppress(Exception):
        what()
