"""The steps of a run: how often each is tried, how long it may take, and what happens then.

No error can be raised in a thread that waits for a socket or for a library, so a step that outlasts
its limit cannot be ended itself. Whoever runs the flow ends the whole run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import BeforeValidator, Field

from biasgate.tasks.common.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")
End = Callable[[str | None, float], object]
_TASKS = "biasgate.tasks."
_STAGES = {"counting": "measuring", "evidence": "measuring"}
"""Rooms of `tasks` whose steps belong to the stage of another name. Stages are what evaluation
files name: a room may be renamed, divided or joined, and they stay."""
_held = threading.Event()
_MOST_S = 30 * 24 * 3600
_MOST_DELAYS = 50  # Prefect takes no more


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, int | float) else value


Delay = Annotated[float, Field(ge=0, le=_MOST_S)]
Delays = Annotated[
    tuple[Delay, ...], Field(min_length=1, max_length=_MOST_DELAYS), BeforeValidator(_listed)
]


class StageSettings(Settings):
    """How the steps of one stage are tried; what is not given is as in `every`."""

    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    """How many times a step is tried again after it failed."""
    retry_delay_s: Delays | None = None
    """Seconds to wait before each retry; the last number is for all further ones."""
    time_limit_s: Annotated[float, Field(ge=1, le=_MOST_S)] | None = None
    """Seconds that one try of a step may take. A longer one ends the run."""


DEFAULT = StageSettings(retries=2, retry_delay_s=(1.0, 5.0))


class StepSettings(Settings):
    """How the steps of a run are tried, by stage."""

    every: StageSettings = StageSettings()
    """For all steps; the others are for the steps of one stage."""
    data: StageSettings = StageSettings()
    """Freezing of sets."""
    scoring: StageSettings = StageSettings()
    """Training, opening and scoring candidates."""
    measuring: StageSettings = StageSettings()
    """Bias metrics."""
    analysing: StageSettings = StageSettings()
    """Further analyses."""
    reporting: StageSettings = StageSettings()
    """Reports, figures, pages, notifications."""
    gating: StageSettings = StageSettings()
    """Verdicts by the policy."""
    tracking: StageSettings = StageSettings()
    """Runs in MLflow."""
    promoting: StageSettings = StageSettings()
    """The ledger and `champion`."""
    remembering: StageSettings = StageSettings()
    """Comparison with earlier nights."""
    mitigating: StageSettings = StageSettings()
    """Methods, trials and their reports."""

    def of(self, stage: str | None) -> StageSettings:
        """Return the settings of a stage; without one, those of every step."""
        named = [self.every] if stage is None else [self.every, getattr(self, stage)]
        given = (one.model_dump(exclude_none=True) for one in named)
        return DEFAULT.model_copy(update={key: v for one in given for key, v in one.items()})

    @property
    def limited_by(self) -> str | None:
        """The first key that sets a time limit, as in `scoring`; None if there is no limit."""
        return next(
            (key for key in type(self).model_fields if getattr(self, key).time_limit_s is not None),
            None,
        )

    def key_of_limit(self, stage: str | None) -> str:
        """Return where the time limit of a stage is set, as in `steps.scoring.time_limit_s`."""
        named = stage is not None and getattr(self, stage).time_limit_s is not None
        return f"steps.{stage if named else 'every'}.time_limit_s"


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
    room = place.partition(".")[0]
    stage = _STAGES.get(room, room)
    return stage if inside and stage in StepSettings.model_fields else None


def steps_now() -> StepSettings | None:
    """Return the settings of the run that this is called in, if it has any."""
    run = _run.get()
    return None if run is None else run.settings


def settings_now(stage: str | None) -> StageSettings:
    """Return how a step that starts now is tried."""
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
