"""Commands in their own processes, with measured time, memory, disk space and printed lines.

Memory is the resident memory of all processes of a command; memory that they share is counted for
each process.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

MIB, GIB = 2**20, 2**30
THIS_TREE = Path(__file__).resolve().parents[1]


class Line(NamedTuple):
    """A line on standard error, with its time in seconds since 1970."""

    time: float
    text: str


class State(NamedTuple):
    """Resources that all processes of a command use at a time."""

    time: float
    """Seconds since 1970."""
    resident: int
    """Resident bytes."""
    cpu: float
    """CPU seconds so far, user and system."""
    busy: float
    """Seconds in which the machine's cores were busy, since its start."""
    places: dict[str, int]
    """Bytes per folder of the working folder and of the store, read about every second."""

    @property
    def stored(self) -> int:
        """Return the bytes of the working folder."""
        return sum(self.places.values())


class CommandRun(NamedTuple):
    """Time and resources that a command took, and its lines on standard error."""

    exit_code: int
    seconds: float
    peak: float
    """Largest resident memory of all its processes together, in GiB."""
    states: list[State]
    """Its resources while it ran, four times a second."""
    lines: list[Line]


def run_command(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    codes: Collection[int] = (0,),
    most: float = math.inf,
    tree: Path | None = None,
) -> CommandRun:
    """Run biasgate in a folder, and record its memory, CPU and disk space.

    The code is that of the checkout `tree`, by default in the environment variable
    `BENCHMARK_TREE`, or else of this checkout. Temporary files are written to the folder `tmp`, so
    that they are counted.

    Raises
    ------
    SystemExit
        If the exit code is not in `codes`, or the command was killed because its processes used
        more than `most` GiB.
    """
    variables = os.environ | {"PREFECT_HOME": str(folder / "prefect")}
    variables |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "true"}
    root = tree or os.environ.get("BENCHMARK_TREE") or THIS_TREE
    (folder / "tmp").mkdir(exist_ok=True)
    variables |= {"PYTHONPATH": str(root), "TMPDIR": str(folder / "tmp")} | dict(environment or {})
    command = [sys.executable, "-m", "biasgate", *arguments]
    lines: list[Line] = []
    states: list[State] = []
    began = time.time()
    with (
        (folder / "printed.txt").open("w+") as printed,
        subprocess.Popen(  # noqa: S603 - our own command
            command,
            cwd=folder,
            env=variables,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process,
    ):
        stream = process.stderr or ()
        reader = threading.Thread(
            target=lambda: lines.extend(Line(time.time(), text.rstrip()) for text in stream)
        )
        reader.start()
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            states.append(_observe_state(watched, folder, states))
            if states[-1].resident > most * GIB:
                for killed in [*watched.children(recursive=True), watched]:
                    killed.kill()
            time.sleep(0.25)
        seconds = time.time() - began
        reader.join()
        printed.seek(0)
        output = printed.read()
    peak = max(state.resident for state in states) / GIB
    if process.returncode not in codes:
        output = "".join(f"{line.text}\n" for line in lines) + output
        msg = f"{' '.join(command)} ended with {process.returncode}, {peak:.1f} GiB:\n{output}"
        raise SystemExit(msg)
    # The disk space at the end, with files that were written after the last state.
    last = states[-1]._replace(time=time.time(), resident=0, places=_measure_places(folder))
    states.append(last)
    return CommandRun(process.returncode, seconds, peak, states, lines)


def read_usage(parent: psutil.Process) -> tuple[int, float]:
    """Return the resident bytes and the CPU seconds of a process and its children."""
    resident, cpu = 0, 0.0
    with suppress(psutil.NoSuchProcess):
        for process in [parent, *parent.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess), process.oneshot():  # it ended just now
                resident += process.memory_info().rss
                cpu += sum(process.cpu_times()[:4])  # with those of children that ended
    return resident, cpu


def _observe_state(parent: psutil.Process, folder: Path, states: Sequence[State]) -> State:
    now, (resident, cpu) = time.time(), read_usage(parent)
    times = psutil.cpu_times()
    busy = times.user + times.system + getattr(times, "irq", 0) + getattr(times, "softirq", 0)
    places = states[-1].places if len(states) % 4 else _measure_places(folder)
    return State(now, resident, max([cpu, *(state.cpu for state in states[-1:])]), busy, places)


def _measure_places(folder: Path) -> dict[str, int]:
    """Return the bytes per folder in a working folder and in its store."""
    sizes: dict[str, int] = {}
    for parent in (folder, folder / ".biasgate"):
        for place in parent.iterdir() if parent.is_dir() else []:
            if place.name != ".biasgate":
                with suppress(FileNotFoundError):  # removed just now
                    size = sum_file_sizes(place) if place.is_dir() else place.lstat().st_size
                    sizes[place.relative_to(folder).as_posix()] = size
    return sizes


def sum_file_sizes(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for place, _, files in os.walk(folder):  # it skips folders that were removed just now
        for name in files:
            with suppress(FileNotFoundError):  # removed just now
                total += (Path(place) / name).lstat().st_size
    return total
