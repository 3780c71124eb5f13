"""Evaluations on a Dask cluster of real processes, one of which may be killed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from support.hashed import KILL_AT, MEETING, NAME, NOTES, until

from benchmarks.campaigns.disturbing import Trial, join_python_path
from benchmarks.campaigns.kills import (
    N_ROWS,
    WORKER,
    World,
    make_inputs,
    score_bytes,
    wrong_runs,
)
from biasgate.tasks.scoring.scored_set import ScoredSet

RUNNER = ("--task-runner", "prefect_dask:DaskTaskRunner", "--task-runner-options")


def evaluate_on_cluster(
    folder: Path,
    world: World,
    workers: Mapping[str, tuple[str, ...]],
    *,
    kill_at: str = "",
    meeting: int = 1,
    **options: Any,
) -> tuple[int, dict[str, list[str]]]:
    """Run the command on a cluster; return its exit code and what each worker scored.

    The options are further ones of the candidate `counted`.
    """
    config, notes = make_inputs(folder), folder / "notes"
    content = yaml.safe_load(config.read_text("utf-8"))
    content["candidates"][1] |= {"call": "support.hashed:score_and_note", **options}
    config.write_text(yaml.safe_dump(content), "utf-8")
    notes.mkdir()
    known = os.environ | {"PYTHONPATH": join_python_path(), "PREFECT_API_URL": world.api}
    known |= {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "300s"}  # of a busy machine
    known |= {NOTES: str(notes), KILL_AT: kill_at or "nowhere", MEETING: str(meeting)}
    command = [sys.executable, "-m", "biasgate", "evaluate", str(config), "--verbose"]
    for name in ("output", "store"):
        command += [f"--{name}", str(folder / name)]
    with cluster(folder, workers, known) as address, (folder / "command.log").open("wb") as log:
        command += [*RUNNER, json.dumps({"address": address})]
        ended = subprocess.run(command, env=known, stdout=log, stderr=log, check=False)
    asked = {one.stem: one.read_text("utf-8").splitlines() for one in notes.glob("*.asked")}
    return ended.returncode, asked


def kill_worker(world: World, turn: int = 0) -> Trial:
    """Kill one of two workers during a shard, a different one each time."""
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), f"comment {turn * 80 % N_ROWS + 30}"
        # It waits until the other one has started, so that both have work.
        workers: dict[str, tuple[str, ...]] = {"one": (), "other": ()}
        code, asked = evaluate_on_cluster(folder, world, workers, kill_at=text, meeting=2)
        problems = list(wrong_runs(folder / "store"))
        if code != 0:
            problems.append("the evaluation does not pass")
        every = [text for texts in asked.values() for text in texts]
        if sorted(every) != sorted(f"comment {number}" for number in range(N_ROWS)):
            problems.append("not every row was scored exactly once")
        if scores_in(folder / "store") != {score_bytes(one) for one in world.scored()}:
            problems.append("scores are not those of an undisturbed run")
        is_killed = (folder / "notes" / "killed").exists()
        return Trial(kind=WORKER, n_fired=is_killed, problems=problems)


def scores_in(store: Path) -> set[bytes]:
    """Return the bytes of all columns of scores."""
    records = (store / "scores").glob("*/*/record.json")
    return {score_bytes(ScoredSet.open(str(one.parent))) for one in records}


@contextlib.contextmanager
def cluster(
    folder: Path, workers: Mapping[str, tuple[str, ...]], known: Mapping[str, str]
) -> Iterator[str]:
    """Yield the address of a scheduler with some workers, each with its own options."""
    file = folder / "scheduler.json"
    started = [_start(folder, known, "scheduler", "--port", "0", "--host", "127.0.0.1")]
    try:
        for name, options in workers.items():
            more = ("--name", name, "--nthreads", "1", "--no-nanny", *options)
            started.append(_start(folder, {**known, NAME: name}, "worker", *more))
        until(lambda: file.exists() and file.read_text("utf-8").endswith("}"))
        yield str(json.loads(file.read_text("utf-8"))["address"])
    finally:
        for process in started:
            process.kill()
            process.wait()


def _start(
    folder: Path, known: Mapping[str, str], what: str, *options: str
) -> subprocess.Popen[bytes]:
    # Slow imports are done before anybody waits for an answer.
    command = [sys.executable, "-m", "dask", what, *options, "--no-dashboard"]
    command += ["--preload", "biasgate.flows.evaluate"]
    command += ["--scheduler-file", str(folder / "scheduler.json")]
    with (folder / "cluster.log").open("ab") as log:
        return subprocess.Popen(command, env=known, cwd=folder, stdout=log, stderr=log)
