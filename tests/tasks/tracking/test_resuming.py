"""Runs of ended processes are resumed or ended; runs of live processes are not."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from biasgate.tasks.common import processes
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.own_folders import own_folder, redirect_temporary_files
from biasgate.tasks.common.processes import describe_this_process, has_ended
from biasgate.tasks.ending import end_mlflow_runs
from biasgate.tasks.mlflow_server.runs import OWNER, Gateway
from biasgate.tasks.tracking.resume import EVALUATION, RESUMED, make_run_key, settle_abandoned_runs

DAY_S = 24 * 3600


@pytest.fixture
def gateway(tmp_path):
    return Gateway.from_store(tmp_path)


@pytest.fixture
def experiment(gateway):
    return gateway.ensure_experiment("small")


@pytest.fixture
def dead():
    """Identifier of a process that has ended."""
    code = "from biasgate.tasks.common.processes import describe_this_process as describe\n"
    code += "print(describe())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def left(gateway, experiment):
    """Function that creates a run and a child run, both RUNNING."""

    def left(owner, evaluation="same", key="old"):
        run = gateway.ensure_run(experiment, key, "evaluate small")
        below = gateway.ensure_run(experiment, f"{run}/one", "one", parent=run)
        gateway.log(run, tags={OWNER: owner, EVALUATION: evaluation})
        gateway.log(below, tags={OWNER: owner})
        return run, below

    return left


def statuses(gateway, runs):
    return [gateway.client.get_run(run).info.status for run in runs]


def test_the_same_evaluation_goes_on_with_the_runs_of_one_that_died(
    gateway, experiment, left, dead
):
    runs = left(dead)
    settle_abandoned_runs(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == ["RUNNING", "RUNNING"]
    assert gateway.ensure_run(experiment, "new", "evaluate small") == runs[0]
    tags = gateway.client.get_run(runs[0]).data.tags
    assert (tags[OWNER], tags[RESUMED]) == (describe_this_process(), "true")


def test_a_process_that_must_end_at_once_ends_its_own_runs_alone(gateway, tmp_path, left, dead):
    own, other = left(describe_this_process()), left(dead, key="other")
    end_mlflow_runs(tmp_path, "FAILED")
    assert statuses(gateway, own) == ["FAILED", "FAILED"]
    assert statuses(gateway, other) == ["RUNNING", "RUNNING"]


def test_runs_of_another_evaluation_that_died_end_as_killed(gateway, experiment, left, dead):
    runs = left(dead, evaluation="other")
    settle_abandoned_runs(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == ["KILLED", "KILLED"]
    assert gateway.find_run(experiment, "new") is None


def test_a_run_that_finished_before_its_process_ended_stays_finished(
    gateway, experiment, left, dead, monkeypatch
):
    runs = left(dead, evaluation="other")
    snapshots = [gateway.list_unfinished(experiment)]
    for run in runs:
        gateway.end_run(run, "FINISHED")
    list_unfinished = Gateway.list_unfinished

    def list_late(self, experiment_id):
        return snapshots.pop() if snapshots else list_unfinished(self, experiment_id)

    monkeypatch.setattr(Gateway, "list_unfinished", list_late)
    settle_abandoned_runs(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == ["FINISHED", "FINISHED"]


def test_of_two_that_died_the_newer_goes_on_and_the_other_ends(gateway, experiment, left, dead):
    older = left(dead)
    time.sleep(0.01)  # MLflow counts milliseconds
    newer = left(dead, key="old too")
    settle_abandoned_runs(gateway, experiment, "new", "same")
    assert statuses(gateway, older) == ["KILLED", "KILLED"]
    assert gateway.ensure_run(experiment, "new", "evaluate small") == newer[0]


@pytest.mark.parametrize("evaluation", ["same", "other"])
def test_runs_of_a_live_process_are_left_alone(gateway, experiment, left, evaluation):
    runs = left(describe_this_process(), evaluation)
    settle_abandoned_runs(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == ["RUNNING", "RUNNING"]
    assert gateway.find_run(experiment, "new") is None


@pytest.mark.parametrize(("age", "status"), [(DAY_S - 60, "RUNNING"), (DAY_S + 60, "KILLED")])
def test_a_process_of_another_machine_counts_as_dead_after_a_day(
    gateway, experiment, left, monkeypatch, age, status
):
    runs = left("elsewhere 1 2", evaluation="other")
    now = time.time()
    monkeypatch.setattr("biasgate.tasks.tracking.resume.time.time", lambda: now + age)
    settle_abandoned_runs(gateway, experiment, "new", "same")
    assert statuses(gateway, runs) == [status, status]


def test_a_run_that_somebody_else_made_is_left_alone(gateway, experiment):
    run = gateway.client.create_run(experiment).info.run_id
    settle_abandoned_runs(gateway, experiment, "new", "same")
    assert statuses(gateway, [run]) == ["RUNNING"]


def test_a_run_knows_what_it_is_nested_under(gateway, left):
    run, below = left(describe_this_process())
    assert [gateway.get_parent_id(run_id) for run_id in (below, run, "0" * 32)] == [run, None, None]


def test_a_killed_process_that_nobody_has_waited_for_has_ended():
    code = "from biasgate.tasks.common.processes import describe_this_process\n"
    code += "print(describe_this_process(), flush=True); input()"
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
    assert not has_ended(describe_this_process())
    assert not has_ended("elsewhere 1 2")


@pytest.mark.parametrize(
    ("changed", "ended"),
    [
        ({"pid": "0"}, True),
        ({"boot": "another"}, True),
        ({"boot": "another", "machine": "another"}, False),
        ({"namespace": "another", "pid": "0"}, False),
        ({"boot": "another", "namespace": "another"}, False),
        ({"host": "another", "pid": "0"}, False),
    ],
    ids=["ended", "before a restart", "same name", "other container", "both", "other host"],
)
def test_a_process_has_ended_only_if_it_can_be_known_from_here(monkeypatch, changed, ended):
    here = {
        "host": "host",
        "machine": "1a2b",
        "boot": "3c4d",
        "namespace": processes._HOST_NAMESPACE,
    }
    monkeypatch.setattr(processes, "_identify_machine", lambda: "~".join(here.values()))
    monkeypatch.setattr(processes, "_describe_process", processes._describe_process.__wrapped__)
    *_, pid, started = describe_this_process().split(" ")
    assert not has_ended(describe_this_process())
    there = here | {"pid": pid} | changed
    pid = there.pop("pid")
    assert has_ended(f"{'~'.join(there.values())} {pid} {started}") == ended


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def in_own_folder(parent, prefix=""):
    """Return a command that writes a file in its own folder, prints the folder and waits."""
    code = (
        "import sys, pathlib; from biasgate.tasks.common.own_folders import own_folder\n"
        "with own_folder(pathlib.Path(sys.argv[1]), sys.argv[2]) as folder:\n"
        "    (folder / 'array.npy').touch(); print(folder, flush=True); input()"
    )
    return [sys.executable, "-c", code, str(parent), prefix]


def kill_in_own_folder(parent, prefix=""):
    """Kill a process that has written a file in its own folder; return the folder."""
    with subprocess.Popen(in_own_folder(parent, prefix), text=True, **PIPES) as process:
        folder = Path(process.stdout.readline().strip())
        process.kill()
    assert (folder / "array.npy").exists()
    return folder


def test_working_files_of_a_killed_process_go_and_those_of_others_stay(tmp_path):
    left = kill_in_own_folder(tmp_path)
    (tmp_path / "something").mkdir()
    with own_folder(tmp_path) as other, own_folder(tmp_path) as own:
        assert not left.exists()
        assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "something", other, own])
    assert list(tmp_path.iterdir()) == [tmp_path / "something"]


def test_working_files_of_a_process_that_lives_in_another_container_stay(tmp_path):
    """On this machine its number belongs to another process or is free."""
    container = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*container, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("only root can make a namespace of processes")
    with subprocess.Popen([*container, *in_own_folder(tmp_path)], text=True, **PIPES) as process:
        theirs = Path(process.stdout.readline().strip())
        with own_folder(tmp_path) as ours:
            assert sorted(tmp_path.iterdir()) == sorted([theirs, ours])
            assert (theirs / "array.npy").exists()
        process.communicate("end\n")
    assert list(tmp_path.iterdir()) == []


def test_half_a_file_of_a_killed_process_goes_with_the_next_try(tmp_path):
    left = kill_in_own_folder(tmp_path, ".f-")
    other = tmp_path / ".f-of somebody"
    other.mkdir()
    with whole_file(tmp_path / "f") as file:
        file.write_text("half")
        assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "f", other])


def test_temporary_files_of_libraries_go_when_the_last_user_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("TMPDIR", raising=False)
    left = kill_in_own_folder(tmp_path, "biasgate-")
    with redirect_temporary_files():
        assert not left.exists()
        file = Path(tempfile.mkdtemp()) / "model"
        with redirect_temporary_files():
            file.touch()
            seen = subprocess.check_output(
                [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"], text=True
            )
        assert file.exists()
        assert seen.strip() == tempfile.gettempdir() != str(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert tempfile.gettempdir() == str(tmp_path)
    assert "TMPDIR" not in os.environ


def test_runs_of_two_candidates_whose_names_are_alike_have_different_keys():
    assert make_run_key("r", "a on b", "c") != make_run_key("r", "a", "b on c")
