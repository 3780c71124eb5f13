"""The retries and limits of a run, in Prefect."""

import pytest
import yaml
from prefect import flow
from prefect.context import FlowRunContext
from prefect.states import Failed
from support.evaluations import write_inputs

from biasgate.flows import own_runs
from biasgate.flows.own_runs import steps_of
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import task

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def config(tmp_path):
    """Write an evaluation file with these settings of steps; return its path."""
    write_inputs(tmp_path)

    def write(name="file", **steps):
        content = yaml.safe_load((tmp_path / "file.yaml").read_text("utf-8")) | {"steps": steps}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content), "utf-8")
        return str(path)

    return write


def failing(stage):
    """A step of a stage that never succeeds, and the list of its tries."""
    tries = []

    def fail(number: int) -> None:
        tries.append(number)
        raise ConnectionError("gone")

    fail.__module__ = f"biasgate.tasks.{stage}.made_up"
    return task(name=f"fail in {stage}")(fail), tries


def call(step):
    step(1)


def submit(step):
    step.submit(1).result()


def map_all(step):
    step.map([1]).result()


@flow
def run_steps(config: str, ways: list) -> None:
    with steps_of(config, "store"):
        for way, step in ways:
            with pytest.raises(ConnectionError):
                way(step)


@pytest.mark.parametrize("way", [call, submit, map_all])
def test_each_stage_is_tried_as_often_as_the_file_says_in_this_run_alone(config, way):
    scoring, of_scoring = failing("scoring")
    data, of_data = failing("data")
    every, now = {"retries": 1, "retry_delay_s": 0}, {"retries": 3}
    ways = [(way, scoring), (way, data)]
    run_steps(config(every=every, scoring=now), ways)
    assert (len(of_scoring), len(of_data)) == (4, 2)
    run_steps(config(every={"retry_delay_s": 0}), ways)
    assert (len(of_scoring), len(of_data)) == (4 + 3, 2 + 3)
    run_steps(config(every=every, data={"retries": 0}), ways)
    assert (len(of_scoring), len(of_data)) == (4 + 3 + 2, 2 + 3 + 1)
    assert (scoring.retries, scoring.retry_delay_seconds) == (2, [1, 5])


def test_a_flow_within_a_flow_has_the_settings_of_the_outer_one(config):
    step, tries = failing("scoring")
    outer = config("outer", every={"retries": 4, "retry_delay_s": 0})
    inner = config("inner", every={"retries": 0})

    @flow
    def run_both() -> None:
        with steps_of(outer, "store"):
            run_steps(inner, [(call, step)])
            with pytest.raises(ConnectionError):
                step(1)

    run_both()
    assert len(tries) == 5 + 5


def test_a_limit_is_refused_where_steps_run_in_other_processes(config, monkeypatch):
    monkeypatch.setattr(own_runs, "is_spread", lambda: True)
    run_steps(config(every={"retries": 1}), [])
    with pytest.raises(InputError, match=r"`steps.scoring.time_limit_s` must be left out where"):
        run_steps(config(scoring={"time_limit_s": 60}), [])


def test_people_are_told_by_the_flow_whose_step_hangs():
    told = []

    def hook(flow, run, state):
        told.append((flow.name, run.name, state.name))

    def broken(*_):
        raise RuntimeError("the first receiver is gone")

    @flow(name="hangs", flow_run_name="tonight", on_failure=[broken, hook])
    def hang() -> None:
        own_runs._call_hooks(FlowRunContext.get(), Failed(name="TimedOut"))

    hang()
    assert told == [("hangs", "tonight", "TimedOut")]


@pytest.mark.slow
def test_workers_of_dask_try_as_often_as_the_file_says(config, tmp_path):
    runner = pytest.importorskip("prefect_dask").DaskTaskRunner
    tries = tmp_path / "tries"

    def fail(number: int) -> None:
        with tries.open("a") as stream:
            stream.write(f"{number}\n")
        raise ConnectionError("gone")

    fail.__module__ = "biasgate.tasks.scoring.made_up"
    step = task(name="fail on a worker")(fail)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    spread = run_steps.with_options(task_runner=runner(cluster_kwargs=options))
    spread(config(scoring={"retries": 4, "retry_delay_s": 0}), [(map_all, step)])
    assert tries.read_text() == "1\n" * 5
