"""Labels from several columns, one for each kind of toxicity."""

import pandas as pd
import pytest
from pydantic import ValidationError
from support.tables import freeze_table

from biasgate.tasks.common.errors import InputError

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


def test_of_kinds_of_toxicity_the_highest_counts(tmp_path):
    frozen = freeze_table(tmp_path, ROWS, label=["insult", "threat"])
    assert frozen.column("label").to_pylist() == [0.6, 1.0, 0.0]
    frozen = freeze_table(tmp_path, ROWS, label=["ann", "ben"], **YES)
    assert frozen.column("label").to_pylist() == [1.0, 1.0, 0.0]


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
        freeze_table(tmp_path, ROWS.assign(**changes), **{"label": ["insult", "threat"]} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": ["insult"]}, "at least 2 items"),
        ({"label": ["insult", "insult"]}, "name each column once"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tmp_path, options, message):
    with pytest.raises(ValidationError, match=message):
        freeze_table(tmp_path, ROWS, **options)
