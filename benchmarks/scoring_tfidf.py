"""TF-IDF models scored by words, against the plain scikit-learn pipeline.

Times are of the processor, in turns, since other work on the machine moves them less. Building the
tables and looking up words for the first time is counted. Answers must be equal to 1e-12.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks._comments import for_training
from benchmarks._many_comments import ALL, many_comments
from benchmarks._measurement import Measurement
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.scoring.kinds.mlflow_model import MlflowModel, RegisteredScorer
from biasgate.tasks.scoring.kinds.tfidf import EXAMPLE, Tfidf
from biasgate.tasks.scoring.ngrams.model import NgramModel
from biasgate.tasks.scoring.shards import ROWS_A_SHARD

TRAINED_ON = 8_000
ROUNDS = {1_000: 9, 5_000: 7, 77_000: 1}
Answer = Callable[[list[str]], np.ndarray]


def measure(rows: int | None = None) -> Measurement:
    """Score sets of every size with both, and all of Civil Comments' size by words; or `rows`."""
    texts, toxic = for_training()
    settings = Tfidf(name="words", kind="tfidf", model="models:/words/1")
    pipeline = settings.pipeline().fit(texts[:TRAINED_ON], toxic[:TRAINED_ON])
    others = texts[TRAINED_ON:]
    by_words: Answer = lambda some: NgramModel(pipeline).answer("predict_proba", some)  # noqa: E731
    figures: dict[str, float] = {}
    for size in (rows,) if rows else ROUNDS:
        some = [text for text, _ in many_comments(others, size)]
        figures |= _compared(f"{size:,}", pipeline.predict_proba, by_words, some, ROUNDS.get(size))
    some = [text for text, _ in many_comments(others, min(rows or 5_000, 5_000))]
    figures |= _through_mlflow(pipeline, some)
    if rows is None:
        figures |= _all(NgramModel(pipeline), others)
    inputs = {"trained on": TRAINED_ON, "n-grams": int(pipeline[-1].coef_.size)}
    return Measurement(inputs, figures, ("numpy", "scipy", "scikit-learn"))


def _compared(
    name: str, theirs: Answer, ours: Answer, texts: list[str], rounds: int | None
) -> dict[str, float]:
    times: dict[str, list[tuple[float, float]]] = {"theirs": [], "ours": []}
    found: dict[str, np.ndarray] = {}
    contenders = {"theirs": theirs, "ours": ours}
    for turn in range(rounds or 3):
        for which in sorted(contenders, reverse=turn % 2 == 0):
            start = time.process_time(), time.perf_counter()
            found[which] = contenders[which](texts)
            end = time.process_time(), time.perf_counter()
            times[which].append((end[0] - start[0], end[1] - start[1]))
    np.testing.assert_allclose(found["ours"], found["theirs"], rtol=0, atol=1e-12)
    mine, others = np.array(times["ours"]), np.array(times["theirs"])
    faster = np.median(others / mine, axis=0)
    return {
        f"{name}: comments/s and core, scikit-learn": len(texts) / median(others[:, 0]),
        f"{name}: comments/s and core": len(texts) / median(mine[:, 0]),
        f"{name}: times scikit-learn's speed": float(faster[0]),
        f"{name}: the same by the clock": float(faster[1]),
        f"{name}: largest difference": float(np.abs(found["ours"] - found["theirs"]).max()),
    }


def _through_mlflow(pipeline: Any, texts: list[str]) -> dict[str, float]:
    """Compare what `kind: mlflow` does with a registered model, loading included, with skops."""
    import skops.io  # noqa: PLC0415

    rows = pa.record_batch({"text": pa.array(texts)})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        save_classifier(pipeline, folder, EXAMPLE)
        [file] = folder.glob("*.skops")
        settings = MlflowModel(name="words", kind="mlflow", model="models:/words/1")
        scorer = RegisteredScorer(settings, folder)
        scorer.try_out()
        loaded = skops.io.load(file)
        return _compared(
            f"{len(texts):,} through mlflow, loaded",
            lambda texts: loaded.predict_proba(texts)[:, 1],
            lambda _: scorer.score(rows),
            texts,
            3,
        )


def _all(model: NgramModel, texts: list[str]) -> dict[str, float]:
    """Score as many comments as Civil Comments has, in shards."""
    made = (text for text, _ in many_comments(texts, ALL))
    seconds, by_clock = 0.0, 0.0
    while shard := list(islice(made, ROWS_A_SHARD)):
        start = time.process_time(), time.perf_counter()
        model.answer("predict_proba", shard)
        seconds += time.process_time() - start[0]
        by_clock += time.perf_counter() - start[1]
    name = f"{ALL:,}"
    return {
        f"{name}: comments/s and core": ALL / seconds,
        f"{name}: seconds of the processor": seconds,
        f"{name}: seconds by the clock": by_clock,
    }
