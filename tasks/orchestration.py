"""The one place where this package meets Prefect: the project-wide `task`.

Every step is made with it, so that all of them retry alike and none is cached by Prefect:
what is worth keeping (evaluation sets, scores) is kept as files keyed by digests of what it
was made from, which survive Prefect's own store and can be checked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import prefect
from prefect import Task
from prefect.artifacts import create_markdown_artifact
from prefect.blocks.core import Block
from prefect.cache_policies import NO_CACHE

from tasks.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

# A second try cannot mend these; anything else (a server that restarts, a full queue) it may.
_NOT_RETRIED = (InputError, ValueError, TypeError, KeyError, AttributeError, AssertionError)


async def _may_pass_next_time(_task: Any, _run: Any, state: Any) -> bool:
    try:
        await state.aresult()
    except _NOT_RETRIED:
        return False
    except Exception:  # noqa: BLE001 - whatever else it was, it may have passed by then
        return True
    return False


_steps = logging.getLogger("biasgate.steps")


def _tell(done: Task[..., Any], _run: Any, _state: Any) -> None:
    if done.task_run_name is None:  # the many runs of a mapped task are not told one by one
        _steps.info("%s", done.name)


def task(*, name: str, task_run_name: str | None = None) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a function a step of the pipeline.

    Parameters
    ----------
    name : str
        A verb and its object, as Prefect shows it.
    task_run_name : str, optional
        Name of one run, with parameters in braces, as in `measure {identity}`.

    Returns
    -------
    callable
        The decorator.
    """
    return prefect.task(
        name=name,
        task_run_name=task_run_name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=2,
        retry_delay_seconds=[1, 5],
        on_completion=[_tell],
        retry_condition_fn=_may_pass_next_time,
    )


def publish_markdown(key: str, markdown: str, description: str) -> None:
    """Publish Markdown as a Prefect artifact; keys have lower case letters, digits and `-`."""
    create_markdown_artifact(key=key, markdown=markdown, description=description)


def notify_by_block(name: str, body: str, subject: str) -> None:
    """Send a message by a Prefect notification block, named `TYPE/NAME`."""
    block: Any = Block.load(name)
    block.notify(body, subject)
