"""Progress as a bar on standard error, if that is a terminal, and as an artifact in Prefect."""

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

from biasgate.tasks.common.prefect_artifacts import ProgressArtifact, make_artifact_key
from biasgate.tasks.common.prefect_task import is_in_run

# Tasks run in threads and share one live display, since a terminal supports only one.
_lock = threading.Lock()
_bars: list[Progress] = []
_users = 0
_MIN_STEPS_FOR_SPEED = 1000
_NO_UNIT = ""  # the unit of a task without a counter


class Advance(Protocol):
    """Callback that reports finished steps; `total` replaces the expected number."""

    def __call__(self, n: int, *, total: float | None = None) -> None:
        """Count `n` more steps."""


@contextmanager
def show_progress(
    description: str, *, total: float | None = None, unit: str = "rows", always: bool = False
) -> Iterator[Advance]:
    """Show the description, speed and remaining time of the body.

    `unit`: unit of the counter; bytes are shown in MB. `always`: publish an artifact on Prefect's
    server even for a step of a few seconds.
    """
    with (
        Reporter(description, total, unit, always=always) as reporter,
        _show_bar(description, total, unit) as show,
    ):

        def advance(n: int, *, total: float | None = None) -> None:
            reporter.advance(n, total)
            show(n, total=total)

        yield advance


@contextmanager
def show_activity(description: str) -> Iterator[None]:
    """Show the description and elapsed time of the body on a terminal."""
    with _show_bar(description, None, _NO_UNIT):
        yield


@contextmanager
def pause_display() -> Iterator[None]:
    """Remove the display from the terminal during a question to the user."""
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
    """Restore the cursor of a terminal before a process ends during a live display."""
    if _users and sys.__stderr__ is not None and sys.__stderr__.isatty():
        sys.__stderr__.write("\x1b[?25h\n")


@contextmanager
def _show_bar(description: str, total: float | None, unit: str) -> Iterator[Advance]:
    # Commands in a notebook have a terminal, which keeps every redrawn bar as a separate line.
    if not sys.stderr.isatty() or "JPY_PARENT_PID" in os.environ:
        yield _ignore_advance
        return
    bars = _join_display()
    task = bars.add_task(description, total=total, unit=unit)

    def advance(n: int, *, total: float | None = None) -> None:
        bars.update(task, advance=n, total=total)

    try:
        yield advance
    finally:
        bars.refresh()
        bars.remove_task(task)  # the step itself prints a permanent line
        _leave_display()


def _ignore_advance(n: int, *, total: float | None = None) -> None:
    del n, total


def _join_display() -> Progress:
    global _users  # noqa: PLW0603 - one display per process
    with _lock:
        if not _users:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                _DoneColumn(),
                _RemainingColumn(),
            )
            # Standard output may be a file, so output to it must not be drawn in the display.
            _bars[:] = [Progress(*columns, console=Console(stderr=True), redirect_stdout=False)]
            _bars[0].start()
        _users += 1
        return _bars[0]


def _leave_display() -> None:
    global _users  # noqa: PLW0603 - one display per process
    with _lock:
        _users -= 1
        if not _users:
            _bars[0].stop()


class _DoneColumn(ProgressColumn):
    """Column with the finished amount and the speed."""

    def render(self, task: Task) -> Text:
        unit = str(task.fields["unit"])
        if unit == _NO_UNIT:
            return Text(f"{task.elapsed or 0:.0f} s")
        scale, unit = (1e6, "MB") if unit == "bytes" else (1.0, unit)
        is_few = task.total is not None and task.total < _MIN_STEPS_FOR_SPEED
        speed = None if is_few else task.finished_speed or task.speed
        rate = "" if speed is None else f", {speed / scale:,.0f} {unit}/s"
        return Text(f"{task.completed / scale:,.0f} {unit}{rate}")


class _RemainingColumn(TimeRemainingColumn):
    """Column with the remaining time, empty for a task without a counter."""

    def render(self, task: Task) -> Text:
        return Text() if task.fields["unit"] == _NO_UNIT else super().render(task)


# Between two updates; also the longest wait for the last update.
INTERVAL_S = 3.0
_log = logging.getLogger("biasgate.progress")


class Reporter:
    """Publisher of progress, in its own thread so that an unreachable server is harmless.

    Progress is not published outside a flow, while the total is unknown, or for a step that ends
    before the first update is due.

    `description` of the work, in lower case and with dashes, is also the key of the artifact.
    `total`: number of steps, if known. `unit`: unit of the counter; bytes are shown in MB.
    `always`: also publish short steps.
    """

    def __init__(self, description: str, total: float | None, unit: str, *, always: bool) -> None:
        self._description, self._total, self._always = description, total, always
        self._scale, self._unit = (1e6, "MB") if unit == "bytes" else (1.0, unit)
        self._done, self._started = 0.0, time.monotonic()
        self._ended = threading.Event()
        run = copy_context().run  # so that the thread belongs to the same task
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
        """Count `n` more steps; `total`, unless None, replaces the expected number."""
        self._done += n
        self._total = self._total if total is None else total

    def describe_progress(self) -> str:
        """Return the progress, speed and remaining time in words."""
        elapsed = time.monotonic() - self._started
        rate = self._done / elapsed if elapsed else 0.0
        left = ((self._total or 0) - self._done) / rate if rate else 0.0
        done, total, speed = (
            f"{value / self._scale:,.0f}" for value in (self._done, self._total or 0, rate)
        )
        amount = f"{done} of {total} {self._unit}, {speed} {self._unit}/s"
        return f"{self._description}: {amount}, {timedelta(seconds=round(max(left, 0)))} left"

    def _publish(self) -> None:
        artifact = ProgressArtifact(make_artifact_key(self._description))
        has_ended = self._ended.wait(INTERVAL_S)
        if has_ended and not self._always:
            return
        while True:
            if self._total:
                try:
                    artifact.publish(
                        min(100.0, 100 * self._done / self._total), self.describe_progress()
                    )
                except Exception as error:  # noqa: BLE001 - progress must not stop the work
                    _log.debug("progress is no longer published: %s", type(error).__name__)
                    return
            if has_ended:
                return
            has_ended = self._ended.wait(INTERVAL_S)


_MINUTE, _HOUR = 60, 3600


def format_duration(seconds: float) -> str:
    """Format a time in seconds or minutes, rounded up, or in tenths of an hour."""
    if seconds < _MINUTE:
        return f"{math.ceil(seconds)} s"
    if seconds < _HOUR:
        return f"{math.ceil(seconds / _MINUTE)} minutes"
    return f"{seconds / _HOUR:.1f} hours"
