"""Parts of a flow that Prefect shows as flow runs of their own, within the flow's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from prefect import Flow, runtime

from biasgate.flows.own_runs import own_run
from biasgate.tasks.common.prefect_artifacts import shown_as
from biasgate.tasks.common.prefect_task import task_runner

P = ParamSpec("P")
R = TypeVar("R")


def stage(name: str, *, spread: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Run a function as a flow within the flow that calls it.

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
            within_flow = Flow(
                body,
                name=name,
                flow_run_name=name,
                task_runner=task_runner() if spread else None,
                on_running=[own_run],
            )
            with shown_as(runtime.flow_run.id):
                within_flow()
            return results[0]

        return within

    return decorate
