"""A command that is stopped ends at once, and nothing that it started is left."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from prefect.settings import (
    PREFECT_API_DATABASE_CONNECTION_URL,
    PREFECT_API_URL,
    PREFECT_HOME,
    temporary_settings,
)
from support.endless import CANDIDATE, SLOW
from support.evaluations import write_inputs

from biasgate.deployments.temporary_server import start_server
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ending import run_until_stopped

COMMAND = """\
import signal, subprocess, sys, time
from pathlib import Path
from biasgate.tasks.ending import run_until_stopped
from biasgate.tasks.common.own_folders import own_folder

def work():
    sleep = [sys.executable, "-c", "import time; time.sleep(3600)"]
    with own_folder(Path("work")) as folder:
        (folder / "array.npy").touch()
        child = subprocess.Popen(sleep, start_new_session=True)
        signal.siginterrupt(signal.SIGINT, False)  # as libraries do; a waiting thread is not woken
        print(child.pid, flush=True)
        time.sleep(3600)

run_until_stopped(work, Path("store"))
"""


def heed_ctrl_c():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell in the background lets it be ignored


def is_running(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")]
)
def test_a_stopped_command_ends_with_its_children_and_folders_and_says_what_is_kept(
    tmp_path, number, name
):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", COMMAND]
    with subprocess.Popen(command, cwd=tmp_path, preexec_fn=heed_ctrl_c, **pipes) as process:  # noqa: PLW1509
        child = psutil.Process(int(process.stdout.readline()))
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert f"stopped by {name}" in said
    assert "are kept in store. Run it again to resume." in " ".join(said.split())
    assert not is_running(child)
    assert list((tmp_path / "work").iterdir()) == []


def test_work_that_is_not_stopped_gives_its_result_or_error():
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert run_until_stopped(lambda: 42, Path("store")) == 42
    with pytest.raises(ZeroDivisionError):
        run_until_stopped(lambda: 1 / 0, Path("store"))
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


SERVER = [sys.executable, "-P", "-m", "biasgate.deployments.server_process"]
START = "from biasgate.deployments.temporary_server import start_server\nwait = start_server()\n"


def without_server(tmp_path, **more):
    """Return an environment in which no server of Prefect is set."""
    plain = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    return plain | {"PREFECT_HOME": str(tmp_path / "home")} | more


def test_the_temporary_server_ends_with_the_command_while_it_is_still_importing(tmp_path):
    (tmp_path / "uvicorn.py").write_text("import time\ntime.sleep(600)\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        SERVER, check=False, env=environment, stdin=subprocess.DEVNULL, timeout=60
    )
    assert ended.returncode == 1


@pytest.mark.usefixtures("prefect_server")
def test_a_server_that_is_set_is_used_and_none_is_started(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    start_server()()


def test_a_home_of_prefect_that_cannot_be_written_to_is_refused_before_its_server_starts(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    (tmp_path / "file").touch()
    changed = {PREFECT_HOME: tmp_path / "file" / "home"}
    # Without the server and the database of other tests, if they are set for all of them.
    its_own = {PREFECT_API_URL, PREFECT_API_DATABASE_CONNECTION_URL}
    found = "PREFECT_HOME .* must be a folder that can be written to; got: Not a directory"
    with (
        temporary_settings(changed, restore_defaults=its_own),
        pytest.raises(InputError, match=found),
    ):
        start_server()


def test_a_temporary_server_that_ends_at_once_is_told(tmp_path):
    (tmp_path / "uvicorn.py").write_text("raise OSError('no')\n")
    environment = without_server(
        tmp_path, PYTHONPATH=str(tmp_path), PREFECT_SERVER_LOGGING_LEVEL="CRITICAL"
    )
    program = [sys.executable, "-c", f"{START}wait()"]
    ended = subprocess.run(program, check=False, env=environment, capture_output=True, text=True)
    found = "temporary server must start on this machine; it did not. It ended with the code 3."
    assert found in ended.stderr
    assert "OSError: no" not in ended.stderr


# In place of a server: it reads in a transaction, and says whether others may write meanwhile.
READING = """\
import asyncio, sqlite3
from pathlib import Path
from prefect.server.database.configurations import AioSqliteConfiguration
from sqlalchemy import text

async def read():
    configuration = AioSqliteConfiguration("sqlite+aiosqlite:///prefect.db")
    session = await configuration.session(await configuration.engine())
    async with session, configuration.begin_transaction(session, with_for_update=False):
        await session.execute(text("SELECT 1"))
        try:
            sqlite3.connect("prefect.db", timeout=0).execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            Path("said").write_text(str(error))

class Config:
    def __init__(self, *_, **__): pass

class Server(Config):
    def run(self, _): asyncio.run(read())
"""


def test_a_transaction_of_the_temporary_server_locks_sqlite_before_it_reads(tmp_path):
    (tmp_path / "uvicorn.py").write_text(READING)
    environment = without_server(tmp_path, PYTHONPATH=str(tmp_path))
    with subprocess.Popen(SERVER, cwd=tmp_path, env=environment, stdin=subprocess.PIPE) as server:
        server.wait(timeout=60)
    assert (tmp_path / "said").read_text() == "database is locked"


@pytest.mark.slow
def test_the_temporary_server_ends_when_the_command_is_killed(tmp_path):
    code = f"import psutil\n{START}print(psutil.Process().children()[0].pid, flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    program = [sys.executable, "-c", code]
    with subprocess.Popen(program, env=without_server(tmp_path), **pipes) as command:
        server = psutil.Process(int(command.stdout.readline()))
        command.kill()
    psutil.wait_procs([server], timeout=60)
    assert not is_running(server)


@pytest.fixture
def evaluating(tmp_path, prefect_home):
    """An evaluation whose command waits for a candidate that never answers, and its children."""
    write_inputs(tmp_path)
    prefect_home(tmp_path / "home")
    (tmp_path / "slow.py").write_text(SLOW)
    file = tmp_path / "file.yaml"
    file.write_text(file.read_text().replace("policy: own.yaml\n", CANDIDATE))
    (tmp_path / "temporary").mkdir()
    environment = without_server(tmp_path, TMPDIR=str(tmp_path / "temporary"))
    command = [sys.executable, "-m", "biasgate", "evaluate", "file.yaml", "--output", "out"]
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*command, "--store", "store"],
            cwd=tmp_path,
            env=environment,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=heed_ctrl_c,  # noqa: PLW1509
        )
    children: list[psutil.Process] = []
    # Prefect's server, and the candidate's function, which starts after the sentence.
    while "scoring slow" not in log.read_text() or len(children) < 2:
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
        children = psutil.Process(process.pid).children(recursive=True)
    yield process, children
    process.kill()
    process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
def test_a_stopped_evaluation_leaves_nothing_that_runs(evaluating, tmp_path, number, send):
    process, children = evaluating
    assert len(children) == 2
    send(process.pid, number)
    code = -number if number == signal.SIGKILL else 128 + number
    assert process.wait(60) == code
    psutil.wait_procs(children, timeout=20)
    assert [one for one in children if is_running(one)] == []
    if number != signal.SIGKILL:
        assert "Run it again to resume." in (tmp_path / "log").read_text()
        assert list((tmp_path / "temporary").iterdir()) == []
        assert flow_states(tmp_path) == ["CANCELLED"]
        assert set(stage_states(tmp_path)) == {"COMPLETED", "CANCELLED"}


def flow_states(folder, stages="is null"):
    """The states of the flow runs in Prefect's database that are no stages, in any order."""
    asked = f"select state_type from flow_run where parent_task_run_id {stages}"  # noqa: S608
    with closing(sqlite3.connect(folder / "home" / "prefect.db")) as database:
        found = database.execute(asked).fetchall()
    return sorted(state for (state,) in found)


def stage_states(folder):
    return flow_states(folder, "is not null")


@pytest.mark.slow
def test_the_run_after_a_kill_marks_the_killed_one_as_crashed(evaluating, tmp_path):
    process, _ = evaluating
    process.kill()
    process.wait()
    assert flow_states(tmp_path) == ["RUNNING"]
    assert "RUNNING" in stage_states(tmp_path)
    file = tmp_path / "file.yaml"
    file.write_text(file.read_text().replace(CANDIDATE, "policy: own.yaml\n"))
    environment = os.environ | {"PREFECT_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "biasgate", "evaluate", "file.yaml", "--output", "out"]
    subprocess.run([*command, "--store", "store"], cwd=tmp_path, env=environment, check=True)
    assert flow_states(tmp_path) == ["COMPLETED", "CRASHED"]
    assert set(stage_states(tmp_path)) == {"COMPLETED", "CRASHED"}
