"""TF-IDF models scored by words against the plain scikit-learn pipeline, and through `mlflow`.

Times are of the processor, in turns, since other work on the machine does not move them much. The
model is new to each contender's first text: looking up words for the first time is counted. The
answers must be equal to 1e-12.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from benchmarks._comments import for_training
from benchmarks._many_comments import many_comments
from benchmarks._measurement import Measurement
from biasgate.tasks.scoring.kinds.tfidf import Tfidf
from biasgate.tasks.scoring.ngrams.model import NgramModel

TRAINED_ON = 8_000
SIZES = (1_000, 5_000, 77_000)
ROUNDS = {1_000: 9, 5_000: 5, 77_000: 1}


def measure(rows: int | None = None) -> Measurement:
    """Fit once; score sets of every size, or of `rows` comments, with both."""
    texts, toxic = for_training()
    settings = Tfidf(name="words", kind="tfidf", model="models:/words/1")
    pipeline = settings.pipeline().fit(texts[:TRAINED_ON], toxic[:TRAINED_ON])
    figures: dict[str, float] = {}
    for size in (rows,) if rows else SIZES:
        some = list(many_comments(texts[TRAINED_ON:], size))
        figures |= _figures(pipeline, some, ROUNDS.get(size, 3))
    inputs = {"trained on": TRAINED_ON, "sizes": [rows] if rows else list(SIZES)}
    return Measurement(inputs, figures, ("numpy", "scipy", "scikit-learn"))


def _figures(pipeline: object, texts: list[str], rounds: int) -> dict[str, float]:
    contenders: list[Callable[[], np.ndarray]] = [
        lambda: pipeline.predict_proba(texts),  # type: ignore[attr-defined]
        lambda: NgramModel(pipeline).answer("predict_proba", texts),
    ]
    seconds: list[list[float]] = [[], []]
    walls: list[list[float]] = [[], []]
    for turn in range(rounds):
        found = {}
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            start, wall = time.process_time(), time.perf_counter()
            found[which] = contenders[which]()
            seconds[which].append(time.process_time() - start)
            walls[which].append(time.perf_counter() - wall)
        np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-12)
    n = len(texts)
    return {
        f"comments/s and core, pipeline, {n}": n / median(seconds[0]),
        f"comments/s and core, by words, {n}": n / median(seconds[1]),
        f"times the pipeline's speed, {n}": median(np.divide(*seconds)),
        f"the same by the clock, {n}": median(np.divide(*walls)),
        f"largest difference, {n}": float(np.abs(found[1] - found[0]).max()),
    }
