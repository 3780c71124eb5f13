"""Commands that are killed at random times, several times in a row, and the run that follows.

    python -m benchmarks.campaigns.random_kills --kills 100

Each command runs in its own process group; commands with a flow start Prefect's temporary server.
SIGKILL goes to the process or to the group. After each series of kills on a store the same command
runs to its end. Then the exit code, the champion and the moves in the ledger must be those of an
undisturbed command.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil
import yaml

from benchmarks.campaigns.disturbing import (
    MODEL,
    Trial,
    be_quiet,
    join_python_path,
    list_faults,
    list_runs,
    report_trials,
)
from benchmarks.campaigns.kills import make_inputs
from biasgate.cli import app
from biasgate.flows import nightly  # noqa: F401 - so that no process waits for its import
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["benchmarks.campaigns.random_kills"])
RESULTS = ("evaluation.yaml", "--output", "output")
COMMANDS = {
    "evaluate": RESULTS,
    "nightly": RESULTS,
    "mitigate": ("mitigation.yaml", "--output", "output", "--promote"),
    "promote": (MODEL, "2", "--reason", "again"),
    "rollback": (MODEL, "--reason", "worse"),
    "clean": ("--keep", "1d", "--yes"),
}
"""The commands with their arguments."""
NEW_STORE = ("evaluate", "nightly", "mitigate")
"""Commands that begin without a store. The others begin with two versions, the second is champion;
`promote` begins after a rollback to the first."""
_TRIES = 4
PHRASES = {"source": "templates", "terms": ["gay", "muslim", "tall", "white"]}
TRAINED = {
    "name": "trained",
    "kind": "tfidf",
    "train_on": {"name": "phrases", "part": "train"} | PHRASES,
}
MITIGATION = {
    "evaluation_sets": [{"name": "unseen", "part": "test"} | PHRASES],
    "candidates": [TRAINED],
    "mitigation": {"methods": ["reweight"]},
}
MARK = "BIASGATE_KILLED_TRIAL"
# A process that ends within this time after its parent was killed is not an orphan.
PATIENCE_S = 20


def prepare(home: Path) -> None:
    """Set the environment of all processes, before the first start."""
    os.environ.pop("PREFECT_API_URL", None)
    os.environ |= {
        "PYTHONPATH": join_python_path(),
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }


def start(folder: Path, command: str, **environment: str) -> multiprocessing.process.BaseProcess:
    """Start a command in its own process group."""
    process = SERVER.Process(target=_run_command, args=(folder, command, environment))
    process.start()
    return process


def _run_command(folder: Path, command: str, environment: dict[str, str]) -> None:
    os.setsid()
    os.environ |= environment
    be_quiet(folder / "log")
    os.chdir(folder)
    (folder / "temporary").mkdir(exist_ok=True)
    os.environ[MARK] = str(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "temporary")
    app([command, *COMMANDS[command], "--store", "store"])


def end_orphans(folder: Path) -> list[str]:
    """End the processes of a killed command that are still running, and return what they are."""
    deadline, orphans = time.monotonic() + PATIENCE_S, list[psutil.Process]()
    while time.monotonic() < deadline:
        orphans = [process for process in psutil.process_iter() if _is_marked(process, folder)]
        if not orphans:
            break
        time.sleep(0.1)
    commands = [f"{' '.join(process.cmdline())} runs on" for process in orphans]
    for process in orphans:
        process.kill()
    return commands


def _is_marked(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get(MARK) == str(folder)
    except psutil.Error:
        return False


def run(folder: Path, command: str) -> None:
    """Run a command that must succeed."""
    process = start(folder, command)
    process.join()
    if process.exitcode != 0:
        raise RuntimeError((folder / "log").read_text("utf-8"))


def begin(folder: Path, command: str, two_versions: Path) -> None:
    """Make the inputs of a command, and its store if necessary."""
    folder.mkdir()
    config = make_inputs(folder)
    if command not in NEW_STORE:
        shutil.copytree(two_versions / "store", folder / "store")
    if command == "promote":
        run(folder, "rollback")
    if command == "mitigate":
        content = yaml.safe_load(config.read_text("utf-8")) | MITIGATION
        (folder / "mitigation.yaml").write_text(yaml.safe_dump(content), "utf-8")


def make_two_versions(folder: Path) -> None:
    """Evaluate twice; the second version has other scores, and becomes champion."""
    folder.mkdir()
    make_inputs(folder)
    for _ in range(2):
        run(folder, "evaluate")
        scores = pd.read_csv(folder / "filed.csv")
        scores["prediction"] **= 2
        scores.to_csv(folder / "filed.csv", index=False)
        shutil.rmtree(folder / "output")


@dataclass(frozen=True)
class Ending:
    """The end of a command: exit code, champion, moves in the ledger, number of versions.

    A move is its action, the version, and the version that it replaced.
    """

    exit_code: int | None
    champion: str | None
    moves: list[tuple[str, str, str]]
    n_versions: int

    @classmethod
    def read(cls, exit_code: int | None, gateway: Gateway) -> Ending:
        """Read the registry after a command."""
        champion = gateway.get_alias(MODEL, "champion")
        moves = [
            (entry.content.action, entry.content.version, entry.content.replaces)
            for entry in Ledger(gateway, MODEL).read_entries()
            if entry.content.state == "done"
        ]
        versions = gateway.list_versions(MODEL)
        return cls(exit_code, champion and champion.version, moves, len(versions))


def run_series(
    folder: Path, command: str, target: str, delays: list[float], expected: Ending
) -> Trial:
    """Kill a command after each delay, then let it run to its end; check after each."""
    n_killed, problems = 0, list[str]()
    for delay in delays:
        process = start(folder, command)
        process.join(delay)
        if process.is_alive():
            n_killed += 1
            if target == "group":
                with suppress(ProcessLookupError):  # it has not made its group yet
                    os.killpg(process.pid or 0, signal.SIGKILL)
            process.kill()
        process.join()
        problems += end_orphans(folder)
    process = start(folder, command)
    process.join(600)
    gateway = Gateway.from_store(folder / "store")
    ending = Ending.read(process.exitcode, gateway)
    if ending != expected:
        log = (folder / "log").read_text("utf-8")[-2000:]
        problems.append(f"{ending} instead of {expected}: {log}")
    problems += end_orphans(folder)
    left = (*folder.rglob(".lock"), *(folder / "temporary").iterdir())
    problems += (f"{path} is left" for path in left)
    states = Counter(run.info.status for run in list_runs(gateway))
    if set(states) - {"FINISHED", "KILLED"}:
        problems.append(f"runs are {dict(states)}")
    problems += list_faults(gateway, folder / "store")
    return Trial(kind=f"`{command}`, SIGKILL to {target}", n_fired=n_killed, problems=problems)


def campaign(
    folder: Path, n_kills: int, in_a_row: int, seed: int, commands: Sequence[str]
) -> Iterator[Trial]:
    """Yield series until there are enough kills, the commands in turn.

    A command may end before it would be killed, and no more often than `_TRIES` times a kill.
    """
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    kinds = itertools.cycle(itertools.product(commands, ("process", "group")))
    two_versions = folder / "two versions"
    if set(commands) - set(NEW_STORE):
        make_two_versions(two_versions)
    undisturbed = {}
    for command in commands:
        place = folder / f"undisturbed {command}"
        begin(place, command, two_versions)
        started = time.monotonic()
        run(place, command)
        seconds = time.monotonic() - started
        ending = Ending.read(0, Gateway.from_store(place / "store"))
        sys.stderr.write(f"undisturbed {command}: {seconds:.1f} s, {ending}\n")
        undisturbed[command] = (seconds, ending)
    n_done = 0
    for number, (command, target) in zip(range(_TRIES * n_kills), kinds, strict=False):
        if n_done >= n_kills:
            break
        seconds, ending = undisturbed[command]
        place = folder / f"series {number}"
        begin(place, command, two_versions)
        delays = [draws.uniform(0, seconds) for _ in range(min(in_a_row, n_kills - n_done))]
        series = run_series(place, command, target, delays, ending)
        yield series
        shutil.rmtree(place)
        n_done += series.n_fired


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--in-a-row", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(NEW_STORE[:2]))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name) / "home")
        report_trials(
            campaign(Path(name), options.kills, options.in_a_row, options.seed, options.commands)
        )


if __name__ == "__main__":
    main()
