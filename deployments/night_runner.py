"""Prefect's runner, which ends cleanly and within seconds when it is stopped.

At SIGTERM Prefect's own one leaves a coroutine that is never awaited, prints the traceback of every
connection that is cut, and waits for the night that runs, for however long that takes.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

from prefect.runner import Runner

from biasgate.tasks.common.prefect_task import say

_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


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
