"""The project-wide `task`. Only this module of `tasks` and `prefect_artifacts` import Prefect.

Every step is created with it, so that all steps have the retries of their run and Prefect caches
no results. Expensive results (evaluation sets, scores) are files, keyed by digests of their inputs.
They outlive Prefect's own store and can be verified.

Prefect takes seconds to import, so it is imported when the first step runs. A command that only
reads a file does not wait for it.
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
    FINAL_ERRORS,
    AnalysisError,
    CandidateError,
    CandidateStoppedError,
    InputError,
    ServerError,
    SourceError,
    describe_missing_module,
    format_install_hint,
)
from biasgate.tasks.common.secrets import mask_errors, mask_secrets
from biasgate.tasks.common.steps import (
    RETRIES,
    RETRY_DELAYS_S,
    StepSettings,
    get_step_settings,
    limit_duration,
)

if TYPE_CHECKING:
    from prefect import Task
    from prefect.task_runners import TaskRunner

P = ParamSpec("P")
R = TypeVar("R")

# A retry cannot fix these errors. It may fix all others, such as those of a restarting server.
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
    *FINAL_ERRORS,
)
# Error codes of MLflow: its server would refuse the same request again.
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


async def _should_retry(task: Any, run: Any, state: Any) -> bool:
    """Return True if Prefect should retry a failed step, and log the retry."""
    try:
        await state.aresult()
    except _NOT_RETRIED:
        return False
    except Exception as error:  # noqa: BLE001 - a retry may fix any other error
        is_refused = getattr(error, "error_code", None) in _REFUSED
        if is_refused or describe_missing_module(error) is not None:
            return False
        # Only biasgate's own messages are known not to quote a comment. The final error has the
        # whole message.
        is_own = isinstance(error, CandidateError | SourceError)
        reason = str(error) if is_own else type(error).__name__
        reason = reason.partition(";")[0].removesuffix(".")
        delays, count = task.retry_delay_seconds, run.run_count
        if isinstance(delays, list):
            delays = delays[min(count, len(delays)) - 1]
        log_message(f"retrying in {delays or 0:g} s ({count + 1} of {task.retries + 1}): {reason}.")
        return True
    return False


_steps = logging.getLogger("biasgate.steps")
_creation_lock = threading.Lock()


class _Step:
    """A Prefect task that is created at its first use."""

    def __init__(self, function: Callable[..., Any], name: str, run_name: str | None) -> None:
        update_wrapper(self, function)
        self.fn, self.name, self._run_name = function, name, run_name
        self._prefect_task: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        options = {name: _exclude_from_search(value) for name, value in kwargs.items()}
        return self._get_task()(*map(_exclude_from_search, args), **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_prefect_task":  # during unpickling
            raise AttributeError(name)
        return getattr(self._get_task(), name)

    def _get_task(self) -> Any:
        """Return the Prefect task, with the retries of the run."""
        with _creation_lock:
            if self._prefect_task is None:
                from prefect import Task  # noqa: PLC0415
                from prefect.cache_policies import NO_CACHE  # noqa: PLC0415

                template = self._run_name
                self._prefect_task = Task(
                    fn=limit_duration(mask_errors(self.fn)),
                    name=self.name,
                    task_run_name=None if template is None else partial(format_run_name, template),
                    cache_policy=NO_CACHE,
                    persist_result=False,
                    retry_condition_fn=_should_retry,
                    retries=RETRIES,
                    retry_delay_seconds=list(RETRY_DELAYS_S),
                )
        default = self._prefect_task
        retries = (get_step_settings() or StepSettings()).retries
        return default if default.retries == retries else default.with_options(retries=retries)


def _exclude_from_search(value: Any) -> Any:
    """Wrap a value without futures, so that Prefect does not search it for futures.

    The search takes a minute per step for a report on thousands of identities. The step receives
    the same objects, and Prefect still records which step produced them.
    """
    if isinstance(value, list):
        return [_exclude_from_search(item) for item in value]
    if not isinstance(value, Mapping) and not is_dataclass(value):
        return value
    from prefect.utilities.annotations import opaque  # noqa: PLC0415

    return opaque(value)


def log_message(sentence: str, *, aside: bool = False, is_error: bool = False) -> None:
    """Log a sentence to the Prefect run, and print it in the terminal unless `aside` is set.

    An error is printed even if messages of steps are muted. The sentence must not contain the text
    of a comment; secrets are masked. The command mutes Prefect's own log in the terminal, and
    thereby on the server, but these sentences still reach the server.
    """
    sentence, level = mask_secrets(sentence), logging.CRITICAL if is_error else logging.INFO
    if not aside:
        _steps.log(level, "%s", sentence)
    if not is_in_run():
        return
    import prefect  # noqa: PLC0415

    log: Any = prefect.get_run_logger()
    (log if log.isEnabledFor(logging.INFO) else _make_server_log()).log(level, "%s", sentence)


@cache
def _make_server_log() -> logging.Logger:
    from prefect.logging.handlers import APILogHandler  # noqa: PLC0415

    log = logging.getLogger("biasgate.run")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(APILogHandler())
    return log


def task(*, name: str, task_run_name: str | None = None) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Return a decorator that makes a function a step of the pipeline.

    `task_run_name`: name of a run, with parameters in braces, as in `measure {identity}` or
    `freeze {source.name}`. `format_run_name` formats folders.
    """

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        refuse_unknown_parameters(task_run_name, function)
        return cast("Task[P, R]", _Step(function, name, task_run_name))

    return decorate


def make_task_runner() -> TaskRunner[Any] | None:
    """Return the task runner that environment variables configure; None for threads.

    `BIASGATE_TASK_RUNNER` is `module:class`, as in `prefect_dask:DaskTaskRunner`, and
    `BIASGATE_TASK_RUNNER_OPTIONS` its options in JSON.
    """
    reference = os.environ.get("BIASGATE_TASK_RUNNER")
    if not reference:
        return None
    options = os.environ.get("BIASGATE_TASK_RUNNER_OPTIONS") or "{}"
    module, _, name = reference.partition(":")
    try:
        runner: TaskRunner[Any] = getattr(importlib.import_module(module), name)(
            **json.loads(options)
        )
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        msg = (
            f"BIASGATE_TASK_RUNNER must be `module:class` of a Prefect task runner that is "
            f"installed; got {reference!r} with options {options} ({error}). "
            f"For Dask: {format_install_hint('dask')}."
        )
        raise InputError(msg) from error
    return runner


def is_distributed() -> bool:
    """Return True inside a flow whose tasks may run outside its own process."""
    from prefect.context import FlowRunContext  # noqa: PLC0415
    from prefect.task_runners import ThreadPoolTaskRunner  # noqa: PLC0415

    runner = make_task_runner()
    has_threads = runner is None or isinstance(runner, ThreadPoolTaskRunner)
    return FlowRunContext.get() is not None and not has_threads


@contextmanager
def request_resources(resources: Mapping[str, float]) -> Iterator[None]:
    """Submit the tasks of the body to Dask workers that have these resources."""
    if not resources or not is_distributed():
        yield
        return
    import dask  # noqa: PLC0415 - an extra

    with dask.annotate(resources=dict(resources)):
        yield


def is_in_run() -> bool:
    """Return True inside a flow run or task run, to which artifacts can belong."""
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext  # noqa: PLC0415

    return FlowRunContext.get() is not None or TaskRunContext.get() is not None


def send_notification(name: str, body: str, subject: str) -> None:
    """Send a message by a Prefect notification block with the name `TYPE/NAME`."""
    from prefect.blocks.core import Block  # noqa: PLC0415

    block: Any = Block.load(name)
    block.notify(body, subject)


class _RunNames(string.Formatter):
    """Formatter for the names of task runs, with conversions for folders."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Convert a folder to the name of its content.

        `{set_folder!e}` is the evaluation set in a folder of frozen rows. `{folder!m}` is the
        candidate and the set of a folder of measurements.
        """
        if conversion == "e":
            return PurePath(value).name.rpartition("-")[0]
        if conversion == "m":
            return f"{PurePath(value).name} on {PurePath(value).parent.name}"
        return super().convert_field(value, conversion)


def format_run_name(template: str, parameters: Mapping[str, object]) -> str:
    """Return the name of a task run, as in `decide words on comments`.

    Prefect passes `parameters` by keyword.
    """
    return _RunNames().vformat(template, (), parameters)


def refuse_unknown_parameters(template: str | None, function: Callable[..., Any]) -> None:
    """Raise a TypeError if a name uses fields that are not parameters or their attributes."""
    fields = [field for _, field, _, _ in string.Formatter().parse(template or "") if field]
    unknown = sorted({field for field in fields if not _is_parameter_field(field, function)})
    if unknown:
        msg = f"`task_run_name` must use parameters of {function.__name__}; got {unknown}."
        raise TypeError(msg)


def _is_parameter_field(field: str, function: Callable[..., Any]) -> bool:
    """Return True if a field such as `part.first` is a parameter and an attribute of its class."""
    name, _, attribute = field.partition(".")
    if name not in inspect.signature(function).parameters:
        return False
    if not attribute:
        return True
    kind = get_type_hints(function)[name]
    fields = (getattr(kind, names, ()) for names in ("model_fields", "__dataclass_fields__"))
    return attribute in {*dir(kind), *chain(*fields)}
