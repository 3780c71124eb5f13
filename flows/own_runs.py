"""Flow runs whose process is stopped do not stay Running in Prefect.

A process that is killed cannot say so itself: the next run marks it as Crashed.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from prefect import Flow, State, get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, TaskRun
from prefect.states import Cancelled, Crashed

from biasgate.tasks.common.processes import has_ended, this_process

STAGES = ("freeze", "score", "measure", "judge", "publish")
FLOWS = ("evaluate", "nightly", "train", "diagnose-data", "mitigate", *STAGES)
PROCESS = "biasgate.process"
_own: set[UUID] = set()


def own_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Record which process executes a flow run, and end the runs of processes that have ended.

    A hook for `on_running`. A worker needs the number of the process that it started for a run of a
    deployment, so the process is a label there: a worker that was killed can watch nothing.
    """
    del flow, state
    with get_client(sync_client=True) as client:
        _own.add(flow_run.id)
        if flow_run.deployment_id is None:
            client.update_flow_run(flow_run.id, infrastructure_pid=this_process())
        else:
            client.update_flow_run_labels(flow_run.id, {PROCESS: this_process()})
        for one in _running(client):
            if one.id != flow_run.id and is_abandoned(one):
                crashed: State[Any] = Crashed(message="Its process was killed.")
                client.set_flow_run_state(one.id, crashed, force=True)


def cancel_own_runs(reason: str) -> None:
    """Mark the flow runs of this process as Cancelled, when it is stopped."""
    end_own_runs(Cancelled(message=reason))


def end_own_runs(state: State[Any], step: UUID | None = None) -> None:
    """Give the flow runs of this process, and a step of theirs, a final state.

    Their other steps that have not ended are marked as Cancelled.
    """
    if not _own:
        return
    with get_client(sync_client=True) as client:
        for one in _running(client):
            if one.id in _own:
                client.set_flow_run_state(one.id, state, force=True)
        for late in _unfinished(client):
            ended = state if late.id == step else Cancelled(message="Its run was ended.")
            client.set_task_run_state(late.id, ended, force=True)


def _unfinished(client: SyncPrefectClient) -> list[TaskRun]:
    """Return the steps of this process that have not ended."""
    of_own = FlowRunFilter.model_validate({"id": {"any_": list(_own)}})
    types = ["RUNNING", "PENDING", "SCHEDULED"]  # the last one waits for its retry
    unfinished = TaskRunFilter.model_validate({"state": {"type": {"any_": types}}})
    return list(client.read_task_runs(flow_run_filter=of_own, task_run_filter=unfinished))


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
