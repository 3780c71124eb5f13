"""Subgroup AUC of 24 groups at 10,000 rows, against fairlearn and others that compute it.

fairlearn's `MetricFrame` has no BPSN, BNSP or gap, and its groups are the values of a column, so
each row belongs to one. The rows here are therefore split into 24 groups and the rest, which is
what it is made for; overlapping identities would need one frame each. This library's contenders
compute five metrics per group and the aggregates, the others only the number that all have:
Subgroup AUC, which must agree.

Standard errors: ours by DeLong, fairlearn's from the quantiles of its bootstrap at
plus and minus one standard deviation of a normal distribution.

aif360 and Aequitas are left out: their metrics are about decisions, and they have no AUC by group.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from fairlearn.metrics import MetricFrame
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score

from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from bias_metrics import evaluate_bias
from bias_metrics._core.checks import BoolArray, FloatArray

ROWS, GROUPS, SEED, ROUNDS, REPLICATES = 10_000, 24, 20190513, 3, 200
SHARE = 0.03
ONE_SIGMA = (0.158655, 0.841345)
REPEATS = {"values": 5, "intervals": 5, "scipy": 3, "scikit-learn": 3, "fairlearn": 3}
# The standard error of a bootstrap of 200 replicates is off by about 5 % by chance.
SAME_ERROR = 0.25


def measure(rows: int | None = None) -> Measurement:
    """Time all contenders in turns; values must be equal, and standard errors must agree."""
    y_true, y_score, column = draw(rows or ROWS)
    masks = {str(group): column == group for group in np.unique(column)}
    found: dict[str, Any] = {}

    def keep(name: str, call: Callable[[], object]) -> Callable[[], None]:
        return lambda: found.update({name: call()})

    def frame(**options: Any) -> MetricFrame:
        features = {"y_true": y_true, "y_pred": y_score, "sensitive_features": column}
        return MetricFrame(metrics=roc_auc_score, **features, **options)

    contenders = {
        "values": keep("values", lambda: evaluate_bias(y_true, y_score, masks, intervals=False)),
        "intervals": keep("intervals", lambda: evaluate_bias(y_true, y_score, masks)),
        "scipy": keep("scipy", lambda: by_mannwhitneyu(y_true, y_score, masks)),
        "scikit-learn": keep("scikit-learn", lambda: by_masks(y_true, y_score, masks)),
        # It computes its figures when constructed.
        "fairlearn": keep("fairlearn", frame),
        "fairlearn bootstrap": keep(
            "fairlearn bootstrap",
            lambda: frame(n_boot=REPLICATES, ci_quantiles=list(ONE_SIGMA), random_state=SEED),
        ),
    }
    seconds = time_contenders(contenders, ROUNDS, REPEATS)
    ratios = {
        f"{rival} / {own}": compute_median_ratio(seconds[rival], seconds[own])
        for rival, own in (
            ("scipy", "values"),
            ("scikit-learn", "values"),
            ("fairlearn", "values"),
            ("fairlearn", "intervals"),
            ("fairlearn bootstrap", "intervals"),
        )
    }
    return Measurement(
        inputs={
            "rows": y_true.size,
            "positives": int(y_true.sum()),
            "distinct scores": int(np.unique(y_score).size),
            "groups": len(masks),
            "smallest class of a group": min(
                int((mask & of).sum()) for mask in masks.values() for of in (y_true, ~y_true)
            ),
            "replicates": REPLICATES,
            "rounds": ROUNDS,
            "seed": SEED,
        },
        figures={
            **{f"seconds of {name}": median(times) for name, times in seconds.items()},
            **ratios,
            **largest_differences(found, list(masks)),
            **standard_errors(found, list(masks)),
        },
        packages=("numpy", "scipy", "scikit-learn", "fairlearn"),
    )


def draw(n: int) -> tuple[BoolArray, FloatArray, np.ndarray]:
    """Draw labels, scores with ties as in `bias_aucs`, and one group per row; -1 is the rest."""
    rng = np.random.default_rng(SEED)
    y_true = rng.random(n) < 0.08
    y_score = (rng.beta(1, 5, n) + 0.3 * y_true).round(4).astype(np.float32)
    column = (rng.random(n) / SHARE).astype(int)
    return y_true, y_score, np.where(column < GROUPS, column, -1)


def by_masks(
    y_true: BoolArray, y_score: FloatArray, masks: dict[str, BoolArray]
) -> dict[str, float]:
    """Subgroup AUCs by scikit-learn."""
    return {name: float(roc_auc_score(y_true[m], y_score[m])) for name, m in masks.items()}


def by_mannwhitneyu(
    y_true: BoolArray, y_score: FloatArray, masks: dict[str, BoolArray]
) -> dict[str, float]:
    """Subgroup AUCs by scipy: the U statistic as a share of all pairs."""
    # It counts in the dtype of its samples: in float32 it is off by 3e-8.
    aucs, y_score = {}, y_score.astype(np.float64)
    for name, mask in masks.items():
        positive, negative = y_score[mask & y_true], y_score[mask & ~y_true]
        found = mannwhitneyu(positive, negative, method="asymptotic")
        aucs[name] = float(found.statistic / (positive.size * negative.size))
    return aucs


def largest_differences(found: dict[str, Any], names: list[str]) -> dict[str, float]:
    """Compare everyone's Subgroup AUCs, which must be equal."""
    own = subgroup_aucs(found["values"], names, "value")
    by_group = found["fairlearn"].by_group
    others = {
        "scipy": [found["scipy"][name] for name in names],
        "scikit-learn": [found["scikit-learn"][name] for name in names],
        "fairlearn": [float(by_group[int(name)]) for name in names],
    }
    differences = {
        f"largest difference to {rival}": float(np.abs(np.subtract(own, values)).max())
        for rival, values in others.items()
    }
    for rival, difference in differences.items():
        assert difference <= 1e-12, f"{rival} is {difference}"
    return differences


def standard_errors(found: dict[str, Any], names: list[str]) -> dict[str, float]:
    """Compare the standard errors: of the median group, and their ratio to DeLong's."""
    low, high = found["fairlearn bootstrap"].by_group_ci
    errors = {
        "DeLong": subgroup_aucs(found["intervals"], names, "std_error"),
        "fairlearn bootstrap": [float(high[int(n)] - low[int(n)]) / 2 for n in names],
    }
    ratios = {
        f"standard error by {name} / DeLong": median(np.divide(each, errors["DeLong"]).tolist())
        for name, each in errors.items()
        if name != "DeLong"
    }
    for name, ratio in ratios.items():
        assert abs(ratio - 1) < SAME_ERROR, f"{name} is {ratio}"
    medians = {f"standard error by {name}": median(each) for name, each in errors.items()}
    return medians | ratios


def subgroup_aucs(report: Any, names: list[str], part: str) -> list[float]:
    """Return one part of each group's Subgroup AUC."""
    return [float(getattr(report.subgroups[n].subgroup_auc, part)) for n in names]
