"""Checking, selecting and counting `Rows`."""

import re
from functools import partial

import numpy as np
import pytest

from bias_metrics import (
    Rows,
    calibration_report,
    changed_decisions,
    compare_bias,
    compare_calibration,
    decision_indicators,
    evaluate_bias,
    evaluate_slices,
    rate_gaps,
)
from bias_metrics._core.masks import PackedMasks
from bias_metrics.rows import MOST_ROWS
from bias_metrics.thresholds import compare_rate_gaps

Y_TRUE = [0, 1, 1, 0]
GROUPS = {"a": [1, 1, 0, 0], "b": [0, 1, 0, 0]}
SCORE = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"subgroups": {"a": [1]}}, "`subgroups['a']` must have 4 rows like `y_true`; got 1."),
        ({"clusters": [1]}, "`clusters` must have 4 rows like `y_true`; got 1."),
        ({"sample_weight": [1]}, "`sample_weight` must have 4 rows like `y_true`; got 1."),
        ({"weight_kind": "x"}, "`weight_kind` must be one of probability, frequency; got 'x'."),
        (
            {"background": "x"},
            "`background` must be one of outside_subgroup, no_identity; got 'x'.",
        ),
        (
            {"sample_weight": [1, 2, 0.5, 1], "weight_kind": "frequency"},
            (
                "`sample_weight` must be whole numbers if `weight_kind` is 'frequency'; "
                "got 0.5 (row 2)."
            ),
        ),
    ],
)
def test_wrong_rows_are_refused_at_once(wrong, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Rows(**({"y_true": Y_TRUE, "subgroups": GROUPS} | wrong))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("which", [np.array([False, True, True, False]), np.array([1, 2])])
def test_a_part_keeps_what_is_known_of_its_rows(packed, which):
    groups = PackedMasks.from_masks(GROUPS.items(), 4) if packed else GROUPS
    rows = Rows(Y_TRUE, groups, sample_weight=[1, 2, 3, 4], clusters=["x", "y", "z", "z"])
    part = rows.select_rows(which)
    assert part.n == 2
    assert isinstance(part.subgroups, PackedMasks) is packed
    assert {name: mask.tolist() for name, mask in part.subgroups.items()} == {
        "a": [True, False],
        "b": [True, False],
    }
    assert part.sample_weight.tolist() == [2, 3]
    assert part.clusters.tolist() == [0, 1]
    assert rows.clusters.tolist() == [0, 1, 2, 2]


def test_rows_in_other_subgroups_keep_their_labels_and_weights():
    rows = Rows(Y_TRUE, GROUPS, sample_weight=[1, 2, 3, 4])
    regrouped = rows.replace_subgroups({"c": [0, 0, 1, 1]})
    assert list(regrouped.subgroups) == ["c"]
    assert regrouped.y_true.tolist() == rows.y_true.tolist()
    assert regrouped.sample_weight.tolist() == [1, 2, 3, 4]


def test_rows_of_weight_zero_do_not_count():
    rows, [score] = Rows(Y_TRUE, GROUPS, sample_weight=[1, 0, 0.5, 2]).select_counted(SCORE)
    assert rows.sample_weight.tolist() == [1, 0.5, 2]
    assert score.tolist() == [0.1, 0.3, 0.4]


def test_the_smallest_and_the_largest_weight_are_accepted():
    weights = [1e-100, 1e100, 0, 1]
    assert Rows(Y_TRUE, GROUPS, sample_weight=weights).sample_weight.tolist() == weights


def test_a_frequency_repeats_its_row():
    rows = Rows(Y_TRUE, GROUPS, sample_weight=[2, 0, 1, 1], weight_kind="frequency")
    counted, [score] = rows.select_counted(SCORE)
    assert (counted.sample_weight, score.tolist()) == (None, [0.1, 0.1, 0.3, 0.4])
    assert counted.y_true.tolist() == [False, False, True, False]


def test_frequencies_may_sum_to_the_most_rows():
    weights = [MOST_ROWS - 1, 1, 0, 0]
    assert Rows(Y_TRUE, GROUPS, sample_weight=weights, weight_kind="frequency").n == 4


def test_a_shared_background_excludes_the_rows_of_every_subgroup():
    assert Rows(Y_TRUE, GROUPS).excluded is None
    assert Rows(Y_TRUE, {}, background="no_identity").excluded is None
    assert Rows(Y_TRUE, GROUPS, background="no_identity").excluded.tolist() == [0, 1]


def test_what_a_function_would_ignore_is_refused():
    rows = Rows(Y_TRUE, GROUPS, sample_weight=[1, 2, 3, 4])
    message = "`rows` must have no `sample_weight` in rate_gaps, which does not use it."
    with pytest.raises(ValueError, match=message):
        rate_gaps(rows, SCORE, threshold=0.2)


def test_labels_of_rows_stay_with_a_part():
    pd = pytest.importorskip("pandas")
    labels = pd.Series(Y_TRUE, index=list("wxyz"))
    part = Rows(labels, GROUPS).select_rows(np.array([1, 3]))
    assert list(part.index) == ["x", "z"]
    with pytest.raises(ValueError, match="`y_score` must have the index of `y_true`"):
        rate_gaps(part, pd.Series([0.1, 0.2], index=["z", "x"]), threshold=0.1)


def list_functions():
    """List calls of every function of labels or `Rows`, with labels and with `Rows`."""
    y_true = np.arange(200) % 2 == 0
    scores, other = np.linspace(0.1, 0.9, 200), np.linspace(0.2, 0.8, 200)[::-1]
    masks, clusters = {"gay": np.arange(200) % 3 == 0}, np.arange(200) // 2
    rows = Rows(y_true, masks, clusters=clusters)
    at = {"threshold_a": 0.5, "threshold_b": 0.5}
    for function, extra in (
        (rate_gaps, {"threshold": 0.5}),
        (decision_indicators, {"threshold": 0.5}),
        (calibration_report, {}),
        (evaluate_bias, {"threshold": 0.5}),
        (evaluate_slices, {"slices": {"first": np.arange(200) < 100}}),
    ):
        yield (
            function.__name__,
            partial(function, y_true, scores, masks, clusters=clusters, **extra),
            partial(function, rows, scores, **extra),
        )
    for function, extra in (
        (compare_rate_gaps, at),
        (changed_decisions, at),
        (compare_calibration, {}),
        (compare_bias, {"thresholds": (0.5, 0.5)}),
    ):
        yield (
            function.__name__,
            partial(function, y_true, scores, other, masks, clusters=clusters, **extra),
            partial(function, rows, scores, other, **extra),
        )


@pytest.mark.parametrize(
    ("arrays", "rows"),
    [case[1:] for case in list_functions()],
    ids=[case[0] for case in list_functions()],
)
def test_labels_and_subgroups_are_as_good_as_rows(arrays, rows):
    assert arrays() == rows()
    for name, value in (("subgroups", {}), ("clusters", [0] * 200), ("background", "no_identity")):
        with pytest.raises(TypeError, match=f"`{name}` must not be given with Rows, which have"):
            rows(**{name: value})
