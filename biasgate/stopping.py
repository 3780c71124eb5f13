"""Commands that end within seconds when they are stopped, and leave nothing that runs.

The work is done in another thread, so that the main thread is free to answer Ctrl-C and SIGTERM.
Threads and servers that wait for each other cannot hold it up.
"""

from __future__ import annotations

import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from biasgate.printing import print_error
from biasgate.tasks.common.own_folders import remove_own_folders
from biasgate.tasks.common.progress import show_cursor

Result = TypeVar("Result")

_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
# For a server of MLflow that does not answer, and for processes that end slowly.
_PATIENCE_S = 2.0
_POLL_S = 0.2


class StoppedError(BaseException):
    """The command was stopped by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def until_stopped(work: Callable[[], Result], store: Path) -> Result:
    """Return what `work` returns; if the process is stopped meanwhile, end it.

    Ended are the runs of this process in MLflow and Prefect, its child processes and its temporary
    folders. The exit code is 128 and the number of the signal, as is usual: 130 after Ctrl-C, 143
    after SIGTERM.

    Parameters
    ----------
    work : callable
        Is called in another thread.
    store : Path
        Where finished work is kept, for the message.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done, results, errors = threading.Event(), list[Result](), list[BaseException]()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            results.append(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            errors.append(error)
        finally:
            done.set()

    try:
        with _raised():
            threading.Thread(target=run, name="work", daemon=True).start()
            # A signal does not always wake a thread that waits without a limit.
            while not done.wait(_POLL_S):
                pass
    except StoppedError as stopped:
        _end(stopped.number, store)
    if errors:
        raise errors[0]
    return results[0]


@contextmanager
def _raised() -> Iterator[None]:
    """Raise the signals that stop a command, unless it was started to ignore them."""

    def stop(number: int, _: Any) -> None:
        for one in before:
            signal.signal(one, lambda number, _: _exit(number))  # a second one ends it at once
        raise StoppedError(number)

    before = {one: found for one in _SIGNALS if (found := signal.getsignal(one)) != signal.SIG_IGN}
    for one in before:
        signal.signal(one, stop)
    try:
        yield
    finally:
        if sys.exc_info()[0] is not StoppedError:
            for one, found in before.items():
                signal.signal(one, found)


def _end(number: int, store: Path) -> None:
    kept = f"finished scores, frozen sets and trained models are kept in {store}"
    print_error(f"stopped by {_SIGNALS[signal.Signals(number)]}; {kept}. Run it again to resume.")
    # Their servers may not answer.
    ending = [
        threading.Thread(target=_end_runs, args=(store,), daemon=True),
        threading.Thread(target=_cancel_flows, args=(number,), daemon=True),
    ]
    until = time.monotonic() + _PATIENCE_S
    for one in ending:
        one.start()
    for one in ending:
        one.join(max(0, until - time.monotonic()))
    _exit(number)


def _cancel_flows(number: int) -> None:
    flows = sys.modules.get("biasgate.flows.own_runs")
    if flows is not None:
        with suppress(Exception):
            flows.cancel_own_runs(f"Stopped by {_SIGNALS[signal.Signals(number)]}.")


def _end_runs(store: Path) -> None:
    if "mlflow" in sys.modules:  # otherwise it has no runs
        from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415

        with suppress(Exception):
            Gateway.of_store(store).end_own_runs()


def _exit(number: int) -> None:
    """End this process, after all that it started."""
    with suppress(psutil.Error):
        children = psutil.Process().children(recursive=True)
        for one in children:
            with suppress(psutil.Error):
                one.kill()
        psutil.wait_procs(children, timeout=_PATIENCE_S)
    remove_own_folders()
    show_cursor()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(128 + number)
