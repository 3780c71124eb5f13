"""The loss that would be shown, and the rows for a margin: by hand and against draws."""

import math

import numpy as np
import pytest

from bias_metrics import MetricValue, compare_bias, evaluate_bias
from bias_metrics._core.covariance import JointMoments
from bias_metrics._core.differences import PairedError
from bias_metrics.gate import Evidence, Rule, judge_rules
from bias_metrics.gate.power import rows_for_margin, rows_needed, visible_loss

QUANTILE = 1.644854  # of the normal distribution, at 95 %


@pytest.mark.parametrize(
    ("confidence", "quantile"), [(0.95, 1.644854), (0.975, 1.959964), (0.99, 2.326348)]
)
def test_a_visible_loss_is_the_reach_and_what_the_power_adds(confidence, quantile):
    times = 1 + 0.841621 / quantile
    assert visible_loss(0.13, confidence) == pytest.approx(0.13 * times, abs=1e-6)


def test_a_visible_loss_is_shown_in_four_of_five_samples():
    loss = visible_loss(QUANTILE * 0.05, 0.95)
    changes = np.random.default_rng(2).normal(-loss, 0.05, size=200_000)
    assert np.mean(changes + QUANTILE * 0.05 < 0) == pytest.approx(0.8, abs=0.005)


def test_an_exact_difference_shows_any_loss():
    assert visible_loss(0.0, 0.95) == 0


@pytest.mark.parametrize(
    ("n", "reach", "margin", "more"),
    [
        (20, 0.10, 0.05, 60),  # half the reach takes four times the rows: 80
        (7, 0.15, 0.05, 56),  # nine times: 63, though .15 / .05 is not quite 3
        (7, 0.03, 0.01, 56),
        (10, 0.06, 0.05, 5),  # 14.4, so 15
        (1, 0.10, 0.05, 3),
        (50, 0.05, 0.05, 0),
        (50, 0.01, 0.05, 0),
        (50, 0.0, 0.05, 0),
    ],
)
def test_rows_grow_with_the_square_of_the_reach(n, reach, margin, more):
    assert rows_needed(n, reach, margin) == more


@pytest.mark.parametrize("reach", [-0.1, math.nan, math.inf])
@pytest.mark.parametrize("function", [visible_loss, rows_needed])
def test_a_reach_that_is_no_distance_is_refused(function, reach):
    rest = (0.95,) if function is visible_loss else (0.05,)
    arguments = (reach, *rest) if function is visible_loss else (20, reach, *rest)
    with pytest.raises(ValueError, match="`reach` must be a number of at least 0"):
        function(*arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: visible_loss(0.1, 0.5), "`confidence` must be between 0.5 and 1"),
        (lambda: visible_loss(0.1, 1.0), "`confidence` must be between 0.5 and 1"),
        (lambda: rows_needed(20, 0.1, 0.0), "`margin` must be above 0"),
        (lambda: rows_needed(20, 0.1, math.nan), "`margin` must be above 0"),
        (lambda: rows_needed(0, 0.1, 0.05), "`n` must be at least 1"),
    ],
)
def test_values_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("margin", "confidence", "is_gap", "auc", "rows"),
    [
        # The table of the guide to policies.
        (0.02, 0.95, False, 0.9, 70),
        (0.02, 0.95, True, 0.9, 104),
        (0.05, 0.95, False, 0.95, 31),
        (0.03, 0.975, False, 0.95, 66),
        (0.10, 0.95, True, 0.9, 21),
    ],
)
def test_a_margin_is_shown_by_just_the_rows_that_it_needs(margin, confidence, is_gap, auc, rows):
    assert rows_for_margin(margin, confidence, is_gap=is_gap, auc=auc) == rows
    level = 2 * confidence - 1

    def compare_counts(n):
        same = MetricValue(0.0 if is_gap else auc, std_error=0.01, low=-1.0, high=1.0)
        errors = PairedError(JointMoments(1e-4, (0, 0, 0, 0)), is_small=False, n_drawn=n)
        return errors.compute_difference(same, same, level, is_gap=is_gap)

    for n, outcome in ((rows, True), (rows - 1, None)):
        assert compare_counts(n).is_non_inferior(margin) is outcome


def test_an_auc_of_chance_needs_few_rows_and_no_margin_is_refused():
    assert rows_for_margin(0.05, 0.95, is_gap=False, auc=0.5) == 2
    with pytest.raises(ValueError, match="`margin` must be above 0"):
        rows_for_margin(0.0, 0.95, is_gap=False)


@pytest.mark.parametrize(("n", "is_needed"), [(30, True), (600, False)])
def test_a_result_has_the_rows_that_a_margin_needs_if_there_are_fewer(n, is_needed):
    rng = np.random.default_rng(0)
    y_true = np.arange(8 * n) % 2 == 1
    groups = {"gay": np.arange(8 * n) < 2 * n}
    true = rng.standard_normal(8 * n) + 2 * y_true
    first, second = (true + 2 * rng.standard_normal(8 * n) for _ in range(2))
    rule = Rule("subgroup_auc", "each", margin=0.02)
    compared = compare_bias(y_true, first, second, groups, confidence=rule.level)
    report = evaluate_bias(y_true, first, groups, confidence=rule.level)
    evidence = Evidence(report.add_numbers(compared, against="champion"))
    [result] = judge_rules({(None, rule.level): evidence}, [rule]).results
    assert (result.outcome, result.reason) == ("insufficient", "undecided")
    needed = rows_for_margin(rule.margin, rule.confidence, is_gap=False, auc=result.value)
    assert (needed > n) is is_needed
    assert (result.rows_for_margin, result.n_compared) == (
        (needed, n) if is_needed else (None, None)
    )
