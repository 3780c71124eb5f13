"""Final states for the flow runs of processes that are killed, stopped or hang.

A killed process cannot end its flow runs, so the next run marks them as Crashed. A step beyond its
time limit may hang in code that cannot raise an error, so its whole process is ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

from prefect import Flow, State, get_client, runtime
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.logging.handlers import APILogWorker
from prefect.states import Cancelled, Crashed, Failed

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import is_distributed, log_message
from biasgate.tasks.common.processes import describe_this_process, has_ended
from biasgate.tasks.common.secrets import mask_secrets
from biasgate.tasks.common.steps import apply_step_settings, get_step_settings
from biasgate.tasks.ending import (
    describe_kept_work,
    end_immediately,
    end_mlflow_runs,
    register_end_action,
)
from biasgate.tasks.reading_evaluation import read_step_settings

STAGES = ("freeze", "score", "measure", "judge", "publish")
FLOWS = ("evaluate", "nightly", "train", "mitigate", "count", "count shards", *STAGES)
PROCESS = "biasgate.process"
_NOT_ENDED = ["RUNNING", "PENDING", "SCHEDULED"]  # SCHEDULED: waits for its retry
_own_ids: set[UUID] = set()


def record_own_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Record the process of a flow run, and mark the runs of ended processes as Crashed.

    A hook for `on_running`. In a run of a deployment, the process is a label: the field
    `infrastructure_pid` belongs to the worker that started the run. A nested run of an ended
    process may lack a record, so nested runs are ended together with their parents.
    """
    del flow, state
    with get_client(sync_client=True) as client:
        _own_ids.add(flow_run.id)
        if flow_run.deployment_id is None:
            client.update_flow_run(flow_run.id, infrastructure_pid=describe_this_process())
        else:
            client.update_flow_run_labels(flow_run.id, {PROCESS: describe_this_process()})
        ended = {
            run.id for run in _list_running(client) if run.id != flow_run.id and is_abandoned(run)
        }
        # A process may have finished its run between the reading and its end.
        abandoned = [run for run in _list_running(client) if run.id in ended] if ended else []
        for run_id in _include_nested(client, abandoned):
            crashed: State[Any] = Crashed(message="Its process was killed.")
            client.set_flow_run_state(run_id, crashed, force=True)


def end_own_runs(state: State[Any], step: UUID | None = None) -> None:
    """Set a final state on the flow runs of this process, and on the task run `step`.

    Their other unfinished task runs are marked as Cancelled.
    """
    if not _own_ids:
        return
    with get_client(sync_client=True) as client:
        own_runs = [run for run in _list_running(client) if run.id in _own_ids]
        for run_id in _include_nested(client, own_runs):
            client.set_flow_run_state(run_id, state, force=True)
        own_filter = FlowRunFilter.model_validate({"id": {"any_": list(_own_ids)}})
        unfinished = TaskRunFilter.model_validate({"state": {"type": {"any_": _NOT_ENDED}}})
        for task_run in client.read_task_runs(
            flow_run_filter=own_filter, task_run_filter=unfinished
        ):
            ended = state if task_run.id == step else Cancelled(message="Its run was ended.")
            client.set_task_run_state(task_run.id, ended, force=True)


register_end_action(lambda reason: end_own_runs(Cancelled(message=reason)))


def _include_nested(client: SyncPrefectClient, runs: list[FlowRun]) -> list[UUID]:
    """Return the ids of these runs and their unfinished nested runs, nested runs first."""
    if not runs:
        return []
    ids = [run.id for run in runs]
    nested_filter = {"parent_flow_run_id": {"any_": ids}, "state": {"type": {"any_": _NOT_ENDED}}}
    nested = client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(nested_filter))
    return list(dict.fromkeys([*_include_nested(client, nested), *ids]))


def _list_running(client: SyncPrefectClient) -> list[FlowRun]:
    flow_filter = FlowFilter.model_validate({"name": {"any_": FLOWS}})
    run_filter = FlowRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING"]}}})
    return list(client.read_flow_runs(flow_filter=flow_filter, flow_run_filter=run_filter))


def is_abandoned(run: FlowRun) -> bool:
    """Return True if `record_own_run` recorded a process for the run, and it has ended."""
    owner = str(run.labels.get(PROCESS) or run.infrastructure_pid or "")
    try:
        return "~" in owner and has_ended(owner)
    except ValueError:  # the format of another program
        return False


TIMED_OUT = "TimedOut"
_EXIT_CODE = 1
# Limit for servers and notification services that do not respond.
_PATIENCE_S = 10.0
_end_lock = threading.Lock()


@contextmanager
def apply_file_settings(config: str, store: str) -> Iterator[None]:
    """Apply time limit and retries of an evaluation file to the steps of a flow.

    A nested flow keeps the settings of the outer flow.
    """
    settings = get_step_settings() or read_step_settings(config)
    if settings.timeout_s is not None and is_distributed():
        msg = (
            "`step_timeout_s` must be left out with another task runner than threads, since a "
            f"limit ends only this process (file {config})."
        )
        raise InputError(msg)
    with apply_step_settings(settings, partial(_end_run, config, store, FlowRunContext.get())):
        yield


def _end_run(config: str, store: str, flow: FlowRunContext | None, limit: float) -> NoReturn:
    """End this process because of a late step; called in the context of the step."""
    _end_lock.acquire()  # never released: only the first late step is reported
    message = mask_secrets(
        f"step {runtime.task_run.name!r} took longer than its limit of {limit:g} s, "
        f"`step_timeout_s` in {config}, so the run was ended; {describe_kept_work(Path(store))}"
    )
    log_message(message, is_error=True)
    state: State[Any] = Failed(name=TIMED_OUT, message=message)
    end_immediately(
        _EXIT_CODE,
        _PATIENCE_S,
        partial(end_own_runs, state, UUID(runtime.task_run.id)),
        partial(end_mlflow_runs, Path(store), "FAILED"),
        partial(_call_hooks, flow, state),
        partial(APILogWorker.drain_all, timeout=_PATIENCE_S),
    )


def _call_hooks(context: FlowRunContext | None, state: State[Any]) -> None:
    """Call the failure hooks of the flow, such as notifications."""
    if context is None or context.flow is None or context.flow_run is None:
        return
    for hook in context.flow.on_failure_hooks:
        with suppress(Exception):
            hook(context.flow, context.flow_run, state)
