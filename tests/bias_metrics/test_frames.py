"""Subgroups as columns of a data frame give the same results as a mapping of arrays."""

from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from bias_metrics import compare_bias, evaluate_bias, identity_counts

Y_TRUE, Y_SCORE = [0, 1, 0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7, 0.2, 0.75]
MASKS = {"jewish": [True, True, False, False, False, True], "muslim": [False, False] + [True] * 4}


def frame_of(library, **columns):
    return pytest.importorskip(library).DataFrame(columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_columns_of_a_frame_are_subgroups(library):
    frame = frame_of(library, **MASKS)
    assert evaluate_bias(Y_TRUE, Y_SCORE, frame) == evaluate_bias(Y_TRUE, Y_SCORE, MASKS)
    assert identity_counts(Y_TRUE, frame) == identity_counts(Y_TRUE, MASKS)
    one = compare_bias(Y_TRUE, Y_SCORE, Y_SCORE[::-1], frame).to_dict()
    assert one == compare_bias(Y_TRUE, Y_SCORE, Y_SCORE[::-1], MASKS).to_dict()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_any_frame_that_narwhals_or_pyarrow_has_is_subgroups(library):
    narwhals = pytest.importorskip("narwhals")
    module = pytest.importorskip(library)
    frame = getattr(module, "table", getattr(module, "DataFrame", None))(MASKS)
    expected = evaluate_bias(Y_TRUE, Y_SCORE, MASKS)
    assert evaluate_bias(Y_TRUE, Y_SCORE, frame) == expected
    assert evaluate_bias(Y_TRUE, Y_SCORE, narwhals.from_native(frame)) == expected


def test_nullable_columns_without_nulls_are_subgroups_and_with_nulls_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(MASKS).astype("boolean")
    assert evaluate_bias(Y_TRUE, Y_SCORE, frame) == evaluate_bias(Y_TRUE, Y_SCORE, MASKS)
    frame.loc[3, "muslim"] = None
    with pytest.raises(TypeError, match=r"`subgroups\['muslim'\]` must be boolean"):
        evaluate_bias(Y_TRUE, Y_SCORE, frame)


def test_any_mapping_is_subgroups():
    proxy = MappingProxyType(MASKS)
    assert evaluate_bias(Y_TRUE, Y_SCORE, proxy) == evaluate_bias(Y_TRUE, Y_SCORE, MASKS)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_of_fractions_is_refused_with_what_to_do(library):
    frame = frame_of(library, muslim=[0.0, 0.3, 1.0, 1.0, 0.0, 0.0])
    message = r"`subgroups\['muslim'\]` must be boolean .* got 0.3 \(row 1\).*`fraction >= 0.5`"
    with pytest.raises(ValueError, match=message):
        evaluate_bias(Y_TRUE, Y_SCORE, frame)


def test_two_columns_of_one_name_are_refused():
    frame = frame_of("pandas", **MASKS).set_axis(["muslim", "muslim"], axis=1)
    with pytest.raises(ValueError, match="`subgroups` must have different columns; got muslim tw"):
        evaluate_bias(Y_TRUE, Y_SCORE, frame)


def test_a_column_without_a_string_for_a_name_is_refused():
    frame = frame_of("pandas", **MASKS).set_axis([0, 1], axis=1)
    with pytest.raises(TypeError, match="`subgroups` must have strings as names; got 0"):
        evaluate_bias(Y_TRUE, Y_SCORE, frame)


def test_a_frame_is_whatever_has_columns():  # numpy alone is enough to show it
    class Frame(SimpleNamespace):
        def __getitem__(self, name):
            return np.array(MASKS[name])

    frame = Frame(columns=list(MASKS))
    assert evaluate_bias(Y_TRUE, Y_SCORE, frame) == evaluate_bias(Y_TRUE, Y_SCORE, MASKS)
    with pytest.raises(ValueError, match="different columns"):
        evaluate_bias(Y_TRUE, Y_SCORE, Frame(columns=["muslim", "muslim"]))


def test_an_array_of_python_booleans_is_a_subgroup_and_of_others_is_not():
    masks = {name: np.array(mask, dtype=object) for name, mask in MASKS.items()}
    assert evaluate_bias(Y_TRUE, Y_SCORE, masks) == evaluate_bias(Y_TRUE, Y_SCORE, MASKS)
    masks["muslim"][2] = "yes"
    with pytest.raises(TypeError, match=r"`subgroups\['muslim'\]` must be boolean .*dtype object"):
        evaluate_bias(Y_TRUE, Y_SCORE, masks)
