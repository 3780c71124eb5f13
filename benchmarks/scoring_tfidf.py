"""The TF-IDF baseline on all cores and on one, against the plain scikit-learn pipeline.

Starting processes and loading models is not counted, since an evaluation of many shards does it
once. The scores must be identical.
"""

from __future__ import annotations

import joblib
import numpy as np

from benchmarks._comments import for_training
from benchmarks._measurement import Measurement, median_ratio, time_in_turns
from biasgate.tasks.scoring.kinds.tfidf import Tfidf, positive_probability
from biasgate.tasks.scoring.kinds.tfidf_workers import Workers

ROWS, TRAINED_ON, ROUNDS = 8_000, 8_000, 15


def measure(rows: int | None = None) -> Measurement:
    """Time a shard's worth of comments in turns."""
    texts, toxic = for_training()
    settings = Tfidf(name="words", kind="tfidf", model="models:/words/1")
    pipeline = settings.pipeline().fit(texts[:TRAINED_ON], toxic[:TRAINED_ON])
    texts = texts[TRAINED_ON:][: rows or ROWS]
    cores = joblib.cpu_count()
    one, all_ = (Workers(positive_probability, pipeline, n) for n in (1, cores))
    found = {}
    contenders = {
        "pipeline": lambda: found.update(pipeline=positive_probability(pipeline, texts)),
        "one": lambda: found.update(one=one.run(texts)),
        "all": lambda: found.update(all=all_.run(texts)),
    }
    try:
        all_.run(texts)
        all_.wait_until_started()
        seconds = time_in_turns(contenders, ROUNDS, {})
    finally:
        all_.close()
    for scores in found.values():
        np.testing.assert_array_equal(scores, found["pipeline"])
    best = {name: min(times) for name, times in seconds.items()}
    return Measurement(
        inputs={"rows": len(texts), "rounds": ROUNDS, "cores": cores, "trained on": TRAINED_ON},
        figures={
            **{f"comments/s, {name}": len(texts) / time for name, time in best.items()},
            "one core, times the pipeline's speed": median_ratio(
                seconds["pipeline"], seconds["one"]
            ),
            "all cores, times one core's speed": median_ratio(seconds["one"], seconds["all"]),
        },
        packages=("numpy", "scikit-learn"),
    )
