"""All errors at one threshold: by hand, and against each metric alone."""

import math

import numpy as np
import pytest

from bias_metrics import error_rates, fned, fped, threshold_report


def draw_rows(seed, n=3000, n_groups=3):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    groups = {f"g{i}": rng.random(n) < 0.05 + 0.05 * (i % 5) for i in range(n_groups)}
    groups["g0"] |= groups["g1"] & (rng.random(n) < 0.5)  # memberships go together
    return y_true, np.round(rng.normal(0.3 + 0.3 * y_true + 0.2 * groups["g0"], 0.2), 2), groups


def measure_report(rows, threshold=0.5, **options):
    return threshold_report(*rows, threshold=threshold, **options)


# By hand.


def test_the_report_of_ten_rows_is_that_counted_by_hand():
    # Six harmless rows, of which three are flagged; four toxic ones, of which one is missed.
    y_true = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    y_score = [0.1, 0.2, 0.3, 0.5, 0.8, 0.9, 0.4, 0.6, 0.7, 0.9]
    gay = [0, 0, 1, 1, 1, 1, 1, 1, 0, 0]
    report = measure_report((y_true, y_score, {"gay": gay}))
    of_gay = report.subgroups["gay"]
    assert (report.overall.n_false_positive, report.overall.n_false_negative) == (3, 1)
    assert (of_gay.n_false_positive, of_gay.n_true_negative) == (3, 1)
    assert (of_gay.n_false_negative, of_gay.n_true_positive) == (1, 1)
    assert report.fped.value == 3 / 4 - 1 / 2
    assert report.fned.value == 1 / 2 - 1 / 4


# Each metric alone.


@pytest.mark.parametrize("threshold", [0.5, 0.31, -1.0, 2.0])
def test_the_values_are_those_of_each_metric_alone(threshold):
    y_true, y_score, groups = draw_rows(1)
    report = measure_report((y_true, y_score, groups), threshold)
    assert report.overall == error_rates(y_true, y_score, threshold=threshold)
    for name, mask in groups.items():
        expected = error_rates(y_true[mask], y_score[mask], threshold=threshold)
        assert report.subgroups[name] == expected
    for metric in (fped, fned):
        expected = metric(y_true, y_score, groups, threshold=threshold).value
        assert getattr(report, metric.__name__) == expected


def test_the_sums_cover_the_groups_named():
    y_true, y_score, groups = draw_rows(3)
    groups["nobody"] = np.zeros(y_true.size, dtype=bool)
    everyone = measure_report((y_true, y_score, groups))
    assert everyone.fped.value is None
    assert "undefined for nobody" in everyone.fped.reason
    subset = measure_report((y_true, y_score, groups), groups=["g1"])
    assert subset.fped == fped(y_true, y_score, {"g1": groups["g1"]}, threshold=0.5).value
    assert subset.to_dict()["groups"] == ["g1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ["martian"]}, r"`groups` must name subgroups; got 'martian' \(known: g0"),
        ({"groups": ["g0", "g0"]}, "`groups` must be a list of different names"),
        ({"threshold": math.nan}, "`threshold` must be a finite number; got nan"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        measure_report(draw_rows(5, n=20), **options)
