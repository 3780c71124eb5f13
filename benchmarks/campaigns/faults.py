"""Promotions with a fault at every step, of every kind, and the run that follows.

    python -m benchmarks.campaigns.faults --repeat 5

prints the table of docs/evidence/operation.md. Each trial starts from a registry in which version 1
is champion and version 2 has passed against it. A process of its own promotes version 2 and is
disturbed; then the disturbance ends, and the next run promotes again.
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
import sys
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
from support.promoted import MODEL, frozen_set, judged_version, local, promote_one
from werkzeug.serving import make_server

from benchmarks.campaigns.disturbing import be_quiet, kill
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.champion import settle_stale_entries
from biasgate.tasks.promoting.verify import verify_model
from biasgate.tasks.records import Decision, LoggedVerdict
from biasgate.tasks.reporting.version_tags import build_tags

FORK = multiprocessing.get_context("fork")
# A stopped server is asked once more, not for minutes.
IMPATIENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "BIASGATE_MLFLOW_WAIT_S": "0",
}
KINDS = ("exception", "kill -9", "server stopped", "disk full", "database locked")
FIRED, KILLED, UNDISTURBED = 11, -signal.SIGKILL, 0
DISK = "256M"


class FaultError(Exception):
    """The injected exception."""


@dataclass(frozen=True)
class World:
    """The registry that every trial starts from.

    Attributes
    ----------
    folder : Path
        Its store.
    verdict : dict
        The verdict of version 2 against version 1.
    """

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
    _At.armed = True
    gateway.tag_version(version, build_tags([verdict]))
    return promote_one([verdict], version, gateway)


class _At:
    """Counts the calls of an armed client and does something before a given step."""

    armed = False

    def __init__(self, step: str, disturb: Callable[[], None]) -> None:
        self.step, self.disturb = step, disturb
        self.seen: Counter[str] = Counter()

    def __call__(self, method: str, args: tuple[Any, ...]) -> None:
        if type(self).armed and self.label(method, args) == self.step:
            type(self).armed = False
            self.disturb()

    def label(self, method: str, args: tuple[Any, ...]) -> str | None:
        """Name the step that a call of the client begins."""
        key = args[2] if method == "set_model_version_tag" else method
        if method == "set_registered_model_alias":
            key = f"set {args[1]}"
        self.seen[key] += 1
        if method == "set_model_version_tag" and args[0] == MODEL:
            return STEPS[0] if sum(self.seen.values()) == 1 else None
        number = self.seen[key]
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
        }.get((key, number))


class _Client:
    """A client that announces each call before it makes it."""

    def __init__(self, client: Any, at: _At) -> None:
        self._client, self._at = client, at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            self._at(name, args)
            return found(*args, **options)

        return call


def attempt(uri: str, verdict: dict[str, Any], step: str, disturb: Callable[[], None]) -> None:
    """Promote in this process with a fault before a step; exits, never returns."""
    be_quiet()
    os.environ |= IMPATIENT
    _At.armed = False
    event.listen(Engine, "before_cursor_execute", _wait_less_for_locks, retval=True)
    gateway = Gateway(uri)
    gateway.__dict__["client"] = _Client(gateway.client, _At(step, disturb))
    try:
        promote_second(gateway, verdict)
    except Exception:  # noqa: BLE001 - whatever the disturbance led to
        os._exit(FIRED)
    os._exit(UNDISTURBED)


def _wait_less_for_locks(
    _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any
) -> tuple[str, Any]:
    """Wait a fifth of a second for locks, instead of MLflow's 20 seconds."""
    return statement.replace("busy_timeout = 20000", "busy_timeout = 200"), parameters


def run_disturbed(
    uri: str, verdict: dict[str, Any], step: str, disturb: Callable[[], None]
) -> int | None:
    """Return how the disturbed process ended."""
    process = FORK.Process(target=attempt, args=(uri, verdict, step, disturb))
    process.start()
    process.join(60)
    return process.exitcode


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
    """Whether a small disk can be made here."""
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


@dataclass(frozen=True)
class Trial:
    """The state after one fault.

    Attributes
    ----------
    kind, step : str
        The fault, and the step before which it happened.
    fired : bool
        Whether the fault really happened.
    moved : bool
        Whether `champion` had moved when the disturbed process ended.
    problems : list of str
        What is wrong.
    """

    kind: str
    step: str
    fired: bool
    moved: bool
    problems: list[str]


def run_trial(world: World, kind: str, step: str) -> Trial:
    """Disturb one promotion, check, let the next run repair it, check again."""
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
        ended = run_disturbed(uri, world.verdict, step, disturb[kind])
        if kind == "disk full":
            (folder / "filler").unlink()
        if server is not None:
            server.start()
        return _look(world, kind, step, uri, fired=ended in {FIRED, KILLED})


_held: list[sqlite3.Connection] = []


def _lock(database: Path) -> None:
    """Lock the database until this process ends, as a backup would."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    _held.append(connection)


def _look(world: World, kind: str, step: str, uri: str, *, fired: bool) -> Trial:
    gateway, problems = Gateway(uri), []
    champion = gateway.get_alias(MODEL, "champion")
    moved = champion is not None and champion.version == "2"
    if champion is None or champion.version not in {"1", "2"}:
        problems.append("champion is neither the old nor the new version")
    elif champion.tags.get("biasgate.comments.verdict") != "pass":
        problems.append("champion points at a version without a passing verdict")
    decision = promote_second(gateway, world.verdict)
    if decision.outcome != "pass" and not decision.champion_moved:
        problems.append(f"the next run says {decision.sentence}")
    states = [one.state for one in Ledger(gateway, MODEL).read_entries()]
    if "open" in states:
        problems.append("an entry is open after the next run")
    aliases = [gateway.get_alias(MODEL, name) for name in ("champion", "previous_champion")]
    if [one.version if one else None for one in aliases] != ["2", "1"]:
        problems.append("the next run did not complete the promotion")
    findings = verify_model(MODEL, None, gateway, world.folder)
    problems += [one.sentence for one in findings if not one.holds]
    return Trial(kind, step, fired, moved, problems)


def campaign(world: World, repeat: int, kinds: tuple[str, ...] = KINDS) -> Iterator[Trial]:
    """Yield every kind at every step, `repeat` times."""
    for kind in kinds:
        for step in STEPS:
            for _ in range(repeat):
                yield run_trial(world, kind, step)


def markdown(trials: list[Trial]) -> str:
    """Return the table of kinds and steps: disturbed, of which champion had moved, problems."""
    kinds = list(dict.fromkeys(one.kind for one in trials))
    lines = ["| before the step | " + " | ".join(kinds) + " |", "|---|" + "--:|" * len(kinds)]
    for step in STEPS:
        cells = []
        for kind in kinds:
            of_cell = [one for one in trials if (one.kind, one.step) == (kind, step) and one.fired]
            moved = sum(one.moved for one in of_cell)
            wrong = sum(bool(one.problems) for one in of_cell)
            cells.append(f"{len(of_cell)} ({moved}){f', {wrong} WRONG' if wrong else ''}")
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    options = parser.parse_args()
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        world = World.make(Path(folder))
        trials = []
        for trial in campaign(world, options.repeat, tuple(options.kinds)):
            trials.append(trial)
            if trial.problems or not trial.fired:
                sys.stderr.write(f"{trial}\n")
        n_fired = sum(one.fired for one in trials)
        sys.stdout.write(f"{markdown(trials)}\n\n{n_fired} disturbed promotions.\n")


if __name__ == "__main__":
    main()
