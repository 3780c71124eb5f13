"""The cost of uncertainty: intervals and paired comparison against an argsort of the scores.

The rows are those of `bias_aucs`. The second model of the comparison is the first with noise.
"""

from __future__ import annotations

from statistics import median

import numpy as np

from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from benchmarks.bias_aucs import GROUPS, ROWS, SEED, draw_rows
from bias_metrics import compare_bias, evaluate_bias

ROUNDS = 5
REPEATS = {"argsort": 5, "values": 3, "cells": 3, "all": 2}


def measure(rows: int | None = None) -> Measurement:
    """Time each kind of evaluation against the argsort in the same round."""
    y_true, y_score, groups = draw_rows(rows or ROWS)
    noise = np.random.default_rng(SEED).random(y_score.size).astype(np.float32)
    second = (y_score + 0.1 * noise).round(4).astype(np.float32)
    calls = {
        "values": lambda: evaluate_bias(y_true, y_score, groups, intervals=False),
        "cells": lambda: evaluate_bias(y_true, y_score, groups, intervals="cells"),
        "all": lambda: evaluate_bias(y_true, y_score, groups),
        "comparison": lambda: compare_bias(y_true, y_score, second, groups),
    }
    contenders = {"argsort": lambda: np.argsort(y_score), **calls}
    seconds, _ = time_contenders(contenders, ROUNDS, REPEATS)
    figures = {f"seconds of {name}": median(times) for name, times in seconds.items()}
    for name in calls:
        figures[f"{name} / argsort"] = compute_median_ratio(seconds[name], seconds["argsort"])
    return Measurement(
        inputs={
            "rows": y_true.size,
            "distinct scores": int(np.unique(y_score).size),
            "subgroups": GROUPS,
            "rounds": ROUNDS,
            "seed": SEED,
        },
        figures=figures,
    )
