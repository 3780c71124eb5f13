"""Dominant clusters and heavy rows are found; usual clusters and weights are not."""

import numpy as np
import pytest

from bias_metrics import Rows
from bias_metrics.parts import find_dominant_units


def make_clusters(sizes, **more):
    """Make positives in clusters of these sizes, all in the subgroup `gay`."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    ones = np.ones(clusters.size)
    return Rows(ones, {"gay": ones}, clusters=clusters, **more)


def make_weighted_rows(weights, labels=None, **more):
    labels = np.ones(len(weights)) if labels is None else labels
    return Rows(labels, {"gay": np.ones(len(weights))}, sample_weight=weights, **more)


def list_texts(rows):
    return [(unit.subgroup, unit.label, str(unit)) for unit in find_dominant_units(rows)]


@pytest.mark.parametrize(("largest", "n"), [(24, 0), (25, 2)])
def test_a_cluster_with_a_fifth_of_a_class_dominates_it_and_the_subgroup(largest, n):
    units = find_dominant_units(make_clusters([largest] + [1] * 100))
    assert [(one.n, one.share, one.weight) for one in units] == [(25, 0.2, None)] * n


def test_a_cluster_dominates_by_the_weight_of_its_rows():
    weights = np.where(np.arange(100) == 7, 33.0, 1.0)
    rows = make_clusters([1] * 100, sample_weight=weights)
    expected = (
        "one cluster has 25% (1 row)",
        "1 row has a weight of 16.5 or more (25% of its weight)",
    )
    assert [told for _, _, told in list_texts(rows)] == [*expected, *expected]


def test_of_fewer_than_twenty_clusters_nothing_is_said():
    assert list_texts(make_clusters([50] + [1] * 18)) == []
    assert list_texts(make_clusters([50] + [1] * 19)) != []


def test_few_heavy_rows_are_found_in_the_subgroup_alone_that_has_few():
    weights = np.r_[np.full(20, 10.0), np.ones(200)]
    gay = np.r_[np.ones(3), np.zeros(17), np.ones(50), np.zeros(150)]
    rows = Rows(np.ones(220), {"gay": gay}, sample_weight=weights)
    share = 30 / 80
    message = f"3 rows have a weight of 5 or more ({share:.0%} of its weight)"
    assert list_texts(rows) == [("gay", "positive", message)]


def test_a_class_without_any_of_the_heavy_rows_is_told():
    weights = np.r_[np.full(50, 20.0), np.ones(100), np.ones(60)]
    labels = np.r_[np.zeros(150), np.ones(60)]
    message = "no row has a weight of 10 or more"
    assert list_texts(make_weighted_rows(weights, labels)) == [
        (None, "positive", message),
        ("gay", "positive", message),
    ]


@pytest.mark.parametrize(
    "weights",
    [
        np.full(100, 7.0),
        np.r_[np.full(10, 8.0), np.ones(100)],
        np.r_[np.full(9, 4.0), np.full(100, 1.01)],
        np.r_[np.full(1, 8.0), np.ones(200)],
    ],
    ids=["equal", "ten heavy rows", "not four times", "of no account"],
)
def test_usual_weights_are_not_told(weights):
    assert list_texts(make_weighted_rows(weights)) == []


def test_rows_of_four_times_the_usual_weight_are_told():
    texts = list_texts(make_weighted_rows(np.r_[np.full(9, 4.0), np.ones(100)]))
    assert [told for *_, told in texts] == [
        f"9 rows have a weight of 2 or more ({36 / 136:.0%} of its weight)"
    ] * 2


def test_rows_of_half_of_the_largest_weight_belong_to_the_heavy_ones():
    """Without them, those of 8 would have 2 % of all weight, which is of no account."""
    texts = list_texts(make_weighted_rows(np.r_[[8.0], np.full(5, 4.0), np.ones(300)]))
    message = f"6 rows have a weight of 4 or more ({28 / 328:.0%} of its weight)"
    assert [words for *_, words in texts] == [message] * 2


def test_weights_that_only_the_label_decides_are_not_told():
    labels = np.r_[np.zeros(100), np.ones(60)]
    assert list_texts(make_weighted_rows(np.where(labels, 1.0, 20.0), labels)) == []


def test_frequencies_are_rows_and_rows_of_weight_0_are_none():
    assert (
        list_texts(
            make_weighted_rows(np.r_[np.full(3, 20.0), np.ones(100)], weight_kind="frequency")
        )
        == []
    )
    weights = np.r_[np.full(100, 1.0), 0.0]
    assert list_texts(make_weighted_rows(weights)) == []


def test_without_rows_nothing_is_told():
    assert list_texts(Rows([], {"gay": []}, clusters=[])) == []
    weights = np.r_[np.full(3, 20.0), np.ones(100)]
    nobody = Rows(np.ones(103), {"gay": np.zeros(103)}, sample_weight=weights)
    assert [subgroup for subgroup, _, _ in list_texts(nobody)] == [None]
