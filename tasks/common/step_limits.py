"""The steps of a run: how they are tried, and what happens to one that outlasts its time limit.

No error can be raised in a thread that waits for a socket or for a library, so the step itself
cannot be ended. Whoever runs the flow ends the whole run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from biasgate.tasks.common.step_settings import StageSettings, StepSettings

P = ParamSpec("P")
R = TypeVar("R")
End = Callable[[str | None, float], object]
_TASKS = "biasgate.tasks."
ROOMS: dict[str, tuple[str, ...]] = {
    "data": ("data",),
    "scoring": ("scoring",),
    "measuring": ("evidence", "measuring"),
    "analysing": ("analysing",),
    "reporting": ("reporting",),
    "gating": ("gating",),
    "tracking": ("tracking",),
    "promoting": ("promoting",),
    "remembering": ("remembering",),
    "mitigating": ("mitigating",),
}
"""The stages that evaluation files name, and the rooms of `tasks` whose steps belong to each.

The names are the users': a room may be renamed, divided or joined, and they stay.
"""
_STAGES = {room: stage for stage, rooms in ROOMS.items() for room in rooms}
_held = threading.Event()


@dataclass(frozen=True)
class _Run:
    settings: StepSettings
    end: End


_run: ContextVar[_Run | None] = ContextVar("run", default=None)


@contextmanager
def steps_as(settings: StepSettings, end: End) -> Iterator[None]:
    """Try the steps that start in the body as the settings say.

    `end`: ends the run; is called with stage and limit of a step that outlasts its limit, in
    another thread, with the step's context.
    """
    before = _run.set(_Run(settings, end))
    try:
        yield
    finally:
        _run.reset(before)


def stage_of(function: Callable[..., object]) -> str | None:
    """Return the stage that a step belongs to; None if it is in no room of `tasks`."""
    _, inside, place = function.__module__.partition(_TASKS)
    return _STAGES.get(place.partition(".")[0]) if inside else None


def steps_now() -> StepSettings | None:
    """Return the settings of the run that this is called in, if it has any."""
    run = _run.get()
    return None if run is None else run.settings


def settings_now(stage: str | None) -> StageSettings:
    """Return how a step that starts now is tried."""
    from biasgate.tasks.common.step_settings import StepSettings  # noqa: PLC0415 - numpy

    return (steps_now() or StepSettings()).of(stage)


def limited(function: Callable[P, R], stage: str | None) -> Callable[P, R]:
    """Return the function; its run is ended if a call outlasts the limit of its stage."""

    @wraps(function)
    def limited_function(*args: P.args, **kwargs: P.kwargs) -> R:
        with _watched(stage):
            return function(*args, **kwargs)

    return limited_function


@contextmanager
def _watched(stage: str | None) -> Iterator[None]:
    """Start a clock for a step, and stop it at its end."""
    _wait_if_held()
    run, limit = _run.get(), settings_now(stage).time_limit_s
    if run is None or limit is None:
        try:
            yield
        finally:
            _wait_if_held()
        return
    clock = threading.Timer(limit, copy_context().run, (run.end, stage, limit))
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        _wait_if_held()


def hold_steps() -> None:
    """Let no step start or end from now on, since this process ends.

    What the others meet when their child processes are killed is then told by nobody.
    """
    _held.set()


def _wait_if_held() -> None:
    while _held.is_set():
        threading.Event().wait()
