"""Labels from several columns, which are kinds of toxicity."""

import pandas as pd
import pytest
from pydantic import ValidationError

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze

ROWS = pd.DataFrame(
    {
        "id": range(3),
        "insult": [0.2, 1, 0],
        "threat": [0.6, 0, 0],
        "ann": ["yes", "no", "no"],
        "ben": ["no", "yes", "no"],
        "gay": 0,
    }
)
YES = {"label_values": {"yes": 1, "no": 0}}


def frozen(folder, rows=ROWS, **options):
    rows.to_csv(folder / "t.csv", index=False)
    given = {"name": "t", "source": "table", "path": folder / "t.csv", "identities": ["gay"]}
    return freeze(SOURCES.validate_python(given | options), folder / "store")


def test_of_kinds_of_toxicity_the_highest_counts(tmp_path):
    found = frozen(tmp_path, label=["insult", "threat"])
    assert found.column("label").to_pylist() == [0.6, 1.0, 0.0]
    found = frozen(tmp_path, label=["ann", "ben"], **YES)
    assert found.column("label").to_pylist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"threat": [0.6, None, 0]}, {}, r"fraction must be in \[0, 1\]"),
        ({"threat": [0.6, 7, 0]}, {}, r"got 7.*column threat, row 1"),
        ({"ann": ["yes", "perhaps", "no"]}, YES | {"label": ["ann", "ben"]}, r"column ann, row 1"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused(tmp_path, changes, options, message):
    with pytest.raises(InputError, match=message):
        frozen(tmp_path, ROWS.assign(**changes), **{"label": ["insult", "threat"]} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": ["insult"]}, "at least 2 items"),
        ({"label": ["insult", "insult"]}, "name each column once"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tmp_path, options, message):
    with pytest.raises(ValidationError, match=message):
        frozen(tmp_path, **options)
