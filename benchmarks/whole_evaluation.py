"""Cost of a whole evaluation relative to its scoring: Prefect, sets, shards, metrics, MLflow.

The baseline is evaluated on real comments, repeated, by the flow that `biasgate evaluate` runs. The
time within its `score` counts as scoring; everything else, from reading the file to the published
report, counts as added. Peak memory is that of all processes together, including Prefect's server
and the model in each.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks._commands import MIB, read_usage
from benchmarks._comments import load_training_comments, repeat_comments
from benchmarks._measurement import Measurement
from biasgate.flows.evaluate import evaluate
from biasgate.flows.score import train
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.scoring.kinds.tfidf import TfidfScorer

ROWS, TRAINED_ON = 1_800_000, 8_000
TERMS = {
    "male": ["he", "him", "his", "man", "men"],
    "female": ["she", "her", "woman", "women"],
    "christian": ["christian", "christians", "church"],
    "jewish": ["jew", "jews", "jewish"],
    "muslim": ["muslim", "muslims", "islam"],
    "black": ["black", "blacks"],
    "white": ["white", "whites"],
}


def measure(rows: int | None = None) -> Measurement:
    """Evaluate once, and again without changes."""
    n_rows = rows or ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, n_rows)
        paths = tuple(str(folder / path) for path in ("whole.yaml", "out", "store"))
        train(paths[0], paths[2])
        with time_scoring() as seconds_of_calls, watch_memory() as resident:
            first = _time_call(lambda: evaluate(*paths, return_state=True))
        with time_scoring() as repeated_calls:
            again = _time_call(lambda: evaluate(*paths, return_state=True))
    scoring = sum(seconds_of_calls)
    assert not repeated_calls, "unchanged rows must not be scored again"
    return Measurement(
        inputs={"rows": n_rows, "identities": len(TERMS)},
        figures={
            "seconds, scoring": scoring,
            "seconds, all": first,
            "seconds, unchanged": again,
            "added, share of the scoring": (first - scoring) / scoring,
            "unchanged, share of the first": again / first,
            "comments/s, scoring": n_rows / scoring,
            "peak MiB before": resident[0],
            "peak MiB": max(resident),
        },
        packages=("numpy", "scikit-learn", "prefect", "mlflow", "pyarrow"),
    )


def write_inputs(folder: Path, n_rows: int) -> None:
    """Write training comments, repeated other comments with identities, the evaluation file."""
    texts, toxic = load_training_comments()
    mentions = TermMatcher(TERMS, "longest").mentions(texts)

    def write_comments(name: str, rows: slice, n: int) -> None:
        writer = None
        for indices, table in repeat_comments(texts[rows], toxic[rows], n):
            for number, term in enumerate(TERMS):
                column = pa.array(mentions[rows][indices, number].astype(float))
                table = table.append_column(term, column)  # noqa: PLW2901
            writer = writer or pq.ParquetWriter(folder / name, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()

    write_comments("train.parquet", slice(TRAINED_ON), TRAINED_ON)
    write_comments("comments.parquet", slice(TRAINED_ON, None), n_rows)
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
    (folder / "whole.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


@contextmanager
def time_scoring() -> Iterator[list[float]]:
    """Collect the seconds of every call of the baseline's `score`."""
    seconds: list[float] = []
    score = TfidfScorer.score

    def score_timed(self: TfidfScorer, rows: pa.RecordBatch) -> np.ndarray:
        start = time.perf_counter()
        scores = score(self, rows)
        seconds.append(time.perf_counter() - start)
        return scores

    TfidfScorer.score = score_timed  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        TfidfScorer.score = score  # type: ignore[method-assign]


@contextmanager
def watch_memory() -> Iterator[list[float]]:
    """Collect MiB resident in this process and its children: first before the block, then in it."""
    process, done = psutil.Process(), threading.Event()
    resident = [read_usage(process)[0] / MIB]

    def watch() -> None:
        while not done.wait(0.2):
            resident.append(read_usage(process)[0] / MIB)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield resident
    finally:
        done.set()
        watcher.join()


def _time_call(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
