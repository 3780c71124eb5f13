"""Commands that are killed at random times, several times in a row, and the run that follows.

    python tests/support/random_kills.py --kills 100

prints the second table of docs/guides/killed.md. `biasgate evaluate` and `biasgate nightly` run in
their own process group, with Prefect's temporary server, and SIGKILL goes to the process or to the
group. After each series of kills on one store the same command runs to its end.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
from support.disturbing import be_quiet
from support.kills import HERE, MODEL, make_inputs

from biasgate.cli import app
from biasgate.flows import nightly  # noqa: F401 - so that no process waits for its import
from biasgate.tasks.mlflow_server.moved_store import DATABASE
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import verify

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["support.random_kills"])
COMMANDS = ("evaluate", "nightly")
MARK = "BIASGATE_KILLED_TRIAL"
# A process that notices within this time that its parent was killed is no orphan.
PATIENCE_S = 20


@dataclass(frozen=True)
class Series:
    """Some kills on one store, and the run that follows.

    Attributes
    ----------
    command : str
        What ran.
    sent_to : str
        `process` or `group`.
    n_killed : int
        How many were killed before they ended.
    problems : list of str
        What is wrong.
    """

    command: str
    sent_to: str
    n_killed: int
    problems: list[str]


def prepare(home: Path) -> None:
    """Set the environment of all processes, before the first one starts."""
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    os.environ.pop("PREFECT_API_URL", None)
    os.environ |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }


def start(folder: Path, command: str) -> multiprocessing.process.BaseProcess:
    """Start a command in a process group of its own."""
    process = SERVER.Process(target=_run, args=(folder, command))
    process.start()
    return process


def _run(folder: Path, command: str) -> None:
    os.setsid()
    be_quiet(folder / "log")
    os.chdir(folder)
    (folder / "temporary").mkdir(exist_ok=True)
    os.environ[MARK] = str(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "temporary")
    app([command, "evaluation.yaml", "--output", "output", "--store", "store"])


def orphans(folder: Path) -> list[str]:
    """Return what the processes of a killed command that run on are; they are ended then."""
    deadline, found = time.monotonic() + PATIENCE_S, list[psutil.Process]()
    while time.monotonic() < deadline:
        found = [one for one in psutil.process_iter() if _is_of(one, folder)]
        if not found:
            break
        time.sleep(0.1)
    told = [f"{' '.join(one.cmdline())} runs on" for one in found]
    for one in found:
        one.kill()
    return told


def _is_of(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get(MARK) == str(folder)
    except psutil.Error:
        return False


def run_series(folder: Path, command: str, sent_to: str, delays: list[float]) -> Series:
    """Kill a command after each delay, then let it run to its end; check after each."""
    make_inputs(folder)
    n_killed, problems = 0, list[str]()
    for delay in delays:
        process = start(folder, command)
        process.join(delay)
        if process.is_alive():
            n_killed += 1
            (os.kill if sent_to == "process" else os.killpg)(process.pid or 0, signal.SIGKILL)
        process.join()
        problems += orphans(folder)
    process = start(folder, command)
    process.join(600)
    if process.exitcode != 0:
        problems.append(f"exit {process.exitcode}: {(folder / 'log').read_text('utf-8')[-2000:]}")
    problems += orphans(folder)
    problems += left_folders(folder)
    problems += wrong_registry(folder / "store")
    return Series(command, sent_to, n_killed, problems)


def left_folders(folder: Path) -> Iterator[str]:
    """Yield the temporary folders that are left."""
    for one in (*folder.rglob(".lock"), *(folder / "temporary").iterdir()):
        yield f"{one} is left"


def wrong_registry(store: Path) -> Iterator[str]:
    """Yield what is wrong with runs and champion."""
    if not (store / DATABASE).exists():
        return
    gateway = Gateway.of_store(store)
    experiments = [one.experiment_id for one in gateway.client.search_experiments()]
    states = Counter(one.info.status for one in gateway.client.search_runs(experiments))
    if set(states) - {"FINISHED", "KILLED"}:
        yield f"runs are {dict(states)}"
    champion, versions = gateway.alias(MODEL, "champion"), gateway.versions(MODEL)
    if champion is None or [one.version for one in versions] != [champion.version]:
        yield f"champion is {champion} of {versions}"
    yield from (one.sentence for one in verify(MODEL, None, gateway, store) if not one.holds)


def campaign(folder: Path, n_kills: int, in_a_row: int, seed: int = 0) -> Iterator[Series]:
    """Yield series until there are enough kills, the four kinds in turn."""
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    kinds = [(command, to) for command in COMMANDS for to in ("process", "group")]
    (folder / "undisturbed").mkdir()
    started = time.monotonic()
    first = run_series(folder / "undisturbed", "evaluate", "process", [])
    if first.problems:
        raise RuntimeError(str(first.problems))
    seconds = time.monotonic() - started
    number = n_done = 0
    while n_done < n_kills:
        place = folder / f"series {number}"
        place.mkdir()
        delays = [draws.uniform(0, seconds) for _ in range(min(in_a_row, n_kills - n_done))]
        found = run_series(place, *kinds[number % len(kinds)], delays)
        yield found
        number, n_done = number + 1, n_done + max(found.n_killed, 1)


def markdown(series: list[Series]) -> str:
    """Return the table of commands: killed, runs that followed, problems."""
    lines = ["| command | SIGKILL to | kills | runs that followed | wrong |"]
    lines.append("|---|---|--:|--:|--:|")
    for command, to in dict.fromkeys((one.command, one.sent_to) for one in series):
        ones = [one for one in series if (one.command, one.sent_to) == (command, to)]
        n_killed, wrong = sum(one.n_killed for one in ones), sum(bool(one.problems) for one in ones)
        lines.append(f"| `{command}` | {to} | {n_killed} | {len(ones)} | {wrong} |")
    return "\n".join(lines)


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--in-a-row", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    series = []
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name) / "home")
        for one in campaign(Path(name), options.kills, options.in_a_row, options.seed):
            series.append(one)
            sys.stderr.write(f"{one}\n")
    sys.stdout.write(f"{markdown(series)}\n\n{sum(one.n_killed for one in series)} kills.\n")


if __name__ == "__main__":
    main()
