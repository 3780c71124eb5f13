"""Evaluations that are killed, and the run that follows.

    python -m benchmarks.campaigns.kills --repeat 5

prints the table of docs/evidence/operation.md. Each trial runs the flow `evaluate` in its own
process,
on two candidates and six shards each, and kills it with SIGKILL at one point. Then the same
evaluation runs again, undisturbed. Or the command runs on a Dask cluster, and a worker is killed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import signal
import sys
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

from benchmarks.campaigns import HERE
from benchmarks.campaigns.disturbing import be_quiet, kill
from biasgate.flows.evaluate import evaluate
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.mlflow_server.runs import PARENT, Gateway
from biasgate.tasks.promoting.verify import verify_model
from biasgate.tasks.reporting import publish as publishing
from biasgate.tasks.scoring.kinds.python_function import FunctionScorer
from biasgate.tasks.scoring.kinds.score_file import ScoreTable
from biasgate.tasks.scoring.scored_set import ScoredSet, Shards
from biasgate.tasks.tracking import log_runs as tracking

MODEL, N_ROWS, ROWS_A_SHARD, N_SHARDS = "toxicity", 240, 40, 6
KILLED, UNDISTURBED = -signal.SIGKILL, 0
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
        "candidates": [one | {"rows_a_shard": ROWS_A_SHARD} for one in CANDIDATES],
        "policy": "lenient.yaml",
    }
    (folder / "evaluation.yaml").write_text(yaml.safe_dump(content), "utf-8")
    return folder / "evaluation.yaml"


# ------------------------------------------------------------------ points


def before(owner: Any, name: str, nth: int = 1, like: str = "") -> None:
    """Kill before the nth call (of those with an argument) of a function."""
    _disturb(owner, name, nth, like, lambda _: kill())


def after(owner: Any, name: str, nth: int = 1, like: str = "") -> None:
    """Kill after the nth call (of those with an argument) of a function."""

    def how(call: Callable[[], Any]) -> None:
        call()
        kill()

    _disturb(owner, name, nth, like, how)


def _disturb(owner: Any, name: str, nth: int, like: str, how: Callable[..., Any]) -> None:
    found, seen = getattr(owner, name), Counter[str]()

    def disturbed(*args: Any, **options: Any) -> Any:
        seen["calls"] += not like or like in args
        if seen["calls"] == nth and (not like or like in args):
            return how(lambda: found(*args, **options))
        return found(*args, **options)

    setattr(owner, name, disturbed)


def during_write(nth: int) -> None:
    """Kill when half of the nth shard is written."""
    write = Path.write_bytes

    def write_half(path: Path, content: bytes) -> int:
        if path.suffix == ".parquet":
            seen["shards"] += 1
            if seen["shards"] == nth:
                write(path, content[: len(content) // 2])
                kill()
        return write(path, content)

    seen = Counter[str]()
    Path.write_bytes = write_half  # type: ignore[method-assign]


# There are twelve shards, those of `filed` first; each repetition kills at a different one.
POINTS: dict[str, Callable[[int], None]] = {
    "before the first shard": lambda _: before(ScoreTable, "score"),
    "during a shard's write": lambda turn: during_write(1 + turn * 5 % 12),
    "between shards": lambda turn: after(Shards, "write", 1 + turn * 5 % 11),
    "before scores are recorded as complete": lambda _: before(Folder, "write", 2, "record.json"),
    "between scoring and tracking": lambda _: before(tracking, "settle_abandoned_runs"),
    "tracking: the evaluation's run is open": lambda _: after(
        Gateway, "ensure_run", like="evaluate killed"
    ),
    "tracking: a candidate's run is open": lambda _: after(
        Gateway, "ensure_run", like="counted on rows"
    ),
    "tracking: its numbers are logged": lambda _: before(Gateway, "log_inputs", 2),
    "tracking: its files are logged": lambda _: before(Gateway, "log_table", 2),
    "tracking: its run has ended": lambda _: after(Gateway, "end_run", 3),
    "tracking: the champion has moved": lambda _: after(Gateway, "set_alias"),
    "tracking: the promotion is done": lambda _: before(publishing, "write_json"),
    "tracking: the evaluation's run is to end": lambda _: before(Gateway, "end_run", 4),
}
WORKER = "one of two Dask workers, in a shard"


# ------------------------------------------------------------------ processes

# Processes forked from one that has imported everything and started nothing.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["benchmarks.campaigns.kills"])


def run(folder: Path, name: str, api: str, point: str | None = None, turn: int = 0) -> int | None:
    """Evaluate in a separate process, killed at a point; return how it ended."""
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # read when the first process starts
    process = SERVER.Process(target=_evaluate, args=(folder, name, api, point, turn))
    process.start()
    process.join(300)
    return process.exitcode


def _evaluate(folder: Path, name: str, api: str, point: str | None, turn: int) -> None:
    be_quiet(folder / f"{name}.log")
    _remember_what_is_scored(folder / f"{name}.asked")
    if point is not None:
        POINTS[point](turn)
    settings = {PREFECT_API_URL: api, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    places = (str(folder / one) for one in ("evaluation.yaml", "output", "store"))
    with temporary_settings(settings):
        state: Any = evaluate(*places, return_state=True)
    os._exit(UNDISTURBED if state.name == "Passed" else 1)


def _remember_what_is_scored(file: Path) -> None:
    for kind in (FunctionScorer, ScoreTable):

        def score(self: Any, rows: Any, found: Any = kind.score) -> Any:
            line = json.dumps([self.digest, rows.column("id").to_pylist()])
            with file.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
            return found(self, rows)

        kind.score = score  # type: ignore[method-assign]


def asked(folder: Path, name: str) -> dict[str, list[str]]:
    """Return the rows that a run scored, by digest of the candidate."""
    file, found = folder / f"{name}.asked", dict[str, list[str]]()
    for line in file.read_text("utf-8").splitlines() if file.exists() else []:
        digest, ids = json.loads(line)
        found.setdefault(digest, []).extend(ids)
    return found


# ------------------------------------------------------------------ trials


@dataclass(frozen=True)
class World:
    """The results of an undisturbed evaluation.

    Attributes
    ----------
    folder : Path
        Its inputs and results.
    api : str
        Address of the Prefect server.
    """

    folder: Path
    api: str

    @classmethod
    def make(cls, folder: Path, api: str) -> World:
        """Run it."""
        make_inputs(folder)
        ended = run(folder, "undisturbed", api)
        if ended != UNDISTURBED:
            raise RuntimeError((folder / "undisturbed.log").read_text("utf-8")[-3000:])
        return cls(folder, api)

    def scored(self) -> list[ScoredSet]:
        """Return the scores of both candidates."""
        found = sorted((self.folder / "store" / "scores").glob("*/*/record.json"))
        return [ScoredSet.open(str(one.parent)) for one in found]


@dataclass(frozen=True)
class Trial:
    """The state after one kill.

    Attributes
    ----------
    point : str
        Where it was killed.
    fired : bool
        Whether the evaluation was really killed.
    n_finished : int
        Rows in shards that were finished before.
    n_again : int
        Rows that the next run scored.
    problems : list of str
        What is wrong.
    """

    point: str
    fired: bool
    n_finished: int
    n_again: int
    problems: list[str]


def run_trial(world: World, point: str, turn: int = 0) -> Trial:
    """Kill one evaluation, check, run it again, check again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder)
        fired = run(folder, "killed", world.api, point, turn) == KILLED
        return look_again(world, folder, point, fired=fired)


def look_again(world: World, folder: Path, point: str, *, fired: bool) -> Trial:
    """See which shards are finished, run undisturbed, and compare."""
    finished = {one.candidate_digest: finished_rows(world, folder, one) for one in world.scored()}
    ended = run(folder, "next", world.api)
    problems = [] if ended == UNDISTURBED else ["the next run does not pass"]
    again = asked(folder, "next")
    ids = [f"c{number}" for number in range(N_ROWS)]
    for one in world.scored():
        digest = one.candidate_digest
        if sorted(finished[digest] + again.get(digest, [])) != sorted(ids):
            problems.append("the next run did not score exactly the rows that were missing")
        found = ScoredSet.load(one.url.replace(str(world.folder), str(folder)))
        if found is None or score_bytes(found) != score_bytes(one):
            problems.append("scores are not those of an undisturbed run")
    problems += wrong_runs(folder / "store")
    n_finished, n_again = (sum(map(len, one.values())) for one in (finished, again))
    return Trial(point, fired, n_finished, n_again, problems)


def finished_rows(world: World, folder: Path, like: ScoredSet) -> list[str]:
    """Return the rows in finished shards of a candidate."""
    url = like.url.replace(str(world.folder), str(folder))
    keys = ("candidate_digest", "set_digest", "precision")
    shards = Shards(Folder(url), *(getattr(like.record, key) for key in keys))
    tables = filter(None, map(shards.read, range(N_SHARDS)))
    return list(itertools.chain.from_iterable(one["id"].to_pylist() for one in tables))


def score_bytes(scored: ScoredSet) -> bytes:
    """Return the bytes of the column `score`."""
    return bytes(scored.table()["score"].to_numpy().tobytes())


def wrong_runs(store: Path) -> Iterator[str]:
    """Yield what is wrong with the runs in MLflow and with the champion."""
    gateway = Gateway.from_store(store)
    experiments = [one.experiment_id for one in gateway.client.search_experiments()]
    runs = gateway.client.search_runs(experiments)
    names = Counter(one.info.run_name for one in runs)
    if names != Counter([PARENT_RUN, *CHILD_RUNS, "scores filed"]):
        yield f"runs are {dict(names)}"
    if {one.info.status for one in runs} != {"FINISHED"}:
        yield f"runs are {sorted(one.info.status for one in runs)}"
    parents = {one.info.run_id for one in runs if one.info.run_name == PARENT_RUN}
    nested = [one for one in runs if one.info.run_name in CHILD_RUNS]
    if {one.data.tags.get(PARENT) for one in nested} != parents:
        yield "the candidates' runs are not nested under the evaluation's"
    yield from (one.sentence for one in verify_model(MODEL, None, gateway, store) if not one.holds)


def campaign(world: World, repeat: int, points: list[str]) -> Iterator[Trial]:
    """Yield every point, `repeat` times."""
    from support.cluster import kill_worker  # noqa: PLC0415 - which imports this

    for point in points:
        for turn in range(repeat):
            yield kill_worker(world, turn) if point == WORKER else run_trial(world, point, turn)


def markdown(trials: list[Trial]) -> str:
    """Return the table of points: killed, rows kept and scored again, problems."""
    lines = ["| killed | times | rows kept | rows scored by the next run | wrong |"]
    lines.append("|---|--:|--:|--:|--:|")
    for point in dict.fromkeys(one.point for one in trials):
        of_point = [one for one in trials if one.point == point and one.fired]
        kept, again = (
            ", ".join(dict.fromkeys(str(getattr(one, key)) for one in of_point))
            for key in ("n_finished", "n_again")
        )
        wrong = sum(bool(one.problems) for one in of_point)
        lines.append(f"| {point} | {len(of_point)} | {kept} | {again} | {wrong} |")
    return "\n".join(lines)


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--points", nargs="*", default=[*POINTS, WORKER])
    options = parser.parse_args()
    trials = []
    with tempfile.TemporaryDirectory() as folder, prefect_test_harness(server_startup_timeout=90):
        world = World.make(Path(folder), str(PREFECT_API_URL.value()))
        for trial in campaign(world, options.repeat, options.points):
            trials.append(trial)
            sys.stderr.write(f"{trial}\n")
    n_fired = sum(one.fired for one in trials)
    sys.stdout.write(f"{markdown(trials)}\n\n{n_fired} killed evaluations.\n")


if __name__ == "__main__":
    main()
