"""Promotions with a fault at every step, of every kind, and the run that follows.

    python -m benchmarks.campaigns.faults --repeat 5

Each trial starts from a registry in which version 1 is champion and version 2 has passed against
it. A process promotes version 2 and is disturbed; then the disturbance ends, and the next run
promotes again.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow.server import app
from mlflow.server.handlers import initialize_backend_stores
from sqlalchemy import event
from sqlalchemy.engine import Engine
from support.promoted import frozen_set, judged_version, local, promote_one
from werkzeug.serving import make_server

from benchmarks.campaigns.disturbing import (
    KILLED,
    MODEL,
    UNDISTURBED,
    Trial,
    WatchedClient,
    be_quiet,
    kill,
    list_faults,
    report_trials,
)
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.champion import settle_stale_entries
from biasgate.tasks.records import Decision, LoggedVerdict
from biasgate.tasks.reporting.version_tags import build_tags

FORK = multiprocessing.get_context("fork")
# A call to a stopped server is repeated once, not for minutes.
IMPATIENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "BIASGATE_MLFLOW_WAIT_S": "0",
}
KINDS = ("exception", "kill -9", "server stopped", "disk full", "database locked")
FIRED = 11
DISK = "256M"


class FaultError(Exception):
    """The injected exception."""


@dataclass(frozen=True)
class World:
    """The store that every trial starts from, and the verdict of version 2 against version 1."""

    folder: Path
    verdict: dict[str, Any]

    @classmethod
    def make(cls, folder: Path) -> World:
        """Create it: version 1 is champion, version 2 is judged."""
        gateway = local(folder)
        frozen_set(folder)
        first = judged_version(gateway, folder, folder / "first")
        assert promote_one([first[1]], first[0], gateway).promoted
        _, verdict, _ = judged_version(gateway, folder, folder / "second", champion=first, seed=1)
        assert verdict.outcome == "pass"
        gateway.client._tracking_client.store  # noqa: B018 - tables are made
        return cls(folder, verdict)

    def copy_database(self, folder: Path) -> Path:
        """Copy the database; artifacts never change while promoting and are shared."""
        return Path(shutil.copy(self.folder / "mlflow.db", folder / "mlflow.db"))


# ------------------------------------------------------------------ steps

STEPS = (
    "write verdict to version",
    "read the ledger",
    "look up champion",
    "open entry",
    "look at the queue",
    "read the ledger again",
    "look up champion again",
    "claim the turn",
    "move champion",
    "read back",
    "keep previous champion",
    "close entry",
)


def promote_second(gateway: Gateway, verdict: LoggedVerdict) -> Decision:
    """Do what a run does: settle interrupted promotions, tag the version, promote."""
    settle_stale_entries(Ledger(gateway, MODEL))
    version = gateway.resolve(f"models:/{MODEL}/2")
    _Watch.is_armed = True
    gateway.tag_version(version, build_tags([verdict]))
    return promote_one([verdict], version, gateway)


class _Watch:
    """Counts the calls of an armed client, and disturbs it before a given step."""

    is_armed = False

    def __init__(self, step: str, disturb: Callable[[], None]) -> None:
        self.step, self.disturb = step, disturb
        self.n_calls: Counter[str] = Counter()

    def __call__(self, method: str, args: tuple[Any, ...]) -> None:
        if type(self).is_armed and self.find_step(method, args) == self.step:
            type(self).is_armed = False
            self.disturb()

    def find_step(self, method: str, args: tuple[Any, ...]) -> str | None:
        """Return the step that a call of the client begins."""
        key = args[2] if method == "set_model_version_tag" else method
        if method == "set_registered_model_alias":
            key = f"set {args[1]}"
        self.n_calls[key] += 1
        if method == "set_model_version_tag" and args[0] == MODEL:
            return STEPS[0] if self.n_calls.total() == 1 else None
        return {
            ("search_model_versions", 1): STEPS[1],
            ("get_model_version", 1): STEPS[2],
            ("create_model_version", 1): STEPS[3],
            ("search_model_versions", 2): STEPS[4],
            ("search_model_versions", 3): STEPS[5],
            ("get_model_version", 2): STEPS[6],
            ("biasgate.entry", 1): STEPS[7],
            ("set champion", 1): STEPS[8],
            ("get_model_version_by_alias", 1): STEPS[9],
            ("set previous_champion", 1): STEPS[10],
            ("biasgate.entry", 2): STEPS[11],
        }.get((key, self.n_calls[key]))


def attempt(uri: str, verdict: dict[str, Any], step: str, disturb: Callable[[], None]) -> None:
    """Promote in this process with a fault before a step; exits, never returns."""
    be_quiet()
    os.environ |= IMPATIENT
    _Watch.is_armed = False
    event.listen(Engine, "before_cursor_execute", _wait_less_for_locks, retval=True)
    gateway = Gateway(uri)
    gateway.__dict__["client"] = WatchedClient(gateway.client, _Watch(step, disturb))
    try:
        promote_second(gateway, verdict)
    except Exception:  # noqa: BLE001 - any effect of the disturbance
        os._exit(FIRED)
    os._exit(UNDISTURBED)


def _wait_less_for_locks(
    _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any
) -> tuple[str, Any]:
    """Wait a fifth of a second for locks, instead of MLflow's 20 seconds."""
    return statement.replace("busy_timeout = 20000", "busy_timeout = 200"), parameters


# ------------------------------------------------------------------ kinds


def fail() -> None:
    """Raise."""
    raise FaultError


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Yield a small disk; needs the right to mount."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        # Lazily: pooled connections of the later checks may still hold the database.
        subprocess.run(["umount", "-l", disk], check=True)


def can_mount() -> bool:
    """Return True if this process can mount a small disk."""
    try:
        with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder)):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def fill(disk: Path) -> None:
    """Write until the disk is full."""
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(1 << 20))
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as stream:
        while True:
            stream.write(b"0")


class Server:
    """MLflow's own server on 127.0.0.1, in a forked process that is killed and restarted."""

    def __init__(self, database: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.database = database
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: Any = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = FORK.Process(target=_serve, args=(self.database, self.port))
        self.process.start()
        for _ in range(3600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        raise RuntimeError

    def stop(self) -> None:
        """Kill it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        while _answers(self.port):
            time.sleep(0.01)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _serve(database: Path, port: int) -> None:
    be_quiet()
    uri = f"sqlite:///{database}"
    initialize_backend_stores(uri, uri, str(database.parent))
    make_server("127.0.0.1", port, app, threaded=True).serve_forever()


# ------------------------------------------------------------------ trials


def run_trial(world: World, kind: str, step: str) -> Trial:
    """Disturb a promotion, check, let the next run repair it, check again."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if kind == "disk full":
            folder = stack.enter_context(small_disk(folder))
        database = world.copy_database(folder)
        uri = f"sqlite:///{database}"
        server = Server(database) if kind == "server stopped" else None
        if server is not None:
            server.start()
            stack.callback(server.stop)
            uri = server.uri
        disturb: dict[str, Callable[[], None]] = {
            "exception": fail,
            "kill -9": kill,
            "server stopped": server.stop if server else fail,
            "disk full": lambda: fill(folder),
            "database locked": lambda: _lock(database),
        }
        process = FORK.Process(target=attempt, args=(uri, world.verdict, step, disturb[kind]))
        process.start()
        process.join(60)
        if kind == "disk full":
            (folder / "filler").unlink()
        if server is not None:
            server.start()
        return Trial(
            kind=f"{kind}, before: {step}",
            n_fired=process.exitcode in {FIRED, KILLED},
            problems=_find_problems(world, step, Gateway(uri)),
        )


_locks: list[sqlite3.Connection] = []


def _lock(database: Path) -> None:
    """Lock the database until this process ends, as a backup would."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    _locks.append(connection)


def _find_problems(world: World, step: str, gateway: Gateway) -> list[str]:
    """Return faults after the disturbed promotion, and after the next run, which completes it."""
    problems = []
    champion = gateway.get_alias(MODEL, "champion")
    expected = "2" if STEPS.index(step) > STEPS.index("move champion") else "1"
    if champion is None or champion.version != expected:
        problems.append(f"champion is not version {expected} after the fault")
    elif champion.tags.get("biasgate.comments.verdict") != "pass":
        problems.append("champion points at a version without a passing verdict")
    decision = promote_second(gateway, world.verdict)
    if decision.outcome != "pass" and not decision.champion_moved:
        problems.append(f"the next run ended with: {decision.sentence}")
    states = [entry.state for entry in Ledger(gateway, MODEL).read_entries()]
    if "open" in states:
        problems.append("an entry is open after the next run")
    aliases = [gateway.get_alias(MODEL, name) for name in ("champion", "previous_champion")]
    if [alias.version if alias else None for alias in aliases] != ["2", "1"]:
        problems.append("the next run did not complete the promotion")
    return problems + list_faults(gateway, world.folder)


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    options = parser.parse_args()
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        world = World.make(Path(folder))
        report_trials(
            run_trial(world, kind, step)
            for kind in options.kinds
            for step in STEPS
            for _ in range(options.repeat)
        )


if __name__ == "__main__":
    main()
