"""Training the baseline on as many comments as Civil Comments has, and scikit-learn on a tenth.

Each training runs in a process of its own, which measures its peak memory. On the tenth both are
run, and their objectives and probabilities are compared.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._comments import load_training_comments
from benchmarks._many_comments import ALL, generate_comments
from benchmarks._measurement import Measurement
from biasgate.tasks.scoring.kinds.tfidf import Tfidf
from biasgate.tasks.scoring.kinds.tfidf_training import fit

STEP = 50_000
COMPARED = 2_000  # comments whose probabilities are compared


def measure(rows: int | None = None) -> Measurement:
    """Train on `rows` comments here, and on a tenth of them with both."""
    rows = rows or ALL
    tenth = rows // 10
    figures: dict[str, float] = {}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "comments.parquet"
        _write(file, rows)
        for name, how, n_rows in (
            ("in blocks", in_blocks, rows),
            ("in blocks, a tenth", in_blocks, tenth),
            ("scikit-learn, a tenth", by_sklearn, tenth),
        ):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found[name] = pool.apply(_measured, (how, file, n_rows))
            for key, value in found[name].items():
                if key != "probabilities":
                    figures[f"{name}: {key}"] = value
            print(f"  {name}: {found[name]['minutes']:.1f} minutes", flush=True)
    ours, theirs = (found[f"{name}, a tenth"] for name in ("in blocks", "scikit-learn"))
    figures["largest difference of a probability, a tenth"] = float(
        np.abs(ours["probabilities"] - theirs["probabilities"]).max()
    )
    figures["objective minus scikit-learn's, a tenth"] = ours["objective"] - theirs["objective"]
    return Measurement({"rows": rows}, figures, ("numpy", "scipy", "scikit-learn"))


def in_blocks(pipeline: Any, file: Path, n_rows: int) -> Any:
    """Train as `kind: tfidf` does."""
    return fit(pipeline, lambda: _texts(file, n_rows), _labels(file, n_rows))


def by_sklearn(pipeline: Any, file: Path, n_rows: int) -> Any:
    """Train with scikit-learn alone, which reads texts twice."""
    return pipeline.fit(list(_texts(file, n_rows)), _labels(file, n_rows))


def _measured(how: Any, file: Path, n_rows: int) -> dict[str, Any]:
    settings = Tfidf(name="words", kind="tfidf", model="models:/words/1")
    wall, before = time.perf_counter(), time.process_time()
    pipeline = how(settings.pipeline(), file, n_rows)
    minutes, of_processor = time.perf_counter() - wall, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "rows": n_rows,
        "minutes": minutes / 60,
        "minutes of the processor": of_processor / 60,
        "peak memory in GiB": peak,
        "iterations": int(pipeline[-1].n_iter_[0]),
        "objective": _objective(pipeline, file, n_rows),
        "probabilities": pipeline.predict_proba(list(_texts(file, COMPARED)))[:, 1],
    }


def _objective(pipeline: Any, file: Path, n_rows: int) -> float:
    """Return the mean loss plus the penalty, what the solver makes small."""
    classifier, loss = pipeline[-1], 0.0
    labels = _labels(file, n_rows)
    for at, batch in enumerate(_batches(file, n_rows)):
        raw = pipeline.decision_function(batch.column("text").to_pylist())
        of_batch = labels[at * STEP : at * STEP + len(raw)]
        loss += float(np.logaddexp(0, raw).sum() - raw[of_batch].sum())
    penalty = 0.5 * float(np.square(classifier.coef_).sum()) / classifier.C
    return (loss + penalty) / n_rows


def _write(file: Path, rows: int) -> None:
    texts, toxic = load_training_comments()
    schema = pa.schema({"text": pa.string(), "toxic": pa.bool_()})
    made = generate_comments(texts, rows)
    with pq.ParquetWriter(file, schema) as writer:
        for at in range(0, rows, STEP):
            some = [next(made) for _ in range(min(STEP, rows - at))]
            columns = [[text for text, _ in some], toxic[[place for _, place in some]]]
            writer.write_batch(pa.record_batch(columns, schema=schema), row_group_size=STEP)


def _batches(file: Path, n_rows: int) -> Iterator[pa.RecordBatch]:
    left = n_rows
    for batch in pq.ParquetFile(file).iter_batches(STEP):
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= STEP


def _texts(file: Path, n_rows: int) -> Iterator[str]:
    for batch in _batches(file, n_rows):
        yield from batch.column("text").to_pylist()


def _labels(file: Path, n_rows: int) -> np.ndarray:
    parts = [b.column("toxic").to_numpy(zero_copy_only=False) for b in _batches(file, n_rows)]
    return np.concatenate(parts)
