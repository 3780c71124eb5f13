"""Names of clusters may have any type; a missing name is refused with its row."""

import numpy as np
import pytest

from bias_metrics._core.checks import check_clusters

pd = pytest.importorskip("pandas")
DAYS = np.array(["2024-01-01", "2024-01-02", "2024-01-01"], dtype="datetime64[D]")


@pytest.mark.parametrize(
    "names",
    [
        ["b", "a", "b"],
        np.array(["b", "a", "b"]),
        pd.Series(["b", "a", "b"]),
        pd.Series(["b", "a", "b"], dtype="string"),
        pd.Series(["b", "a", "b"], dtype="category"),
        [5, -2, 5],
        np.array([5, 200, 5], dtype=np.uint8),
        np.array([10**15, 3, 10**15]),
        [0.5, 1.5, 0.5],
        [True, False, True],
        DAYS,
        pd.Series(DAYS.astype("datetime64[ns]")),
        [("a", 1), ("a", 2), ("a", 1)],
    ],
    ids=repr,
)
def test_rows_of_one_name_have_one_code(names):
    if isinstance(names[0], tuple):
        names = pd.Series(names)
    codes = check_clusters(names, 3)
    assert codes.dtype == np.intp
    assert codes[0] == codes[2] != codes[1]
    assert sorted(set(codes.tolist())) == [0, 1]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (np.array(["2024-01-01", "NaT", "2024-01-01"], dtype="datetime64[D]"), "NaT"),
        (pd.Series(["2024-01-01", None, "2024-01-02"], dtype="datetime64[ns]"), "NaT"),
        (pd.Series([pd.Timestamp("2024-01-01"), pd.NaT, "a"], dtype=object), "NaT"),
        (["a", None, 3], "None"),
        (["a", float("nan"), "b"], "nan"),
        (pd.Series(["a", float("nan"), "b"]), "nan"),
        (pd.Series(["a", None, "b"], dtype="string"), "<NA>"),
        (pd.Series([1, None, 2], dtype="Int64"), "nan"),
        ([1.0, float("nan"), 2.0], "nan"),
        ([1.0, float("inf"), 2.0], "inf"),
        ([1, None, 2], "None"),
    ],
    ids=repr,
)
def test_a_missing_name_is_refused_with_its_row(names, told):
    with pytest.raises(ValueError, match=rf"`clusters` must not be missing; got {told} \(row 1\)"):
        check_clusters(names, 3)


@pytest.mark.parametrize("names", [[1, "1", 1], pd.Series([1, "1", 1], dtype=object)], ids=repr)
def test_text_beside_numbers_is_refused_with_rows_and_values(names):
    message = r"`clusters` must be all text or .* 1 is not '1'; got 1 \(row 0\) and '1' \(row 1\)"
    with pytest.raises(ValueError, match=message):
        check_clusters(names, 3)


def test_names_must_be_of_a_type_that_can_be_looked_up():
    with pytest.raises(TypeError, match="`clusters` must be numbers, text or dates; got list"):
        check_clusters(pd.Series([["a"], ["b"], ["a"]]), 3)


def test_no_rows_have_no_clusters():
    assert check_clusters(np.array([], dtype=int), 0).size == 0
    assert check_clusters(None, 3) is None


def test_codes_are_those_of_sorted_whole_numbers():
    numbers = np.random.default_rng(1).integers(-50, 50, 400)
    assert (check_clusters(numbers, 400) == np.unique(numbers, return_inverse=True)[1]).all()
