"""The cost of uncertainty: intervals and paired comparison against one argsort of the scores.

The rows are those of `bias_aucs`. The second model of the comparison is the first with noise.
Memory is numpy's peak beyond the inputs. The growth is the time at the largest size over that at
the smallest, divided by the same ratio of n log n: 1 means exactly n log n.
"""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from statistics import median

import numpy as np

from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from benchmarks.bias_aucs import GROUPS, ROWS, SEED, draw
from bias_metrics import compare_bias, evaluate_bias
from bias_metrics._core.checks import BoolArray, FloatArray

ROUNDS = 5
REPEATS = {"argsort": 5, "values": 3, "cells": 3, "all": 2}
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SMALLEST_TIMED = 100_000  # below it, fixed costs dominate


def measure(rows: int | None = None) -> Measurement:
    """Time each kind of evaluation against the argsort in the same round; trace memory."""
    y_true, y_score, groups = draw(rows or ROWS)
    calls = contenders(y_true, y_score, groups)
    seconds = time_contenders({"argsort": lambda: np.argsort(y_score), **calls}, ROUNDS, REPEATS)
    figures = {f"seconds of {name}": median(times) for name, times in seconds.items()}
    for name in calls:
        figures[f"{name} / argsort"] = compute_median_ratio(seconds[name], seconds["argsort"])
        figures[f"bytes a row of {name}"] = peak_memory(calls[name]) / y_true.size
    return Measurement(
        inputs={
            "rows": y_true.size,
            "distinct scores": int(np.unique(y_score).size),
            "subgroups": GROUPS,
            "rounds": ROUNDS,
            "seed": SEED,
        },
        figures=figures | growth(rows or max(SIZES)),
    )


def contenders(
    y_true: BoolArray, y_score: FloatArray, groups: dict[str, BoolArray]
) -> dict[str, Callable[[], object]]:
    """Return one call for each kind of evaluation."""
    noise = np.random.default_rng(SEED).random(y_score.size).astype(np.float32)
    second = (y_score + 0.1 * noise).round(4).astype(np.float32)
    return {
        "values": lambda: evaluate_bias(y_true, y_score, groups, intervals=False),
        "cells": lambda: evaluate_bias(y_true, y_score, groups, intervals="cells"),
        "all": lambda: evaluate_bias(y_true, y_score, groups),
        "comparison": lambda: compare_bias(y_true, y_score, second, groups),
    }


def peak_memory(call: Callable[[], object]) -> float:
    """Return the peak of bytes held during a call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


def growth(largest: int) -> dict[str, float]:
    """Time the evaluation with all intervals at growing sizes."""
    seconds = {}
    for n in (size for size in SIZES if size <= largest):
        rows = draw(n)
        times = time_contenders({"all": lambda rows=rows: evaluate_bias(*rows)}, 3, {})
        seconds[n] = min(times["all"])
    figures = {f"seconds of all at {n:,} rows": time for n, time in seconds.items()}
    first, last = min(n for n in seconds if n >= SMALLEST_TIMED or n == max(seconds)), max(seconds)
    expected = last * math.log(last) / (first * math.log(first))
    return figures | {"growth / n log n": seconds[last] / seconds[first] / expected}
