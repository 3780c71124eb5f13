"""All AUCs and gaps of 24 subgroups, against an argsort and against scikit-learn with masks.

The rows look like a large comment data set: 8 % positive, float32 scores with ties, subgroups of .1
to 3 %. The argsort of the scores is the minimum that any rank metric costs. The masks are the usual
way without this library: a call of `roc_auc_score` per metric and subgroup.
"""

from __future__ import annotations

from statistics import median

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from bias_metrics import evaluate_bias
from bias_metrics._core.checks import BoolArray, FloatArray

ROWS, GROUPS, SEED, ROUNDS = 1_800_000, 24, 20190513, 3
# Fast contenders are repeated within a round to reduce noise.
REPEATS = {"argsort": 7, "evaluate_bias": 5}


def measure(rows: int | None = None) -> Measurement:
    """Time the three contenders in turns; they must agree to 1e-12."""
    y_true, y_score, groups = draw_rows(rows or ROWS)
    seconds, results = time_contenders(
        {
            "argsort": lambda: np.argsort(y_score),
            "evaluate_bias": lambda: evaluate_bias(y_true, y_score, groups, intervals=False),
            "masks": lambda: measure_by_masks(y_true, y_score, groups),
        },
        ROUNDS,
        REPEATS,
    )
    report, expected = results["evaluate_bias"], results["masks"]
    values = {"overall": [report.overall.auc.value]} | {
        name: [cell.value for cell in bias.values()] for name, bias in report.subgroups.items()
    }
    difference = max(
        float(np.abs(np.subtract(values[name], expected[name])).max()) for name in expected
    )
    assert difference <= 1e-12, f"evaluate_bias and scikit-learn differ by {difference}"
    own, sizes = seconds["evaluate_bias"], [int(mask.sum()) for mask in groups.values()]
    return Measurement(
        inputs={
            "rows": y_true.size,
            "positives": int(y_true.sum()),
            "distinct scores": int(np.unique(y_score).size),
            "subgroups": len(groups),
            "smallest subgroup": min(sizes),
            "largest subgroup": max(sizes),
            "rounds": ROUNDS,
            "seed": SEED,
        },
        figures={
            **{f"seconds of {name}": median(times) for name, times in seconds.items()},
            "evaluate_bias / argsort": compute_median_ratio(own, seconds["argsort"]),
            "masks / evaluate_bias": compute_median_ratio(seconds["masks"], own),
            "largest difference to masks": difference,
        },
        packages=("numpy", "scikit-learn"),
    )


def draw_scores(rng: np.random.Generator, n: int) -> tuple[BoolArray, FloatArray]:
    """Draw labels, and scores rounded to four digits."""
    y_true = rng.random(n) < 0.08
    return y_true, (rng.beta(1, 5, n) + 0.3 * y_true).round(4).astype(np.float32)


def draw_rows(n: int) -> tuple[BoolArray, FloatArray, dict[str, BoolArray]]:
    """Draw labels, scores and independent subgroups."""
    rng = np.random.default_rng(SEED)
    y_true, y_score = draw_scores(rng, n)
    shares = np.geomspace(0.001, 0.03, GROUPS)
    return y_true, y_score, {f"{share:.2%}": rng.random(n) < share for share in shares}


def measure_by_masks(
    y_true: BoolArray, y_score: FloatArray, groups: dict[str, BoolArray]
) -> dict[str, list[float]]:
    """Compute the overall AUC and five numbers per subgroup, each from its own masked rows."""

    def auc(lower: BoolArray, upper: BoolArray) -> float:
        rows = lower | upper
        return float(roc_auc_score(upper[rows], y_score[rows]))

    negative, values = ~y_true, {"overall": [float(roc_auc_score(y_true, y_score))]}
    for name, inside in groups.items():
        outside = ~inside
        values[name] = [
            auc(negative & inside, y_true & inside),
            auc(negative & inside, y_true & outside),
            auc(negative & outside, y_true & inside),
            auc(y_true & outside, y_true & inside) - 0.5,
            auc(negative & outside, negative & inside) - 0.5,
        ]
    return values
