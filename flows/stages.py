"""Stages of a flow, which Prefect shows as nested flow runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from prefect import Flow, runtime

from bias_metrics.parts import format_count
from biasgate.flows.own_runs import record_own_run
from biasgate.tasks.common.prefect_artifacts import show_flow_run
from biasgate.tasks.common.prefect_task import log_message, make_task_runner
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.progress import format_duration
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.wording import shorten_names

P = ParamSpec("P")
R = TypeVar("R")
_seconds: ContextVar[dict[str, float] | None] = ContextVar("seconds", default=None)


@contextmanager
def time_stages() -> Iterator[dict[str, float]]:
    """Yield a dictionary that receives the seconds of each stage in the body, by name."""
    seconds: dict[str, float] = {}
    token = _seconds.set(seconds)
    try:
        yield seconds
    finally:
        _seconds.reset(token)


def stage(name: str, *, spread: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function to run as a nested flow, and report its time.

    If an argument is an evaluation, it is part of the run's name: `score: 2 candidates on news`.
    With `spread`, tasks are submitted to the task runner of the environment.

    Arguments and results do not pass through Prefect: it stores parameters, which may contain
    secrets, and searches results for futures.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run_stage(*args: P.args, **kwargs: P.kwargs) -> R:
            results: list[R] = []

            def body() -> None:
                results.append(function(*args, **kwargs))

            body.__doc__ = function.__doc__
            description = _describe_work(name, args)
            started = time.monotonic()
            nested_flow = Flow(
                body,
                name=name,
                flow_run_name=lambda: description,  # a string would be a template
                task_runner=make_task_runner() if spread else None,
                on_running=[record_own_run],
            )
            with show_flow_run(runtime.flow_run.id):
                nested_flow()
            elapsed = time.monotonic() - started
            if (seconds := _seconds.get()) is not None:
                seconds[name] = elapsed
            log_message(f"{description}: done in {format_duration(elapsed)}")
            return results[0]

        return run_stage

    return decorate


def _describe_work(name: str, args: Sequence[Any]) -> str:
    """Return the name of a stage, with the candidates and sets of its evaluation."""
    evaluation = next((value for value in args if isinstance(value, Evaluation)), None)
    if evaluation is None:
        return name
    candidates = format_count(len(evaluation.candidates), "candidate")
    sets = shorten_names([source.name for source in evaluation.evaluation_sets])
    return escape_invisible(f"{name}: {candidates} on {sets}")
