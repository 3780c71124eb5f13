"""Commands that end within seconds when they are stopped, and leave nothing that runs.

The work is done in another thread, so that the main thread is free to answer Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import contextvars
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from biasgate.printing import print_error
from biasgate.tasks.ending import end_at_once, end_mlflow_runs, exit_at_once, kept_in

Result = TypeVar("Result")

_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
# For a server that does not answer.
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

    `work`: is called in another thread. `store`: where finished work is kept, for the message.
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
            # A second one ends it at once.
            signal.signal(one, lambda number, _: exit_at_once(128 + number))
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
    print_error(f"stopped by {_SIGNALS[signal.Signals(number)]}; {kept_in(store)}")
    end_at_once(
        128 + number,
        _PATIENCE_S,
        lambda: end_mlflow_runs(store, "KILLED"),
        lambda: _cancel_flows(number),
    )


def _cancel_flows(number: int) -> None:
    flows = sys.modules.get("biasgate.flows.own_runs")
    if flows is not None:
        flows.cancel_own_runs(f"Stopped by {_SIGNALS[signal.Signals(number)]}.")
