"""Checks of a source's rows before they are frozen."""

import pyarrow as pa
import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.columns import conform_rows

ROWS = {"id": ["a", "b"], "text": ["x", "y"], "label": [0, 1], "identity/gay": [None, 1]}


def test_plain_lists_get_the_types_of_frozen_rows():
    rows = conform_rows(pa.table(ROWS | {"slice/short": [True, False]}), "chats")
    types = {field.name: str(field.type) for field in rows.schema}
    assert types == {
        "id": "string",
        "text": "large_string",
        "label": "double",
        "identity/gay": "double",
        "slice/short": "bool",
    }
    assert rows["identity/gay"].to_pylist() == [None, 1.0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"label": None}, r"must yield the column 'label'; it yields 'id', 'text', 'identity/gay'"),
        ({"texts": ["x", "y"]}, r"yields 'texts'\. Did you mean 'text'\?"),
        (
            {"gay": [0, 1]},
            "yields 'gay'. Known columns: id, label, text, cluster, weight, ",
        ),
        ({"identity/": [0, 1]}, "yields 'identity/'"),
        ({"id": [1, 2]}, "must yield 'id' as string; it yields int64"),
        ({"label": ["0", "1"]}, "must yield 'label' as double; it yields string"),
        ({"label": [0.0, 1.5]}, r"'label' between 0 and 1; got 1\.5 \(column label, id b\)"),
        ({"label": [0.0, float("nan")]}, "must yield 'label' between 0 and 1"),
        ({"identity/gay": [None, -0.5]}, "must yield 'identity/gay' between 0 and 1"),
        ({"weight": [1.0, -2.0]}, r"'weight' at least 0; got -2\.0 \(column weight, id b\)"),
        ({"weight": [1.0, float("inf")]}, "must yield 'weight' at least 0; got inf"),
        ({"text": ["x", None]}, "must yield a 'text' for every row; 1 row has none"),
        ({"label": [[0], [1]]}, "must yield 'label' as double; it yields list"),
    ],
)
def test_other_columns_are_refused(changed, message):
    rows = {key: value for key, value in (ROWS | changed).items() if value is not None}
    with pytest.raises(InputError, match=rf"^the source of evaluation set 'chats' .*{message}"):
        conform_rows(pa.table(rows), "chats")
