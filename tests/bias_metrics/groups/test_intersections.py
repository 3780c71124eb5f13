"""Every combination is kept, left out with its counts, or known to be smaller."""

import itertools
import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import evaluate_bias, intersections

# Rows 0 to 5; the counts of every pair and of the triple can be read off.
GROUPS = {
    "black": [1, 1, 1, 1, 0, 0],
    "female": [1, 1, 1, 0, 1, 0],
    "gay": [1, 0, 0, 1, 0, 0],
}
TOXIC = [1, 0, 0, 1, 1, 0]


@st.composite
def draw_groups(draw):
    n = draw(st.integers(0, 80))
    columns = draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), max_size=5))
    groups = {f"g{i}": np.array(column, dtype=bool) for i, column in enumerate(columns)}
    labels = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return groups, np.array(labels, dtype=bool)


def list_combinations(groups, max_order):
    """List all combinations in the documented order, with their rows, by a plain loop."""
    n = len(next(iter(groups.values()), []))
    for order in range(1, max_order + 1):
        for members in itertools.combinations(groups, order):
            yield members, [all(groups[name][row] for name in members) for row in range(n)]


def test_pairs_and_triples_of_six_rows_are_those_counted_by_hand():
    joined = intersections(GROUPS, max_order=3)
    assert {name: mask.tolist() for name, mask in joined.masks.items()} == {
        "black & female": [True, True, True, False, False, False],
        "black & gay": [True, False, False, True, False, False],
        "female & gay": [True, False, False, False, False, False],
        "black & female & gay": [True, False, False, False, False, False],
    }
    assert [support.n for support in joined.kept.values()] == [3, 2, 1, 1]
    assert joined.left_out == {}
    assert joined.n_not_counted == {2: 0, 3: 0}


def test_an_intersection_with_too_few_rows_is_left_out_with_its_count_and_the_reason():
    joined = intersections(GROUPS, max_order=3, min_support=2)
    assert list(joined.kept) == ["black & female", "black & gay"]
    assert joined.left_out["female & gay"].n == 1
    assert joined.left_out["female & gay"].reason == "1 row where 2 are needed"
    # The triple contains the pair that was left out, hence has no more rows.
    assert list(joined.left_out) == ["female & gay"]
    assert joined.n_not_counted == {2: 0, 3: 1}


def test_a_table_has_a_row_for_every_counted_intersection_that_says_whether_it_was_kept():
    joined = intersections({"a": [1, 1, 0], "b": [1, 0, 1], "c": [0, 1, 0]})
    shown = [(row["intersection"], row["kept"], row["n"]) for row in joined.rows()]
    # One row is enough unless another number is asked for.
    assert shown == [("a & b", True, 1), ("a & c", True, 1), ("b & c", False, 0)]


def test_with_labels_every_class_needs_the_support():
    joined = intersections(GROUPS, min_support=1, y_true=TOXIC)
    assert joined.kept["black & female"].to_dict() == {
        "members": ["black", "female"],
        "n": 3,
        "n_positive": 1,
        "n_negative": 2,
    }
    # `gay` has toxic rows only, so nothing inside it can be measured in both classes.
    assert joined.left_out["gay"].reason == "0 negatives where 1 is needed"
    assert joined.n_not_counted == {2: 2}


def test_both_classes_may_lack_support():
    joined = intersections(GROUPS, min_support=3, y_true=TOXIC)
    assert joined.left_out["gay"].reason == "2 positives and 0 negatives where 3 are needed"
    assert list(joined.left_out) == ["black", "female", "gay"]


@given(drawn=draw_groups(), max_order=st.integers(2, 4), needed=st.integers(1, 12))
@pytest.mark.parametrize("labelled", [False, True])
def test_intersections_equal_a_plain_loop_over_all_combinations(labelled, drawn, max_order, needed):
    groups, toxic = drawn
    joined = intersections(
        groups, max_order=max_order, min_support=needed, y_true=toxic if labelled else None
    )
    expected = {}
    for members, rows in list_combinations(groups, max_order):
        counts = [sum(rows)]
        if labelled:
            n_toxic = sum(a and b for a, b in zip(rows, toxic, strict=True))
            counts = [n_toxic, sum(rows) - n_toxic]
        if min(counts) >= needed and len(members) > 1:
            expected[" & ".join(members)] = rows
        if min(counts) < needed and " & ".join(members) in joined.left_out:
            assert joined.left_out[" & ".join(members)].n == sum(rows)
    assert {name: mask.tolist() for name, mask in joined.masks.items()} == expected
    assert list(joined.kept) == list(expected)


@given(drawn=draw_groups(), max_order=st.integers(2, 4), needed=st.integers(1, 12))
def test_every_combination_is_kept_left_out_or_not_counted(drawn, max_order, needed):
    groups, _ = drawn
    joined = intersections(groups, max_order=max_order, min_support=needed)
    for order in range(2, min(max_order, len(groups)) + 1):
        parts = [joined.kept, joined.left_out]
        n = sum(len(support.members) == order for part in parts for support in part.values())
        assert n + joined.n_not_counted[order] == math.comb(len(groups), order)


@given(drawn=draw_groups(), needed=st.integers(1, 12))
def test_a_combination_that_was_not_counted_contains_one_that_was_left_out(drawn, needed):
    groups, _ = drawn
    joined = intersections(groups, max_order=4, min_support=needed)
    short = [set(support.members) for support in joined.left_out.values()]
    for members, _ in list_combinations(groups, 4):
        if len(members) > 1 and " & ".join(members) not in joined.kept:
            assert any(part <= set(members) for part in short)


def test_masks_are_subgroups_like_any_other():
    joined = intersections(GROUPS, min_support=2)
    scores = [0.9, 0.1, 0.2, 0.8, 0.7, 0.3]
    report = evaluate_bias(TOXIC, scores, GROUPS | dict(joined.masks))
    assert report.counts["black & female"].n == 3
    assert list(evaluate_bias(TOXIC, scores, joined.masks).subgroups) == list(joined.kept)


def test_a_slice_is_crossed_by_giving_it_as_one_more_subgroup():
    short = np.array([20, 300, 99, 100, 40, 5]) < 100
    joined = intersections(GROUPS | {"short": short})
    assert joined.masks["female & short"].tolist() == [True, False, True, False, True, False]


def test_the_masks_are_a_mapping_that_refuses_unknown_names():
    masks = intersections(GROUPS).masks
    assert len(masks) == 3
    assert "black & female" in masks
    with pytest.raises(KeyError):
        masks["female & black"]


def test_masks_are_not_held_in_memory_all_at_once():
    rng = np.random.default_rng(0)
    groups = {f"g{i}": rng.random(100_000) < 0.5 for i in range(24)}
    tracemalloc.start()
    joined = intersections(groups, max_order=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(joined.kept) == math.comb(24, 2) + math.comb(24, 3)
    assert peak < 20 * 100_000  # 2,300 masks would take 230,000,000 bytes


def test_the_result_passes_through_strict_json_unchanged():
    values = intersections(GROUPS, max_order=3, min_support=2, y_true=TOXIC).to_dict()
    assert list(values) == ["kept", "left_out", "n_not_counted"]
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_no_subgroups_have_no_intersections():
    joined = intersections({}, y_true=TOXIC)
    assert (dict(joined.masks), joined.kept, joined.left_out, joined.n_not_counted) == (
        {},
        {},
        {},
        {},
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"max_order": 1}, r"^`max_order` must be a whole number of at least 2; got 1\.$"),
        ({"max_order": 2.5}, r"^`max_order` must be a whole number of at least 2; got 2\.5\.$"),
        ({"min_support": 0}, r"^`min_support` must be a whole number of at least 1; got 0\.$"),
        ({"y_true": [1, 0]}, r"^`subgroups\['black'\]` must have 2 rows like `y_true`; got 6\.$"),
    ],
)
def test_wrong_options_are_refused(option, message):
    with pytest.raises(ValueError, match=message):
        intersections(GROUPS, **option)


def test_subgroups_of_different_lengths_are_refused_and_the_first_is_named():
    message = r"^`subgroups\['b'\]` must have 1 row like `subgroups\['a'\]`; got 2\.$"
    with pytest.raises(ValueError, match=message):
        intersections({"a": [1], "b": [0, 1]})


def test_a_name_that_looks_like_an_intersection_is_refused():
    message = r"^`subgroups` must have names without ' & '; got 'black & gay'\.$"
    with pytest.raises(ValueError, match=message):
        intersections(GROUPS | {"black & gay": [0] * 6})
