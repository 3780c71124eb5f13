"""Retries and time limits of the steps of a run.

An error cannot be raised in a thread that waits for a socket or a library. A step that exceeds its
limit therefore ends the whole run.
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
_ending = threading.Event()


@dataclass(frozen=True)
class StepSettings:
    """Retries and time limit of the steps of a run."""

    retries: int = RETRIES
    timeout_s: float | None = None
    """Longest duration of one attempt, in seconds; None for unlimited."""


@dataclass(frozen=True)
class _Run:
    settings: StepSettings
    end: End


_run: ContextVar[_Run | None] = ContextVar("run", default=None)


@contextmanager
def apply_step_settings(settings: StepSettings, end: End) -> Iterator[None]:
    """Apply retries and the time limit to the steps that start in the body.

    `end`: function that ends the run. It is called with the exceeded limit, in another thread, in
    the context of the step.
    """
    before = _run.set(_Run(settings, end))
    try:
        yield
    finally:
        _run.reset(before)


def get_step_settings() -> StepSettings | None:
    """Return the settings of the current run, if it has any."""
    run = _run.get()
    return None if run is None else run.settings


def limit_duration(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to end its run if a call exceeds the time limit."""

    @wraps(function)
    def limited_function(*args: P.args, **kwargs: P.kwargs) -> R:
        # Workers receive this function pickled by value, with its globals. A context variable
        # cannot be pickled, so `_limit_time` reads it.
        with _limit_time():
            return function(*args, **kwargs)

    return limited_function


@contextmanager
def _limit_time() -> Iterator[None]:
    """End the run if the body exceeds the time limit."""
    _wait_if_ending()
    timer, run = None, _run.get()
    if run is not None and (limit := run.settings.timeout_s) is not None:
        timer = threading.Timer(limit, copy_context().run, (run.end, limit))
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
        _wait_if_ending()


def block_steps() -> None:
    """Block the start and end of all steps from now on, since this process ends.

    Otherwise steps would report that their child processes were killed.
    """
    _ending.set()


def _wait_if_ending() -> None:
    while _ending.is_set():
        threading.Event().wait()
