"""Parts of a flow that Prefect shows as flow runs of their own, within the flow's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from prefect import Flow, runtime

from bias_metrics.parts import format_count
from biasgate.flows.own_runs import own_run
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
def timed_stages() -> Iterator[dict[str, float]]:
    """Yield the seconds of each stage that ends in the body, by its name."""
    seconds: dict[str, float] = {}
    before = _seconds.set(seconds)
    try:
        yield seconds
    finally:
        _seconds.reset(before)


def stage(name: str, *, spread: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Run a function as a flow within the flow that calls it; print its time.

    An evaluation among the arguments gives the run its name, as in `score: 2 candidates on news`.
    With `spread` its tasks are submitted to the task runner that the environment names.

    Neither arguments nor results pass through Prefect: it stores parameters, and settings may hold
    secrets; and in results it would search for futures.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def within(*args: P.args, **kwargs: P.kwargs) -> R:
            results: list[R] = []

            def body() -> None:
                results.append(function(*args, **kwargs))

            body.__doc__ = function.__doc__
            shown = _describe_work(name, args)
            started = time.monotonic()
            within_flow = Flow(
                body,
                name=name,
                flow_run_name=lambda: shown,  # a text would be a template
                task_runner=make_task_runner() if spread else None,
                on_running=[own_run],
            )
            with show_flow_run(runtime.flow_run.id):
                within_flow()
            elapsed = time.monotonic() - started
            if (seconds := _seconds.get()) is not None:
                seconds[name] = elapsed
            log_message(f"{shown}: done in {format_duration(elapsed)}")
            return results[0]

        return within

    return decorate


def _describe_work(name: str, args: Sequence[Any]) -> str:
    """Return the name of a stage, with the candidates and sets of the evaluation it works on."""
    evaluation = next((one for one in args if isinstance(one, Evaluation)), None)
    if evaluation is None:
        return name
    candidates = format_count(len(evaluation.candidates), "candidate")
    sets = shorten_names([source.name for source in evaluation.evaluation_sets])
    return escape_invisible(f"{name}: {candidates} on {sets}")
