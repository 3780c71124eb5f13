"""New stores that are disturbed while MLflow makes its tables, and opened again.

    python -m benchmarks.campaigns.new_stores --kills 100 --pairs 50 --full-disks 20

Each trial uses a new store. A process that makes it is killed with SIGKILL at a random time, or two
processes make it at once, or its disk (a tmpfs, which needs root) is full at a random point. Then
another process opens the store, for a full disk with space again.
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
from pathlib import Path

import mlflow.store.tracking.sqlalchemy_store  # noqa: F401 - so that no process waits for it

from benchmarks.campaigns.disturbing import Trial, be_quiet, join_python_path, report_trials
from biasgate.tasks.mlflow_server.local_store import DATABASE
from biasgate.tasks.mlflow_server.runs import Gateway

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["benchmarks.campaigns.new_stores"])
# More than a database needs, and than the file system keeps for itself.
DISK_KIB = 4096


def open_store(store: Path, log: Path) -> None:
    """Open a store, make a run in it and find it."""
    be_quiet(log)
    try:
        gateway = Gateway.from_store(store)
        run = gateway.ensure_run(gateway.ensure_experiment("any"), f"key {os.getpid()}", "name")
        gateway.client.get_run(run)
    except BaseException:  # noqa: BLE001 - any end is a result
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def start(store: Path, log: Path) -> multiprocessing.process.BaseProcess:
    """Open a store in another process."""
    os.environ["PYTHONPATH"] = join_python_path()
    process = SERVER.Process(target=open_store, args=(store, log))
    process.start()
    return process


def find_problem(store: Path, log: Path) -> str:
    """Open a store; return the log if that fails."""
    process = start(store, log)
    process.join(300)
    return "" if process.exitcode == 0 else log.read_text("utf-8")


def wait_for_folder(store: Path, process: multiprocessing.process.BaseProcess) -> None:
    """Wait until a process has made the store's folder."""
    while not store.exists() and process.is_alive():
        time.sleep(0.001)


def kill(folder: Path, draws: random.Random, seconds: float) -> tuple[bool, str]:
    """Kill the making of a store at a random time after its folder has appeared."""
    store, log = folder / "store", folder / "log"
    process = start(store, log)
    wait_for_folder(store, process)
    time.sleep(draws.uniform(0, seconds))
    is_unfinished = not (store / DATABASE).exists()
    process.kill()
    process.join()
    return is_unfinished, find_problem(store, log)


def make_twice(folder: Path, draws: random.Random, seconds: float) -> tuple[bool, str]:
    """Make a store twice at once."""
    store, logs = folder / "store", [folder / "first", folder / "second"]
    first = start(store, logs[0])
    time.sleep(draws.uniform(0, seconds / 2))
    second = start(store, logs[1])
    problem = ""
    for process, log in zip((first, second), logs, strict=True):
        process.join(300)
        problem += "" if process.exitcode == 0 else log.read_text("utf-8")
    return True, problem or find_problem(store, folder / "log")


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
        is_unfinished = bool(find_problem(disk / "store", folder / "first"))
        filler.unlink()
        return is_unfinished, find_problem(disk / "store", folder / "log")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


KINDS: dict[str, Callable[[Path, random.Random, float], tuple[bool, str]]] = {
    "kill": kill,
    "pair": make_twice,
    "full disk": fill_disk,
}


def campaign(folder: Path, kind: str, times: int, seed: int = 0) -> Iterator[Trial]:
    """Yield trials of a kind, over the time that an undisturbed making takes."""
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    undisturbed = folder / f"undisturbed {kind}"
    undisturbed.mkdir()
    process = start(undisturbed / "store", undisturbed / "log")
    wait_for_folder(undisturbed / "store", process)
    started = time.monotonic()
    process.join()
    seconds = time.monotonic() - started
    for number in range(times):
        place = folder / f"{kind} {number}"
        place.mkdir()
        is_disturbed, problem = KINDS[kind](place, draws, seconds)
        yield Trial(kind=kind, n_fired=is_disturbed, problems=[problem] if problem else [])


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser()
    for name, times in (("kills", 100), ("pairs", 50), ("full-disks", 20)):
        parser.add_argument(f"--{name}", type=int, default=times)
    options = parser.parse_args()
    times_by_kind = zip(KINDS, (options.kills, options.pairs, options.full_disks), strict=True)
    with tempfile.TemporaryDirectory() as folder:
        report_trials(
            trial for kind, times in times_by_kind for trial in campaign(Path(folder), kind, times)
        )


if __name__ == "__main__":
    main()
