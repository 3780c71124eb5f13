"""A run whose step outlasts its time limit ends at once, with all that it started.

The step itself may hang where no error can be raised, so its whole process ends.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

from prefect import State, runtime
from prefect.context import FlowRunContext
from prefect.logging.handlers import APILogWorker
from prefect.states import Failed

from biasgate.flows.own_runs import end_own_runs
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import is_spread, say
from biasgate.tasks.common.secrets import masked
from biasgate.tasks.common.steps import StepSettings, steps_as, steps_now
from biasgate.tasks.ending import end_at_once, end_mlflow_runs, kept_in
from biasgate.tasks.reading_evaluation import read_step_settings

TIMED_OUT = "TimedOut"
_CRASH = 1
# For servers and receivers of messages that do not answer.
_PATIENCE_S = 10.0
_first = threading.Lock()


@contextmanager
def steps_of(config: str, store: str) -> Iterator[None]:
    """Try the steps of a flow as its evaluation file says; of a flow within one, as that does."""
    settings = steps_now() or read_step_settings(config)
    if settings.limited_by is not None and is_spread():
        msg = (
            f"`steps.{settings.limited_by}.time_limit_s` must be left out where another task "
            f"runner than threads is chosen, since a limit ends only this process (file {config})."
        )
        raise InputError(msg)
    with steps_as(settings, partial(_end_run, settings, config, store, FlowRunContext.get())):
        yield


def _end_run(
    settings: StepSettings,
    config: str,
    store: str,
    flow: FlowRunContext | None,
    stage: str | None,
    limit: float,
) -> NoReturn:
    """End this process because of a step of this flow, in whose context this is called."""
    _first.acquire()  # for good: of several late steps, the first one is told
    sentence = masked(
        f"step {runtime.task_run.name!r}{f' of stage {stage}' if stage else ''} took longer than "
        f"its limit of {limit:g} s, `{settings.key_of_limit(stage)}` in {config}, so the run was "
        f"ended; {kept_in(Path(store))}"
    )
    say(sentence, is_error=True)
    state: State[Any] = Failed(name=TIMED_OUT, message=sentence)
    end_at_once(
        _CRASH,
        _PATIENCE_S,
        partial(end_own_runs, state, UUID(runtime.task_run.id)),
        partial(end_mlflow_runs, Path(store), "FAILED"),
        partial(_call_hooks, flow, state),
        partial(APILogWorker.drain_all, timeout=_PATIENCE_S),
    )


def _call_hooks(context: FlowRunContext | None, state: State[Any]) -> None:
    """Do what the flow does after a failure, such as notifying people."""
    if context is None or context.flow is None or context.flow_run is None:
        return
    for hook in context.flow.on_failure_hooks:
        with suppress(Exception):
            hook(context.flow, context.flow_run, state)
