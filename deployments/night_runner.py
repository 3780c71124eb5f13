"""Prefect's runner, which outlives its server, and ends cleanly and soon when it is stopped.

Prefect's own one ends with tracebacks after three requests that its server does not answer. At
SIGTERM it leaves a coroutine that is never awaited, prints the traceback of every connection that
is cut, and waits for the night that runs, for however long that takes.
"""

# ruff: noqa: SLF001 - Prefect offers no other way
from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Self

import httpx
from prefect.exceptions import PrefectException
from prefect.runner import Runner
from prefect.settings import PREFECT_API_URL
from prefect.utilities.services import critical_service_loop

from biasgate.tasks.common.prefect_task import say

_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
# So long may Prefect's server take to pause the schedule of a command that is stopped.
_PATIENCE_S = 15.0
_SERVER_ERROR = 500
_JITTER = 0.3


class NightRunner(Runner):
    """A runner that cancels its runs and pauses its schedule when it is stopped.

    A second signal ends the process at once.
    """

    async def start(self, *arguments: Any, **options: Any) -> None:
        """Run what falls due, until the process is stopped."""
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: found
                for number in _SIGNALS
                if (found := signal.getsignal(number)) != signal.SIG_IGN
            }
            if signal.SIGINT in self._before:
                signal.signal(signal.SIGINT, self.handle_sigterm)
        await super().start(*arguments, **options)

    async def __aenter__(self) -> Self:
        """Ask for runs as Prefect does, and go on asking a server that does not answer."""
        await super().__aenter__()
        server = _Server()
        poller: Any = self._scheduled_run_poller
        poller._get_and_submit_flow_runs = server.asked(poller._get_and_submit_flow_runs)
        _calm(self._cancelling_observer, server)
        return self

    async def _pause_schedules(self) -> None:
        """Pause the schedule; say so if the server does not answer within seconds."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await super()._pause_schedules()  # type: ignore[no-untyped-call]
        except (TimeoutError, httpx.HTTPError, PrefectException) as error:
            say(
                "the schedule could not be paused, since no Prefect server answers at "
                f"{PREFECT_API_URL.value()} ({type(error).__name__}): its nights wait as Late "
                "until this command runs again"
            )

    def handle_sigterm(self, number: int, *_: Any) -> None:
        """Stop; Prefect calls this at SIGTERM."""
        for one, handler in self._before.items():
            signal.signal(one, handler)
        if not self.started:
            raise KeyboardInterrupt
        say(
            f"stopped by {_SIGNALS[signal.Signals(number)]}: a night that runs is cancelled, and "
            "the schedule is paused until this command runs again"
        )
        asyncio.run_coroutine_threadsafe(self.astop(), asyncio.get_running_loop())


class _Server:
    """Prefect's server as two loops ask it: one says when it is gone, and one when it is back."""

    def __init__(self) -> None:
        self._is_gone = False

    def asked(self, ask: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """Return the same request, which raises nothing if the server does not answer."""

        async def request(*arguments: Any, **options: Any) -> None:
            try:
                await ask(*arguments, **options)
            except httpx.TransportError as error:
                self._say_gone(type(error).__name__)
            except httpx.HTTPStatusError as error:
                if error.response.status_code < _SERVER_ERROR:
                    raise
                self._say_gone(f"HTTP {error.response.status_code}")
            else:
                if self._is_gone:
                    say("Prefect's server answers again")
                self._is_gone = False

        return request

    def _say_gone(self, why: str) -> None:
        if not self._is_gone:
            say(
                f"no Prefect server answers at {PREFECT_API_URL.value()} ({why}): retrying "
                "until it does; nights that fall due meanwhile wait there"
            )
        self._is_gone = True


def _calm(observer: Any, server: _Server) -> None:
    """Let the observer of cancelled runs outlive the server.

    Prefect's own one falls back to asking when its connection is cut, and gives up after a while.
    """
    observer.logger.addFilter(_has_no_traceback)
    ended, asks = observer._handle_polling_task_done, observer._polling_task
    observer._check_for_cancelled_flow_runs = server.asked(observer._check_for_cancelled_flow_runs)
    # Prefect's own one fails at a task that was cancelled.
    observer._handle_polling_task_done = lambda task: task.cancelled() or ended(task)
    if asks is not None:  # it could not connect when it started
        asks.remove_done_callback(ended)
        asks.cancel()
        asks = asyncio.create_task(
            critical_service_loop(
                observer._check_for_cancelled_flow_runs,
                observer.polling_interval,
                jitter_range=_JITTER,
            )
        )
        asks.add_done_callback(observer._handle_polling_task_done)
        observer._polling_task = asks


def _has_no_traceback(record: logging.LogRecord) -> bool:
    """Leave out what Prefect says of each connection that a server cuts by its end."""
    return record.exc_info is None
