"""How often each step of a run is tried, and how long one try may take.

No error can be raised in a thread that waits for a socket or for a library, so a step that outlasts
its limit ends the whole run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
End = Callable[[float], object]
RETRIES = 2
RETRY_DELAYS_S = (1.0, 5.0)
_held = threading.Event()


@dataclass(frozen=True)
class StepSettings:
    """How the steps of a run are tried."""

    retries: int = RETRIES
    timeout_s: float | None = None
    """Seconds that one try of a step may take; None for any."""


@dataclass(frozen=True)
class _Run:
    settings: StepSettings
    end: End


_run: ContextVar[_Run | None] = ContextVar("run", default=None)


@contextmanager
def steps_as(settings: StepSettings, end: End) -> Iterator[None]:
    """Try the steps that start in the body as the settings say.

    `end`: ends the run; is called with the limit that a step outlasts, in another thread, with the
    step's context.
    """
    before = _run.set(_Run(settings, end))
    try:
        yield
    finally:
        _run.reset(before)


def steps_now() -> StepSettings | None:
    """Return the settings of the run that this is called in, if it has any."""
    run = _run.get()
    return None if run is None else run.settings


def limited(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function; its run is ended if a call outlasts the limit."""

    @wraps(function)
    def limited_function(*args: P.args, **kwargs: P.kwargs) -> R:
        # It is sent to workers by value, with all that it names: a context variable cannot be.
        with _within_limit():
            return function(*args, **kwargs)

    return limited_function


@contextmanager
def _within_limit() -> Iterator[None]:
    """End the run if the body outlasts its limit."""
    _wait_if_held()
    clock, run = None, _run.get()
    if run is not None and (limit := run.settings.timeout_s) is not None:
        clock = threading.Timer(limit, copy_context().run, (run.end, limit))
        clock.daemon = True
        clock.start()
    try:
        yield
    finally:
        if clock is not None:
            clock.cancel()
        _wait_if_held()


def hold_steps() -> None:
    """Let no step start or end from now on, since this process ends.

    So no step reports that its child processes were killed.
    """
    _held.set()


def _wait_if_held() -> None:
    while _held.is_set():
        threading.Event().wait()
