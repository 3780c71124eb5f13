"""Retries and time limits of the steps of a run."""

import pytest
import yaml
from prefect import flow
from prefect.context import FlowRunContext
from prefect.states import Failed
from support.evaluations import write_inputs

from biasgate.flows import own_runs
from biasgate.flows.own_runs import apply_file_settings
from biasgate.tasks.common import prefect_task
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import task

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def config(tmp_path):
    """Function that writes an evaluation file with some keys, and returns its path."""
    write_inputs(tmp_path)

    before = yaml.safe_load((tmp_path / "file.yaml").read_text("utf-8"))

    def write(name="file", **keys):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(before | keys), "utf-8")
        return str(path)

    return write


@pytest.fixture(autouse=True)
def _without_delays(monkeypatch):
    monkeypatch.setattr(prefect_task, "RETRY_DELAYS_S", (0,))


def failing():
    """Return a step that never succeeds, and the list of its tries."""
    tries = []

    def fail(number: int) -> None:
        tries.append(number)
        raise ConnectionError("gone")

    return task(name="fail")(fail), tries


def call(step):
    step(1)


def submit(step):
    step.submit(1).result()


def map_all(step):
    step.map([1]).result()


@flow
def run_steps(config: str, ways: list) -> None:
    with apply_file_settings(config, "store"):
        for way, step in ways:
            with pytest.raises(ConnectionError):
                way(step)


@pytest.mark.parametrize("way", [call, submit, map_all])
def test_a_step_is_tried_as_often_as_the_file_says_in_this_run_alone(config, way):
    step, tries = failing()
    for keys, n_tries in (({"step_retries": 3}, 4), ({}, 3), ({"step_retries": 0}, 1)):
        run_steps(config(**keys), [(way, step)])
        assert len(tries) == n_tries
        tries.clear()
    assert step.retries == 2


def test_a_flow_within_a_flow_has_the_settings_of_the_outer_one(config):
    step, tries = failing()
    outer = config("outer", step_retries=4)
    inner = config("inner", step_retries=0)

    @flow
    def run_both() -> None:
        with apply_file_settings(outer, "store"):
            run_steps(inner, [(call, step)])
            with pytest.raises(ConnectionError):
                step(1)

    run_both()
    assert len(tries) == 5 + 5


def test_a_limit_is_refused_where_steps_run_in_other_processes(config, monkeypatch):
    monkeypatch.setattr(own_runs, "is_distributed", lambda: True)
    run_steps(config(step_retries=1), [])
    with pytest.raises(InputError, match="`step_timeout_s` must be left out with another task"):
        run_steps(config(step_timeout_s=60), [])


def test_people_are_told_by_the_flow_whose_step_hangs():
    calls = []

    def hook(flow, run, state):
        calls.append((flow.name, run.name, state.name))

    def broken(*_):
        raise RuntimeError("the first receiver is gone")

    @flow(name="hangs", flow_run_name="tonight", on_failure=[broken, hook])
    def hang() -> None:
        own_runs._call_hooks(FlowRunContext.get(), Failed(name="TimedOut"))

    hang()
    assert calls == [("hangs", "tonight", "TimedOut")]


@pytest.mark.slow
def test_workers_of_dask_try_as_often_as_the_file_says(config, tmp_path):
    runner = pytest.importorskip("prefect_dask").DaskTaskRunner
    tries = tmp_path / "tries"

    def fail(number: int) -> None:
        with tries.open("a") as stream:
            stream.write(f"{number}\n")
        raise ConnectionError("gone")

    step = task(name="fail on a worker")(fail)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    spread = run_steps.with_options(task_runner=runner(cluster_kwargs=options))
    spread(config(step_retries=4), [(map_all, step)])
    assert tries.read_text() == "1\n" * 5
