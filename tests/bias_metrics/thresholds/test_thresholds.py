"""Errors at a threshold: by hand, from theory and the reference's rule, by loops and sklearn."""

from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import equal_error_rate, error_rates, threshold_table

RATES = ("false_positive_rate", "false_negative_rate", "precision", "recall", "accuracy")
EXACT = 1e-12


def draw_rows(seed, n=200, dtype=np.float64, *, weighted=False):
    """Labels, scores on a grid of tenths with many ties, a subgroup and weights."""
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.4
    scores = ((rng.integers(0, 8, n) + 2 * y_true) / 10).astype(dtype)
    return y_true, scores, rng.random(n) < 0.3, rng.random(n) + 0.01 if weighted else None


# By hand.


def test_the_errors_of_seven_rows_are_those_counted_by_hand():
    y_true, y_score = [1, 1, 1, 1, 0, 0, 0], [0.9, 0.5, 0.4, 0.1, 0.8, 0.3, 0.2]
    errors = error_rates(y_true, y_score, threshold=0.5)
    assert (errors.n_true_positive, errors.n_false_negative) == (2, 2)
    assert (errors.n_false_positive, errors.n_true_negative) == (1, 2)
    assert errors.false_positive_rate.value == 1 / 3
    assert errors.false_negative_rate.value == 2 / 4
    assert errors.precision.value == 2 / 3
    assert errors.recall.value == 2 / 4
    assert errors.accuracy.value == 4 / 7


def test_a_score_equal_to_the_threshold_is_flagged_in_the_dtype_of_the_scores():
    for dtype in (np.float32, np.float64):
        score = np.array([0.7], dtype=dtype)
        assert error_rates([1], score, threshold=0.7).n_true_positive == 1
        assert (
            threshold_table([1], score, {}, thresholds=[0.7]).overall.get_rates(0).recall.value == 1
        )


def test_a_threshold_beyond_the_dtype_of_the_scores_flags_none():
    score = np.array([0.7], dtype=np.float32)
    assert error_rates([1], score, threshold=1e300).n_true_positive == 0


def test_weights_stand_for_rows_in_the_counts():
    weighted = error_rates([1, 0, 0], [0.9, 0.8, 0.1], threshold=0.5, sample_weight=[2, 3, 4])
    assert (weighted.n_true_positive, weighted.n_false_positive) == (2, 3)
    assert weighted.accuracy.value == 6 / 9


def test_the_equal_error_threshold_of_seven_rows_is_the_one_found_by_hand():
    # FPR, FNR at .3: 3/3, 0/4; .5: 2/3, 1/4; .6: 1/3, 1/4; .7: 1/3, 2/4; ...
    y_true, y_score = [0, 0, 0, 1, 1, 1, 1], [0.3, 0.5, 0.8, 0.4, 0.6, 0.7, 0.9]
    equal = equal_error_rate(y_true, y_score)
    assert equal.threshold == 0.6
    assert equal.false_positive_rate.value == 1 / 3
    assert equal.false_negative_rate.value == 1 / 4
    assert equal.rate.value == (1 / 3 + 1 / 4) / 2


@pytest.mark.parametrize("sample_weight", [None, [1.0] * 4, [0.1] * 4])
def test_of_two_thresholds_as_good_the_lowest_is_taken(sample_weight):
    # at .2 FPR 1/2 and FNR 0, at .3 FPR 1/2 and FNR 1/2, at .4 FPR 0 and FNR 1/2
    assert equal_error_rate([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]).threshold == 0.3
    # at .2 the FPR is 1/2 above the FNR, at .4 it is 1/2 below it
    tied = equal_error_rate([0, 0, 1, 1], [0.1, 0.2, 0.2, 0.4], sample_weight=sample_weight)
    assert (tied.threshold, tied.rate.value) == (0.2, pytest.approx(0.25, abs=EXACT))


@pytest.mark.parametrize("unit", [1, 0.1])
def test_rounding_of_fractional_weights_breaks_no_tie(unit):
    # at .2 the FPR is 1/3 and the FNR 1/6, at .3 they are 0 and 1/6
    y_true, y_score = [0, 1, 0, 1, 1, 1], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    weight = unit * np.array([2, 1, 1, 3, 1, 1])
    assert equal_error_rate(y_true, y_score, sample_weight=weight).threshold == 0.2


def test_the_table_of_four_rows_is_that_counted_by_hand():
    table = threshold_table(
        [0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8], {"g": [0, 0, 1, 1], "none": [0] * 4}
    )
    assert table.thresholds.tolist() == [0.1, 0.4, 0.8]
    overall, group = table.overall, table.subgroups["g"]
    assert overall.rate("false_positive_rate").tolist() == [1, 1 / 2, 0]
    assert overall.rate("precision").tolist() == [2 / 4, 2 / 3, 1]
    assert overall.rate("recall").tolist() == [1, 1, 1 / 2]
    assert group.rate("false_positive_rate").tolist() == [1, 1, 0]
    assert group.rate("accuracy").tolist() == [1 / 2, 1 / 2, 1]


# Published: theory of two normal distributions, and the reference implementation's rule.


def test_the_equal_error_rate_of_two_normal_distributions_is_half_their_distance_away():
    # Equal variances d apart cross at d / 2, where both rates are the normal cdf of -d / 2.
    normal, n = NormalDist(), 4001
    distance = 2**0.5 * normal.inv_cdf(0.93)
    grid = np.array([normal.inv_cdf((i + 0.5) / n) for i in range(n)])
    equal = equal_error_rate(np.repeat([0, 1], n), np.concatenate([grid, grid + distance]))
    assert equal.threshold == pytest.approx(distance / 2, abs=1e-3)
    assert equal.rate.value == pytest.approx(normal.cdf(-distance / 2), abs=1 / n)


def apply_reference(y_true, y_score):
    """Walk up the grid until the difference of the counts grows, as the reference does."""
    threshold, smallest = None, np.inf
    for t in np.linspace(0, 1, 101):
        difference = abs(
            np.count_nonzero((y_score < t) & y_true) - np.count_nonzero((y_score >= t) & ~y_true)
        )
        if difference > smallest:
            break
        threshold, smallest = t, difference
    return threshold


@pytest.mark.parametrize("seed", range(20))
def test_counts_find_the_threshold_of_the_reference_implementation(seed):
    rng = np.random.default_rng(seed)
    y_true = rng.random(300) < rng.uniform(0.05, 0.9)
    scores = np.clip(rng.normal(0.3 + 0.3 * y_true, 0.2), 0, 1)
    if seed % 2:
        scores = scores.round(1)  # long plateaus: the reference keeps the last of equals
    assert equal_error_rate(y_true, scores, method="counts").threshold == apply_reference(
        y_true, scores
    )


def test_counts_of_weighted_rows_are_equal_but_for_rounding():
    # Up to .5: 2 false positives; from there to .75: 1, and 3 false negatives. The same gap.
    y_true, y_score, weights = [0, 1, 0], [0.5, 0.5, 0.75], np.array([1, 3, 1])
    for factor in (1, 0.1, 1e8 / 3):
        equal = equal_error_rate(y_true, y_score, method="counts", sample_weight=factor * weights)
        assert equal.threshold == 0.75


def test_counts_equalise_no_rates_when_the_classes_differ_in_size():
    y_true = np.repeat([False, True], [90, 10])
    y_score = np.concatenate([np.arange(90) / 100, np.arange(5, 100, 10) / 100 + 0.04])
    by_rates, by_counts = (equal_error_rate(y_true, y_score, method=m) for m in ("rates", "counts"))
    assert by_rates.rate.value == pytest.approx(0.45, abs=0.05)
    assert by_counts.threshold > by_rates.threshold + 0.3
    assert by_counts.false_negative_rate.value > by_counts.false_positive_rate.value + 0.6


# Oracles.


def count_errors(y_true, y_score, threshold, weight):
    """Count row by row: [true positive, false positive, true negative, false negative]."""
    counts = dict.fromkeys([(True, True), (False, True), (False, False), (True, False)], 0.0)
    for label, score, w in zip(y_true, y_score, weight, strict=True):
        counts[bool(label), bool(score >= threshold)] += float(w)
    return list(counts.values())


def list_counts(errors):
    return [
        getattr(errors, f"n_{name}")
        for name in ("true_positive", "false_positive", "true_negative", "false_negative")
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_equals_a_loop_over_thresholds_and_rows(dtype, weighted):
    y_true, y_score, members, weight = draw_rows(0, dtype=dtype, weighted=weighted)
    ones = np.ones(y_true.size)
    table = threshold_table(y_true, y_score, {"g": members}, sample_weight=weight)
    everyone = np.ones(y_true.size, dtype=bool)
    for rows, curve in [(everyone, table.overall), (members, table.subgroups["g"])]:
        for i, threshold in enumerate(table.thresholds):
            naive = count_errors(
                y_true[rows], y_score[rows], threshold, (weight if weighted else ones)[rows]
            )
            at_once = curve.get_rates(i)
            assert list_counts(at_once) == pytest.approx(naive, abs=1e-10)
            rates = error_rates(
                y_true[rows],
                y_score[rows],
                threshold=threshold,
                sample_weight=weight[rows] if weighted else None,
            )
            assert list_counts(rates) == pytest.approx(naive, abs=1e-10)
            for name in RATES:
                assert curve.rate(name).tolist()[i] == at_once.rate(name).value
                assert getattr(at_once, name) == at_once.rate(name)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_equal_error_rate_equals_a_loop_over_the_scores(seed, weighted):
    y_true, y_score, _, weight = draw_rows(seed, weighted=weighted)
    best = None
    for t in sorted(set(y_score.tolist())):
        ones = np.ones(y_true.size)
        tp, fp, tn, fn = count_errors(y_true, y_score, t, weight if weighted else ones)
        fpr, fnr = fp / (fp + tn), fn / (fn + tp)
        if best is None or abs(fpr - fnr) < best[0]:
            best = abs(fpr - fnr), t, (fpr + fnr) / 2
    equal = equal_error_rate(y_true, y_score, sample_weight=weight)
    assert (equal.threshold, equal.rate.value) == (best[1], pytest.approx(best[2], abs=EXACT))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_equals_the_curves_of_scikit_learn(weighted):
    metrics = pytest.importorskip("sklearn.metrics")
    y_true, y_score, members, weight = draw_rows(3, 3000, weighted=weighted)
    table = threshold_table(y_true, y_score, {"g": members}, sample_weight=weight)
    everyone = np.ones(y_true.size, dtype=bool)
    for rows, curve in [(everyone, table.overall), (members, table.subgroups["g"])]:
        own = None if weight is None else weight[rows]
        fpr, tpr, thresholds = metrics.roc_curve(
            y_true[rows], y_score[rows], sample_weight=own, drop_intermediate=False
        )
        np.testing.assert_array_equal(thresholds[:0:-1], curve.thresholds)
        np.testing.assert_allclose(curve.rate("false_positive_rate"), fpr[:0:-1], atol=EXACT)
        np.testing.assert_allclose(curve.rate("recall"), tpr[:0:-1], atol=EXACT)
        np.testing.assert_allclose(curve.rate("false_negative_rate"), 1 - tpr[:0:-1], atol=EXACT)
        precision, _, _ = metrics.precision_recall_curve(
            y_true[rows], y_score[rows], sample_weight=own
        )
        np.testing.assert_allclose(curve.rate("precision"), precision[:-1], atol=EXACT)
        accuracy = metrics.accuracy_score(y_true[rows], y_score[rows] >= 0.5, sample_weight=own)
        place = int(np.flatnonzero(curve.thresholds == 0.5)[0])
        assert curve.rate("accuracy")[place] == pytest.approx(accuracy, abs=EXACT)


# Undefined, and plain values.


@pytest.mark.parametrize(
    ("y_true", "y_score", "rate", "reason"),
    [
        ([1], [0.9], "false_positive_rate", "no negatives"),
        ([0], [0.9], "false_negative_rate", "no positives"),
        ([0], [0.9], "recall", "no positives"),
        ([1], [0.2], "precision", "no flagged rows"),
        ([], [], "accuracy", "no rows"),
    ],
)
def test_a_rate_over_no_rows_is_undefined_with_its_reason(y_true, y_score, rate, reason):
    value = getattr(error_rates(y_true, y_score, threshold=0.5), rate)
    assert (value.value, value.reason) == (None, reason)
    assert error_rates(y_true, y_score, threshold=0.5).to_dict()[rate]["reason"] == reason


@pytest.mark.parametrize("method", ["rates", "counts"])
@pytest.mark.parametrize(
    ("y_true", "reason"),
    [([1, 1], "no negatives"), ([0, 0], "no positives")],
)
def test_without_a_class_there_are_no_equal_errors(method, y_true, reason):
    equal = equal_error_rate(y_true, [0.1, 0.2], method=method)
    assert equal.threshold is None
    assert {equal.rate.reason, equal.false_positive_rate.reason} == {reason}
    assert equal.to_dict()["rate"] == {"value": None, "reason": reason}


def test_undefined_rates_are_masked_over_a_0_and_none_in_plain_values():
    table = threshold_table([0, 1], [0.2, 0.4], {"g": [1, 0]}, thresholds=[0.1, 0.3])
    precision = table.subgroups["g"].rate("precision")
    assert precision.mask.tolist() == [False, True]
    assert precision.data.tolist() == [0.0, 0.0]
    plain = table.to_dict()
    assert plain["thresholds"] == [0.1, 0.3]
    assert plain["subgroups"]["g"]["precision"] == [0.0, None]
    assert plain["subgroups"]["g"]["recall"] == [None, None]
    assert plain["overall"]["recall"] == [1.0, 1.0]


def test_thresholds_are_taken_in_the_order_given():
    table = threshold_table([0, 1], [0.2, 0.4], {}, thresholds=[0.3, 0.1])
    assert table.overall.rate("false_positive_rate").tolist() == [0, 1]


def test_a_table_without_rows_has_no_thresholds():
    table = threshold_table([], [], {"g": []})
    assert table.to_dict()["subgroups"]["g"]["accuracy"] == []


# Refusals.


@pytest.mark.parametrize("threshold", [np.nan, np.inf])
def test_a_threshold_that_is_not_finite_is_refused(threshold):
    message = f"^`threshold` must be a finite number; got {threshold}.$"
    with pytest.raises(ValueError, match=message):
        error_rates([0, 1], [0.1, 0.2], threshold=threshold)
    with pytest.raises(ValueError, match=r"^`thresholds` must be finite; got"):
        threshold_table([0, 1], [0.1, 0.2], {}, thresholds=[0.1, threshold])


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match=r"^`method` must be one of rates, counts; got 'best'.$"):
        equal_error_rate([0, 1], [0.1, 0.2], method="best")
