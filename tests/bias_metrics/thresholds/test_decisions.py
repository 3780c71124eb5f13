"""All errors at one threshold: by hand, against each metric alone, and chance by enumeration."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

from bias_metrics import (
    error_rates,
    fned,
    fped,
    permuted_reference,
    threshold_report,
    worst_group_accuracy,
)


def drawn(seed, n=3000, n_groups=3):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    groups = {f"g{i}": rng.random(n) < 0.05 + 0.05 * (i % 5) for i in range(n_groups)}
    groups["g0"] |= groups["g1"] & (rng.random(n) < 0.5)  # memberships go together
    return y_true, np.round(rng.normal(0.3 + 0.3 * y_true + 0.2 * groups["g0"], 0.2), 2), groups


def measure(rows, threshold=0.5, **options):
    return threshold_report(*rows, threshold=threshold, rng=np.random.default_rng(0), **options)


# By hand.


def test_the_report_of_ten_rows_is_that_counted_by_hand():
    # Six harmless rows, of which three are flagged; four toxic ones, of which one is missed.
    y_true = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    y_score = [0.1, 0.2, 0.3, 0.5, 0.8, 0.9, 0.4, 0.6, 0.7, 0.9]
    gay = [0, 0, 1, 1, 1, 1, 1, 1, 0, 0]
    found = measure((y_true, y_score, {"gay": gay}))
    of_gay = found.subgroups["gay"]
    assert (found.overall.n_false_positive, found.overall.n_false_negative) == (3, 1)
    assert (of_gay.n_false_positive, of_gay.n_true_negative) == (3, 1)
    assert (of_gay.n_false_negative, of_gay.n_true_positive) == (1, 1)
    assert found.fped.value.value == 3 / 4 - 1 / 2
    assert found.fned.value.value == 1 / 2 - 1 / 4
    assert found.worst_group_accuracy.value.value == 1 / 4
    assert [(one.subgroup, one.label) for one in found.worst_group_accuracy.worst] == [
        ("gay", False)
    ]
    # Four of the six harmless rows are members, with 1, 2 or 3 of the three flagged ones;
    # two of the four toxic rows are, with the one that is missed or without it.
    assert found.fped.quantiles[0.5].value == 0
    by_chance = (2 * math.comb(3, 1) * 1 / 4) / math.comb(6, 4)
    assert found.fped.mean.value == pytest.approx(by_chance, abs=4 * 0.125 / 1000**0.5)
    assert found.fned.mean.value == 1 / 4


# Each metric alone.


@pytest.mark.parametrize("threshold", [0.5, 0.31, -1.0, 2.0])
def test_the_values_are_those_of_each_metric_alone(threshold):
    y_true, y_score, groups = drawn(1)
    found = measure((y_true, y_score, groups), threshold)
    assert found.overall == error_rates(y_true, y_score, threshold=threshold)
    for name, mask in groups.items():
        alone = error_rates(y_true[mask], y_score[mask], threshold=threshold)
        assert found.subgroups[name] == alone
    for metric in (fped, fned):
        alone = metric(y_true, y_score, groups, threshold=threshold).value
        assert getattr(found, metric.__name__).value == alone
    alone = worst_group_accuracy(y_true, y_score, groups, threshold=threshold)
    assert found.worst_group_accuracy == alone
    assert found.to_dict()["worst_group_accuracy"]["worst"] == alone.to_dict()["worst"]


# Chance.


def test_chance_equals_the_enumeration_of_memberships_that_overlap():
    # Of four harmless rows one is flagged; one row belongs to both groups, one to one.
    y_true, y_score = np.zeros(4, dtype=bool), np.array([0.1, 0.2, 0.3, 0.9])
    a, b = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
    values = [
        fped(y_true, y_score, {"a": a[order], "b": b[order]}, threshold=0.5).value.value
        for order in map(list, itertools.permutations(range(4)))
    ]
    found = measure((y_true, y_score, {"a": a, "b": b}), n_permutations=8000).fped
    tolerance = 4 * np.std(values) / 8000**0.5
    assert found.mean.value == pytest.approx(np.mean(values), abs=tolerance)
    for share in (0.05, 0.5, 0.95):
        assert found.quantiles[share].value == pytest.approx(np.quantile(values, share))


# Memberships of which all are drawn one by one, some, or none.
@pytest.mark.parametrize(("n", "n_groups"), [(6000, 2), (600, 5), (600, 40)])
def test_chance_is_that_of_permuting_the_rows(n, n_groups):
    rows = drawn(2, n=n, n_groups=n_groups)
    found = measure(rows, n_permutations=4000)
    for metric in (fped, fned):
        rng = np.random.default_rng(1)
        slow = permuted_reference(
            partial(metric, threshold=0.5), *rows, rng=rng, n_permutations=400
        )
        fast = getattr(found, metric.__name__)
        assert fast.value == slow.value
        spread = slow.quantiles[0.95].value - slow.quantiles[0.05].value
        assert fast.mean.value == pytest.approx(slow.mean.value, abs=0.1 * spread)
        for share in (0.05, 0.5, 0.95):
            expected = slow.quantiles[share].value
            assert fast.quantiles[share].value == pytest.approx(expected, abs=0.25 * spread)


def test_the_sums_cover_the_groups_named_and_the_worst_cell_all():
    y_true, y_score, groups = drawn(3)
    groups["nobody"] = np.zeros(y_true.size, dtype=bool)
    everyone = measure((y_true, y_score, groups))
    assert everyone.fped.value.value is None
    assert "undefined for nobody" in everyone.fped.value.reason
    assert everyone.fped.quantiles[0.95].value is None
    named = measure((y_true, y_score, groups), groups=["g1"])
    alone = fped(y_true, y_score, {"g1": groups["g1"]}, threshold=0.5).value
    assert named.fped.value == alone
    assert named.to_dict()["groups"] == ["g1"]
    assert named.worst_group_accuracy == everyone.worst_group_accuracy
    assert {one.subgroup for one in named.worst_group_accuracy.undefined} == {"nobody"}


def test_the_same_generator_gives_the_same_report_and_another_does_not():
    rows = drawn(4)
    assert measure(rows) == measure(rows)
    other = threshold_report(*rows, threshold=0.5, rng=np.random.default_rng(1))
    assert other.fped.value == measure(rows).fped.value
    assert other.fped.mean != measure(rows).fped.mean


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ["martian"]}, r"`groups` must name subgroups; got 'martian' \(known: g0"),
        ({"groups": ["g0", "g0"]}, "`groups` must be a list of different names"),
        ({"n_permutations": 0}, "`n_permutations` must be at least 1; got 0"),
        ({"threshold": math.nan}, "`threshold` must be a finite number; got nan"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        measure(drawn(5, n=20), **options)


def test_without_a_generator_nothing_is_drawn():
    with pytest.raises(TypeError, match="`rng` must be a numpy Generator"):
        threshold_report(*drawn(6, n=20), threshold=0.5, rng=None)
