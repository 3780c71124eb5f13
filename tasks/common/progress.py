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
        _leave()


def _silent(n: int, *, total: float | None = None) -> None:
    del n, total


def _join() -> Progress:
    global _users  # noqa: PLW0603 - one display per process
    with _lock:
        if not _users:
            columns = TextColumn("{task.description}"), BarColumn(), _Done(), TimeRemainingColumn()
            _bars[:] = [Progress(*columns, console=Console(stderr=True))]
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
        scale, unit = (1e6, "MB") if unit == "bytes" else (1.0, unit)
        speed = task.finished_speed or task.speed
        rate = "" if speed is None else f", {speed / scale:,.0f} {unit}/s"
        return Text(f"{task.completed / scale:,.0f} {unit}{rate}")
