"""Flow runs of this process, and their end where the process is stopped or a step hangs.

A process that is killed cannot say so itself: the next run marks its flow runs as Crashed. A step
that outlasts its limit may hang where no error can be raised, so the whole process ends.
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
FLOWS = (
    *("evaluate", "nightly", "train", "mitigate", "count", "count shards"),
    *STAGES,
)
PROCESS = "biasgate.process"
_NOT_ENDED = ["RUNNING", "PENDING", "SCHEDULED"]  # the last one waits for its retry
_own: set[UUID] = set()


def own_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Record which process executes a flow run, and end the runs of processes that have ended.

    A hook for `on_running`. A worker needs the number of the process that it started for a run of a
    deployment, so the process is a label there: a worker that was killed can watch nothing. A run
    within another one may have lost its process before this hook noted it, so it ends with that.
    """
    del flow, state
    with get_client(sync_client=True) as client:
        _own.add(flow_run.id)
        if flow_run.deployment_id is None:
            client.update_flow_run(flow_run.id, infrastructure_pid=describe_this_process())
        else:
            client.update_flow_run_labels(flow_run.id, {PROCESS: describe_this_process()})
        abandoned = [one for one in _running(client) if one.id != flow_run.id and is_abandoned(one)]
        for late in _with_parts(client, abandoned):
            crashed: State[Any] = Crashed(message="Its process was killed.")
            client.set_flow_run_state(late, crashed, force=True)


def cancel_own_runs(reason: str) -> None:
    """Mark the flow runs of this process as Cancelled, when it is stopped."""
    end_own_runs(Cancelled(message=reason))


register_end_action(cancel_own_runs)


def end_own_runs(state: State[Any], step: UUID | None = None) -> None:
    """Give the flow runs of this process, and a step of theirs, a final state.

    Their other steps that have not ended are marked as Cancelled.
    """
    if not _own:
        return
    with get_client(sync_client=True) as client:
        own = [one for one in _running(client) if one.id in _own]
        for late in _with_parts(client, own):
            client.set_flow_run_state(late, state, force=True)
        of_own = FlowRunFilter.model_validate({"id": {"any_": list(_own)}})
        unfinished = TaskRunFilter.model_validate({"state": {"type": {"any_": _NOT_ENDED}}})
        for late_step in client.read_task_runs(flow_run_filter=of_own, task_run_filter=unfinished):
            ended = state if late_step.id == step else Cancelled(message="Its run was ended.")
            client.set_task_run_state(late_step.id, ended, force=True)


def _with_parts(client: SyncPrefectClient, runs: list[FlowRun]) -> list[UUID]:
    """Return these runs after the ones within them that have not ended."""
    if not runs:
        return []
    ids = [one.id for one in runs]
    within = {"parent_flow_run_id": {"any_": ids}, "state": {"type": {"any_": _NOT_ENDED}}}
    parts = client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(within))
    return list(dict.fromkeys([*_with_parts(client, parts), *ids]))


def _running(client: SyncPrefectClient) -> list[FlowRun]:
    named = FlowFilter.model_validate({"name": {"any_": FLOWS}})
    running = FlowRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING"]}}})
    return list(client.read_flow_runs(flow_filter=named, flow_run_filter=running))


def is_abandoned(run: FlowRun) -> bool:
    """Whether a run was owned by a process as `own_run` names it, and that has ended."""
    owner = str(run.labels.get(PROCESS) or run.infrastructure_pid or "")
    try:
        return "~" in owner and has_ended(owner)
    except ValueError:  # of another program
        return False


TIMED_OUT = "TimedOut"
_CRASH = 1
# For servers and receivers of messages that do not answer.
_PATIENCE_S = 10.0
_first = threading.Lock()


@contextmanager
def steps_of(config: str, store: str) -> Iterator[None]:
    """Try the steps of a flow as its evaluation file says; of a flow within one, as that does."""
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
    """End this process because of a step of this flow, in whose context this is called."""
    _first.acquire()  # for good: of several late steps, the first one is reported
    sentence = mask_secrets(
        f"step {runtime.task_run.name!r} took longer than its limit of {limit:g} s, "
        f"`step_timeout_s` in {config}, so the run was ended; {describe_kept_work(Path(store))}"
    )
    log_message(sentence, is_error=True)
    state: State[Any] = Failed(name=TIMED_OUT, message=sentence)
    end_immediately(
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
