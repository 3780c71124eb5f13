"""FPED and FNED: by hand, as printed by Dixon et al. (2018), naive loops, scikit-learn."""

import re
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import equal_error_rate, fned, fped

METRICS = {"fped": fped, "fned": fned}
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)

# Ten rows; at .5 the FPR is 2/6 of all, 2/3 of gay, 0/2 of tall; the FNR 2/4, 1/2 and 1/1.
BY_HAND = (
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1],
    [0.1, 0.5, 0.9, 0.2, 0.3, 0.4, 0.9, 0.1, 0.2, 0.8],
    {"gay": [1, 1, 1, 0, 0, 0, 1, 1, 0, 0], "tall": [0, 0, 0, 1, 1, 0, 0, 0, 1, 0]},
)


# By hand.


def test_both_differences_of_ten_rows_are_those_counted_by_hand():
    positives = fped(*BY_HAND, threshold=0.5)
    assert positives.overall.value == 2 / 6
    assert {n: rate.value for n, rate in positives.subgroups.items()} == {"gay": 2 / 3, "tall": 0}
    assert positives.value.value == pytest.approx(abs(2 / 6 - 2 / 3) + abs(2 / 6 - 0))
    negatives = fned(*BY_HAND, threshold=0.5)
    assert negatives.overall.value == 2 / 4
    assert {n: term.value for n, term in negatives.terms.items()} == {"gay": 0, "tall": 1 / 2}
    assert negatives.value.value == 1 / 2


@every_metric
def test_the_threshold_comes_from_the_general_set_and_else_from_the_measured_rows(metric):
    general = [0, 0, 1, 1], [0.1, 0.3, 0.35, 0.9]
    difference = metric(*BY_HAND, threshold_set=general)
    assert difference.threshold == 0.35
    assert difference.to_dict() == metric(*BY_HAND, threshold=0.35).to_dict()
    own = metric(*BY_HAND)
    assert own.threshold == equal_error_rate(*BY_HAND[:2]).threshold
    assert own.to_dict() == metric(*BY_HAND, threshold=own.threshold).to_dict()


# Published.


def test_a_sum_over_terms_and_models_is_as_many_times_a_sum_over_terms():
    # Table 5 of Dixon et al. prints 74.13 for 50 terms and 10 models; a model's value is 7.41.
    y_true, y_score, groups = BY_HAND
    models = {f"{name} {model}": mask for name, mask in groups.items() for model in range(10)}
    single = fped(y_true, y_score, groups, threshold=0.5).value.value
    assert fped(y_true, y_score, models, threshold=0.5).value.value == pytest.approx(10 * single)


def test_shifted_groups_have_the_rates_of_their_normal_distributions():
    # As in Table 3: normal scores with an AUC of .93, one of three groups shifted by 3.13.
    normal, n = NormalDist(), 2001
    grid = np.array([normal.inv_cdf((i + 0.5) / n) for i in range(n)])
    distance, shift = 2**0.5 * normal.inv_cdf(0.93), 3.13
    shifts = {"tall": 0.0, "average": 0.0, "short": shift}
    scores = np.concatenate([grid + s + d for s in shifts.values() for d in (0, distance)])
    y_true = np.tile(np.repeat([0, 1], n), 3)
    groups = {name: np.repeat(np.arange(3), 2 * n) == i for i, name in enumerate(shifts)}
    t = 1.5
    fpr = {name: normal.cdf(s - t) for name, s in shifts.items()}
    fnr = {name: normal.cdf(t - s - distance) for name, s in shifts.items()}
    for metric, rates in [(fped, fpr), (fned, fnr)]:
        mean = sum(rates.values()) / 3
        expected = sum(abs(mean - rate) for rate in rates.values())
        difference = metric(y_true, scores, groups, threshold=t)
        assert difference.value.value == pytest.approx(expected, abs=3 / n)


# Oracles.


def draw_rows(seed, dtype):
    rng = np.random.default_rng(seed)
    y_true = rng.random(300) < 0.4
    scores = ((rng.integers(0, 8, 300) + 2 * y_true) / 10).astype(dtype)
    return y_true, scores, {name: rng.random(300) < 0.2 for name in "abc"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
@every_metric
def test_it_equals_a_loop_over_subgroups_and_rows(metric, seed, dtype):
    y_true, y_score, groups = draw_rows(seed, dtype)
    label = metric is fned

    def compute_rate(rows):
        of_class = [i for i in range(300) if rows[i] and y_true[i] == label]
        return sum((y_score[i] >= dtype(0.7)) != label for i in of_class) / len(of_class)

    overall = compute_rate([True] * 300)
    expected = sum(abs(overall - compute_rate(mask)) for mask in groups.values())
    difference = metric(y_true, y_score, groups, threshold=0.7)
    assert difference.value.value == pytest.approx(expected, abs=1e-12)


@every_metric
def test_it_equals_the_confusion_matrices_of_scikit_learn(metric):
    metrics = pytest.importorskip("sklearn.metrics")
    y_true, y_score, groups = draw_rows(4, np.float64)
    difference = metric(y_true, y_score, groups)

    def compute_rate(rows):
        flags = y_score[rows] >= difference.threshold
        matrix = metrics.confusion_matrix(y_true[rows], flags, normalize="true")
        return matrix[0, 1] if metric is fped else matrix[1, 0]

    overall = compute_rate(np.ones(300, dtype=bool))
    assert difference.overall.value == pytest.approx(overall, abs=1e-12)
    expected = sum(abs(overall - compute_rate(mask)) for mask in groups.values())
    assert difference.value.value == pytest.approx(expected, abs=1e-12)


# Undefined.


def test_a_subgroup_without_the_class_makes_the_sum_undefined_and_is_named():
    groups = {"gay": [1, 1, 0], "other_gender": [0, 0, 0], "tall": [0, 1, 1]}
    difference = fped([0, 0, 1], [0.1, 0.9, 0.8], groups, threshold=0.5)
    assert difference.value.value is None
    assert difference.value.reason == "undefined for other_gender (no negatives)"
    assert difference.terms["gay"].value == 0
    plain = difference.to_dict()
    assert plain["terms"]["other_gender"] == {"value": None, "reason": "no negatives"}
    reason = "undefined for other_gender (no positives)"
    assert fned([1, 0, 1], [0.1, 0.9, 0.8], groups, threshold=0.5).value.reason == reason


@pytest.mark.parametrize(
    ("metric", "y_true", "reason"),
    [(fped, [1, 1], "no negatives"), (fned, [0, 0], "no positives")],
)
def test_without_the_class_at_all_everything_is_undefined(metric, y_true, reason):
    difference = metric(y_true, [0.1, 0.9], {"gay": [1, 0]}, threshold=0.5)
    assert (
        difference.value.reason
        == difference.overall.reason
        == difference.terms["gay"].reason
        == reason
    )


@every_metric
def test_without_subgroups_there_is_no_sum(metric):
    assert metric([0, 1], [0.1, 0.9], {}).value.reason == "no subgroups"


@every_metric
def test_a_threshold_set_of_one_class_sets_no_threshold(metric):
    difference = metric(*BY_HAND, threshold_set=([1, 1], [0.1, 0.2]))
    assert difference.threshold is None
    assert difference.value.reason == "no threshold of equal errors: no negatives"
    assert difference.terms["gay"].reason == difference.value.reason


# Refusals.


@every_metric
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"threshold": 0.5, "threshold_set": ([0, 1], [0.1, 0.2])},
            "`threshold` and `threshold_set` must not both be given.",
        ),
        ({"threshold": np.inf}, "`threshold` must be a finite number; got inf."),
        (
            {"threshold_set": ([0, 1], [0.1, 0.2], [1, 1])},
            "`threshold_set` must be a pair of labels and scores; got 3 arrays.",
        ),
        (
            {"threshold_set": ([0, 1], [0.1])},
            "`threshold_set[1]` must have 2 rows like `threshold_set[0]`; got 1.",
        ),
    ],
)
def test_wrong_thresholds_are_refused(metric, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        metric(*BY_HAND, **options)
