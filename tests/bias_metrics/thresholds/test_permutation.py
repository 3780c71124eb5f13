"""The null reference: by exact enumeration, its guarantees, and refusals."""

import itertools
from functools import partial

import numpy as np
import pytest

from bias_metrics import (
    MetricValue,
    fned,
    fped,
    negative_aeg,
    permuted_reference,
    pinned_auc_equality_difference,
)


def fair_rows(seed, n=2000):
    """Scores that know the label and nothing of the subgroups."""
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    groups = {name: rng.random(n) < share for name, share in [("a", 0.1), ("b", 0.05)]}
    return y_true, rng.normal(0.3 + 0.3 * y_true, 0.2), groups


# By hand.


def test_it_is_the_distribution_over_all_memberships_of_six_rows():
    # Three of six harmless rows are flagged and three are members: of the 20 memberships,
    # the FPR is off by 1/2 in 2 and by 1/6 in 18.
    y_true, y_score = [0] * 6, [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]
    found = permuted_reference(
        partial(fped, threshold=0.5),
        y_true,
        y_score,
        {"g": [0, 0, 0, 1, 1, 1]},
        rng=np.random.default_rng(0),
        n_permutations=4000,
        quantiles=(0.5, 0.85, 0.95),
    )
    assert found.value.value == 1 / 2
    expected = (2 * 1 / 2 + 18 * 1 / 6) / 20
    assert found.mean.value == pytest.approx(expected, abs=4 * 0.1 / 4000**0.5)
    quantiles = {share: value.value for share, value in found.quantiles.items()}
    assert quantiles == pytest.approx({0.5: 1 / 6, 0.85: 1 / 6, 0.95: 1 / 2})


# An oracle: every membership, one by one.


def test_it_equals_the_enumeration_of_memberships_within_each_label():
    y_true = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    y_score = np.array([0.1, 0.2, 0.5, 0.9, 0.3, 0.6, 0.7, 0.8])
    members = np.array([0, 0, 0, 1, 1, 1, 0, 0], dtype=bool)
    values = []
    for negative in itertools.combinations(range(4), 1):
        for positive in itertools.combinations(range(4, 8), 2):
            mask = np.isin(np.arange(8), (*negative, *positive))
            values.append(pinned_auc_equality_difference(y_true, y_score, {"g": mask}).value.value)
    found = permuted_reference(
        pinned_auc_equality_difference,
        y_true,
        y_score,
        {"g": members},
        rng=np.random.default_rng(0),
        n_permutations=3000,
    )
    tolerance = 4 * np.std(values) / 3000**0.5
    assert found.mean.value == pytest.approx(np.mean(values), abs=tolerance)
    # Between neighbours of the quantile, as the frequencies of the 24 values vary by chance.
    for share, quantile in found.quantiles.items():
        low, high = np.quantile(values, np.clip([share - 0.04, share + 0.04], 0, 1))
        assert low - 1e-12 <= quantile.value <= high + 1e-12


# What it promises.


@pytest.mark.parametrize("metric", [fped, fned, pinned_auc_equality_difference])
def test_a_fair_model_is_within_it_and_far_from_0(metric):
    inside = 0
    for seed in range(20):
        rows = fair_rows(seed, 400)
        rng = np.random.default_rng(seed)
        found = permuted_reference(metric, *rows, rng=rng, n_permutations=40)
        assert found.quantiles[0.05].value > 0
        inside += found.value.value <= found.quantiles[0.95].value
    assert inside >= 16  # 19 are expected; under 16 has a probability below 1 %


def test_a_shifted_subgroup_is_above_it():
    y_true, y_score, groups = fair_rows(0)
    y_score = y_score + 0.3 * groups["a"]
    rng = np.random.default_rng(0)
    found = permuted_reference(fped, y_true, y_score, groups, rng=rng, n_permutations=50)
    assert found.value.value > 2 * found.quantiles[0.95].value


def test_memberships_stay_within_their_label_and_together():
    y_true, y_score, groups = fair_rows(1, 200)
    seen = []

    def spy(labels, scores, masks):
        seen.append((labels.copy(), scores.copy(), masks))
        return MetricValue(float(len(seen)))

    permuted_reference(spy, y_true, y_score, groups, rng=np.random.default_rng(0), n_permutations=5)
    assert len(seen) == 6
    for labels, scores, masks in seen:
        assert masks.keys() == groups.keys()
        np.testing.assert_array_equal(labels, y_true)
        for label in (True, False):
            assert sorted(scores[y_true == label]) == sorted(y_score[y_true == label])
    assert any((scores != y_score).any() for _, scores, _ in seen[1:])


def test_the_same_generator_gives_the_same_reference_and_no_argument_changes():
    y_true, y_score, groups = fair_rows(2, 200)
    before = y_score.copy()
    found = [
        permuted_reference(
            fped, y_true, y_score, groups, rng=np.random.default_rng(7), n_permutations=10
        ).to_dict()
        for _ in range(2)
    ]
    assert found[0] == found[1]
    np.testing.assert_array_equal(y_score, before)
    assert found[0].keys() == {"value", "mean", "quantiles", "n_permutations"}
    assert found[0]["quantiles"].keys() == {"0.05", "0.5", "0.95"}


def test_any_metric_will_do_also_one_that_has_no_interval_here():
    y_true, y_score, groups = fair_rows(3, 500)
    groups = {"a": groups["a"] & (np.cumsum(groups["a"] & ~y_true) <= 1)}

    def aeg_of_a(labels, scores, masks):
        return negative_aeg(labels, scores, masks["a"])

    rng = np.random.default_rng(0)
    found = permuted_reference(aeg_of_a, y_true, y_score, groups, rng=rng, n_permutations=100)
    assert (found.value.low, found.value.reason) == (None, "fewer than 2 rows in a class")
    assert found.mean.value == pytest.approx(0, abs=4 * 0.29 / 100**0.5)


# Undefined.


def test_the_reference_of_an_undefined_metric_is_undefined_for_the_same_reason():
    rng = np.random.default_rng(0)
    found = permuted_reference(fped, [0, 1], [0.1, 0.2], {"gay": [0, 0]}, rng=rng)
    reason = "undefined for gay (no negatives)"
    assert {found.value.reason, found.mean.reason, found.quantiles[0.95].reason} == {reason}
    assert found.to_dict()["mean"] == {"value": None, "reason": reason}


def test_a_metric_that_some_permutations_leave_undefined_has_no_reference():
    y_true, y_score = [0, 0, 0, 0], [0.1, 0.2, 0.3, 0.9]

    def of_flagged_members(_labels, scores, masks):
        flagged = masks["g"] & (scores >= 0.5)
        return MetricValue(1.0) if flagged.any() else MetricValue(None, "no flagged rows")

    rng = np.random.default_rng(0)
    groups = {"g": [0, 0, 1, 1]}
    found = permuted_reference(
        of_flagged_members, y_true, y_score, groups, rng=rng, n_permutations=20
    )
    assert found.value.value == 1
    assert found.mean.reason.startswith("undefined in ")
    assert found.mean.reason.endswith(" of 20 permutations")


# Refusals.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rng": 0}, TypeError, "^`rng` must be a numpy Generator, .*; got int.$"),
        ({"n_permutations": 0}, ValueError, "^`n_permutations` must be at least 1; got 0.$"),
        ({"quantiles": (1.5,)}, ValueError, "^`quantiles` must be from 0 to 1; got 1.5.$"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    options = {"rng": np.random.default_rng(0)} | options
    with pytest.raises(error, match=message):
        permuted_reference(fped, [0, 1], [0.1, 0.2], {"g": [0, 1]}, **options)
