"""Prefect's runner, which outlives its server, and ends cleanly and soon when it is stopped.

Prefect's own one ends with tracebacks after three requests that its server does not answer. At
SIGTERM it leaves a coroutine that is never awaited, prints the traceback of every connection that
is cut, and waits for the night that runs, for however long that takes.
"""

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

from biasgate.tasks.common.prefect_task import say

_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
# So long may Prefect's server take to pause the schedule of a command that is stopped.
_PATIENCE_S = 5.0
_SERVER_ERROR = 500


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
        poller._get_and_submit_flow_runs = server.asked(poller._get_and_submit_flow_runs)  # noqa: SLF001
        observer: Any = self._cancelling_observer
        observer._check_for_cancelled_flow_runs = server.asked(  # noqa: SLF001
            observer._check_for_cancelled_flow_runs  # noqa: SLF001
        )
        observer.logger.addFilter(_has_no_traceback)
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
                f"no Prefect server answers at {PREFECT_API_URL.value()} ({why}): asking again "
                "until it does; nights that fall due meanwhile wait there"
            )
        self._is_gone = True


def _has_no_traceback(record: logging.LogRecord) -> bool:
    """Leave out what Prefect says of each connection that a server cuts by its end."""
    return record.exc_info is None
