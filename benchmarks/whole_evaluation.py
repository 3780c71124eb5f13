"""What a whole evaluation adds to its scoring: Prefect, sets, shards, metrics, MLflow.

The baseline is evaluated on real comments, repeated, by the flow that `biasgate evaluate` runs.
The time within its `score` counts as scoring; everything else, from reading the file to the
published report, counts as added. Peak memory is that of all processes together, including
Prefect's server and the model in each.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks._comments import load_training_comments
from benchmarks._measurement import Measurement
from biasgate.flows.evaluate import evaluate
from biasgate.flows.score import train
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.scoring.kinds.tfidf import TfidfScorer

ROWS, TRAINED_ON, ROWS_A_CHUNK = 1_800_000, 8_000, 50_000
TERMS = {
    "male": ["he", "him", "his", "man", "men"],
    "female": ["she", "her", "woman", "women"],
    "christian": ["christian", "christians", "church"],
    "jewish": ["jew", "jews", "jewish"],
    "muslim": ["muslim", "muslims", "islam"],
    "black": ["black", "blacks"],
    "white": ["white", "whites"],
}
MIB = 2**20


def measure(rows: int | None = None) -> Measurement:
    """Evaluate once, and again with nothing changed."""
    n_rows = rows or ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_comments(folder, n_rows)
        paths = str(write_config(folder)), str(folder / "out"), str(folder / "store")
        train(paths[0], paths[2])
        with timed_scoring() as inside, peak_memory() as peak:
            first = _seconds(lambda: evaluate(*paths, return_state=True))
        with timed_scoring() as inside_again:
            again = _seconds(lambda: evaluate(*paths, return_state=True))
    scoring = sum(inside)
    assert not inside_again, "nothing is scored twice"
    return Measurement(
        inputs={"rows": n_rows, "identities": len(TERMS)},
        figures={
            "seconds, scoring": scoring,
            "seconds, all": first,
            "seconds, unchanged": again,
            "added, share of the scoring": (first - scoring) / scoring,
            "unchanged, share of the first": again / first,
            "comments/s, scoring": n_rows / scoring,
            "peak MiB before": peak[0],
            "peak MiB": peak[1],
        },
        packages=("numpy", "scikit-learn", "prefect", "mlflow", "pyarrow"),
    )


def write_comments(folder: Path, n_rows: int) -> None:
    """Write training comments, and others, repeated, with columns of identities."""
    texts, toxic = load_training_comments()
    mentions = TermMatcher(TERMS, "longest").mentions(texts)

    def table(at: np.ndarray, first: int) -> pa.Table:
        columns = {
            "id": pa.array(np.arange(first, first + len(at))),
            "text": pa.array([texts[i] for i in at], pa.large_string()),
            "label": pa.array(toxic[at].astype(float)),
        }
        found = {one: pa.array(mentions[at, n].astype(float)) for n, one in enumerate(TERMS)}
        return pa.table(columns | found)

    pq.write_table(table(np.arange(TRAINED_ON), 0), folder / "train.parquet")
    writer = None
    for start in range(0, n_rows, ROWS_A_CHUNK):
        rows = np.arange(start, min(start + ROWS_A_CHUNK, n_rows))
        part = table(TRAINED_ON + rows % (len(texts) - TRAINED_ON), TRAINED_ON + start)
        writer = writer or pq.ParquetWriter(folder / "comments.parquet", part.schema)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def write_config(folder: Path) -> Path:
    """Write the evaluation file."""
    source = {"source": "table", "text": "text", "identities": list(TERMS)}
    content = {
        "name": "whole",
        "registered_model": "whole",
        "evaluation_sets": [source | {"name": "comments", "path": "comments.parquet"}],
        "candidates": [
            {
                "name": "baseline",
                "kind": "tfidf",
                "train_on": source | {"name": "training", "path": "train.parquet"},
                "allow_training_rows": True,  # some short comments are the same
            }
        ],
    }
    path = folder / "whole.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@contextmanager
def timed_scoring() -> Iterator[list[float]]:
    """Collect the seconds of every call of the baseline's `score`."""
    seconds: list[float] = []
    plain = TfidfScorer.score

    def timed(self: TfidfScorer, rows: pa.RecordBatch) -> np.ndarray:
        start = time.perf_counter()
        scores = plain(self, rows)
        seconds.append(time.perf_counter() - start)
        return scores

    TfidfScorer.score = timed  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        TfidfScorer.score = plain  # type: ignore[method-assign]


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Yield MiB resident in this process and its children: before the block, and its peak."""
    found, done = [_resident(), 0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            found[1] = max(found[1], _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()


def _resident() -> float:
    own = psutil.Process(os.getpid())
    total = 0
    for one in [own, *own.children(recursive=True)]:
        try:
            total += one.memory_info().rss
        except psutil.NoSuchProcess:  # it ended just now
            continue
    return total / MIB


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
