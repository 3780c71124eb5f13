"""Arrays from Arrow columns equal those of PyArrow, without an import of pandas."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from biasgate.tasks.common.arrow_arrays import convert_column, make_int_array

COLUMNS = {
    "float64": pa.array([0.5, -1.0, 2.0]),
    "float32": pa.array([0.5, -1.0, 2.0], pa.float32()),
    "int64": pa.array([3, 1, 2]),
    "bool": pa.array([True, False, True]),
    "string": pa.array(["b", "a", "b"]),
    "large_string": pa.array(["b", "", "ä"], pa.large_string()),
    "nulls": pa.array([0.5, None, 2.0]),
    "empty texts": pa.array([], pa.string()),
    "time": pa.array([1, 2, 3], pa.timestamp("s")),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_an_array_is_the_one_that_pyarrow_makes(name):
    column = COLUMNS[name]
    expected = column.to_numpy(zero_copy_only=False)
    for given in (column, pa.chunked_array([column[:1], column[1:]]), column[1:]):
        wanted = expected[1:] if len(given) < len(expected) else expected
        array = convert_column(given)
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


def test_a_column_without_chunks_is_empty():
    assert convert_column(pa.chunked_array([], pa.float64())).size == 0


def test_numbers_become_an_arrow_array():
    assert make_int_array(np.array([2, 0, 1], np.uint64)).equals(pa.array([2, 0, 1]))


def test_pandas_is_not_imported():
    code = (
        "import sys, numpy as np\n"
        "from biasgate.tasks.common.arrow_arrays import make_int_array, convert_column\n"
        "convert_column(make_int_array(np.arange(3)))\n"
        "assert 'pandas.core' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
