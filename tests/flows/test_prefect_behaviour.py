"""The behaviour of Prefect that this project depends on, with a test per fact.

The tests also check the bounds of fastapi and sqlalchemy in pyproject.toml. Outside of them, flows
crash, reads return 422, or the scheduler of Prefect 3.8 creates no runs without raising an error.
"""

import asyncio
import gc
import threading
import time
import weakref
from datetime import UTC, datetime

import pytest
from prefect import flow, get_client, runtime
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed
from support.made import decision_of, summary_of

from biasgate.flows.states import conclude
from biasgate.tasks.common.errors import CandidateError, InputError, SourceError
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.outcomes import WORDS

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.mark.slow
def test_a_cron_deployment_gets_scheduled_runs(prefect_services):
    with temporary_settings({PREFECT_API_URL: prefect_services["PREFECT_API_URL"]}):
        runs = _scheduled_runs("* * * * *", wanted=2)
    assert all(run.auto_scheduled for run in runs)
    starts = sorted(run.expected_start_time for run in runs)
    assert all(start > datetime.now(UTC) for start in starts[1:])
    assert {start.second for start in starts} == {0}


def test_a_named_completed_state_keeps_its_name():
    @flow
    def block() -> object:
        return Completed(name="Blocked", data={"outcome": "fail"})

    state = block(return_state=True)
    assert (state.name, state.type.value) == ("Blocked", "COMPLETED")
    assert state.result() == {"outcome": "fail"}
    assert _stored_state(state).name == "Blocked"


@pytest.mark.parametrize(
    ("outcome", "name"), [("pass", "Passed"), ("fail", "Blocked"), ("insufficient", "Undecided")]
)
def test_every_outcome_completes_its_flow_under_a_name_of_its_own(outcome, name):
    @flow
    def end() -> object:
        return conclude(summary_of(decisions=[decision_of("c", outcome, "So.")], outcome=outcome))

    state = _stored_state(end(return_state=True))
    assert (state.name, state.type.value) == (name, "COMPLETED")
    assert state.message == f"c: {WORDS[outcome].text}. So."


@pytest.mark.parametrize("error", [InputError, ValueError, TypeError, KeyError])
def test_a_mistake_in_the_input_is_not_tried_again(error):
    tries = []

    @task(name="refuse")
    def refuse() -> None:
        tries.append(1)
        raise error("no second try can mend this")

    with pytest.raises(error, match="no second try can mend this"):
        _in_a_flow(refuse)
    assert len(tries) == 1


@pytest.mark.parametrize("error", [ConnectionError, OSError, RuntimeError])
def test_what_may_pass_next_time_is_tried_again(error):
    tries = []

    @task(name="reach")
    def reach() -> str:
        tries.append(1)
        if len(tries) < 2:
            raise error("not yet")
        return "reached"

    assert _in_a_flow(reach.with_options(retry_delay_seconds=0)) == "reached"
    assert len(tries) == 2


def test_a_task_gives_up_after_its_third_try():
    tries = []

    @task(name="hope")
    def hope() -> None:
        tries.append(1)
        raise ConnectionError("gone for good")

    assert (hope.retries, hope.retry_delay_seconds) == (2, [1, 5])
    with pytest.raises(ConnectionError, match="gone for good"):
        _in_a_flow(hope.with_options(retry_delay_seconds=0))
    assert len(tries) == 3


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("a comment"), "ConnectionError."),
        (CandidateError("endpoint X failed."), "endpoint X failed."),
        (SourceError("source X failed; more is withheld."), "source X failed."),
        (CandidateError("f failed; more is withheld. See the log."), "f failed."),
    ],
)
def test_a_retry_is_announced_with_wait_and_cause_but_no_foreign_message(caplog, error, message):
    @task(name="hope")
    def hope() -> None:
        raise error

    caplog.set_level("INFO", "biasgate.steps")
    with pytest.raises(type(error)):
        _in_a_flow(hope.with_options(retry_delay_seconds=[0, 0.5]))
    messages = [record.message for record in caplog.records if record.name == "biasgate.steps"]
    assert messages == [
        f"retrying in 0 s (2 of 3): {message}",
        f"retrying in 0.5 s (3 of 3): {message}",
    ]


class RefusedError(RuntimeError):
    error_code = "PERMISSION_DENIED"


def wrapped():
    error = RuntimeError("a library could not be loaded")
    error.__cause__ = ModuleNotFoundError("No module named 'x'", name="x")
    return error


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'x'", name="x"),
        ImportError("cannot import"),
        NameError("x"),
        NotImplementedError(),
        RefusedError("no"),
        wrapped(),
    ],
    ids=repr,
)
def test_what_cannot_change_is_not_tried_again(error):
    tries = []

    @task(name="hope")
    def hope() -> None:
        tries.append(1)
        raise error

    with pytest.raises(type(error)):
        _in_a_flow(hope.with_options(retry_delay_seconds=0))
    assert tries == [1]


def test_a_second_call_with_the_same_input_runs_again():
    tries = []

    @task(name="count")
    def count(value: int) -> int:
        tries.append(value)
        return len(tries)

    @flow
    def count_twice() -> list[int]:
        return [count(7), count(7)]

    assert count_twice() == [1, 2]
    assert count_twice() == [3, 4]


def test_mapped_tasks_run_in_threads_at_the_same_time():
    meeting = threading.Barrier(3, timeout=60)

    @task(name="meet", task_run_name="meet {number}")
    def meet(number: int) -> tuple[int, int]:
        meeting.wait()  # passes only if three threads are here at once
        return number, threading.get_ident()

    @flow
    def meet_all() -> list[tuple[int, int]]:
        return meet.map([0, 1, 2]).result()

    results = meet_all()
    assert [number for number, _ in results] == [0, 1, 2]
    assert len({thread for _, thread in results}) == 3


def test_mapped_tasks_are_named_after_their_parameters():
    @task(name="measure", task_run_name="measure {identity}")
    def measure(identity: str) -> str:
        del identity
        return runtime.task_run.name

    @flow
    def measure_all() -> list[str]:
        return measure.map(["gay", "muslim"]).result()

    assert measure_all() == ["measure gay", "measure muslim"]


def _in_a_flow(step):
    @flow
    def one_step() -> object:
        return step()

    return one_step()


def _stored_state(state):
    """Return the state that the server stores."""
    with get_client(sync_client=True) as client:
        return client.read_flow_run(state.state_details.flow_run_id).state


def _scheduled_runs(cron, *, wanted):
    """Create a cron deployment; return the runs that the server schedules for it."""

    async def ask():
        async with get_client() as client:
            flow_id = await client.create_flow_from_name("on-schedule")
            deployment = await client.create_deployment(
                flow_id,
                "on-schedule",
                schedules=[DeploymentScheduleCreate(schedule=CronSchedule(cron=cron))],
            )
            of_this = DeploymentFilter(id=DeploymentFilterId(any_=[deployment]))
            deadline = time.monotonic() + 90
            runs = []
            while len(runs) < wanted and time.monotonic() < deadline:
                await asyncio.sleep(0.5)
                runs = await client.read_flow_runs(deployment_filter=of_this, limit=wanted)
            await client.delete_deployment(deployment)
            return runs

    return asyncio.run(ask())


def test_what_a_task_returned_is_kept_while_its_flow_runs():
    class Result:
        pass

    @task(name="make")
    def make():
        return Result()

    @flow
    def run():
        gone = weakref.ref(make())
        gc.collect()
        return gone() is not None

    assert run()
