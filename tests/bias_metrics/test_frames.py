"""Subgroups as columns of a data frame give the same results as a mapping of arrays."""

import re
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from bias_metrics import compare_bias, evaluate_bias

Y_TRUE, Y_SCORE = [0, 1, 0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7, 0.2, 0.75]
MASKS = {"jewish": [True, True, False, False, False, True], "muslim": [False, False] + [True] * 4}


def make_frame(library, **columns):
    return pytest.importorskip(library).DataFrame(columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_columns_of_a_frame_are_subgroups(library):
    frame = make_frame(library, **MASKS)
    assert evaluate_bias(Y_TRUE, Y_SCORE, frame) == evaluate_bias(Y_TRUE, Y_SCORE, MASKS)
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


def test_a_lazy_frame_is_refused_with_what_to_call():
    class LazyFrame:
        columns = ("muslim",)

        def __getitem__(self, name):
            raise NotImplementedError

        def collect(self):
            raise NotImplementedError

    for lazy in (LazyFrame(), make_frame("polars", **MASKS).lazy()):
        with pytest.raises(TypeError, match=r"a LazyFrame has none: call `\.collect\(\)`"):
            evaluate_bias(Y_TRUE, Y_SCORE, lazy)


COLUMNS = {
    "pandas": lambda pandas, values: pandas.Series(values),
    "pandas, nullable": lambda pandas, values: pandas.Series(values).convert_dtypes(),
    "polars": lambda polars, values: polars.Series(values),
    "pyarrow": lambda pyarrow, values: pyarrow.chunked_array([pyarrow.array(values)]),
    "narwhals": lambda narwhals, values: narwhals.new_series("a", values, backend="pandas"),
    "list": None,
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_input_may_be_a_column_and_a_null_in_it_is_refused(kind):
    make = COLUMNS[kind]
    library = make and pytest.importorskip(kind.partition(",")[0])
    given = {
        "y_true": Y_TRUE * 8,
        "y_score": Y_SCORE * 8,
        "subgroups['muslim']": MASKS["muslim"] * 8,
        "sample_weight": [1.0, 2.0, 0.5, 1.0] * 12,
        "clusters": [f"a{row // 2}" for row in range(48)],
    }

    def measured(of=make, **changed):
        values = [of(library, array) if of else array for array in (given | changed).values()]
        y_true, y_score, muslim, weight, clusters = values
        return evaluate_bias(
            y_true, y_score, {"muslim": muslim}, sample_weight=weight, clusters=clusters
        )

    assert measured() == measured(of=None)
    for name, values in given.items():
        told = rf"`{re.escape(name)}` must (not be missing|be finite); got (None|nan|<NA>) \(row 5"
        with pytest.raises(ValueError, match=told):
            measured(**{name: [*values[:5], None, *values[6:]]})


def test_any_mapping_is_subgroups():
    proxy = MappingProxyType(MASKS)
    assert evaluate_bias(Y_TRUE, Y_SCORE, proxy) == evaluate_bias(Y_TRUE, Y_SCORE, MASKS)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_of_fractions_is_refused_with_what_to_do(library):
    frame = make_frame(library, muslim=[0.0, 0.3, 1.0, 1.0, 0.0, 0.0])
    message = r"`subgroups\['muslim'\]` must be boolean .* got 0.3 \(row 1\).*`fraction >= 0.5`"
    with pytest.raises(ValueError, match=message):
        evaluate_bias(Y_TRUE, Y_SCORE, frame)


def test_two_columns_of_one_name_are_refused():
    frame = make_frame("pandas", **MASKS).set_axis(["muslim", "muslim"], axis=1)
    with pytest.raises(ValueError, match="`subgroups` must have different columns; got muslim tw"):
        evaluate_bias(Y_TRUE, Y_SCORE, frame)


def test_a_column_without_a_string_for_a_name_is_refused():
    frame = make_frame("pandas", **MASKS).set_axis([0, 1], axis=1)
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
    with pytest.raises(
        TypeError, match=r"`subgroups\['muslim'\]` must hold names .* got .* \(row 0\)"
    ):
        evaluate_bias(Y_TRUE, Y_SCORE, masks)


def test_a_column_of_names_may_stand_beside_masks():
    religion = np.where(np.arange(len(Y_TRUE)) % 2, "muslim", "jewish").astype(object)
    religion[1] = None
    names = {"gay": np.arange(len(Y_TRUE)) < 5, "religion": religion}
    masks = {"gay": names["gay"], "jewish": religion == "jewish", "muslim": religion == "muslim"}
    assert evaluate_bias(Y_TRUE, Y_SCORE, names) == evaluate_bias(Y_TRUE, Y_SCORE, masks)
    twice = names | {"muslim": names["gay"]}
    with pytest.raises(ValueError, match=r"'muslim' is in subgroups\['muslim'\] again"):
        evaluate_bias(Y_TRUE, Y_SCORE, twice)
