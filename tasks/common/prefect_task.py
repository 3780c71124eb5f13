"""The project-wide `task`. Only this module of `tasks` and `prefect_artifacts` import Prefect.

Every step is created with it, so that all steps have the retries of their run and Prefect caches
none: results worth keeping (evaluation sets, scores) are files, keyed by digests of their inputs,
which survive Prefect's own store and can be verified.

Prefect takes seconds to import, so it is imported when the first step runs: a command that
only reads a file does not wait for it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import string
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache, partial, update_wrapper
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, get_type_hints

from biasgate.tasks.common.errors import (
    FINAL,
    AnalysisError,
    CandidateError,
    CandidateStoppedError,
    InputError,
    ServerError,
    SourceError,
    lacking_module,
    to_install,
)
from biasgate.tasks.common.secrets import masked, masking
from biasgate.tasks.common.steps import RETRIES, RETRY_DELAYS_S, StepSettings, limited, steps_now

if TYPE_CHECKING:
    from prefect import Task
    from prefect.task_runners import TaskRunner

P = ParamSpec("P")
R = TypeVar("R")

# A retry cannot fix these; it may fix anything else (a server that restarts, a full queue).
_NOT_RETRIED = (
    InputError,
    ServerError,
    AnalysisError,
    CandidateStoppedError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    AssertionError,
    *FINAL,
)
# Of MLflow: what its server refuses, it refuses again.
_REFUSED = frozenset(
    {
        "CUSTOMER_UNAUTHORIZED",
        "ENDPOINT_NOT_FOUND",
        "FEATURE_DISABLED",
        "INVALID_PARAMETER_VALUE",
        "MALFORMED_REQUEST",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
    }
)


async def _may_pass_next_time(task: Any, run: Any, state: Any) -> bool:
    """Return whether Prefect should retry a failed step; if so, announce it."""
    try:
        await state.aresult()
    except _NOT_RETRIED:
        return False
    except Exception as error:  # noqa: BLE001 - a retry may fix any other error
        if getattr(error, "error_code", None) in _REFUSED or lacking_module(error) is not None:
            return False
        # Only biasgate's own messages are sure to quote no comment. The last one is shown whole.
        own = isinstance(error, CandidateError | SourceError)
        what = str(error) if own else type(error).__name__
        what = what.partition(";")[0].removesuffix(".")
        delays, count = task.retry_delay_seconds, run.run_count
        if isinstance(delays, list):
            delays = delays[min(count, len(delays)) - 1]
        say(f"retrying in {delays or 0:g} s ({count + 1} of {task.retries + 1}): {what}.")
        return True
    return False


_steps = logging.getLogger("biasgate.steps")
_making = threading.Lock()


class _Step:
    """A Prefect task that is created at its first use."""

    def __init__(self, function: Callable[..., Any], name: str, run_name: str | None) -> None:
        update_wrapper(self, function)
        self.fn, self.name, self._run_name = function, name, run_name
        self._made: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        named = {name: _unsearched(value) for name, value in kwargs.items()}
        return self._task()(*map(_unsearched, args), **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_made":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._task(), name)

    def _task(self) -> Any:
        """Return the Prefect task, with the retries of the run."""
        made, retries = self._with_default(), (steps_now() or StepSettings()).retries
        return made if made.retries == retries else made.with_options(retries=retries)

    def _with_default(self) -> Any:
        with _making:
            if self._made is None:
                from prefect import Task  # noqa: PLC0415
                from prefect.cache_policies import NO_CACHE  # noqa: PLC0415

                template = self._run_name
                self._made = Task(
                    fn=limited(masking(self.fn)),
                    name=self.name,
                    task_run_name=None if template is None else partial(run_name, template),
                    cache_policy=NO_CACHE,
                    persist_result=False,
                    retry_condition_fn=_may_pass_next_time,
                    retries=RETRIES,
                    retry_delay_seconds=list(RETRY_DELAYS_S),
                )
        return self._made


def _unsearched(value: Any) -> Any:
    """Wrap a value without futures, which Prefect would search for them.

    In a report on thousands of identities the search takes a minute per step. The step itself
    gets the same objects, and Prefect still knows which step they came from.
    """
    if isinstance(value, list):
        return [_unsearched(one) for one in value]
    if not isinstance(value, Mapping) and not is_dataclass(value):
        return value
    from prefect.utilities.annotations import opaque  # noqa: PLC0415

    return opaque(value)


def say(sentence: str, *, aside: bool = False, is_error: bool = False) -> None:
    """Write a sentence to the log of the Prefect run, and to the terminal unless it is an aside.

    An error is shown as such, also where steps are not.

    It must never hold a comment's text; secrets are masked. The command mutes Prefect's own log in
    the terminal, and thereby on the server; these sentences still reach the server.
    """
    sentence, level = masked(sentence), logging.CRITICAL if is_error else logging.INFO
    if not aside:
        _steps.log(level, "%s", sentence)
    if not is_in_run():
        return
    import prefect  # noqa: PLC0415

    log: Any = prefect.get_run_logger()
    (log if log.isEnabledFor(logging.INFO) else _server_log()).log(level, "%s", sentence)


@cache
def _server_log() -> logging.Logger:
    from prefect.logging.handlers import APILogHandler  # noqa: PLC0415

    log = logging.getLogger("biasgate.run")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(APILogHandler())
    return log


def task(*, name: str, task_run_name: str | None = None) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a function a step of the pipeline.

    `task_run_name`: name of one run, with parameters in braces, as in `measure {identity}` or
    `freeze {source.name}`; folders as `run_name` writes them.
    """

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        refuse_unknown_parameters(task_run_name, function)
        return cast("Task[P, R]", _Step(function, name, task_run_name))

    return decorate


def task_runner() -> TaskRunner[Any] | None:
    """Return the task runner of a flow: None for threads, or the one that the environment names.

    `BIASGATE_TASK_RUNNER` is `module:class`, as in `prefect_dask:DaskTaskRunner`, and
    `BIASGATE_TASK_RUNNER_OPTIONS` its options in JSON.
    """
    named = os.environ.get("BIASGATE_TASK_RUNNER")
    if not named:
        return None
    options = os.environ.get("BIASGATE_TASK_RUNNER_OPTIONS") or "{}"
    module, _, name = named.partition(":")
    try:
        found: TaskRunner[Any] = getattr(importlib.import_module(module), name)(
            **json.loads(options)
        )
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        msg = (
            f"BIASGATE_TASK_RUNNER must be `module:class` of a Prefect task runner that is "
            f"installed; got {named!r} with options {options} ({error}). "
            f"For Dask: {to_install('dask')}."
        )
        raise InputError(msg) from error
    return found


def is_spread() -> bool:
    """Whether this is called in a flow whose tasks may run outside its own process."""
    from prefect.context import FlowRunContext  # noqa: PLC0415
    from prefect.task_runners import ThreadPoolTaskRunner  # noqa: PLC0415

    runner = task_runner()
    has_threads = runner is None or isinstance(runner, ThreadPoolTaskRunner)
    return FlowRunContext.get() is not None and not has_threads


@contextmanager
def asking_for(resources: Mapping[str, float]) -> Iterator[None]:
    """Submit tasks to Dask workers that have these resources."""
    if not resources or not is_spread():
        yield
        return
    import dask  # noqa: PLC0415 - an extra

    with dask.annotate(resources=dict(resources)):
        yield


def is_in_run() -> bool:
    """Whether this is called in a flow run or task run, to which artifacts can belong."""
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext  # noqa: PLC0415

    return FlowRunContext.get() is not None or TaskRunContext.get() is not None


def notify_by_block(name: str, body: str, subject: str) -> None:
    """Send a message by a Prefect notification block, named `TYPE/NAME`."""
    from prefect.blocks.core import Block  # noqa: PLC0415

    block: Any = Block.load(name)
    block.notify(body, subject)


class _RunNames(string.Formatter):
    """Formats names of task runs from parameters, such as folders."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Return what a folder holds.

        `{set_folder!e}` is the evaluation set in a folder of frozen rows, `{folder!m}` the
        candidate and the set of a folder of measurements.
        """
        if conversion == "e":
            return PurePath(value).name.rpartition("-")[0]
        if conversion == "m":
            return f"{PurePath(value).name} on {PurePath(value).parent.name}"
        return super().convert_field(value, conversion)


def run_name(template: str, parameters: Mapping[str, object]) -> str:
    """Return the name of one task run, as in `decide words on comments`.

    Prefect passes what it calls `parameters`.
    """
    return _RunNames().vformat(template, (), parameters)


def refuse_unknown_parameters(template: str | None, function: Callable[..., Any]) -> None:
    """Raise a TypeError if a name uses anything but parameters of the task, or their attributes."""
    fields = [field for _, field, _, _ in string.Formatter().parse(template or "") if field]
    unknown = sorted({field for field in fields if not _is_of(field, function)})
    if unknown:
        msg = f"`task_run_name` must use parameters of {function.__name__}; got {unknown}."
        raise TypeError(msg)


def _is_of(field: str, function: Callable[..., Any]) -> bool:
    """Whether a field such as `part.first` is a parameter, and an attribute of its class."""
    name, _, attribute = field.partition(".")
    if name not in inspect.signature(function).parameters:
        return False
    if not attribute:
        return True
    kind = get_type_hints(function)[name]
    fields = (getattr(kind, known, ()) for known in ("model_fields", "__dataclass_fields__"))
    return attribute in {*dir(kind), *chain(*fields)}
