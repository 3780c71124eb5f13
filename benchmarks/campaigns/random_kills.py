"""Commands that are killed at random times, several times in a row, and the run that follows.

    python -m benchmarks.campaigns.random_kills --kills 100

prints the second table of docs/evidence/operation.md. Commands run in their own process group,
those
with a flow with Prefect's temporary server, and SIGKILL goes to the process or to the group. After
each series of kills on one store the same command runs to its end. Then the exit code, the champion
and the moves in the ledger must be those of a command that nobody disturbed.
"""

from __future__ import annotations

import argparse
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

from benchmarks.campaigns import HERE
from benchmarks.campaigns.disturbing import be_quiet
from benchmarks.campaigns.kills import MODEL, make_inputs
from biasgate.cli import app
from biasgate.flows import nightly  # noqa: F401 - so that no process waits for its import
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import verify_model

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
"""Those that begin without a store. The others begin with two versions, the second of them
champion; `promote` after a rollback to the first."""
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


def start(folder: Path, command: str, **environment: str) -> multiprocessing.process.BaseProcess:
    """Start a command in a process group of its own."""
    process = SERVER.Process(target=_run, args=(folder, command, environment))
    process.start()
    return process


def _run(folder: Path, command: str, environment: dict[str, str]) -> None:
    os.setsid()
    os.environ |= environment
    be_quiet(folder / "log")
    os.chdir(folder)
    (folder / "temporary").mkdir(exist_ok=True)
    os.environ[MARK] = str(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "temporary")
    app([command, *COMMANDS[command], "--store", "store"])


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


def run(folder: Path, command: str) -> None:
    """Run a command that must succeed."""
    process = start(folder, command)
    process.join()
    if process.exitcode != 0:
        raise RuntimeError((folder / "log").read_text("utf-8"))


def begin(folder: Path, command: str, two_versions: Path) -> None:
    """Make the inputs of a command, and its store if it needs one."""
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
    """Evaluate twice, the second time with other scores, whose version becomes champion."""
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
    """How a command ends.

    Attributes
    ----------
    exit_code : int
        Its exit code.
    champion : str or None
        The champion's version afterwards.
    moves : list of tuple
        What was done by the ledger: action, version, and the one that it replaced.
    n_versions : int
        How many versions there are.
    """

    exit_code: int | None
    champion: str | None
    moves: list[tuple[str, str, str]]
    n_versions: int

    @classmethod
    def of(cls, exit_code: int | None, gateway: Gateway) -> Ending:
        """Read what is in the registry after a command."""
        champion = gateway.get_alias(MODEL, "champion")
        moves = [
            (one.content.action, one.content.version, one.content.replaces)
            for one in Ledger(gateway, MODEL).read_entries()
            if one.content.state == "done"
        ]
        versions = gateway.list_versions(MODEL)
        return cls(exit_code, champion and champion.version, moves, len(versions))


def run_series(
    folder: Path, command: str, sent_to: str, delays: list[float], expected: Ending
) -> Series:
    """Kill a command after each delay, then let it run to its end; check after each."""
    n_killed, problems = 0, list[str]()
    for delay in delays:
        process = start(folder, command)
        process.join(delay)
        if process.is_alive():
            n_killed += 1
            if sent_to == "group":
                with suppress(ProcessLookupError):  # it has not made its group yet
                    os.killpg(process.pid or 0, signal.SIGKILL)
            process.kill()
        process.join()
        problems += orphans(folder)
    process = start(folder, command)
    process.join(600)
    found = Ending.of(process.exitcode, Gateway.from_store(folder / "store"))
    if found != expected:
        said = (folder / "log").read_text("utf-8")[-2000:]
        problems.append(f"{found} where {expected} is right: {said}")
    problems += orphans(folder)
    problems += left_folders(folder)
    problems += wrong_registry(folder / "store")
    return Series(command, sent_to, n_killed, problems)


def left_folders(folder: Path) -> Iterator[str]:
    """Yield the temporary folders that are left."""
    for one in (*folder.rglob(".lock"), *(folder / "temporary").iterdir()):
        yield f"{one} is left"


def wrong_registry(store: Path) -> Iterator[str]:
    """Yield what is wrong with runs and verdicts."""
    gateway = Gateway.from_store(store)
    experiments = [one.experiment_id for one in gateway.client.search_experiments()]
    states = Counter(one.info.status for one in gateway.client.search_runs(experiments))
    if set(states) - {"FINISHED", "KILLED"}:
        yield f"runs are {dict(states)}"
    yield from (one.sentence for one in verify_model(MODEL, None, gateway, store) if not one.holds)


def campaign(
    folder: Path, n_kills: int, in_a_row: int, seed: int, commands: Sequence[str]
) -> Iterator[Series]:
    """Yield series until there are enough kills, the commands in turn.

    A command may end before it would be killed, and no more often than `_TRIES` times a kill.
    """
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    kinds = [(command, to) for command in commands for to in ("process", "group")]
    two_versions = folder / "two versions"
    if set(commands) - set(NEW_STORE):
        make_two_versions(two_versions)
    undisturbed = {}
    for command in commands:
        place = folder / f"undisturbed {command}"
        begin(place, command, two_versions)
        started = time.monotonic()
        process = start(place, command)
        process.join()
        seconds = time.monotonic() - started
        ending = Ending.of(process.exitcode, Gateway.from_store(place / "store"))
        if process.exitcode != 0:
            raise RuntimeError((place / "log").read_text("utf-8"))
        sys.stderr.write(f"undisturbed {command}: {seconds:.1f} s, {ending}\n")
        undisturbed[command] = (seconds, ending)
    number = n_done = 0
    while n_done < n_kills and number < _TRIES * n_kills:
        command, to = kinds[number % len(kinds)]
        seconds, ending = undisturbed[command]
        place = folder / f"series {number}"
        begin(place, command, two_versions)
        delays = [draws.uniform(0, seconds) for _ in range(min(in_a_row, n_kills - n_done))]
        found = run_series(place, command, to, delays, ending)
        yield found
        shutil.rmtree(place)
        number, n_done = number + 1, n_done + found.n_killed


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
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(NEW_STORE[:2]))
    options = parser.parse_args()
    series = []
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name) / "home")
        wanted = options.kills, options.in_a_row, options.seed, options.commands
        for one in campaign(Path(name), *wanted):
            series.append(one)
            sys.stderr.write(f"{one}\n")
    sys.stdout.write(f"{markdown(series)}\n\n{sum(one.n_killed for one in series)} kills.\n")


if __name__ == "__main__":
    main()
