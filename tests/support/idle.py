"""Servers of a whole session of tests, which sleep while tests run that do not use them.

A server of Prefect with nothing to do takes 2 to 8 % of a core, for as long as the session lasts.
"""

import inspect
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import Popen
from typing import Any

import pytest


@dataclass
class _Server:
    process: Popen[Any]
    settle: Callable[[], None]
    sleeps: bool = False


_OF_FIXTURE: dict[str, _Server] = {}


@contextmanager
def asleep_when_unused(
    fixture: str, process: Popen[Any], settle: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Let a server sleep after a test if the next one lacks this fixture.

    `settle` sends before that what this process still has to send.
    """
    _OF_FIXTURE[fixture] = _Server(process, settle)
    try:
        yield
    finally:
        del _OF_FIXTURE[fixture]
        process.send_signal(signal.SIGCONT)  # a process that is stopped does not end when asked


def wake(item: pytest.Item) -> None:
    """Wake the servers of a test."""
    for fixture, server in _OF_FIXTURE.items():
        if server.sleeps and _may_use(item, fixture):
            server.process.send_signal(signal.SIGCONT)
            server.sleeps = False


def let_sleep(item: pytest.Item | None) -> None:
    """Let the servers sleep that the next test does not use."""
    for fixture, server in _OF_FIXTURE.items():
        if not server.sleeps and not (item and _may_use(item, fixture)):
            server.settle()
            server.process.send_signal(signal.SIGSTOP)
            server.sleeps = True


def _may_use(item: pytest.Item, fixture: str) -> bool:
    """Return whether a test has a fixture, or may ask for it later by `request`."""
    function = getattr(item, "function", None)
    asks = function is None or "request" in inspect.signature(function).parameters
    return asks or fixture in getattr(item, "fixturenames", ())
