"""The overhead of shards for a candidate without cost, against a file without checks.

Both read the text of every row; the model is replaced by a comment's length. Shards are flushed to
the disk, so that they survive a power cut; they are also measured without that. Peak memory is what
scoring adds to the process, in MiB.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks._comments import load_training_comments, repeat_comments
from benchmarks._measurement import Measurement
from biasgate.tasks.data.evaluation_set import EvaluationSet, freeze_rows
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.scoring.scorer import Scorer

ROWS = 1_800_000


class Lengths(Scorer):
    """Scores a comment by its length."""

    digest = "0" * 64

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Accept any set."""

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the lengths."""
        return np.asarray(pc.utf8_length(rows.column("text")).to_numpy(), dtype=float)


def measure(rows: int | None = None) -> Measurement:
    """Score real comments, repeated, in shards, again unchanged, and into a file."""
    n_rows = rows or ROWS
    candidate = CANDIDATES.validate_python({"name": "n", "kind": "scores", "path": "unused"})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frozen = freeze_rows(
            (table for _, table in repeat_comments(*load_training_comments(), n_rows)),
            folder / "set",
            name="set",
            split="all",
            source={"kind": "benchmark"},
        )

        def write_shards() -> None:
            score_rows(Lengths(), frozen, candidate, str(folder / "scores"))

        with patch("os.fsync"):
            unflushed, _ = _measure_call(write_shards)
        shutil.rmtree(folder / "scores")
        plain, plain_peak = _measure_call(lambda: _write_file(frozen, folder / "one.parquet"))
        first, peak = _measure_call(write_shards)
        again, _ = _measure_call(write_shards)
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


def _write_file(frozen: EvaluationSet, path: Path) -> None:
    scorer, schema = Lengths(), pa.schema({"id": pa.string(), "score": pa.float64()})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in frozen.iter_batches(["id", "text"], 10_000):
            columns = [batch.column("id").cast(pa.string()), scorer.score(batch)]
            writer.write_table(pa.table(columns, schema=schema))


def _measure_call(call: Callable[[], None]) -> tuple[float, float]:
    """Return seconds, and the peak rise of resident memory in MiB (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # reset the peak
    before, start = _read_peak(), time.perf_counter()
    call()
    return time.perf_counter() - start, _read_peak() - before


def _read_peak() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
