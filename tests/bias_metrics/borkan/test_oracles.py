"""Evidence 3: slow or third-party implementations on random data with many ties, to 1e-12."""

from dataclasses import dataclass

import numpy as np
import pytest

import bias_metrics
from bias_metrics import evaluate_bias, power_mean

EXACT = 1e-12
SUBGROUP_METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


@dataclass(frozen=True)
class Rows:
    y_true: np.ndarray
    y_score: np.ndarray
    in_subgroup: np.ndarray
    sample_weight: np.ndarray | None

    def weights(self):
        return np.ones(self.y_true.size) if self.sample_weight is None else self.sample_weight


def draw_rows(seed, n, *, dtype, weights):
    """Draw scores from a grid of tenths, which float32 and float64 round differently."""
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.4
    in_subgroup = rng.random(n) < 0.3
    grid = rng.integers(0, 8, n) + 2 * y_true + in_subgroup
    sample_weight = {
        "unweighted": None,
        "integer weights": rng.integers(0, 4, n),
        "fractional weights": rng.random(n) + 0.01,
    }[weights]
    return Rows(y_true, (grid / 10).astype(dtype), in_subgroup, sample_weight)


@pytest.fixture(params=["unweighted", "integer weights", "fractional weights"])
def weights(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


def compute_naive_auc(rows, lower, upper):
    """Compute P(upper > lower) + P(equal) / 2 by a double loop over all pairs."""
    weight, score = rows.weights(), rows.y_score
    wins = pairs = 0.0
    for i in np.flatnonzero(lower):
        for j in np.flatnonzero(upper):
            pair = float(weight[i]) * float(weight[j])
            pairs += pair
            wins += pair * (1.0 if score[j] > score[i] else 0.5 if score[j] == score[i] else 0.0)
    return wins / pairs


def compute_expected_metrics(rows, auc):
    """Compute the metrics by their definitions, for any implementation of AUC(lower, upper)."""
    y, g = rows.y_true, rows.in_subgroup
    return {
        "roc_auc": auc(rows, ~y, y),
        "subgroup_auc": auc(rows, ~y & g, y & g),
        "bpsn_auc": auc(rows, ~y & g, y & ~g),
        "bnsp_auc": auc(rows, ~y & ~g, y & g),
        "positive_aeg": auc(rows, y & ~g, y & g) - 0.5,
        "negative_aeg": auc(rows, ~y & ~g, ~y & g) - 0.5,
    }


def measure_metrics(rows):
    arrays = (rows.y_true, rows.y_score, rows.in_subgroup)
    measured = {
        name: getattr(bias_metrics, name)(*arrays, sample_weight=rows.sample_weight).value
        for name in SUBGROUP_METRICS
    }
    overall = bias_metrics.roc_auc(*arrays[:2], sample_weight=rows.sample_weight)
    return measured | {"roc_auc": overall.value}


@pytest.mark.parametrize("seed", range(3))
def test_every_metric_equals_a_double_loop_over_the_pairs(seed, dtype, weights):
    rows = draw_rows(seed, 70, dtype=dtype, weights=weights)
    expected = compute_expected_metrics(rows, compute_naive_auc)
    assert measure_metrics(rows) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("seed", range(3))
def test_every_metric_equals_scikit_learn_on_the_masked_rows(seed, dtype, weights):
    sklearn_metrics = pytest.importorskip("sklearn.metrics")

    def sklearn_auc(rows, lower, upper):
        either = lower | upper
        return sklearn_metrics.roc_auc_score(
            upper[either], rows.y_score[either], sample_weight=rows.weights()[either]
        )

    rows = draw_rows(seed, 3000, dtype=dtype, weights=weights)
    expected = compute_expected_metrics(rows, sklearn_auc)
    assert measure_metrics(rows) == pytest.approx(expected, abs=EXACT)


def test_unweighted_metrics_are_exact_fractions_of_whole_pairs():
    rows = draw_rows(7, 3000, dtype=np.float32, weights="unweighted")
    y, g = rows.y_true, rows.in_subgroup
    lower, upper = rows.y_score[~y & g], rows.y_score[y & ~g]
    doubled = 2 * (upper[:, None] > lower).sum() + (upper[:, None] == lower).sum()
    measured = bias_metrics.bpsn_auc(y, rows.y_score, g).value
    assert measured == int(doubled) / (2 * lower.size * upper.size)


def compute_kaggle_mean(values, power):
    """Compute the power mean by the formula of the competition's evaluation page."""
    return np.power(np.sum(np.power(values, power)) / len(values), 1 / power)


@pytest.mark.parametrize("power", [-5, -1, -0.5, 0.5, 1, 3])
def test_power_mean_equals_the_formula_of_the_competition(power):
    values = np.random.default_rng(0).uniform(0.3, 1, 24)
    expected = compute_kaggle_mean(values, power)
    assert power_mean(values, power) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("power", [-5, -1, -0.5, 0.5, 1, 3])
def test_power_mean_equals_scipy(power):
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(1).uniform(0.3, 1, 24)
    assert power_mean(values, power) == pytest.approx(stats.pmean(values, power), abs=EXACT)


def test_a_report_equals_the_double_loop_and_the_formula_of_the_competition(dtype, weights):
    rows = draw_rows(11, 80, dtype=dtype, weights=weights)
    groups = {"g": rows.in_subgroup, "high": np.arange(80) % 3 == 0, "rest": ~rows.in_subgroup}
    report = evaluate_bias(rows.y_true, rows.y_score, groups, sample_weight=rows.sample_weight)
    expected = {
        name: compute_expected_metrics(
            Rows(rows.y_true, rows.y_score, mask, rows.sample_weight), compute_naive_auc
        )
        for name, mask in groups.items()
    }
    for name, bias in report.subgroups.items():
        measured = {metric: getattr(bias, metric).value for metric in SUBGROUP_METRICS}
        overall = expected[name].pop("roc_auc")
        assert measured == pytest.approx(expected[name], abs=EXACT)
        assert report.overall.auc.value == pytest.approx(overall, abs=EXACT)
    means = {
        metric: compute_kaggle_mean([of_group[metric] for of_group in expected.values()], -5)
        for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc")
    }
    measured_means = {metric: report.overall[metric].value for metric in means}
    assert measured_means == pytest.approx(means, abs=EXACT)
    final = 0.25 * overall + 0.75 * np.average(list(means.values()))
    assert report.overall.final_score.value == pytest.approx(final, abs=EXACT)
