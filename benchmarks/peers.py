"""Subgroup AUC of 24 groups at 10,000 rows, against fairlearn, scipy and scikit-learn.

The groups of fairlearn's `MetricFrame` are the values of a column, so each row belongs to a single
group. The rows here are therefore split into 24 groups and a rest; overlapping identities would
need a frame each. This library's contenders compute five metrics per group and the aggregates. The
others compute only Subgroup AUC, which must agree.

Standard errors: ours by DeLong, fairlearn's from the quantiles of its bootstrap at plus and minus a
standard deviation of a normal distribution.

aif360 and Aequitas are left out: their metrics are about decisions, and they have no AUC by group.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
from fairlearn.metrics import MetricFrame
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score

from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from benchmarks.bias_aucs import GROUPS, ROUNDS, SEED, draw_scores
from bias_metrics import evaluate_bias
from bias_metrics._core.checks import BoolArray, FloatArray

ROWS, REPLICATES = 10_000, 200
SHARE = 0.03
ONE_SIGMA = (0.158655, 0.841345)
REPEATS = {"values": 5, "intervals": 5, "scipy": 3, "scikit-learn": 3, "fairlearn": 3}
# The standard error of a bootstrap of 200 replicates is off by about 5 % by chance.
SAME_ERROR = 0.25


def measure(rows: int | None = None) -> Measurement:
    """Time all contenders in turns; values must be equal, and standard errors must agree."""
    n, rng = rows or ROWS, np.random.default_rng(SEED)
    y_true, y_score = draw_scores(rng, n)
    column = (rng.random(n) / SHARE).astype(int)
    column = np.where(column < GROUPS, column, -1)  # -1 is the rest
    masks = {str(group): column == group for group in np.unique(column)}

    def make_frame(**options: Any) -> MetricFrame:
        """Construct a frame, which computes its figures."""
        features = {"y_true": y_true, "y_pred": y_score, "sensitive_features": column}
        return MetricFrame(metrics=roc_auc_score, **features, **options)

    bootstrap = {"n_boot": REPLICATES, "ci_quantiles": list(ONE_SIGMA), "random_state": SEED}
    seconds, results = time_contenders(
        {
            "values": lambda: evaluate_bias(y_true, y_score, masks, intervals=False),
            "intervals": lambda: evaluate_bias(y_true, y_score, masks),
            "scipy": lambda: measure_by_scipy(y_true, y_score, masks),
            "scikit-learn": lambda: {
                name: float(roc_auc_score(y_true[mask], y_score[mask]))
                for name, mask in masks.items()
            },
            "fairlearn": make_frame,
            "fairlearn bootstrap": lambda: make_frame(**bootstrap),
        },
        ROUNDS,
        REPEATS,
    )
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
                int((mask & rows_of_class).sum())
                for mask in masks.values()
                for rows_of_class in (y_true, ~y_true)
            ),
            "replicates": REPLICATES,
            "rounds": ROUNDS,
            "seed": SEED,
        },
        figures={
            **{f"seconds of {name}": median(times) for name, times in seconds.items()},
            **ratios,
            **compare_values(results, list(masks)),
            **compare_errors(results, list(masks)),
        },
        packages=("numpy", "scipy", "scikit-learn", "fairlearn"),
    )


def measure_by_scipy(
    y_true: BoolArray, y_score: FloatArray, masks: dict[str, BoolArray]
) -> dict[str, float]:
    """Compute Subgroup AUCs by scipy: the U statistic as a share of all pairs."""
    # It counts in the dtype of its samples: in float32 it is off by 3e-8.
    aucs, y_score = {}, y_score.astype(np.float64)
    for name, mask in masks.items():
        positive, negative = y_score[mask & y_true], y_score[mask & ~y_true]
        u = mannwhitneyu(positive, negative, method="asymptotic").statistic
        aucs[name] = float(u / (positive.size * negative.size))
    return aucs


def compare_values(results: dict[str, Any], names: list[str]) -> dict[str, float]:
    """Compare all Subgroup AUCs, which must be equal."""
    own = select_aucs(results["values"], names, "value")
    by_group = results["fairlearn"].by_group
    rivals = {
        "scipy": [results["scipy"][name] for name in names],
        "scikit-learn": [results["scikit-learn"][name] for name in names],
        "fairlearn": [float(by_group[int(name)]) for name in names],
    }
    differences = {
        f"largest difference to {rival}": float(np.abs(np.subtract(own, values)).max())
        for rival, values in rivals.items()
    }
    for rival, difference in differences.items():
        assert difference <= 1e-12, f"{rival} is {difference}"
    return differences


def compare_errors(results: dict[str, Any], names: list[str]) -> dict[str, float]:
    """Compare the standard errors: of the median group, and their ratio to DeLong's."""
    low, high = results["fairlearn bootstrap"].by_group_ci
    own = select_aucs(results["intervals"], names, "std_error")
    rival = [float(high[int(name)] - low[int(name)]) / 2 for name in names]
    ratio = median(np.divide(rival, own).tolist())
    assert abs(ratio - 1) < SAME_ERROR, f"the standard errors' ratio to DeLong's is {ratio}"
    return {
        "standard error by DeLong": median(own),
        "standard error by fairlearn bootstrap": median(rival),
        "standard error by fairlearn bootstrap / DeLong": ratio,
    }


def select_aucs(report: Any, names: list[str], part: str) -> list[float]:
    """Return a part of all groups' Subgroup AUCs."""
    return [float(getattr(report.subgroups[name].subgroup_auc, part)) for name in names]
