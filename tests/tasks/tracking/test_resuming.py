"""Runs that a dead evaluation left RUNNING are resumed or ended; those of a live one are not."""

import subprocess
import sys
import time

import pytest

from biasgate.tasks.common.files import own_folder, whole_file
from biasgate.tasks.common.processes import has_ended, this_process
from biasgate.tasks.mlflow_server.runs import OWNER, Gateway
from biasgate.tasks.tracking.resume import EVALUATION, settle_abandoned

DAY_S = 24 * 3600


@pytest.fixture
def gateway(tmp_path):
    return Gateway.of_store(tmp_path)


@pytest.fixture
def experiment(gateway):
    return gateway.experiment("small")


@pytest.fixture
def dead():
    """Name of a process that has ended."""
    code = "from biasgate.tasks.common.processes import this_process; print(this_process())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def left(gateway, experiment):
    """Leave a run and one below it RUNNING."""

    def left(owner, evaluation="same", key="old"):
        run = gateway.run(experiment, key, "evaluate small")
        below = gateway.run(experiment, f"{run}/one", "one", parent=run)
        gateway.log(run, tags={OWNER: owner, EVALUATION: evaluation})
        gateway.log(below, tags={OWNER: owner})
        return run, below

    return left


def statuses(gateway, runs):
    return [gateway.client.get_run(one).info.status for one in runs]


def test_the_same_evaluation_goes_on_with_the_runs_of_one_that_died(
    gateway, experiment, left, dead
):
    runs = left(dead)
    settle_abandoned(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == ["RUNNING", "RUNNING"]
    assert gateway.run(experiment, "new", "evaluate small") == runs[0]
    assert gateway.client.get_run(runs[0]).data.tags[OWNER] == this_process()


def test_runs_of_another_evaluation_that_died_end_as_killed(gateway, experiment, left, dead):
    runs = left(dead, evaluation="other")
    settle_abandoned(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == ["KILLED", "KILLED"]
    assert gateway.find_run(experiment, "new") is None


def test_of_two_that_died_the_newer_goes_on_and_the_other_ends(gateway, experiment, left, dead):
    older = left(dead)
    time.sleep(0.01)  # MLflow counts milliseconds
    newer = left(dead, key="old too")
    settle_abandoned(gateway, experiment, "new", "same")
    assert statuses(gateway, older) == ["KILLED", "KILLED"]
    assert gateway.run(experiment, "new", "evaluate small") == newer[0]


@pytest.mark.parametrize("evaluation", ["same", "other"])
def test_runs_of_a_live_process_are_left_alone(gateway, experiment, left, evaluation):
    runs = left(this_process(), evaluation)
    settle_abandoned(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == ["RUNNING", "RUNNING"]
    assert gateway.find_run(experiment, "new") is None


@pytest.mark.parametrize(("age", "status"), [(DAY_S - 60, "RUNNING"), (DAY_S + 60, "KILLED")])
def test_a_process_of_another_machine_counts_as_dead_after_a_day(
    gateway, experiment, left, monkeypatch, age, status
):
    runs = left("elsewhere 1 2", evaluation="other")
    now = time.time()
    monkeypatch.setattr("biasgate.tasks.tracking.resume.time.time", lambda: now + age)
    settle_abandoned(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == [status, status]


def test_a_run_that_somebody_else_made_is_left_alone(gateway, experiment):
    run = gateway.client.create_run(experiment).info.run_id
    settle_abandoned(gateway, experiment, "new", "same")
    assert statuses(gateway, [run]) == ["RUNNING"]


def test_a_run_knows_what_it_is_nested_under(gateway, left):
    run, below = left(this_process())
    assert [gateway.parent_of(one) for one in (below, run, "0" * 32)] == [run, None, None]


def test_a_killed_process_that_nobody_has_waited_for_has_ended():
    code = "from biasgate.tasks.common.processes import this_process\n"
    code += "print(this_process(), flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as process:
        owner = process.stdout.readline().strip()
        assert not has_ended(owner)
        process.kill()
        deadline = time.monotonic() + 30
        while not has_ended(owner) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert has_ended(owner)
        process.stdin.close()
        process.stdin = None
    assert not has_ended(this_process())
    assert not has_ended("elsewhere 1 2")


def test_working_files_of_a_killed_process_go_and_those_of_others_stay(tmp_path, dead):
    work = tmp_path / "work"
    others = [work / f"{this_process()} abc", work / "elsewhere 1 2 abc", work / "something"]
    for folder in (work / f"{dead} abc", *others):
        folder.mkdir(parents=True)
        (folder / "array.npy").touch()
    with own_folder(work) as own:
        assert sorted(work.iterdir()) == sorted([*others, own])
    assert sorted(work.iterdir()) == sorted(others)


def test_half_a_file_of_a_killed_process_goes_with_the_next_try(tmp_path, dead):
    left, other = tmp_path / f".f-{dead} abc", tmp_path / f".f-x y-{dead} abc"
    for folder in (left, other):
        folder.mkdir()
        (folder / "f").write_text("ha")
    with whole_file(tmp_path / "f") as file:
        file.write_text("half")
        assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "f", other])
