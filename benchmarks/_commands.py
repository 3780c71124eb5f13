"""Commands in their own processes, with measured time, memory, disk space and printed lines.

Also the rows, scores, evaluation file and policy of the benchmarks at full size. Memory is the
resident memory of all processes of a command; memory that they share is counted for each process.
"""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import yaml
from support.release import rows_of_release, write_csv

from biasgate.tasks.data.civil_comments import IDENTITIES

TRAINED_ON, GIB = 20_000, 2**30
POLICY = {
    "version": 1,
    "name": "own",
    "allow_first": True,
    "rules": [
        {"metric": "bpsn_auc", "scope": "each", "floor": 0.5, "mode": "estimate"},
        {
            "metric": "bnsp_auc",
            "scope": "worst",
            "floor": 0.5,
            "slice": "short",
            "mode": "estimate",
        },
    ],
}


def write_release(folder: Path, n_rows: int) -> None:
    """Write `train.csv` with scores, and `test_public_expanded.csv` for training."""
    # A share at which each identity has enough rows for the policy, even in a quick run.
    mentions = dict.fromkeys(map(str, IDENTITIES), 0.05)
    n_training = min(TRAINED_ON, n_rows)
    tables = rows_of_release(n_training, 7, shares={"test_public": 1}, mentions=mentions)
    write_csv(folder / "test_public_expanded.csv", tables)
    tables = rows_of_release(n_rows, 8, shares={"train": 1}, mentions=mentions)
    write_csv(folder / "train.csv", _write_scores(tables, folder / "scores.csv"))


def _write_scores(tables: Iterator[pa.Table], path: Path) -> Iterator[pa.Table]:
    """Yield tables in the format of `train.csv`, and write scores of their rows."""
    rng = np.random.default_rng(7)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "prediction"])
        for table in tables:
            predicted = table["toxicity"].to_numpy() + rng.normal(0, 0.4, len(table))
            writer.writerows(zip(table["id"].to_pylist(), predicted.tolist(), strict=True))
            yield table.rename_columns({"toxicity": "target"})


def write_config(
    folder: Path, candidates: list[dict[str, Any]], model: str, **options: object
) -> None:
    """Write the evaluation file, with options of its set, and its policy."""
    rows: dict[str, Any] = {"name": "comments", "source": "civil_comments", "folder": "."}
    rows |= {"split": "train"} | options
    content: dict[str, Any] = {"name": "official", "registered_model": model}
    content |= {"evaluation_sets": [rows], "candidates": candidates, "policy": "own.yaml"}
    (folder / "official.yaml").write_text(yaml.safe_dump(content), "utf-8")
    (folder / "own.yaml").write_text(yaml.safe_dump(POLICY), "utf-8")


class Line(NamedTuple):
    """A line on standard error, with its time in seconds since 1970."""

    time: float
    text: str


class State(NamedTuple):
    """Resources that a command uses at a time.

    Attributes
    ----------
    time : float
        Seconds since 1970.
    resident : int
        Resident bytes of all its processes together.
    cpu : float
        CPU seconds, user and system, of all its processes so far.
    busy : float
        Seconds in which the machine's cores were busy, since its start.
    places : dict of str to int
        Bytes per folder of the working folder and of the store, read about every second.
    """

    time: float
    resident: int
    cpu: float
    busy: float
    places: dict[str, int]

    @property
    def stored(self) -> int:
        """Return the bytes of the working folder."""
        return sum(self.places.values())


class CommandRun(NamedTuple):
    """Time and resources that a command took.

    Attributes
    ----------
    seconds : float
        From start to end.
    peak : float
        Largest resident memory of all its processes together, in GiB.
    states : list of State
        Its resources while it ran, four times a second.
    lines : list of Line
        Its lines on standard error.
    """

    seconds: float
    peak: float
    states: list[State]
    lines: list[Line]


def run_command(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    codes: Collection[int] = (0,),
    most: float = math.inf,
) -> CommandRun:
    """Run biasgate in a folder, and record its memory, CPU and disk space.

    The environment variable `BENCHMARK_TREE` is another checkout to run, for comparisons. Temporary
    files are written to the folder `tmp`, so that they are counted.

    Raises
    ------
    SystemExit
        If the exit code is not in `codes`, or the command was killed because its processes used
        more than `most` GiB.
    """
    variables = os.environ | {"PREFECT_HOME": str(folder / "prefect")}
    variables |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "true"}
    root = os.environ.get("BENCHMARK_TREE") or str(Path(__file__).resolve().parents[1])
    (folder / "tmp").mkdir(exist_ok=True)
    variables |= {"PYTHONPATH": root, "TMPDIR": str(folder / "tmp")} | dict(environment or {})
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
        reader = threading.Thread(target=_read_lines, args=(process.stderr, lines))
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
    return CommandRun(seconds, peak, states, lines)


def _read_lines(stream: Any, lines: list[Line]) -> None:
    lines += (Line(time.time(), text.rstrip()) for text in stream)


def _observe_state(parent: psutil.Process, folder: Path, states: Sequence[State]) -> State:
    now, resident, cpu = time.time(), 0, 0.0
    with suppress(psutil.NoSuchProcess):
        for process in [parent, *parent.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess), process.oneshot():  # it ended just now
                resident += process.memory_info().rss
                cpu += sum(process.cpu_times()[:4])  # with those of children that ended
    times = psutil.cpu_times()
    busy = times.user + times.system + getattr(times, "irq", 0) + getattr(times, "softirq", 0)
    places = states[-1].places if len(states) % 4 else _measure_places(folder)
    return State(now, resident, max([cpu, *(state.cpu for state in states[-1:])]), busy, places)


def _measure_places(folder: Path) -> dict[str, int]:
    """Return the bytes of each folder in a working folder and in its store."""
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
