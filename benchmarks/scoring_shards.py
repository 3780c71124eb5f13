"""The overhead of shards for a candidate that costs nothing, against one file without checks.

All read the text of every row; the stand-in for a model returns a comment's length. Shards are
flushed to the disk, so that they survive a power cut; they are measured without that, too. Peak
memory is what scoring adds to the process, in MiB.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks._comments import load_training_comments
from benchmarks._measurement import Measurement
from biasgate.tasks.data.evaluation_set import EvaluationSet, freeze_rows
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.scoring.scorer import Scorer

ROWS, ROWS_A_CHUNK = 1_800_000, 50_000


class Lengths(Scorer):
    """Scores a comment by its length."""

    digest = "0" * 64

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Accept any set."""

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the lengths."""
        return np.asarray(pc.utf8_length(rows.column("text")).to_numpy(), dtype=float)


def measure(rows: int | None = None) -> Measurement:
    """Score real comments, repeated, in shards, again unchanged, and into one file."""
    n_rows = rows or ROWS
    candidate = CANDIDATES.validate_python({"name": "n", "kind": "scores", "path": "unused"})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frozen = freeze_rows(
            _chunks(n_rows), folder / "set", name="set", split="all", source={"kind": "benchmark"}
        )

        def in_shards() -> None:
            score_rows(Lengths(), frozen, candidate, str(folder / "scores"))

        with patch("os.fsync"):
            unflushed, _ = _timed(in_shards)
        shutil.rmtree(folder / "scores")
        plain, plain_peak = _timed(lambda: _one_file(frozen, folder / "one.parquet"))
        first, peak = _timed(in_shards)
        again, _ = _timed(in_shards)
        size = sum(file.stat().st_size for file in (folder / "scores").rglob("*.parquet"))
        shutil.rmtree(folder / "scores")
    return Measurement(
        inputs={"rows": n_rows},
        figures={
            "seconds, one file": plain,
            "seconds, shards": first,
            "seconds, shards that a power cut may take": unflushed,
            "seconds, shards, unchanged": again,
            "times as long because shards are flushed to the disk": first / unflushed,
            "microseconds a row that shards add": (first - plain) / n_rows * 1e6,
            "peak MiB, one file": plain_peak,
            "peak MiB, shards": peak,
            "MB on disk": size / 1e6,
        },
        packages=("numpy", "pyarrow", "fsspec"),
    )


def _chunks(n_rows: int) -> Iterator[pa.Table]:
    texts, toxic = load_training_comments()
    for start in range(0, n_rows, ROWS_A_CHUNK):
        at = np.arange(start, min(start + ROWS_A_CHUNK, n_rows))
        some = [texts[i] for i in at % len(texts)]
        yield pa.table(
            {
                "id": pa.array([f"c{i}" for i in at]),
                "text": pa.array(some, pa.large_string()),
                "label": pa.array(toxic[at % len(texts)].astype(float)),
            }
        )


def _one_file(frozen: EvaluationSet, path: Path) -> None:
    scorer, writer = Lengths(), None
    for batch in frozen.iter_batches(["id", "text"], 10_000):
        part = pa.table({"id": batch.column("id"), "score": scorer.score(batch)})
        writer = writer or pq.ParquetWriter(path, part.schema, compression="zstd")
        writer.write_table(part)
    if writer is not None:
        writer.close()


def _timed(call: Callable[[], None]) -> tuple[float, float]:
    """Return seconds, and the peak rise of resident memory in MiB (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before, start = _peak(), time.perf_counter()
    call()
    return time.perf_counter() - start, _peak() - before


def _peak() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
