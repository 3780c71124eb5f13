"""Progress: a bar on standard error if that is a terminal, and an artifact in Prefect."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from biasgate.tasks.common.progress_artifact import Reporter

# Tasks run in threads, and a terminal has room for one live display: they share it.
_lock = threading.Lock()
_bars: list[Progress] = []
_users = 0
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

    Parameters
    ----------
    what : str
        What is being done, as in "scoring natural".
    total : float, optional
        Expected number of steps, if known.
    unit : str
        What is counted; bytes are shown in MB.
    always : bool, default=False
        Publish an artifact on Prefect's server even for a step of a few seconds.

    Yields
    ------
    Advance
        To be called with the number of steps done since the last call.
    """
    with Reporter(what, total, unit, always=always) as reporter, _bar(what, total, unit) as show:

        def advance(n: int, *, total: float | None = None) -> None:
            reporter.advance(n, total)
            show(n, total=total)

        yield advance


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something is being done, and since when.

    Parameters
    ----------
    what : str
        What is being done, as in "verifying".
    """
    with _bar(what, None, _NOTHING):
        yield


@contextmanager
def paused() -> Iterator[None]:
    """Take what is drawn off the terminal, as long as somebody is asked there."""
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
    if not sys.stderr.isatty():
        yield _silent
        return
    bars = _join()
    task = bars.add_task(what, total=total, unit=unit)

    def advance(n: int, *, total: float | None = None) -> None:
        bars.update(task, advance=n, total=total)

    try:
        yield advance
    finally:
        bars.stop_task(task)
        if unit == _NOTHING:
            bars.remove_task(task)
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
        speed = task.finished_speed or task.speed
        rate = "" if speed is None else f", {speed / scale:,.0f} {unit}/s"
        return Text(f"{task.completed / scale:,.0f} {unit}{rate}")


class _Remaining(TimeRemainingColumn):
    """The time left, where that can be known."""

    def render(self, task: Task) -> Text:
        return Text() if task.fields["unit"] == _NOTHING else super().render(task)
