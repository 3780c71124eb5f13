"""Detection of flow runs of ended processes."""

from types import SimpleNamespace

import pytest
from prefect import flow, get_client
from prefect.states import Completed, Running

from biasgate.flows.nightly import nightly
from biasgate.flows.own_runs import PROCESS, is_abandoned, record_own_run
from biasgate.tasks.common.processes import describe_this_process

ENDED = describe_this_process().rsplit(" ", 1)[0] + " 0"


@pytest.mark.parametrize(
    ("label", "pid", "abandoned"),
    [
        pytest.param(None, describe_this_process(), False, id="runs"),
        pytest.param(None, ENDED, True, id="ended"),
        pytest.param(
            describe_this_process(), "host:7", False, id="a worker that runs"
        ),  # a worker names its process so
        pytest.param(ENDED, "host:7", True, id="a worker that ended"),
        (None, "host:7", False),
        (None, None, False),
        ("~ ~ ~", None, False),
    ],
)
def test_a_run_is_abandoned_if_the_process_that_ran_it_has_ended(label, pid, abandoned):
    labels = {} if label is None else {PROCESS: label}
    assert is_abandoned(SimpleNamespace(labels=labels, infrastructure_pid=pid)) is abandoned


@pytest.mark.slow
def test_a_run_of_a_deployment_whose_worker_was_killed_is_ended_by_the_next_one(prefect_server):
    del prefect_server
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(nightly)
        deployment = client.create_deployment(flow_id=flow_id, name="worker")
        killed, later = (client.create_flow_run_from_deployment(deployment) for _ in range(2))
        for run in (killed, later):
            client.set_flow_run_state(run.id, Running(), force=True)
            record_own_run(nightly, client.read_flow_run(run.id), Running())
        assert client.read_flow_run(killed.id).labels[PROCESS] == describe_this_process()
        assert client.read_flow_run(killed.id).state.is_running()
        client.update_flow_run_labels(killed.id, {PROCESS: ENDED})
        record_own_run(nightly, client.read_flow_run(later.id), Running())
        assert client.read_flow_run(killed.id).state.is_crashed()
        assert client.read_flow_run(later.id).state.is_running()
        client.set_flow_run_state(later.id, Completed(), force=True)


@pytest.mark.slow
def test_a_run_whose_process_was_not_noted_yet_ends_with_the_run_that_it_belongs_to(prefect_server):
    del prefect_server
    innermost = flow(name="score")(lambda: None)
    inner = flow(name="evaluate")(lambda: [innermost(return_state=True)])
    outer = flow(name="nightly")(lambda: [found := inner(return_state=True), found.result()[0]])
    with get_client(sync_client=True) as client:
        state = outer(return_state=True)
        killed, *parts = [
            nested.state_details.flow_run_id
            for nested in [state, *state.result(raise_on_failure=False)]
        ]
        for run_id in (killed, *parts):
            client.set_flow_run_state(run_id, Running(), force=True)
        client.update_flow_run(killed, infrastructure_pid=ENDED)
        later = client.create_flow_run(nightly)
        client.set_flow_run_state(later.id, Running(), force=True)
        record_own_run(nightly, later, Running())
        for run_id in (killed, *parts):
            assert client.read_flow_run(run_id).state.is_crashed()
        client.set_flow_run_state(later.id, Completed(), force=True)
