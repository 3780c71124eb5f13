"""Worst-group accuracy: by hand, the figures of WILDS, a naive loop, scikit-learn."""

import numpy as np
import pytest

from bias_metrics import worst_group_accuracy


def cell_name(cell):
    return cell.subgroup, cell.label


# By hand.


def test_the_worst_of_four_cells_is_the_one_counted_by_hand():
    y_true = [1, 1, 1, 0, 0, 1, 0, 0, 0]
    y_score = [0.9, 0.5, 0.4, 0.6, 0.1, 0.7, 0.2, 0.3, 0.8]
    groups = {"gay": [1, 1, 1, 1, 1, 0, 0, 0, 0], "muslim": [0, 0, 0, 0, 0, 1, 1, 1, 1]}
    found = worst_group_accuracy(y_true, y_score, groups)
    accuracies = {cell_name(cell): cell.accuracy.value for cell in found.cells}
    assert accuracies == {
        ("gay", True): 2 / 3,
        ("gay", False): 1 / 2,
        ("muslim", True): 1,
        ("muslim", False): 2 / 3,
    }
    assert found.value.value == 1 / 2
    assert [cell_name(cell) for cell in found.worst] == [("gay", False)]
    assert (found.worst[0].n, found.worst[0].n_correct) == (2, 1)


def test_the_threshold_decides_which_cell_is_worst():
    rows = ([1, 1, 0, 0], [0.6, 0.9, 0.2, 0.4], {"gay": [1] * 4})
    assert worst_group_accuracy(*rows, threshold=0.3).worst[0].label is False
    assert worst_group_accuracy(*rows, threshold=0.7).worst[0].label is True


# Published: Koh et al. (2021), WILDS, Tables 16 and 17, Group DRO (label).
WILDS_ACCURACY = {  # percent right of (non-toxic, toxic) rows, and how many there are
    "Male": ((88.4, 12092), (75.1, 2203)),
    "Female": ((90.0, 14179), (73.7, 2270)),
    "LGBTQ": ((76.0, 3210), (73.7, 1216)),
    "Christian": ((92.6, 12101), (69.2, 1260)),
    "Muslim": ((80.7, 5355), (72.1, 1627)),
    "Other religions": ((87.4, 2980), (72.0, 520)),
    "Black": ((72.2, 3335), (79.6, 1537)),
    "White": ((73.4, 5723), (78.8, 2246)),
}


def test_the_worst_group_of_wilds_is_toxic_comments_on_christians():
    labels, scores, names = [], [], []
    for name, cells in WILDS_ACCURACY.items():
        for label, (percent, n) in enumerate(cells):
            n_right = round(n * percent / 100)
            labels += [label] * n
            scores += [float(label)] * n_right + [1.0 - label] * (n - n_right)
            names += [name] * n
    groups = {name: np.array(names) == name for name in WILDS_ACCURACY}
    found = worst_group_accuracy(labels, scores, groups)
    assert [cell_name(cell) for cell in found.worst] == [("Christian", True)]
    assert found.worst[0].n == 1260
    assert 100 * found.value.value == pytest.approx(69.2, abs=0.05)
    for cell in found.cells:
        percent, n = WILDS_ACCURACY[cell.subgroup][cell.label]
        # The tables print means of several runs, which need not be whole rows.
        assert (cell.n, 100 * cell.accuracy.value) == (n, pytest.approx(percent, abs=0.1))


# Oracles.


def some_rows(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y_true = rng.random(200) < 0.3
    y_score = (rng.integers(0, 11, 200) / 10).astype(dtype)
    return y_true, y_score, {name: rng.random(200) < 0.2 for name in "abcd"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_it_equals_a_loop_over_cells_and_rows(seed, dtype):
    y_true, y_score, groups = some_rows(seed, dtype)
    lowest = 1.0
    for mask in groups.values():
        for label in (True, False):
            rows = [i for i in range(200) if mask[i] and y_true[i] == label]
            right = [i for i in rows if (y_score[i] >= dtype(0.7)) == label]
            lowest = min(lowest, len(right) / len(rows))
    assert worst_group_accuracy(y_true, y_score, groups, threshold=0.7).value.value == lowest


def test_it_equals_the_smallest_accuracy_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    y_true, y_score, groups = some_rows(5)
    expected = min(
        metrics.accuracy_score(y_true[rows], y_score[rows] >= 0.5)
        for mask in groups.values()
        for rows in (mask & y_true, mask & ~y_true)
    )
    found = worst_group_accuracy(y_true, y_score, groups)
    assert found.value.value == pytest.approx(expected, abs=1e-12)


# Undefined, ties, plain values.


def test_cells_without_rows_are_listed_and_not_taken_for_the_worst():
    found = worst_group_accuracy([1, 0], [0.9, 0.1], {"gay": [1, 0], "other_gender": [0, 0]})
    assert found.value.value == 1
    empty = [("gay", False), ("other_gender", True), ("other_gender", False)]
    assert [cell_name(cell) for cell in found.undefined] == empty
    plain = found.to_dict()
    assert plain["value"] == 1
    assert [cell["accuracy"].get("reason") for cell in plain["cells"]] == [
        *(None, "no negatives", "no positives", "no negatives")
    ]


@pytest.mark.parametrize(
    ("groups", "reason"), [({}, "no subgroups"), ({"gay": [0, 0]}, "no cell has rows")]
)
def test_without_rows_in_any_cell_the_value_is_undefined(groups, reason):
    found = worst_group_accuracy([1, 0], [0.9, 0.1], groups)
    assert (found.value.value, found.value.reason, found.worst) == (None, reason, ())


def test_cells_as_bad_are_all_named():
    found = worst_group_accuracy([1, 0, 1, 0], [0.1, 0.9, 0.9, 0.1], {"gay": [1, 1, 0, 0]})
    assert [cell_name(cell) for cell in found.worst] == [("gay", True), ("gay", False)]


def test_a_threshold_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match=r"^`threshold` must be a finite number; got nan.$"):
        worst_group_accuracy([1, 0], [0.9, 0.1], {}, threshold=np.nan)
