"""The confidence level of simultaneous bounds."""

from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import MetricValue, Rows
from bias_metrics.families import bonferroni_level, widen_selected
from bias_metrics.report import joint_level
from bias_metrics.report.joint_level import compute_joint_level


@pytest.fixture
def rows():
    rng = np.random.default_rng(4)
    labels = rng.random(600) < 0.4
    masks = {name: rng.random(600) < 0.3 for name in ("a", "b")}
    first, second = (rng.standard_normal(600) + 1.5 * labels for _ in range(2))
    return labels, first, second, masks


def to_one_sided(level):
    return (1 - level) / 2


def test_of_cells_that_share_rows_each_gets_more_than_bonferroni_gives(rows):
    labels, first, second, masks = rows
    for scores in ((first,), (first, second)):
        level = compute_joint_level(Rows(labels, masks), scores, ["a", "b"])
        assert 0.05 / 10 < to_one_sided(level) < 0.05 / 5


def test_groups_that_are_the_same_count_once(rows):
    labels, first, second, masks = rows
    one = compute_joint_level(Rows(labels, masks), (first, second), ["a"])
    same = dict.fromkeys("abcdef", masks["a"])
    assert compute_joint_level(Rows(labels, same), (first, second), list(same)) == pytest.approx(
        one, abs=2e-3
    )


def test_cells_that_are_not_looked_at_do_not_count(rows):
    labels, first, second, masks = rows
    one = {"a": ["bpsn_auc"], "b": []}
    level = compute_joint_level(Rows(labels, masks), (first, second), ["a", "b"], metrics=one)
    assert to_one_sided(level) == pytest.approx(0.05, rel=0.1)


def test_a_cell_in_which_two_models_differ_by_rounding_alone_does_not_count(rows):
    labels, first, second, masks = rows
    second = np.where(labels == masks["b"], second, first)  # b's BPSN AUC has the other rows
    asked = {"a": ["subgroup_auc"], "b": ["bpsn_auc"]}
    level = compute_joint_level(Rows(labels, masks), (first, second), ["a", "b"], metrics=asked)
    assert to_one_sided(level) == pytest.approx(0.05, rel=0.1)


def test_independent_numbers_share_the_error_as_sidak_says():
    level = joint_level._simulate_level(np.eye(8), 0.05)
    exact = 2 * 0.95 ** (1 / 8) - 1
    assert to_one_sided(level) == pytest.approx(to_one_sided(exact), rel=0.1)
    assert level > exact  # two Monte Carlo errors to the safe side
    assert NormalDist().inv_cdf(1 - to_one_sided(level)) < 2.6


@pytest.mark.parametrize(("n", "level"), [(0, 0.9), (1, 0.9), (2, 0.95), (10, 0.99)])
def test_bonferroni_divides_the_error_by_the_numbers(n, level):
    assert bonferroni_level(n, 0.05) == pytest.approx(level)


def test_an_error_too_small_to_estimate_from_draws_is_bonferronis(rows):
    labels, first, second, masks = rows
    level = compute_joint_level(Rows(labels, masks), (first, second), ["a"], alpha=1e-5)
    assert level == bonferroni_level(5, 1e-5)
    same = dict.fromkeys("abcdef", masks["a"])
    least = compute_joint_level(Rows(labels, same), (first, second), list(same), alpha=0.001)
    assert least < bonferroni_level(30, 0.001)


def test_identical_models_and_groups_without_rows_need_no_correction(rows):
    labels, first, _, masks = rows
    empty = {"none": np.zeros(600, dtype=bool)}
    assert compute_joint_level(Rows(labels, masks), (first, first), ["a"]) == pytest.approx(0.9)
    assert compute_joint_level(Rows(labels, empty), (first,), ["none"]) == pytest.approx(0.9)


@pytest.mark.parametrize(("n", "counts"), [(1, False), (2, True)])
def test_a_cell_counts_from_two_rows_of_each_class_on(rows, n, counts):
    labels, first, _, _ = rows
    few = np.zeros(600, dtype=bool)
    few[np.flatnonzero(labels)[:n]] = few[np.flatnonzero(~labels)[:n]] = True
    level = compute_joint_level(Rows(labels, {"few": few}), (first,), ["few"])
    assert (level > 0.92) is counts


def test_a_draw_of_few_numbers_goes_below_no_single_ones_level(rows, monkeypatch):
    labels, first, _, masks = rows
    monkeypatch.setattr(joint_level, "_simulate_level", lambda *_: 0.7)
    assert compute_joint_level(Rows(labels, masks), (first,), ["a"]) == pytest.approx(0.9)


def test_with_clusters_the_sums_of_each_cluster_count(rows):
    labels, first, second, masks = rows
    clusters = np.arange(600) // 4
    level = compute_joint_level(Rows(labels, masks, clusters=clusters), (first, second), ["a", "b"])
    assert 0.005 < to_one_sided(level) < 0.01
    alone = compute_joint_level(
        Rows(labels, masks, clusters=np.arange(600)), (first, second), ["a", "b"]
    )
    plain = compute_joint_level(Rows(labels, masks), (first, second), ["a", "b"])
    assert alone == pytest.approx(plain, abs=1e-3)


def test_groups_whose_rows_share_their_clusters_vary_as_one(rows):
    labels, first, _, _ = rows
    labels, score = np.tile(labels[:300], 2), np.tile(first[:300], 2)
    groups = {"a": np.arange(600) < 300, "b": np.arange(600) >= 300}
    asked = {name: ["subgroup_auc"] for name in groups}
    alone, together = (
        compute_joint_level(
            Rows(labels, groups, clusters=clusters), (score,), groups, metrics=asked
        )
        for clusters in (None, np.arange(600) % 300)
    )
    # One-sided errors of two independent numbers, and of two that are the same.
    assert to_one_sided(alone) == pytest.approx(1 - 0.95**0.5, rel=0.1)
    assert to_one_sided(together) == pytest.approx(0.05, rel=0.1)


def test_numbers_vary_together_as_their_rows_influences_do(rows, monkeypatch):
    labels, first, _, masks = rows
    seen = []
    monkeypatch.setattr(joint_level, "_simulate_level", lambda found, _: seen.append(found) or 0.95)
    asked = {name: ["subgroup_auc"] for name in masks}
    compute_joint_level(Rows(labels, masks), (first,), masks, metrics=asked)
    each = []
    for mask in masks.values():
        higher, lower = np.flatnonzero(mask & labels), np.flatnonzero(mask & ~labels)
        wins = first[higher][:, None] > first[lower]
        of_rows = np.zeros(600)
        for side, axis in ((higher, 1), (lower, 0)):
            apart = wins.mean(axis=axis) - wins.mean()
            of_rows[side] = apart / np.sqrt(side.size * (side.size - 1))
        each.append(of_rows)
    assert seen[0] == pytest.approx(
        np.array(each)
        @ np.transpose(each)
        / np.outer(*[[np.linalg.norm(item) for item in each]] * 2)
    )


def test_of_too_many_numbers_it_is_bonferronis(rows, monkeypatch):
    labels, first, _, masks = rows
    monkeypatch.setattr(joint_level, "MOST_NUMBERS", 600 * 10)
    assert compute_joint_level(Rows(labels, masks), (first,), ["a", "b"]) < bonferroni_level(
        10, 0.05
    )
    monkeypatch.setattr(joint_level, "MOST_NUMBERS", 600 * 10 - 1)
    assert compute_joint_level(Rows(labels, masks), (first,), ["a", "b"]) == bonferroni_level(
        10, 0.05
    )


def test_a_selected_number_without_an_interval_has_none():
    lacking = MetricValue(0.8, "few clusters")
    assert widen_selected(lacking, 9) == lacking
