"""Training of the baseline at the size of Civil Comments, and by scikit-learn on a tenth.

Each training runs in its own process, which measures its peak memory. The objectives and
probabilities of both are compared on the tenth.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._comments import ALL, generate_comments, load_training_comments
from benchmarks._measurement import Measurement, measure_own_peak
from biasgate.tasks.scoring.kinds.tfidf import Tfidf
from biasgate.tasks.scoring.kinds.tfidf_training import fit

STEP = 50_000
COMPARED = 2_000  # comments whose probabilities are compared


def measure(rows: int | None = None) -> Measurement:
    """Train on `rows` comments here, and on a tenth with both."""
    rows = rows or ALL
    tenth = rows // 10
    figures: dict[str, float] = {}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "comments.parquet"
        _write_comments(file, rows)
        for name, train, n_rows in (
            ("in blocks", train_in_blocks, rows),
            ("in blocks, a tenth", train_in_blocks, tenth),
            ("scikit-learn, a tenth", train_by_sklearn, tenth),
        ):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                results[name] = pool.apply(_measure_training, (train, file, n_rows))
            for key, value in results[name].items():
                if key != "probabilities":
                    figures[f"{name}: {key}"] = value
            print(f"  {name}: {results[name]['minutes']:.1f} minutes", flush=True)
    ours, theirs = (results[f"{name}, a tenth"] for name in ("in blocks", "scikit-learn"))
    figures["largest difference of a probability, a tenth"] = float(
        np.abs(ours["probabilities"] - theirs["probabilities"]).max()
    )
    figures["objective minus scikit-learn's, a tenth"] = ours["objective"] - theirs["objective"]
    return Measurement({"rows": rows}, figures, ("numpy", "scipy", "scikit-learn"))


def train_in_blocks(pipeline: Any, file: Path, n_rows: int) -> Any:
    """Train as `kind: tfidf` does."""
    return fit(pipeline, lambda: _iter_texts(file, n_rows), _read_labels(file, n_rows))


def train_by_sklearn(pipeline: Any, file: Path, n_rows: int) -> Any:
    """Train with scikit-learn only, which reads texts twice."""
    return pipeline.fit(list(_iter_texts(file, n_rows)), _read_labels(file, n_rows))


def _measure_training(train: Any, file: Path, n_rows: int) -> dict[str, Any]:
    settings = Tfidf(name="words", kind="tfidf", model="models:/words/1")
    wall, before = time.perf_counter(), time.process_time()
    pipeline = train(settings.pipeline(), file, n_rows)
    return {
        "rows": n_rows,
        "minutes": (time.perf_counter() - wall) / 60,
        "minutes of the processor": (time.process_time() - before) / 60,
        "peak memory in GiB": measure_own_peak(),
        "iterations": int(pipeline[-1].n_iter_[0]),
        "objective": _compute_objective(pipeline, file, n_rows),
        "probabilities": pipeline.predict_proba(list(_iter_texts(file, COMPARED)))[:, 1],
    }


def _compute_objective(pipeline: Any, file: Path, n_rows: int) -> float:
    """Return the mean loss plus the penalty, which the solver minimises."""
    classifier, loss = pipeline[-1], 0.0
    labels = _read_labels(file, n_rows)
    for number, batch in enumerate(_iter_batches(file, n_rows)):
        raw = pipeline.decision_function(batch.column("text").to_pylist())
        batch_labels = labels[number * STEP : number * STEP + len(raw)]
        loss += float(np.logaddexp(0, raw).sum() - raw[batch_labels].sum())
    penalty = 0.5 * float(np.square(classifier.coef_).sum()) / classifier.C
    return (loss + penalty) / n_rows


def _write_comments(file: Path, rows: int) -> None:
    texts, toxic = load_training_comments()
    schema = pa.schema({"text": pa.string(), "toxic": pa.bool_()})
    comments = generate_comments(texts, rows)
    with pq.ParquetWriter(file, schema) as writer:
        for start in range(0, rows, STEP):
            batch = [next(comments) for _ in range(min(STEP, rows - start))]
            columns = [[text for text, _ in batch], toxic[[index for _, index in batch]]]
            writer.write_batch(pa.record_batch(columns, schema=schema), row_group_size=STEP)


def _iter_batches(file: Path, n_rows: int) -> Iterator[pa.RecordBatch]:
    n_left = n_rows
    for batch in pq.ParquetFile(file).iter_batches(STEP):
        if n_left <= 0:
            return
        yield batch.slice(0, n_left)
        n_left -= STEP


def _iter_texts(file: Path, n_rows: int) -> Iterator[str]:
    for batch in _iter_batches(file, n_rows):
        yield from batch.column("text").to_pylist()


def _read_labels(file: Path, n_rows: int) -> np.ndarray:
    return np.concatenate(
        [
            batch.column("toxic").to_numpy(zero_copy_only=False)
            for batch in _iter_batches(file, n_rows)
        ]
    )
