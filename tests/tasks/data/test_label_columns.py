"""Labels from several columns: kinds of toxicity, or one rater each."""

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
        "ann": ["yes", "no", None],
        "ben": ["yes", None, "no"],
        "cem": ["no", None, None],
        "gay": 0,
    }
)
ANSWERS = {"label": ["ann", "ben", "cem"], "label_rule": "raters"}
YES = {"label_values": {"yes": 1, "no": 0}}


def frozen(folder, rows=ROWS, **options):
    rows.to_csv(folder / "t.csv", index=False)
    given = {"name": "t", "source": "table", "path": folder / "t.csv", "identities": ["gay"]}
    return freeze(SOURCES.validate_python(given | options), folder / "store")


def test_of_kinds_of_toxicity_the_highest_counts(tmp_path):
    found = frozen(tmp_path, label=["insult", "threat"], label_rule="highest")
    assert found.column("label").to_pylist() == [0.6, 1.0, 0.0]
    assert "raters" not in found.columns


def test_of_raters_the_label_is_the_fraction_of_those_who_answered(tmp_path):
    found = frozen(tmp_path, **ANSWERS, **YES)
    assert found.column("label").to_pylist() == [2 / 3, 0.0, 0.0]
    assert found.column("raters").to_pylist() == [3.0, 1.0, 1.0]


def test_raters_may_answer_with_numbers(tmp_path):
    rows = ROWS.replace({"yes": 1, "no": 0})
    assert frozen(tmp_path, rows, **ANSWERS).column("label").to_pylist() == [2 / 3, 0.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"threat": [0.6, None, 0]}, {"label_rule": "highest"}, r"fraction must be in \[0, 1\]"),
        ({"threat": [0.6, 7, 0]}, {"label_rule": "highest"}, r"got 7.*column threat, row 1"),
        ({}, {"label_rule": "raters"}, r"answer of one rater must be 0 or 1; got 0.2"),
        ({"ann": [None] * 3, "ben": [None] * 3}, ANSWERS | YES, r"ann to cem, row 1, id 1"),
        ({"ann": ["yes", "perhaps", "no"]}, ANSWERS | YES, r"column ann, row 1"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused(tmp_path, changes, options, message):
    with pytest.raises(InputError, match=message):
        frozen(tmp_path, ROWS.assign(**changes), **{"label": ["insult", "threat"]} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": ["insult", "threat"]}, "need a `label_rule`"),
        ({"label": "insult", "label_rule": "highest"}, "only they have one"),
        ({"label": ["insult"], "label_rule": "highest"}, "at least 2 items"),
        ({"label": ["insult", "insult"], "label_rule": "highest"}, "name each column once"),
        (ANSWERS | {"raters": "insult"}, "remove `raters`"),
        ({"label": ["a", "b"], "label_rule": "raters", "raters": "n", "votes": "v"}, "not both"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tmp_path, options, message):
    with pytest.raises(ValidationError, match=message):
        frozen(tmp_path, **options)
