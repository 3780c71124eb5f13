"""Immediate end of a process whose threads may hang: after a signal, or a step that times out.

A normal exit would wait for threads, which may wait for servers. The work of a command therefore
runs in another thread, and the main thread is free to handle Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import psutil

from biasgate.tasks.common.own_folders import remove_own_folders
from biasgate.tasks.common.prefect_task import log_message
from biasgate.tasks.common.progress import show_cursor
from biasgate.tasks.common.steps import block_steps

Result = TypeVar("Result")
_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
_POLL_S = 0.2
# For processes that end slowly, and servers that do not answer.
_PATIENCE_S = 2.0
_end_actions: list[Callable[[str], object]] = []


def register_end_action(end: Callable[[str], object]) -> None:
    """Register a function to call before a stopped process ends; it gets the reason."""
    _end_actions.append(end)


def describe_kept_work(store: Path) -> str:
    """Return the message that finished work is kept, and how to resume."""
    text = f"finished scores, frozen sets and trained models are kept in {store}"
    return f"{text}. Run it again to resume."


def end_immediately(code: int, patience_s: float, *last: Callable[[], object]) -> NoReturn:
    """End this process and its child processes.

    `patience_s`: seconds to wait for `last`, since servers may not answer. `*last`: functions to
    call first, in parallel; their errors are ignored.
    """
    block_steps()
    threads = [
        threading.Thread(target=copy_context().run, args=(_call_safely, function), daemon=True)
        for function in last
    ]
    until = time.monotonic() + patience_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, until - time.monotonic()))
    exit_immediately(code)


def exit_immediately(code: int) -> NoReturn:
    """Kill the child processes, remove the temporary folders of this process, and exit."""
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
    if "mlflow" in sys.modules:  # otherwise this process did not start runs
        from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415

        Gateway.from_store(store).end_own_runs(status)


def _call_safely(function: Callable[[], object]) -> None:
    with suppress(Exception):
        function()


class StoppedError(BaseException):
    """The command was stopped by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_until_stopped(work: Callable[[], Result], store: Path) -> Result:
    """Call `work` in another thread and return its result; end the process at a signal.

    A signal ends the runs of this process in MLflow and Prefect, kills its child processes and
    removes its temporary folders. The exit code is the usual 128 plus the number of the signal:
    130 after Ctrl-C, 143 after SIGTERM.

    `store`: folder of finished work, for the message.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done, results, errors = threading.Event(), list[Result](), list[BaseException]()
    context = copy_context()

    def run() -> None:
        try:
            results.append(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            errors.append(error)
        finally:
            done.set()

    try:
        with _raise_signals():
            threading.Thread(target=run, name="work", daemon=True).start()
            # A signal does not always wake a thread that waits without a timeout.
            while not done.wait(_POLL_S):
                pass
    except StoppedError as stopped:
        signal_name = _SIGNALS[signal.Signals(stopped.number)]
        log_message(f"stopped by {signal_name}; {describe_kept_work(store)}", is_error=True)
        end_calls = [partial(end, f"Stopped by {signal_name}.") for end in _end_actions]
        end_mlflow = partial(end_mlflow_runs, store, "KILLED")
        end_immediately(128 + stopped.number, _PATIENCE_S, end_mlflow, *end_calls)
    if errors:
        raise errors[0]
    return results[0]


@contextmanager
def _raise_signals() -> Iterator[None]:
    """Raise `StoppedError` at Ctrl-C and SIGTERM, unless the process was started to ignore them."""

    def stop(number: int, _: Any) -> None:
        for handled in handlers:
            # A second signal ends the process at once.
            signal.signal(handled, lambda number, _: exit_immediately(128 + number))
        raise StoppedError(number)

    handlers = {
        number: handler
        for number in _SIGNALS
        if (handler := signal.getsignal(number)) != signal.SIG_IGN
    }
    for number in handlers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        if sys.exc_info()[0] is not StoppedError:
            for number, handler in handlers.items():
                signal.signal(number, handler)
