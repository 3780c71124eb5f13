"""Progress of long steps, published on the Prefect server at intervals."""

from __future__ import annotations

import logging
import threading
import time
from contextvars import copy_context
from datetime import timedelta
from typing import Self

from biasgate.tasks.common.prefect_artifacts import ProgressArtifact, artifact_key
from biasgate.tasks.common.prefect_task import is_in_run

# Between two updates; the last one waits for the server no longer than this either.
INTERVAL_S = 3.0
_log = logging.getLogger("biasgate.progress")


class Reporter:
    """Publishes progress from its own thread; an unreachable server does no harm.

    Nothing is published outside a flow, while the total is unknown, or for a step that ends
    before the first update is due.

    Parameters
    ----------
    what : str
        What is being done; also, in lower case and with dashes, the artifact's key.
    total : float or None
        Number of steps, if known.
    unit : str
        What is counted; bytes are shown in MB.
    always : bool, default=False
        Publish short steps, too.
    """

    def __init__(self, what: str, total: float | None, unit: str, *, always: bool = False) -> None:
        self._what, self._total, self._always = what, total, always
        self._scale, self._unit = (1e6, "MB") if unit == "bytes" else (1.0, unit)
        self._done, self._started = 0.0, time.monotonic()
        self._ended = threading.Event()
        run = copy_context().run  # the thread belongs to the same task
        self._thread = threading.Thread(target=run, args=(self._publish,), daemon=True)

    def __enter__(self) -> Self:
        if is_in_run():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(INTERVAL_S)

    def advance(self, n: float, total: float | None) -> None:
        """Count `n` more steps, perhaps of a new total."""
        self._done += n
        self._total = self._total if total is None else total

    def said(self) -> str:
        """Return what is done, how fast, and the time left, as the terminal shows it."""
        elapsed = time.monotonic() - self._started
        rate = self._done / elapsed if elapsed else 0.0
        left = ((self._total or 0) - self._done) / rate if rate else 0.0
        done, all_, speed = (
            f"{value / self._scale:,.0f}" for value in (self._done, self._total or 0, rate)
        )
        time_left = timedelta(seconds=round(max(left, 0)))
        return (
            f"{self._what}: {done} of {all_} {self._unit}, {speed} {self._unit}/s, {time_left} left"
        )

    def _publish(self) -> None:
        artifact = ProgressArtifact(artifact_key(self._what))
        has_ended = self._ended.wait(INTERVAL_S)
        if has_ended and not self._always:
            return
        while True:
            if self._total:
                try:
                    artifact.tell(min(100.0, 100 * self._done / self._total), self.said())
                except Exception as error:  # noqa: BLE001 - whatever it is, the work goes on
                    _log.debug("progress is no longer published: %s", type(error).__name__)
                    return
            if has_ended:
                return
            has_ended = self._ended.wait(INTERVAL_S)
