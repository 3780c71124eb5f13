"""A runner of Prefect that survives an unreachable server, and stops cleanly and soon.

Prefect's own runner ends with tracebacks after three requests that its server does not answer. At
SIGTERM it leaves a coroutine that is never awaited, prints the traceback of each lost connection,
and waits for a running night without a timeout.
"""

# ruff: noqa: SLF001 - Prefect has no public interface for this
from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

import httpx
from prefect.exceptions import PrefectException
from prefect.runner import Runner
from prefect.settings import PREFECT_API_URL

from biasgate.tasks.common.prefect_task import log_message

_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
# Timeout for Prefect's server to pause the schedule of a stopped command.
_PATIENCE_S = 15.0
_SERVER_ERROR = 500
T = TypeVar("T")


class NightRunner(Runner):
    """A runner that cancels its runs and pauses its schedule when it is stopped.

    A second signal ends the process at once.
    """

    async def start(self, *arguments: Any, **options: Any) -> None:
        """Run scheduled nights until the process is stopped."""
        if threading.current_thread() is threading.main_thread():
            self._old_handlers = {
                number: handler
                for number in _SIGNALS
                if (handler := signal.getsignal(number)) != signal.SIG_IGN
            }
            if signal.SIGINT in self._old_handlers:
                signal.signal(signal.SIGINT, self.handle_sigterm)
        await super().start(*arguments, **options)

    async def __aenter__(self) -> Self:
        """Poll for runs as Prefect does, and continue if the server does not answer."""
        await super().__aenter__()
        server = _ServerState()
        poller: Any = self._scheduled_run_poller
        poller._get_and_submit_flow_runs = server.wrap_request(
            poller._get_and_submit_flow_runs, default=None
        )
        _protect_observer(self._cancelling_observer, server)
        return self

    async def _pause_schedules(self) -> None:
        """Pause the schedule; report a server that does not answer within `_PATIENCE_S`."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await super()._pause_schedules()  # type: ignore[no-untyped-call]
        except (TimeoutError, httpx.HTTPError, PrefectException) as error:
            log_message(
                "the schedule could not be paused, since no Prefect server answers at "
                f"{PREFECT_API_URL.value()} ({type(error).__name__}): its nights wait as Late "
                "until this command runs again"
            )

    def handle_sigterm(self, number: int, *_: Any) -> None:
        """Stop the runner; Prefect calls this at SIGTERM."""
        for signal_number, handler in self._old_handlers.items():
            signal.signal(signal_number, handler)
        if not self.started:
            raise KeyboardInterrupt
        log_message(
            f"stopped by {_SIGNALS[signal.Signals(number)]}: a night that runs is cancelled, and "
            "the schedule is paused until this command runs again"
        )
        asyncio.run_coroutine_threadsafe(self.astop(), asyncio.get_running_loop())


class _ServerState:
    """State of Prefect's server, shared by the polling loops: each change is reported once."""

    def __init__(self) -> None:
        self._is_unreachable = False

    def wrap_request(
        self, send: Callable[..., Awaitable[T]], default: T
    ) -> Callable[..., Awaitable[T]]:
        """Wrap a request, so that it returns a default if the server does not answer."""

        async def send_safely(*arguments: Any, **options: Any) -> T:
            try:
                answer = await send(*arguments, **options)
            except httpx.TransportError as error:
                self._report_unreachable(type(error).__name__)
            except httpx.HTTPStatusError as error:
                if error.response.status_code < _SERVER_ERROR:
                    raise
                self._report_unreachable(f"HTTP {error.response.status_code}")
            else:
                if self._is_unreachable:
                    log_message("Prefect's server answers again")
                self._is_unreachable = False
                return answer
            return default

        return send_safely

    def _report_unreachable(self, reason: str) -> None:
        if not self._is_unreachable:
            log_message(
                f"no Prefect server answers at {PREFECT_API_URL.value()} ({reason}): retrying "
                "until it does; nights that fall due meanwhile wait there"
            )
        self._is_unreachable = True


def _protect_observer(observer: Any, server: _ServerState) -> None:
    """Let the observer of cancelled runs survive an unreachable server.

    The observer polls while its connection is lost, and gives up after some failed requests.
    """
    # Prefect logs tracebacks when a server closes its connections.
    observer.logger.addFilter(lambda record: record.exc_info is None)
    client = observer._client
    client.read_flow_runs = server.wrap_request(client.read_flow_runs, default=[])
    if handle_done := getattr(observer, "_handle_polling_task_done", None):
        # The callback of Prefect 3.8 raises an error for a cancelled task.
        def handle_end(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                handle_done(task)

        observer._handle_polling_task_done = handle_end
        if observer._polling_task is not None:  # it could not connect, and is polling already
            observer._polling_task.remove_done_callback(handle_done)
            observer._polling_task.add_done_callback(handle_end)
