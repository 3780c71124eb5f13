"""All AUCs and gaps of 24 subgroups, against one argsort and against scikit-learn with masks.

The rows look like a large comment data set: 8 % positive, float32 scores with ties, subgroups
of .1 to 3 %. The argsort of the scores is the minimum that any rank metric costs. The masks are
what one would write without this library: a call of `roc_auc_score` per metric and subgroup.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from bias_metrics import BiasTable, evaluate_bias
from bias_metrics._core.checks import BoolArray, FloatArray

ROWS, GROUPS, SEED, ROUNDS = 1_800_000, 24, 20190513, 3
# Fast contenders are repeated within a round to reduce noise.
REPEATS = {"argsort": 7, "evaluate_bias": 5}


def measure(rows: int | None = None) -> Measurement:
    """Time the three contenders in turns; they must agree to 1e-12."""
    y_true, y_score, groups = draw(rows or ROWS)
    found: dict[str, object] = {}

    def keep(name: str, call: Callable[[], object]) -> Callable[[], None]:
        return lambda: found.update({name: call()})

    contenders = {
        "argsort": keep("argsort", lambda: np.argsort(y_score)),
        "evaluate_bias": keep(
            "evaluate_bias", lambda: evaluate_bias(y_true, y_score, groups, intervals=False)
        ),
        "masks": keep("masks", lambda: by_masks(y_true, y_score, groups)),
    }
    seconds = time_contenders(contenders, ROUNDS, REPEATS)
    report, expected = found["evaluate_bias"], found["masks"]
    assert isinstance(report, BiasTable)
    assert isinstance(expected, dict)
    difference = largest_difference(report, expected)
    assert difference <= 1e-12, f"evaluate_bias and scikit-learn differ by {difference}"
    own = seconds["evaluate_bias"]
    return Measurement(
        inputs={
            "rows": y_true.size,
            "positives": int(y_true.sum()),
            "distinct scores": int(np.unique(y_score).size),
            "subgroups": len(groups),
            "smallest subgroup": min(int(mask.sum()) for mask in groups.values()),
            "largest subgroup": max(int(mask.sum()) for mask in groups.values()),
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


def draw(n: int) -> tuple[BoolArray, FloatArray, dict[str, BoolArray]]:
    """Draw labels, scores rounded to four digits, and independent subgroups."""
    rng = np.random.default_rng(SEED)
    y_true = rng.random(n) < 0.08
    y_score = (rng.beta(1, 5, n) + 0.3 * y_true).round(4).astype(np.float32)
    shares = np.geomspace(0.001, 0.03, GROUPS)
    return y_true, y_score, {f"{share:.2%}": rng.random(n) < share for share in shares}


def by_masks(
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


def largest_difference(report: BiasTable, expected: dict[str, list[float]]) -> float:
    """Return the largest absolute difference between the two results."""
    measured = {"overall": [report.overall.auc.value]} | {
        name: [cell.value for cell in bias.values()] for name, bias in report.subgroups.items()
    }
    return max(
        float(np.abs(np.subtract(measured[name], expected[name])).max()) for name in expected
    )
