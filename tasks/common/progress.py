"""Progress: a bar on standard error if that is a terminal, and an artifact in Prefect."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from biasgate.tasks.common.prefect_artifacts import ProgressArtifact, artifact_key
from biasgate.tasks.common.prefect_task import is_in_run

# Tasks run in threads, and a terminal has room for one live display: they share it.
_lock = threading.Lock()
_bars: list[Progress] = []
_users = 0
_FEW = 1000  # of fewer steps no speed is shown
_NOTHING = ""  # the unit of a task that counts nothing


class Advance(Protocol):
    """Reports steps done; `total` corrects the expected number."""

    def __call__(self, n: int, *, total: float | None = None) -> None:
        """Count `n` more steps."""


@contextmanager
def progress(
    what: str, *, total: float | None = None, unit: str = "rows", always: bool = False
) -> Iterator[Advance]:
    """Show what is being done, how fast, and the time left.

    `unit`: what is counted; bytes are shown in MB. `always`: publish an artifact on Prefect's
    server even for a step of a few seconds.
    """
    with Reporter(what, total, unit, always=always) as reporter, _bar(what, total, unit) as show:

        def advance(n: int, *, total: float | None = None) -> None:
            reporter.advance(n, total)
            show(n, total=total)

        yield advance


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something is being done, and since when."""
    with _bar(what, None, _NOTHING):
        yield


@contextmanager
def paused() -> Iterator[None]:
    """Take what is drawn off the terminal, during a question to the user."""
    with _lock:
        if _users:
            _bars[0].stop()
    try:
        yield
    finally:
        with _lock:
            if _users:
                _bars[0].start()


def show_cursor() -> None:
    """Show the cursor of a terminal again, before a process ends while a bar is drawn."""
    if _users and sys.__stderr__ is not None and sys.__stderr__.isatty():
        sys.__stderr__.write("\x1b[?25h\n")


@contextmanager
def _bar(what: str, total: float | None, unit: str) -> Iterator[Advance]:
    # A notebook gives commands a terminal, and keeps each drawing as a line of its own.
    if not sys.stderr.isatty() or "JPY_PARENT_PID" in os.environ:
        yield _silent
        return
    bars = _join()
    task = bars.add_task(what, total=total, unit=unit)

    def advance(n: int, *, total: float | None = None) -> None:
        bars.update(task, advance=n, total=total)

    try:
        yield advance
    finally:
        bars.refresh()
        bars.remove_task(task)  # the step prints a line of its own, which stays
        _leave()


def _silent(n: int, *, total: float | None = None) -> None:
    del n, total


def _join() -> Progress:
    global _users  # noqa: PLW0603 - one display per process
    with _lock:
        if not _users:
            columns = TextColumn("{task.description}"), BarColumn(), _Done(), _Remaining()
            # Standard output may be a file: what is printed there is no part of the display.
            _bars[:] = [Progress(*columns, console=Console(stderr=True), redirect_stdout=False)]
            _bars[0].start()
        _users += 1
        return _bars[0]


def _leave() -> None:
    global _users  # noqa: PLW0603 - one display per process
    with _lock:
        _users -= 1
        if not _users:
            _bars[0].stop()


class _Done(ProgressColumn):
    """How much is done, and how fast."""

    def render(self, task: Task) -> Text:
        unit = str(task.fields["unit"])
        if unit == _NOTHING:
            return Text(f"{task.elapsed or 0:.0f} s")
        scale, unit = (1e6, "MB") if unit == "bytes" else (1.0, unit)
        is_few = task.total is not None and task.total < _FEW
        speed = None if is_few else task.finished_speed or task.speed
        rate = "" if speed is None else f", {speed / scale:,.0f} {unit}/s"
        return Text(f"{task.completed / scale:,.0f} {unit}{rate}")


class _Remaining(TimeRemainingColumn):
    """The time left, where that can be known."""

    def render(self, task: Task) -> Text:
        return Text() if task.fields["unit"] == _NOTHING else super().render(task)


# Between two updates; the last one waits for the server no longer than this either.
INTERVAL_S = 3.0
_log = logging.getLogger("biasgate.progress")


class Reporter:
    """Publishes progress from its own thread; an unreachable server does no harm.

    Nothing is published outside a flow, while the total is unknown, or for a step that ends
    before the first update is due.

    `what`: what is being done; also, in lower case and with dashes, the artifact's key. `total`:
    number of steps, if known. `unit`: what is counted; bytes are shown in MB. `always`: publish
    short steps, too.
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


_MINUTE, _HOUR = 60, 3600


def duration(seconds: float) -> str:
    """Return a time in words, rounded up to seconds or minutes, or to tenths of an hour."""
    if seconds < _MINUTE:
        return f"{math.ceil(seconds)} s"
    if seconds < _HOUR:
        return f"{math.ceil(seconds / _MINUTE)} minutes"
    return f"{seconds / _HOUR:.1f} hours"
