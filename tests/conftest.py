import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import chain, groupby, islice
from pathlib import Path

import pytest
from hypothesis import settings
from support import idle
from support.templates import _mlflow_tables, _prefect_home  # noqa: F401 - fixtures

from biasgate.tasks.common.garbage import raise_gc_threshold

raise_gc_threshold()
REPOSITORY = Path(__file__).parents[1]
NO_DATA = "no real data"

# Hypothesis draws the same each time, and an example takes as long as it takes.
for name, examples in {"fast": 25, "thorough": 100}.items():
    settings.register_profile(name, settings.get_profile("ci"), max_examples=examples)
settings.load_profile("fast")


def pytest_ignore_collect(collection_path, config):
    """Do not import a file of which no test would run: some bring servers and clusters along."""
    left_out = "|".join(re.findall(r"\bnot (\w+)", config.option.markexpr))
    if not left_out or not collection_path.name.startswith("test_"):
        return None
    whole_file = rf"^pytestmark = .*mark\.({left_out})\b"
    return bool(re.search(whole_file, collection_path.read_text("utf-8"), re.MULTILINE)) or None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what needs Prefect's server as evaluating: each process of tests starts one.

    Trace no drawn examples: tracing doubles their time, and examples by hand cover as much.
    """
    for item in items:
        if "prefect_server" in item.fixturenames:
            item.add_marker("evaluates")
    if config.pluginmanager.hasplugin("pytest_cov"):
        for item in items:
            if getattr(item.obj, "is_hypothesis_test", False):
                item.add_marker("no_cover")
    found = yield
    items[:] = slow_files_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    return found


def slow_files_first(items, n_workers):
    """Let each worker begin with whole files of slow tests.

    Each gets an equal share of the tests in their order, and one that is done steals from the end
    of another's. A file that is divided so makes its fixtures twice, of which some take minutes.
    """
    files = [list(file) for _, file in groupby(items, key=lambda item: item.path)]
    slow, quick, shares, left = [], [], [[] for _ in range(n_workers)], len(items)
    for file in files:
        of_file = slow if any(item.get_closest_marker("slow") for item in file) else quick
        of_file.append(file)
    for file in slow:
        min(shares, key=len).extend(file)
    others = chain.from_iterable(quick)
    for at, share in enumerate(shares):
        share.extend(islice(others, max(left // (n_workers - at) - len(share), 0)))
        left -= len(share)
    found = [*chain.from_iterable(shares), *others]
    assert len(found) == len(items)
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    idle.wake(item)
    found = yield
    idle.let_sleep(nextitem)
    return found


def pytest_terminal_summary(terminalreporter):
    """Say in one line what was skipped and why, and in one what the missing real data cost."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {one: str(one.longrepr[2]).removeprefix("Skipped: ") for one in skipped}
    lacking = [one for one, reason in reasons.items() if reason.startswith(NO_DATA)]
    if lacking:
        files = sorted({one.nodeid.partition("::")[0].removeprefix("tests/") for one in lacking})
        terminalreporter.write_line(
            f"{len(lacking)} tests need real data, which BIASGATE_REAL_DATA names the folder of, "
            f"and were skipped. They compare with published numbers: {', '.join(files)}"
        )
    others = Counter(reason for one, reason in reasons.items() if one not in lacking)
    if others:
        told = "; ".join(f"{number} ({reason})" for reason, number in others.most_common())
        terminalreporter.write_line(f"skipped: {told}")


@pytest.fixture(scope="session", autouse=True)
def _no_keys_of_this_machine(tmp_path_factory):
    """Neither sign nor trust with the keys of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BIASGATE_PRIVATE_KEY", raising=False)
        folder = tmp_path_factory.mktemp("no-keys")
        (folder / "trusted_keys.json").write_text('{"keys": []}', "utf-8")
        patch.setenv("BIASGATE_TRUSTED_KEYS", str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick():
    """No test pulls the plug; and commands are made once, not each time one is called.

    A worker of pytest-xdist has `COLUMNS`, so that sentences would be wrapped there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        patch.setattr(os, "fsync", lambda _: None)
        with suppress(ImportError):  # it comes with the extra
            from typer import testing  # noqa: PLC0415

            patch.setattr(testing, "_get_command", cache(testing._get_command))
        yield


@pytest.fixture(autouse=True)
def _reset_step_logger():
    """Undo what a command in this process, maybe of a module's fixture, set on the logger."""
    steps = logging.getLogger("biasgate.steps")
    steps.propagate, steps.handlers = True, []
    steps.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def _no_server_of_a_command():
    """A command that is run here would start a server, which all later tests would use."""
    yield
    if os.environ.pop("PREFECT__SERVER_EPHEMERAL", None):
        os.environ.pop("PREFECT_API_URL", None)
        pytest.fail("a test that runs such a command in this process needs `prefect_server`")


@pytest.fixture(autouse=True)
def _no_tracking_uri():
    """A tracking URI that is set in this process comes before the environment in later tests."""
    yield
    mlflow = sys.modules.get("mlflow")
    if mlflow is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        left = mlflow.is_tracking_uri_set()
    if left:
        mlflow.set_tracking_uri(None)
        pytest.fail("a test that calls `mlflow.set_tracking_uri` must set it to None again")


@pytest.fixture
def disk(tmp_path):
    """A small disk, mounted for a test, and how to change it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a disk")

    def change(option):
        subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)

    yield folder, change
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="session")
def real_data():
    """Folder of the real data that is not part of the repository."""
    named = os.environ.get("BIASGATE_REAL_DATA")
    folder = Path(named or REPOSITORY.parent / "shared" / "data")
    if named and not folder.is_dir():
        pytest.fail(f"BIASGATE_REAL_DATA must name a folder; {folder} is none")
    if not folder.is_dir():
        pytest.skip(f"{NO_DATA}: {folder} is missing")
    return folder


@pytest.fixture(scope="session")
def reference(real_data):
    """Folder of published values, beside the real data; not part of the repository either."""
    folder = real_data.parent / "reference"
    if not folder.is_dir():
        pytest.skip(f"no published values: {folder} is missing")
    return folder


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory, prefect_home):
    """Prefect in this process against a throwaway server; flows called by tests just run."""
    # Here, since the tests of bias_metrics also run where only numpy is installed.
    import httpx  # noqa: PLC0415
    from prefect import context, settings  # noqa: PLC0415
    from prefect.events.worker import EventsWorker  # noqa: PLC0415
    from prefect.logging.handlers import APILogHandler  # noqa: PLC0415

    from biasgate.deployments import temporary_server  # noqa: PLC0415

    changed = {
        settings.PREFECT_HOME: prefect_home(tmp_path_factory.mktemp("prefect-home")),
        settings.PREFECT_SERVER_ANALYTICS_ENABLED: False,
        # Its thread costs every flow a second at its end; only a nightly needs it.
        settings.PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
    }

    def settle():
        # Lines for a server that is gone are tried for a minute when the process ends. In another
        # thread, as the event loop of a browser may be open in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(APILogHandler().flush).result()
            thread.submit(EventsWorker.drain_all, 5, at_exit=False).result()

    with settings.temporary_settings(changed), pytest.MonkeyPatch.context() as patch:
        for unused in ("EVENT_LOGGER", "EVENT_PERSISTER", "TRIGGERS"):  # a fifth of its time
            patch.setenv(f"PREFECT_SERVER_SERVICES_{unused}_ENABLED", "false")
        server, url = temporary_server.launch_server()
        try:
            httpx.get(f"{url}/health", timeout=300, trust_env=False).raise_for_status()
            with (
                settings.temporary_settings({settings.PREFECT_API_URL: url}),
                # Of other threads, too.
                context._temporary_global_settings_context(context.get_settings_context()),
            ):
                with idle.asleep_when_unused("prefect_server", server, settle):
                    yield
                settle()
        finally:
            temporary_server.stop_server(server)


@pytest.fixture(scope="session")
def prefect_services(tmp_path_factory, prefect_home):
    """Environment of commands that use a real Prefect server, scheduler and all, of its own."""
    home = prefect_home(tmp_path_factory.mktemp("prefect-services"))
    command, environment = _prefect_server(home)
    log = home / "server.log"
    with log.open("wb") as stream:
        server = subprocess.Popen(
            command, env=environment, stdout=stream, stderr=subprocess.STDOUT, cwd=home
        )
        try:
            _wait_for_health(environment["PREFECT_API_URL"], server, log)
            with idle.asleep_when_unused("prefect_services", server):
                yield environment
        finally:
            stop(server)


@pytest.fixture
def mortal_prefect(running, tmp_path, prefect_home):
    """Environment of commands, and a function that starts their Prefect server, as often as asked.

    It returns the process, which the test may kill.
    """
    command, environment = _prefect_server(prefect_home(tmp_path / "prefect"))

    def start():
        server = running(command, environment, name="server")
        _wait_for_health(environment["PREFECT_API_URL"], server, tmp_path / "server.log")
        return server

    return environment, start


def _prefect_server(home):
    """Return the command of a Prefect server on a free port, and the environment of its users."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    environment |= {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    return [*command, "--port", str(port)], environment


@pytest.fixture(scope="module")
def browser():
    """A real browser. While it is open, nothing else in this process can run an event loop."""
    from support.browser import launched  # noqa: PLC0415

    with launched() as found:
        yield found


def stop(process):
    """End a process with Ctrl-C, which all servers and workers here heed; kill it if it hangs."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def running(tmp_path):
    """Start commands in the background; each is stopped, the last first, when the test ends."""
    started = []

    def start(command, environment, name="command"):
        with (tmp_path / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=tmp_path
            )
        started.append(process)
        return process

    yield start
    for process in reversed(started):
        stop(process)


@pytest.fixture
def mlflow_server(running, tmp_path, monkeypatch):
    """Start an MLflow server that keeps artifacts itself, and name its URI for evaluations."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--workers", "1"]
    command += ["--port", str(port), "--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    command += ["--artifacts-destination", str(tmp_path / "artifacts")]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    process = running(command, environment, name="mlflow")
    _wait_for_health(uri, process, tmp_path / "mlflow.log")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


def _wait_for_health(api, server, log):
    import httpx  # noqa: PLC0415

    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            if httpx.get(f"{api}/health", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.3)
    pytest.fail(f"the server did not become healthy: {log.read_text()[-2000:]}")
