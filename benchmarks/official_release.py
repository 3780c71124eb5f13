"""The main job at full size: 1.8 million rows in an official layout, from CSV to `verify`.

Generated rows with the columns of Kaggle's `train.csv` are evaluated by the command in its own
processes: first with a file of scores, then with the baseline on the same frozen set; each
version is then verified. Texts have about 120 characters (those of the release have 300, and the
baseline's time grows with them). Memory is the resident memory of all processes of a command;
memory that they share is counted in each.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import yaml
from support.release import rows_of_release, write_csv

from benchmarks._measurement import Measurement
from biasgate.tasks.data.civil_comments import IDENTITIES, JIGSAW_NINE

ROWS, TRAINED_ON = 1_800_000, 20_000
MODEL, GIB = "official", 2**30
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


def measure(rows: int | None = None) -> Measurement:
    """Evaluate and verify a file of scores, then the baseline."""
    n_rows = rows or ROWS
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_release(folder, n_rows)
        figures["GiB, the CSV"] = (folder / "train.csv").stat().st_size / GIB
        scores: dict[str, Any] = {
            "name": "file",
            "kind": "scores",
            "path": "scores.csv",
            "register": MODEL,
        }
        training = {"name": "training", "source": "civil_comments", "folder": "."}
        words: dict[str, Any] = {"name": "words", "kind": "tfidf"}
        words |= {"train_on": training | {"split": "test_public"}}
        words |= {"allow_training_rows": True}  # some short texts may be the same
        for version, candidate in enumerate((scores, words), 1):
            write_config(folder, [candidate], MODEL)
            output, kind = folder / "out", candidate["kind"]
            evaluated = run_command(folder, "evaluate", "official.yaml", "--output", str(output))
            verified = run_command(folder, "verify", MODEL, str(version))
            for what, ran in (("evaluate", evaluated), ("verify", verified)):
                figures[f"{kind}: seconds, {what}"] = ran.seconds
                figures[f"{kind}: peak GiB, {what}"] = ran.peak
            figures[f"{kind}: GiB, the store"] = size_of(folder / ".biasgate") / GIB
            print({key: round(value, 2) for key, value in figures.items()}, flush=True)
    return Measurement(
        inputs={"rows": n_rows, "identities": len(JIGSAW_NINE), "trained on": TRAINED_ON},
        figures=figures,
        packages=("numpy", "pandas", "pyarrow", "prefect", "mlflow", "scikit-learn"),
    )


def write_release(folder: Path, n_rows: int) -> None:
    """Write `train.csv`, `test_public_expanded.csv` for training, and scores of the former."""
    # Each identity has enough rows for the policy, also in a quick run.
    mentions = dict.fromkeys(IDENTITIES, 0.05)
    n_training = min(TRAINED_ON, n_rows)
    tables = rows_of_release(n_training, 7, shares={"test_public": 1}, mentions=mentions)
    write_csv(folder / "test_public_expanded.csv", tables)
    tables = rows_of_release(n_rows, 8, shares={"train": 1}, mentions=mentions)
    write_csv(folder / "train.csv", _with_scores(tables, folder / "scores.csv"))


def _with_scores(tables: Iterator[pa.Table], path: Path) -> Iterator[pa.Table]:
    """Yield tables as in `train.csv`, and write scores of their rows."""
    rng = np.random.default_rng(7)
    with path.open("w", newline="", encoding="utf-8") as stream:
        scores = csv.writer(stream)
        scores.writerow(["id", "prediction"])
        for table in tables:
            predicted = table["toxicity"].to_numpy() + rng.normal(0, 0.4, len(table))
            scores.writerows(zip(table["id"].to_pylist(), predicted.tolist(), strict=True))
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


class Ran(NamedTuple):
    """What a command took.

    Attributes
    ----------
    seconds : float
        From start to end.
    peak : float
        The most GiB that were resident in all its processes together.
    states : list of State
        What was seen while it ran, about every second.
    """

    seconds: float
    peak: float
    states: list[State]


class State(NamedTuple):
    """Memory and disk at one time: seconds since 1970, resident bytes, bytes in the folder."""

    time: float
    resident: int
    stored: int


def run_command(folder: Path, *arguments: str) -> Ran:
    """Run the command in a folder, and watch memory and disk.

    `BENCHMARK_TREE` names another checkout whose code runs, to compare the two.
    """
    environment = os.environ | {"PREFECT_HOME": str(folder / "prefect")}
    environment |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "true"}
    root = os.environ.get("BENCHMARK_TREE") or str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-m", "biasgate", *arguments]
    began, peak = time.perf_counter(), 0
    states: list[State] = []
    with (folder / "said.txt").open("w+b") as said:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            cwd=folder,
            env=environment | {"PYTHONPATH": root},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        while process.poll() is None:
            resident = _resident(process.pid)
            peak = max(peak, resident)
            if not states or time.time() >= states[-1].time + 1:
                states.append(State(time.time(), resident, size_of(folder)))
            time.sleep(0.2)
        seconds = time.perf_counter() - began
        said.seek(0)
        if process.returncode:
            msg = f"{' '.join(command)} ended with {process.returncode}:\n{said.read().decode()}"
            raise SystemExit(msg)
    return Ran(seconds, peak / GIB, states)


def _resident(pid: int) -> int:
    try:
        parent = psutil.Process(pid)
        everyone = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for one in everyone:
        try:
            total += one.memory_info().rss
        except psutil.NoSuchProcess:  # it ended just now
            continue
    return total


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for place, _, files in os.walk(folder):  # which passes over folders that were removed just now
        for name in files:
            with suppress(FileNotFoundError):  # removed just now
                total += (Path(place) / name).lstat().st_size
    return total
