"""Memory while a transformer scores shard after shard, which should stay constant.

MiniLM-L6 with a fitted classifier on real comments of every length, repeated in random order, in
the precision that `auto` chooses. Resident memory is read after each shard. Comments are cut at 64
tokens, so that a tenth of Civil Comments takes minutes on a CPU; the size of a batch is limited by
its total number of tokens, not by the length of a comment.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import transformers

from benchmarks._comments import load_training_comments
from benchmarks._measurement import Measurement
from benchmarks.scoring_transformer import fit_classifier
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

ROWS, SHARDS, MAX_TOKENS = 180_000, 18, 64


def measure(rows: int | None = None) -> Measurement:
    """Score, and read the memory after each shard."""
    texts, _ = load_training_comments()
    order = np.random.default_rng(0).integers(0, len(texts), size=rows or ROWS)
    resident, process = [], psutil.Process()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        fit_classifier(Path(name))
        settings = {"name": "MiniLM", "kind": "transformer", "folder": name, "precision": "auto"}
        settings |= {"max_tokens": MAX_TOKENS}
        with CANDIDATES.validate_python(settings).open(None) as scorer:
            scorer.score(make_batch(texts[:1]))  # loads the model
            before, start = process.memory_info().rss, time.perf_counter()
            for part in np.array_split(order, SHARDS):
                scorer.score(make_batch([texts[index] for index in part]))
                resident.append((process.memory_info().rss - before) / 2**20)
            seconds = time.perf_counter() - start
            precision = scorer.precision
    return Measurement(
        inputs={
            "rows": len(order),
            "shards": SHARDS,
            "max tokens": MAX_TOKENS,
            "precision": precision,
        },
        figures={
            **{f"MiB beyond the model, shard {n}": size for n, size in enumerate(resident, 1)},
            "comments/s": len(order) / seconds,
        },
        packages=("torch", "transformers", "tokenizers"),
    )


def make_batch(texts: list[str]) -> pa.RecordBatch:
    """Return rows as a scorer receives them."""
    return pa.RecordBatch.from_pydict(
        {"id": [str(n) for n in range(len(texts))], "text": pa.array(texts, pa.large_string())}
    )
