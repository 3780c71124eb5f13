"""New stores that are disturbed while MLflow makes its tables, and opened again.

    python -m benchmarks.campaigns.new_stores --kills 100 --pairs 50 --full-disks 20

prints a table. Each trial uses a new store. A process that makes it is killed with SIGKILL at a
random time, or two make it at once, or its disk (a tmpfs, mounted for that, which needs root) is
full at a random point. Then another process opens the store, for a full disk with space again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import mlflow.store.tracking.sqlalchemy_store  # noqa: F401 - so that no process waits for it

from benchmarks.campaigns import HERE
from benchmarks.campaigns.disturbing import be_quiet
from biasgate.tasks.mlflow_server.local_store import DATABASE
from biasgate.tasks.mlflow_server.runs import Gateway

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["benchmarks.campaigns.new_stores"])
# More than a database needs, and than the file system keeps for itself.
DISK_KIB = 4096


@dataclass(frozen=True)
class Trial:
    """One disturbed store.

    Attributes
    ----------
    kind : str
        How it was disturbed.
    disturbed : bool
        Whether the making was stopped, or failed; always for a pair.
    problem : str
        Why the store cannot be used afterwards; empty if it can.
    """

    kind: str
    disturbed: bool
    problem: str


def open_store(store: Path, log: Path) -> None:
    """Open a store, make a run in it and find it."""
    be_quiet(log)
    try:
        gateway = Gateway.from_store(store)
        run = gateway.ensure_run(gateway.ensure_experiment("any"), f"key {os.getpid()}", "name")
        gateway.client.get_run(run)
    except BaseException:  # noqa: BLE001 - whatever it is, it is the result
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def start(store: Path, log: Path) -> multiprocessing.process.BaseProcess:
    """Open a store in another process."""
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    process = SERVER.Process(target=open_store, args=(store, log))
    process.start()
    return process


def ends(store: Path, log: Path) -> bool:
    """Whether a store can be opened."""
    process = start(store, log)
    process.join(300)
    return process.exitcode == 0


def kill(folder: Path, draws: random.Random, seconds: float) -> tuple[bool, str]:
    """Kill the making of a store at a random time after its folder has appeared."""
    store, log = folder / "store", folder / "log"
    process = start(store, log)
    while not store.exists() and process.is_alive():
        time.sleep(0.001)
    time.sleep(draws.uniform(0, seconds))
    disturbed = not (store / DATABASE).exists()
    process.kill()
    process.join()
    return disturbed, "" if ends(store, log) else log.read_text("utf-8")


def pair(folder: Path, draws: random.Random, seconds: float) -> tuple[bool, str]:
    """Make a store twice at once."""
    store, logs = folder / "store", [folder / "first", folder / "second"]
    first = start(store, logs[0])
    time.sleep(draws.uniform(0, seconds / 2))
    second = start(store, logs[1])
    problem = ""
    for process, log in zip((first, second), logs, strict=True):
        process.join(300)
        problem += "" if process.exitcode == 0 else log.read_text("utf-8")
    return True, problem or ("" if ends(store, folder / "log") else "the next one fails")


def fill_disk(folder: Path, draws: random.Random, seconds: float) -> tuple[bool, str]:
    """Make a store on a disk that becomes full at a random point of the making."""
    del seconds
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_KIB}k", "tmpfs", str(disk)]
    subprocess.run(mount, check=True)
    try:
        filler, left = disk / "filler", draws.randrange(0, 1000) * 1024
        filler.write_bytes(b"x" * (DISK_KIB * 1024 - left))
        disturbed = not ends(disk / "store", folder / "first")
        filler.unlink()
        return disturbed, "" if ends(disk / "store", folder / "log") else _text(folder / "log")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _text(log: Path) -> str:
    return log.read_text("utf-8")


KINDS: dict[str, Callable[[Path, random.Random, float], tuple[bool, str]]] = {
    "kill": kill,
    "pair": pair,
    "full disk": fill_disk,
}


def campaign(folder: Path, kind: str, times: int, seed: int = 0) -> Iterator[Trial]:
    """Yield trials of one kind, over the time that an undisturbed making takes."""
    draws, seconds = random.Random(seed), _seconds(folder / f"undisturbed {kind}")  # noqa: S311
    for number in range(times):
        place = folder / f"{kind} {number}"
        place.mkdir()
        yield Trial(kind, *KINDS[kind](place, draws, seconds))


def _seconds(folder: Path) -> float:
    """Return how long an undisturbed process takes from the store's folder to its end."""
    folder.mkdir()
    process = start(folder / "store", folder / "log")
    while process.is_alive() and not (folder / "store").exists():
        time.sleep(0.001)
    started = time.monotonic()
    process.join()
    return time.monotonic() - started


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser()
    for name, times in (("kills", 100), ("pairs", 50), ("full-disks", 20)):
        parser.add_argument(f"--{name}", type=int, default=times)
    options = parser.parse_args()
    counts = {"kill": options.kills, "pair": options.pairs, "full disk": options.full_disks}
    lines = ["| disturbed by | stores | while it was made | dead afterwards |", "|---|--:|--:|--:|"]
    for kind, times in counts.items():
        trials = []
        with tempfile.TemporaryDirectory() as folder:
            for trial in campaign(Path(folder), kind, times):
                trials.append(trial)
                sys.stderr.write(f"{len(trials)} {trial}\n")
        disturbed = sum(one.disturbed for one in trials)
        dead = sum(bool(one.problem) for one in trials)
        lines.append(f"| {kind} | {len(trials)} | {disturbed} | {dead} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
