"""Evaluations that are killed, and the run that follows.

    python -m benchmarks.campaigns.kills --repeat 5

Each trial runs the flow `evaluate` in its own process, on two candidates with six shards each, and
kills it with SIGKILL at a point. Then the same evaluation runs again, undisturbed. In the last
kind, the command runs on a Dask cluster, and a worker is killed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.testing.utilities import prefect_test_harness
from support.hashed import score_by_hash

from benchmarks.campaigns.disturbing import (
    KILLED,
    MODEL,
    UNDISTURBED,
    Trial,
    be_quiet,
    join_python_path,
    kill,
    list_faults,
    list_runs,
    report_trials,
)
from biasgate.flows.evaluate import evaluate
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.mlflow_server.runs import PARENT, Gateway
from biasgate.tasks.reporting import publish as publishing
from biasgate.tasks.scoring.kinds.python_function import FunctionScorer
from biasgate.tasks.scoring.kinds.score_file import ScoreTable
from biasgate.tasks.scoring.scored_set import ScoredSet, Shards
from biasgate.tasks.tracking import log_runs as tracking

N_ROWS, ROWS_A_SHARD, N_SHARDS = 240, 40, 6
PARENT_RUN, CHILD_RUNS = "evaluate killed", ("filed on rows", "counted on rows")
POLICY = {
    "version": 1,
    "name": "lenient",
    "allow_first": True,
    "rules": [{"metric": "auc", "scope": "overall", "floor": 0.1, "mode": "estimate"}],
}
CANDIDATES = [
    {"name": "filed", "kind": "scores", "path": "filed.csv", "register": MODEL},
    {"name": "counted", "kind": "python", "call": "support.hashed:score_by_hash", "version": "1"},
]


def make_inputs(folder: Path) -> Path:
    """Write rows, scores, policy and the evaluation file; return its path."""
    rows, scores = ["id,comment,label,gay,muslim"], ["id,prediction"]
    for number in range(N_ROWS):
        text = f"comment {number}"
        [score] = score_by_hash([text])
        rows.append(f"c{number},{text},{int(score > 0.4)},{number % 2},{number % 3 // 2}")
        scores.append(f"c{number},{score!r}")
    (folder / "rows.csv").write_text("\n".join(rows), "utf-8")
    (folder / "filed.csv").write_text("\n".join(scores), "utf-8")
    (folder / "lenient.yaml").write_text(yaml.safe_dump(POLICY), "utf-8")
    table = {"name": "rows", "source": "table", "path": "rows.csv", "text": "comment"}
    content = {
        "name": "killed",
        "registered_model": MODEL,
        "evaluation_sets": [table | {"identities": ["gay", "muslim"]}],
        "candidates": [settings | {"rows_a_shard": ROWS_A_SHARD} for settings in CANDIDATES],
        "policy": "lenient.yaml",
    }
    (folder / "evaluation.yaml").write_text(yaml.safe_dump(content), "utf-8")
    return folder / "evaluation.yaml"


# ------------------------------------------------------------------ points


def kill_before(owner: Any, name: str, nth: int = 1, argument: str = "") -> None:
    """Kill before the nth call (of the calls with an argument) of a function."""
    _replace_call(owner, name, nth, argument, lambda _: kill())


def kill_after(owner: Any, name: str, nth: int = 1, argument: str = "") -> None:
    """Kill after the nth call (of the calls with an argument) of a function."""

    def call_and_kill(call: Callable[[], Any]) -> None:
        call()
        kill()

    _replace_call(owner, name, nth, argument, call_and_kill)


def _replace_call(
    owner: Any, name: str, nth: int, argument: str, replace: Callable[..., Any]
) -> None:
    original, numbers = getattr(owner, name), itertools.count(1)

    def disturbed(*args: Any, **options: Any) -> Any:
        if (not argument or argument in args) and next(numbers) == nth:
            return replace(lambda: original(*args, **options))
        return original(*args, **options)

    setattr(owner, name, disturbed)


def kill_in_write(nth: int) -> None:
    """Kill when half of the nth shard is written."""
    write, numbers = Path.write_bytes, itertools.count(1)

    def write_half(path: Path, content: bytes) -> int:
        if path.suffix == ".parquet" and next(numbers) == nth:
            write(path, content[: len(content) // 2])
            kill()
        return write(path, content)

    Path.write_bytes = write_half  # type: ignore[method-assign]


# There are twelve shards, first those of `filed`; each repetition kills at a different shard.
POINTS: dict[str, Callable[[int], None]] = {
    "before the first shard": lambda _: kill_before(ScoreTable, "score"),
    "during a shard's write": lambda turn: kill_in_write(1 + turn * 5 % 12),
    "between shards": lambda turn: kill_after(Shards, "write", 1 + turn * 5 % 11),
    "before scores are recorded as complete": lambda _: kill_before(
        Folder, "write", 2, "record.json"
    ),
    "between scoring and tracking": lambda _: kill_before(tracking, "settle_abandoned_runs"),
    "tracking: the evaluation's run is open": lambda _: kill_after(
        Gateway, "ensure_run", argument=PARENT_RUN
    ),
    "tracking: a candidate's run is open": lambda _: kill_after(
        Gateway, "ensure_run", argument="counted on rows"
    ),
    "tracking: its numbers are logged": lambda _: kill_before(Gateway, "log_inputs", 2),
    "tracking: its files are logged": lambda _: kill_before(Gateway, "log_table", 2),
    "tracking: its run has ended": lambda _: kill_after(Gateway, "end_run", 3),
    "tracking: the champion has moved": lambda _: kill_after(Gateway, "set_alias"),
    "tracking: the promotion is done": lambda _: kill_before(publishing, "write_json"),
    "tracking: the evaluation's run is to end": lambda _: kill_before(Gateway, "end_run", 4),
}
WORKER = "one of two Dask workers, in a shard"


# ------------------------------------------------------------------ processes

# Processes are forked from a process that has imported everything and started nothing.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["benchmarks.campaigns.kills"])


def run(folder: Path, name: str, api: str, point: str | None = None, turn: int = 0) -> int | None:
    """Evaluate in a separate process, killed at a point; return its exit code."""
    os.environ["PYTHONPATH"] = join_python_path()  # read when the first process starts
    process = SERVER.Process(target=_evaluate, args=(folder, name, api, point, turn))
    process.start()
    process.join(300)
    return process.exitcode


def _evaluate(folder: Path, name: str, api: str, point: str | None, turn: int) -> None:
    be_quiet(folder / f"{name}.log")
    _record_scored_rows(folder / f"{name}.scored")
    if point is not None:
        POINTS[point](turn)
    settings = {PREFECT_API_URL: api, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    places = (str(folder / place) for place in ("evaluation.yaml", "output", "store"))
    with temporary_settings(settings):
        state: Any = evaluate(*places, return_state=True)
    os._exit(UNDISTURBED if state.name == "Passed" else 1)


def _record_scored_rows(file: Path) -> None:
    for kind in (FunctionScorer, ScoreTable):

        def score(self: Any, rows: Any, original: Any = kind.score) -> Any:
            line = json.dumps([self.digest, rows.column("id").to_pylist()])
            with file.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
            return original(self, rows)

        kind.score = score  # type: ignore[method-assign]


def read_scored_rows(folder: Path, name: str) -> dict[str, list[str]]:
    """Return the rows that a run scored, by digest of the candidate."""
    file, rows = folder / f"{name}.scored", dict[str, list[str]]()
    for line in file.read_text("utf-8").splitlines() if file.exists() else []:
        digest, ids = json.loads(line)
        rows.setdefault(digest, []).extend(ids)
    return rows


# ------------------------------------------------------------------ trials


@dataclass(frozen=True)
class World:
    """An undisturbed evaluation: the folder of its inputs and results, and Prefect's address."""

    folder: Path
    api: str

    @classmethod
    def make(cls, folder: Path, api: str) -> World:
        """Run it."""
        make_inputs(folder)
        if run(folder, "undisturbed", api) != UNDISTURBED:
            raise RuntimeError((folder / "undisturbed.log").read_text("utf-8")[-3000:])
        return cls(folder, api)

    def scored(self) -> list[ScoredSet]:
        """Return the scores of both candidates."""
        records = sorted((self.folder / "store" / "scores").glob("*/*/record.json"))
        return [ScoredSet.open(str(record.parent)) for record in records]


@dataclass(frozen=True, kw_only=True)
class KilledEvaluation(Trial):
    """The state after a kill and the next run."""

    n_finished: int
    """Rows in shards that were finished before."""
    n_again: int
    """Rows that the next run scored."""


def run_trial(world: World, point: str, turn: int = 0) -> KilledEvaluation:
    """Kill an evaluation, note the finished shards, run it undisturbed, and compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder)
        is_killed = run(folder, "killed", world.api, point, turn) == KILLED
        finished = {
            scored.candidate_digest: read_finished_rows(world, folder, scored)
            for scored in world.scored()
        }
        exit_code = run(folder, "next", world.api)
        problems = [] if exit_code == UNDISTURBED else ["the next run does not pass"]
        again = read_scored_rows(folder, "next")
        ids = sorted(f"c{number}" for number in range(N_ROWS))
        for expected in world.scored():
            digest = expected.candidate_digest
            if sorted(finished[digest] + again.get(digest, [])) != ids:
                problems.append("the next run did not score exactly the rows that were missing")
            scored = ScoredSet.load(expected.url.replace(str(world.folder), str(folder)))
            if scored is None or score_bytes(scored) != score_bytes(expected):
                problems.append("scores are not those of an undisturbed run")
        problems += wrong_runs(folder / "store")
    n_finished, n_again = (sum(map(len, rows.values())) for rows in (finished, again))
    return KilledEvaluation(
        kind=point,
        n_fired=is_killed,
        problems=problems,
        n_finished=n_finished,
        n_again=n_again,
    )


def read_finished_rows(world: World, folder: Path, scored: ScoredSet) -> list[str]:
    """Return the rows in finished shards of a candidate."""
    url = scored.url.replace(str(world.folder), str(folder))
    keys = ("candidate_digest", "set_digest", "precision")
    shards = Shards(Folder(url), *(getattr(scored.record, key) for key in keys))
    tables = filter(None, map(shards.read, range(N_SHARDS)))
    return list(itertools.chain.from_iterable(table["id"].to_pylist() for table in tables))


def score_bytes(scored: ScoredSet) -> bytes:
    """Return the bytes of the column `score`."""
    return bytes(scored.table()["score"].to_numpy().tobytes())


def wrong_runs(store: Path) -> Iterator[str]:
    """Yield faults of the runs in MLflow and of the champion."""
    gateway = Gateway.from_store(store)
    runs = list_runs(gateway)
    names = Counter(run.info.run_name for run in runs)
    if names != Counter([PARENT_RUN, *CHILD_RUNS, "scores filed"]):
        yield f"runs are {dict(names)}"
    if {run.info.status for run in runs} != {"FINISHED"}:
        yield f"runs are {sorted(run.info.status for run in runs)}"
    parents = {run.info.run_id for run in runs if run.info.run_name == PARENT_RUN}
    nested = [run for run in runs if run.info.run_name in CHILD_RUNS]
    if {run.data.tags.get(PARENT) for run in nested} != parents:
        yield "the candidates' runs are not nested under the evaluation's"
    yield from list_faults(gateway, store)


def main() -> None:
    """Run the campaign and print its table."""
    from support.cluster import kill_worker  # noqa: PLC0415 - which imports this

    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--points", nargs="*", default=[*POINTS, WORKER])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, prefect_test_harness(server_startup_timeout=90):
        world = World.make(Path(folder), str(PREFECT_API_URL.value()))
        report_trials(
            kill_worker(world, turn) if point == WORKER else run_trial(world, point, turn)
            for point in options.points
            for turn in range(options.repeat)
        )


if __name__ == "__main__":
    main()
